// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/simulator"
)

// mostCPU is what a scrape may cost on a node with 8 GPUs of 18 NVLinks: the exporter and the process that it
// asks the GPUs through, without what NVIDIA's own library takes.
const mostCPU = 10 * time.Millisecond

// TestCostOfGPUs scrapes the product as it is by default, and with each NVLink, over this host and a stand-in
// for NVIDIA's library. Each scrape reads what changes anew, and one in four what is read once a minute, as
// when Prometheus scrapes every 15 s.
func TestCostOfGPUs(t *testing.T) {
	const every = 30 * time.Millisecond
	h := startHost(t, installed(t), "--collector.nvlink_links", "--observer.slow-interval="+(7*every/2).String())
	h.describe("processes 2")
	h.until("at first", 8)
	exporter, worker := h.exporter.Process.Pid, h.worker()
	tick := time.NewTicker(every)
	defer tick.Stop()
	series := 0
	scrape := func(times int) {
		for range times {
			text, _ := h.scrape()
			series = strings.Count(text, "\ngpufabric_")
			if n := strings.Count(text, "\ngpufabric_nvlink_link_active{"); n != 8*18 {
				t.Fatalf("%d NVLinks", n)
			}
			<-tick.C
		}
	}
	scrape(10) // the first ones open files and build what is kept
	for try := range 3 {
		const scrapes = 100
		ours, theirs := used(t, exporter), used(t, worker)
		scrape(scrapes)
		ours, theirs = (used(t, exporter)-ours)/scrapes, (used(t, worker)-theirs)/scrapes
		mine, its := resident(t, exporter), resident(t, worker)
		t.Logf("8 GPUs with 18 NVLinks, %d series: CPU time of a scrape %s (exporter %s, GPU worker %s), RSS %.1f MiB (%.1f and %.1f)", series,
			(ours + theirs).Round(10*time.Microsecond), ours.Round(10*time.Microsecond), theirs.Round(10*time.Microsecond), mine+its, mine, its)
		if h.worker() != worker {
			t.Fatal("the worker was started again meanwhile")
		}
		if ours+theirs <= mostCPU {
			break
		}
		if try == 2 { // what other processes cost this one by taking its caches is not its own
			t.Errorf("a scrape takes more than %s", mostCPU)
		}
	}
}

// What the processes may take in MiB: the exporter, and the worker for the GPUs without NVIDIA's own library.
const (
	mostMemory       = 31
	mostWorkerMemory = 16
)

// TestRequests limits the memory of the processes on a node with 8 GPUs, 18 NVLinks each, and 11 RDMA
// devices, and holds what the chart requests and limits to it, and to scrapes every 15 s. What NVIDIA's own
// library takes comes on top.
func TestRequests(t *testing.T) {
	healthy, err := simulator.Find("healthy")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := healthy.Build().Materialise(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	devices := startHost(t, installed(t), "--path.sysfs="+tree.Sysfs(), "--path.rootfs="+tree.Rootfs()) // GPUs of other nodes are not asked for
	gpus := startHost(t, installed(t))
	gpus.until("at first", 8)
	for range 30 {
		text, _ := devices.scrape()
		if n := strings.Count(text, "\ngpufabric_hca_info{"); n != 11 {
			t.Fatalf("%d RDMA devices", n)
		}
		gpus.scrape()
		time.Sleep(2 * fastInterval)
	}
	exporter, worker := resident(t, devices.exporter.Process.Pid), resident(t, gpus.worker())
	t.Logf("with 11 RDMA devices %.1f MiB, the process for 8 GPUs %.1f MiB", exporter, worker)
	if exporter > mostMemory || worker > mostWorkerMemory {
		t.Errorf("they take more than %d and %d MiB", mostMemory, mostWorkerMemory)
	}
	for tier, takes := range map[string]float64{"passive": exporter, "gpu": exporter + worker} {
		text, err := os.ReadFile("deploy/kubernetes/" + tier + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var cpu, request, limit float64
		_, values, _ := strings.Cut(string(text), " limits:")
		if _, err := fmt.Sscanf(values, "\n memory: %fMi\n requests:\n cpu: %fm\n memory: %fMi", &limit, &cpu, &request); err != nil {
			t.Fatalf("%s: %v", tier, err)
		}
		if takes > request || 2*request > limit {
			t.Errorf("the tier %s requests %.0f MiB, at most %.0f, and takes %.1f", tier, request, limit, takes)
		}
		if scrape := mostCPU.Seconds() / 15; scrape > cpu/1000 {
			t.Errorf("the tier %s requests %.0fm of a CPU, and scrapes take %.4f of one", tier, cpu, scrape)
		}
	}
}

// TestProcessors: the exporter takes one of Go's processors however many the machine has, or as many as its
// environment says.
func TestProcessors(t *testing.T) {
	for _, c := range []struct{ environment, want string }{{"", "1"}, {"3", "3"}} {
		t.Run(c.want, func(t *testing.T) {
			t.Setenv("GOMAXPROCS", c.environment)
			text, _ := startHost(t, self).scrape()
			if !strings.Contains(text, "\ngo_sched_gomaxprocs_threads "+c.want+"\n") {
				t.Errorf("it does not have %s of %d processors", c.want, runtime.NumCPU())
			}
		})
	}
}

// TestTimerSlack: the exporter's threads sleep as inaccurately as it asks, Go's monitor among them; those of a vendor's
// library as Linux has it by default.
func TestTimerSlack(t *testing.T) {
	h := startHost(t, self)
	h.until("at first", 8)
	for who, c := range map[string]struct {
		pid  int
		want string
	}{"exporter": {h.exporter.Process.Pid, "1000000"}, "GPU worker": {h.worker(), "50000"}} {
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", c.pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, thread := range threads {
			ns, err := os.ReadFile("/proc/" + thread.Name() + "/timerslack_ns")
			if errors.Is(err, os.ErrPermission) {
				t.Skip("the timer slack of another process is shown to CAP_SYS_NICE only: ", err)
			}
			if got := strings.TrimSpace(string(ns)); err == nil && got != c.want { // a thread may have ended
				t.Errorf("a thread of the %s has a timer slack of %s ns, want %s", who, got, c.want)
			}
		}
	}
}

// installed is a copy of this binary, made piece by piece as installers do: of what was written at once, or
// just linked, the kernel maps larger pieces, which count as memory of the process.
func installed(t *testing.T) string {
	t.Helper()
	from, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(t.TempDir(), "gpufabric_exporter"), os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 64<<10))
	if err := errors.Join(err, to.Close()); err != nil {
		t.Fatal(err)
	}
	return to.Name()
}

// used is the time that all threads of a process have run, those that ended among them.
func used(t *testing.T, pid int) time.Duration {
	t.Helper()
	const scheduled = 2 // the clock of a process that counts the time it ran, clock_getcpuclockid(3)
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &at); err != nil {
		t.Fatal(err)
	}
	return time.Duration(at.Nano())
}

// resident is the memory of a process in MiB, with what it shares with others.
func resident(t *testing.T, pid int) float64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return float64(pages*os.Getpagesize()) / (1 << 20)
}
