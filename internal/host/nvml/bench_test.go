// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// own is the processor time that this process has used.
func own(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// of is the processor time that a process has used, over all of its threads (/proc/<pid>/task/*/schedstat,
// nanoseconds).
func of(t testing.TB, pid int) time.Duration {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var sum time.Duration
	for _, task := range tasks {
		raw, err := os.ReadFile(dir + "/" + task.Name() + "/schedstat")
		if err != nil {
			t.Fatal(err)
		}
		var ns int64
		if _, err := fmt.Sscan(string(raw), &ns); err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}

// resident is the memory of a process in bytes.
func resident(t testing.TB, pid int) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var kb int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kb); err == nil {
			return kb << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// BenchmarkRead reads 8 GPUs with 18 NVLinks of the stand-in, and says what that costs both processes together.
func BenchmarkRead(b *testing.B) {
	for _, kind := range []string{"fast", "slow", "all"} {
		b.Run(kind, func(b *testing.B) {
			c, client := newChild(b, []string{"processes 2"})
			d := mustRead(b, client, fabric.GPUDriver{}, true)
			d = mustRead(b, client, d, true)
			pid := c.cmd.Process.Pid
			here, there := own(b), of(b, pid)
			for b.Loop() {
				last := d
				if kind == "all" {
					last = fabric.GPUDriver{}
				}
				d = mustRead(b, client, last, kind == "slow")
			}
			here, there = own(b)-here, of(b, pid)-there
			b.ReportMetric(float64(here.Microseconds())/float64(b.N), "exporter-us/op")
			b.ReportMetric(float64(there.Microseconds())/float64(b.N), "worker-us/op")
			b.ReportMetric(float64(resident(b, pid))/(1<<20), "worker-MiB")
		})
	}
}

// A read costs both processes together less than 10 ms of processor time. Counting calls would not catch a
// codec that is slow.
func TestAReadIsCheap(t *testing.T) {
	c, client := newChild(t, []string{"processes 2"})
	d := mustRead(t, client, fabric.GPUDriver{}, true)
	pid := c.cmd.Process.Pid
	const reads = 50
	began := own(t) + of(t, pid)
	for range reads {
		d = mustRead(t, client, d, false)
	}
	each := (own(t) + of(t, pid) - began) / reads
	t.Logf("a fast read costs %v in both processes", each)
	if each > 10*time.Millisecond {
		t.Errorf("%v, expected 10 ms at most", each)
	}
}
