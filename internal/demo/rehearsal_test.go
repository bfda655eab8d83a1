// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/simulator/simulatortest"
	"gpufabric_exporter/internal/simulator/stage"
	"gpufabric_exporter/probes"
)

// fixed is an observer of a node that does not change.
type fixed struct{ node *fabric.Node }

func (f fixed) Observe(context.Context, fabric.Want) *fabric.Node { return f.node }

// complaints are what the results of a rehearsal say is wrong, in the words of labels; those that rails share without a
// device.
func complaints(s probes.Status) map[simulator.ProbeFinding]bool {
	all, rails := map[simulator.ProbeFinding]int{}, 0
	for _, p := range s.Probes {
		key := p.Key
		if key.Kind == probes.Rail {
			rails++
		}
		add := func(is bool, what string) {
			if is {
				all[simulator.ProbeFinding{Kind: string(key.Kind), What: what}]++
				if key.Device != "" {
					all[simulator.ProbeFinding{Kind: string(key.Kind), Device: key.Device, What: what}]++
				}
			}
		}
		r := p.Last
		if r == nil {
			add(p.LastSkip != nil, "skipped")
			continue
		}
		add(r.Outcome == probes.Failed, string(r.Failure))
		add(r.Path.Value == probes.PathSocket && key.Kind != probes.Socket, "socket")
		gdr, known := r.GPUDirect.Get()
		add(known && !gdr && key.Kind != probes.Node, "no_gpudirect")
		add(r.Comparison.Regressed && r.Path.Value == probes.PathIB && gdr, "slow")
		add(r.Comparison.Regressed && key.Kind == probes.Node, "slow")
	}
	found := map[simulator.ProbeFinding]bool{}
	for f, n := range all {
		shared := f.Kind == string(probes.Rail) && n == rails
		if f.Kind == string(probes.Rail) && (f.Device == "") != shared || all[simulator.ProbeFinding{Kind: f.Kind, What: f.What}] == rails && f.Device != "" {
			continue
		}
		found[f] = true
	}
	return found
}

// Probes of simulated nodes complain of what the nodes are labelled with, and of what follows from links and
// GPUs that are broken; else of nothing.
func TestRehearsalMatchesItsLabels(t *testing.T) {
	follows := map[string][]simulator.ProbeFinding{ // from what is broken beside NCCL
		"healthy": nil, "healthy-ib": nil, "healthy-dgx-b200": nil, "healthy-mana": nil, "pcie-gpus-idle": nil,
		"healthy-efa":            {{Kind: "rail", What: "skipped"}}, // no port that NCCL opens without a plugin
		"healthy-l40s":           {{Kind: "transport", What: "no_gpudirect"}, {Kind: "rail", What: "no_gpudirect"}},
		"gpu-driver-proprietary": {{Kind: "transport", What: "no_gpudirect"}, {Kind: "rail", What: "no_gpudirect"}},
		"pcie-acs-on":            {{Kind: "rail", What: "slow"}}, // NCCL does not look at ACS, and uses GPUDirect RDMA
		"iommu-translating":      {{Kind: "rail", What: "slow"}},
		"rate-degraded":          {{Kind: "rail", Device: "mlx5_6", What: "slow"}},
		"pcie-nic-gen3":          {{Kind: "rail", Device: "mlx5_5", What: "slow"}},
		"nvlink-down":            {{Kind: "node", What: "slow"}},
		"no-rdma":                {{Kind: "transport", What: "socket"}, {Kind: "rail", What: "skipped"}},
		"gpu-mig-on":             {{Kind: "transport", What: "skipped"}, {Kind: "node", What: "skipped"}, {Kind: "rail", What: "skipped"}, {Kind: "socket", What: "skipped"}},
		"fabric-manager-off":     {{Kind: "transport", What: "cuda"}, {Kind: "node", What: "cuda"}, {Kind: "rail", What: "cuda"}, {Kind: "socket", What: "cuda"}},
	}
	on := stage.New(t)
	for _, s := range simulator.Scenarios() {
		want, looked := follows[s.Name]
		if want = append(want, s.Probed...); !looked && len(s.Probed) == 0 {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			if testing.Short() && s.Name != "probe-slow" {
				t.Skip("-short: too slow under the race detector; make test runs it without")
			}
			n := simulatortest.WatchOn(t, on, s, 0)[0]
			nccl := s.Build().NCCL
			r, err := NewRehearsal(func() simulator.NCCL { return nccl }, s.Healthy())
			if err != nil {
				t.Fatal(err)
			}
			got := slices.Collect(maps.Keys(complaints(r.Past(n, time.Now()))))
			order := func(a, b simulator.ProbeFinding) int {
				return strings.Compare(a.Kind+a.Device+a.What, b.Kind+b.Device+b.What)
			}
			slices.SortFunc(got, order)
			slices.SortFunc(want, order)
			if !slices.Equal(got, want) {
				t.Errorf("probes complain of %v, expected %v", got, want)
			}
		})
	}
}

