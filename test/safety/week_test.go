// SPDX-License-Identifier: Apache-2.0

//go:build load && linux && amd64

package safety

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/simulator"
)

// TestWeek observes a simulated node for seven days of fake time, a scrape every ten minutes. Each hour
// another job begins, with processes of its own. What is shown and what is kept does not grow with the jobs
// that were there.
func TestWeek(t *testing.T) {
	const days, every, perDay = 7, 10 * time.Minute, 144
	scenario, err := simulator.Find("job-slurm")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := scenario.Build().Materialise(t.TempDir() + "/node")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range collector.Collectors() {
		names = append(names, c.Name)
	}
	synctest.Test(t, func(t *testing.T) {
		ob, err := observer.New(observer.Options{
			Sysfs: tree.Sysfs(), Procfs: tree.Procfs(), Rootfs: tree.Rootfs(), Ethernet: tree.Ethernet(), GPUs: tree.GPUs(), Ranks: tree.Ranks(), Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer ob.Close()
		set, err := collector.NewSet(names)
		if err != nil {
			t.Fatal(err)
		}
		jobs := map[string]bool{}
		var series, heap []float64 // by day
		for day := range days {
			most := 0
			for i := range perDay {
				if i%6 == 0 {
					if err := tree.Edit(func(n *simulator.Node) { nextJob(n, day*24+i/6) }); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(every)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				n := ob.Observe(ctx, set.Want())
				cancel()
				count := 0
				for _, f := range set.Gather(n, collector.ConfigState{}) {
					count += len(f.Series)
					if at := slices.Index(f.Labels, "training_job"); at >= 0 {
						for _, one := range f.Series {
							jobs[one.Labels[at]] = true
						}
					}
				}
				most = max(most, count)
			}
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			series, heap = append(series, float64(most)), append(heap, float64(m.HeapAlloc))
			t.Logf("day %d: at most %d series, heap %.2f MiB, %d jobs so far", day+1, most, float64(m.HeapAlloc)/(1<<20), len(jobs))
		}
		if len(jobs) < days*24 {
			t.Errorf("%d jobs were seen, expected %d", len(jobs), days*24)
		}
		if series[days-1] > series[1] || heap[days-1] > heap[1]+1<<20 {
			t.Errorf("series %v, heap %v: expected no growth after the second day", series, heap)
		}
	})
}

// nextJob replaces the job of a node by another one.
func nextJob(n *simulator.Node, number int) {
	pid := func(old int) int { return 100_000 + number*100 + old%100 }
	for g := range n.GPUs {
		for p := range n.GPUs[g].Processes {
			n.GPUs[g].Processes[p].PID = pid(n.GPUs[g].Processes[p].PID)
		}
	}
	job := n.Jobs[0]
	job.Job = strconv.Itoa(5000 + number)
	job.Ranks = append([]simulator.JobRank(nil), job.Ranks...)
	for r := range job.Ranks {
		is := &job.Ranks[r].Is
		is.PID = pid(is.PID)
		is.Workload.Value.Job = job.Job
	}
	n.Jobs[0] = job
}
