// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// crowd starts ranks with forked children each, and other processes: shells that wait.
func crowd(t testing.TB, ranks, children, others int) {
	t.Helper()
	needRoot(t)
	script := fmt.Sprintf(`exec 9<&0; i=0; while [ $i -lt %d ]; do (read x <&9) & i=$((i+1)); done; echo ready; read x`, children)
	var started []*spawned
	for i := range ranks {
		// As many as a rank has of the files that CUDA opens and of sockets.
		open := strings.Repeat(fmt.Sprintf("/dev/nvidia%d ", i%2), 300) + "/dev/nvidiactl /dev/nvidia-uvm /dev/infiniband/uverbs0"
		started = append(started, spawn(t, inDev(), nil, "OWN_DEV=1", allDevices, "OPEN="+open, "SCRIPT="+script))
	}
	if others > 0 {
		const each = 100
		for n := 0; n < others; n += each {
			script := fmt.Sprintf(`exec 9<&0; i=0; while [ $i -lt %d ]; do (read x <&9) & i=$((i+1)); done; echo ready; read x`, min(each, others-n))
			started = append(started, spawn(t, nil, nil, "SCRIPT="+script))
		}
	}
	_ = started
}

func cpu() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// What a look costs in system calls: for each process that was seen before nothing but its part of the list,
// for a forked child nothing either, and for a rank its descriptors and a few files.
func TestCalls(t *testing.T) {
	const ranks, children, others = 2, 8, 20
	crowd(t, ranks, children, others)
	r := reader(t, Sources{})
	now := time.Unix(1e9, 0)
	reading, err := r.Look(t.Context(), noNVML(), now)
	first := r.calls
	if err != nil {
		t.Fatal(err)
	}
	reading = look(t, r, noNVML(), now)
	if len(reading.Candidates) < ranks {
		t.Fatalf("%d candidates of %d processes", len(reading.Candidates), reading.Processes)
	}
	var files int
	for _, c := range reading.Candidates {
		files += c.Files.Value.All
	}
	// getdents(2) of the list, 3 calls for stat, one to count descriptors, 3 for net/dev, in which interfaces
	// may need more. Of one candidate all descriptors are read.
	most := 16 + reading.Processes/100 + len(reading.Candidates)*10 + (files+len(reading.Candidates))/len(reading.Candidates)
	again := math.MaxInt
	for i := 0; i < 1000 && again > most; i++ { // processes of other programs come and go, for minutes if other tests run beside this one
		if i > 10 {
			time.Sleep(100 * time.Millisecond)
		}
		look(t, r, noNVML(), now.Add(time.Duration(i+1)*time.Second))
		again = min(again, r.calls)
	}
	t.Logf("%d processes, %d candidates with %d descriptors: %d system calls at first, %d when nothing changed", reading.Processes, len(reading.Candidates), files, first, again)
	if again > most {
		t.Errorf("%d system calls when nothing changed, want at most %d", again, most)
	}
	// Of the process that is examined last, all descriptors may be read.
	if most := maxCalls + maxScreened + len(reading.Candidates)*200 + 2*files; first < again || first > most {
		t.Errorf("%d system calls at first, want %d to %d", first, again, most)
	}
}

// BenchmarkRead is the promise of the issue: 2,000 processes, 8 ranks with 64 forked children each.
func BenchmarkRead(b *testing.B) {
	crowd(b, 8, 64, 2000-8*65)
	gpus := fabric.UnknownFact[map[int][]string](fabric.ReasonMissing, "NVML", time.Time{})
	measure := func(b *testing.B, prepare func() *Reader) {
		var used time.Duration
		calls, processes := 0, 0
		for b.Loop() {
			b.StopTimer()
			r := prepare()
			before := cpu()
			b.StartTimer()
			reading, err := r.Look(b.Context(), gpus, time.Unix(1e9+1, 0))
			used += cpu() - before
			calls, processes = r.calls, reading.Processes
			if err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(used.Microseconds())/1000/float64(b.N), "cpu-ms/op")
		b.ReportMetric(float64(calls), "syscalls/op")
		b.ReportMetric(float64(processes), "processes")
	}
	b.Run("unchanged", func(b *testing.B) {
		r := reader(b, Sources{})
		look(b, r, gpus, time.Unix(1e9, 0))
		measure(b, func() *Reader { return r })
	})
	b.Run("unchanged, with sockets", func(b *testing.B) {
		r := reader(b, sources())
		look(b, r, gpus, time.Unix(1e9, 0))
		measure(b, func() *Reader { return r })
	})
	b.Run("new", func(b *testing.B) {
		measure(b, func() *Reader {
			r, err := Open("/proc", Sources{})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { r.Close() })
			return r
		})
	})
}