// A skip names a GPU as the gate does: by its UUID, which begins with GPU.
func TestSkipNamesGPU(t *testing.T) {
	s, err := simulator.Find("gpu-mig-on")
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRehearsal(func() simulator.NCCL { return s.Build().NCCL }, s.Healthy())
	if err != nil {
		t.Fatal(err)
	}
	n := simulatortest.Watch(t, s, 0)[0]
	want := n.GPUDriver.GPUs[0].UUID + " is divided"
	for _, p := range r.Past(n, n.At).Probes {
		if p.LastSkip == nil || p.LastSkip.Detail != want {
			t.Errorf("%v: %+v, expected the detail %q", p.Key, p.LastSkip, want)
		}
	}
}

// All probes run soon after a change, and none in between; else they come and go by their schedule.
func TestRehearsalGoesOn(t *testing.T) {
	s, err := simulator.Find("probe-slow")
	if err != nil {
		t.Fatal(err)
	}
	n := simulatortest.Watch(t, s, 0)[0]
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		r, err := NewRehearsal(func() simulator.NCCL {
			if broken.Load() {
				return s.Build().NCCL
			}
			return s.Healthy().NCCL
		}, s.Healthy())
		if err != nil {
			t.Fatal(err)
		}
		r.Begin(t.Context(), fixed{n})
		defer r.Close()
		runs := func() (all, skipped uint64, rail probes.Comparison) {
			for _, p := range r.Status().Probes {
				all += p.Runs
				skipped += p.Skips[probes.SkipProcess]
				if p.LastSkip != nil && !strings.HasPrefix(p.LastSkip.Detail, "compute process 41877 on GPU-") {
					t.Errorf("skipped: %q", p.LastSkip.Detail)
				}
				if p.Key.Device == "mlx5_6" {
					rail = p.Last.Comparison
				}
			}
			return all, skipped, rail
		}
		time.Sleep(time.Second / 2)
		began, _, rail := runs()
		if began != past*11 || rail.Samples < 16 || rail.Below != 0 {
			t.Errorf("at the start %d runs, the rail %+v", began, rail)
		}
		time.Sleep(20 * time.Minute)
		later, skipped, rail := runs()
		if got := later - began; got < 11*10 || got > 11*16 || skipped < 3 || skipped > 10 || rail.Below != 0 {
			t.Errorf("%d runs of 11 probes in 20 minutes, %d skipped, the rail %+v", got, skipped, rail)
		}
		if err := r.Change(func() error { broken.Store(true); return nil }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(calm - time.Second)
		if all, _, _ := runs(); all != later {
			t.Errorf("%d runs while the node changes", all-later)
		}
		time.Sleep(2 * time.Second)
		if all, _, rail := runs(); all != later+11 || rail.Below != 1 {
			t.Errorf("%d runs after the change, the rail %+v", all-later, rail)
		}
		time.Sleep(2 * time.Minute)
		if _, _, rail := runs(); !rail.Regressed {
			t.Errorf("not confirmed: %+v", rail)
		}
		time.Sleep(3 * time.Minute)
		if _, _, rail := runs(); rail.Below < 3 {
			t.Errorf("not collapsed: %+v", rail)
		}
	})
}
