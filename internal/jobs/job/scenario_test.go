// SPDX-License-Identifier: Apache-2.0

package job_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/simulator/stage"
)

const wanted = fabric.WantRanks | fabric.WantGID | fabric.WantQoS

// follow observes a simulated node each interval, and returns the jobs of each reading.
func follow(t *testing.T, on *stage.Stage, s simulator.Scenario, interval time.Duration, readings int) (all []job.Jobs) {
	t.Helper()
	tree := on.Show(t, s)
	c, err := config.Parse(s.Name, []byte(s.Config()))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ob, err := observer.New(observer.Options{
			Sysfs: tree.Sysfs(), Procfs: tree.Procfs(), Rootfs: tree.Rootfs(), Ethernet: tree.Ethernet(), GPUs: tree.GPUs(), Ranks: tree.Ranks(),
			Policy: c.Policy, NCCL: c.NCCL, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer ob.Close()
		var tracker job.Tracker
		for i := range readings {
			if i > 0 {
				time.Sleep(interval)
			}
			if err := tree.Step(i * int(interval.Seconds())); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			all = append(all, tracker.Update(ob.Observe(ctx, wanted)))
			cancel()
		}
	})
	return all
}

// TestScenarios compares the verdict on each job of each scenario with its label, and prints the confusion
// table. Two readings are enough for every verdict, and later ones do not change it.
func TestScenarios(t *testing.T) {
	const interval = 15 * time.Second
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "scenario\tjob\tplanted\tverdict\tfindings\tafter")
	confusion := map[[2]string]int{}
	on := stage.New(t)
	for _, s := range simulator.Scenarios() {
		if !strings.HasPrefix(s.Name, "job-") {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			all := follow(t, on, s, interval, 5)
			last := all[len(all)-1]
			if len(last.List) != len(s.Jobs) {
				t.Fatalf("%d jobs, expected %d: %v", len(last.List), len(s.Jobs), last.List)
			}
			for i, want := range s.Jobs {
				got := labelOf(last.List[i])
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("verdict %+v, expected %+v: %v, %v", got, want, last.List[i].Verdict.Evidence, last.List[i].Findings)
				}
				after := slices.IndexFunc(all, func(j job.Jobs) bool {
					return len(j.List) > i && labelOf(j.List[i]).Transport == got.Transport && labelOf(j.List[i]).Confirmed == got.Confirmed && labelOf(j.List[i]).Reason == got.Reason
				})
				if after > 1 {
					t.Errorf("the verdict took %d readings", after+1)
				}
				confusion[[2]string{want.Transport + sure(want.Confirmed), got.Transport + sure(got.Confirmed)}]++
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, want.Name, inWords(want), inWords(got), strings.Join(got.Findings, " "), time.Duration(after)*interval)
			}
		})
	}
	table.Flush()
	for pair, n := range confusion {
		if pair[0] != pair[1] {
			t.Errorf("%d jobs planted as %s were taken for %s", n, pair[0], pair[1])
		}
	}
	fmt.Fprintln(os.Stdout, "confusion (planted, verdict): number of jobs", confusion)
}

func labelOf(j job.Job) simulator.JobLabel {
	l := simulator.JobLabel{
		Name: j.Name, Transport: string(j.Verdict.Transport), Way: string(j.Verdict.Way), Confirmed: j.Verdict.Confirmed,
		Reason: string(j.Verdict.Reason), Cause: string(j.Verdict.Cause),
	}
	for _, f := range j.Findings {
		l.Findings = append(l.Findings, string(f.Rule))
	}
	return l
}

func sure(confirmed bool) string {
	if confirmed {
		return ", confirmed"
	}
	return ""
}

func inWords(l simulator.JobLabel) string {
	return strings.Join(strings.Fields(l.Transport+sure(l.Confirmed)+" "+l.Way+" "+l.Reason+" "+l.Cause), " ")
}
