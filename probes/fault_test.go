// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"maps"
	"slices"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// What alerts speak of is decided here: each case is a page that must come, or must not.
func TestFaults(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	start, ran := at.Add(-48*time.Hour), at.Add(-time.Hour)
	good := func(kind Kind) *Result {
		return &Result{
			Key: Key{Kind: kind}, At: ran, Outcome: OK, Path: Known(PathIB, "test", ran), GPUDirect: Known(true, "test", ran),
			Comparison: Comparison{Samples: 40, Best: Known(1e9, "test", ran), Ratio: Known(1.0, "test", ran)},
		}
	}
	probe := func(kind Kind) *ProbeStatus {
		r := good(kind)
		return &ProbeStatus{Key: r.Key, Every: 4 * time.Hour, Runs: 3, Last: r, LastGood: r, LastRun: r.At}
	}
	never := func(kind Kind) *ProbeStatus { return &ProbeStatus{Key: Key{Kind: kind}, Every: 4 * time.Hour} }
	skip := func(why Skip) *Skipped { return &Skipped{Why: why, At: at} }
	longAgo := at.Add(-12*time.Hour - time.Second)
	old := func(kind Kind) *ProbeStatus {
		p := probe(kind)
		p.Last.At, p.LastRun = longAgo, longAgo
		return p
	}
	since := func(when time.Time, faults ...Fault) map[Fault]time.Time {
		m := map[Fault]time.Time{}
		for _, f := range faults {
			m[f] = when
		}
		return m
	}
	for _, c := range []struct {
		name string
		p    *ProbeStatus
		edit func(p *ProbeStatus)
		want map[Fault]time.Time
	}{
		{"well", probe(Node), nil, nil},
		{"the site's plugin is made of TCP", probe(Transport), func(p *ProbeStatus) { p.Last.Path.Value, p.Last.Network = PathSocket, "FastSocket" }, nil},
		{"NCCL chose TCP", probe(Transport), func(p *ProbeStatus) { p.Last.Path.Value = PathSocket }, since(ran, FaultSocket)},
		{"TCP, which the probe is about", probe(Socket), func(p *ProbeStatus) { p.Last.Path.Value = PathSocket }, nil},
		{"NCCL did not say", probe(Transport), func(p *ProbeStatus) {
			p.Last.Path = UnknownFact[Path](fabric.ReasonNotRead, "test", ran)
			p.Last.GPUDirect = UnknownFact[bool](fabric.ReasonNotRead, "test", ran)
		}, nil},
		{"without GPUDirect", probe(Rail), func(p *ProbeStatus) { p.Last.GPUDirect.Value = false }, since(ran, FaultGPUDirect)},
		{"wrong result", probe(Node), func(p *ProbeStatus) { p.Last.Outcome, p.Last.Failure = Failed, FailureWrong }, since(ran, FaultWrong, FaultFailing)},
		{"failed otherwise, and slow in nothing", probe(Node), func(p *ProbeStatus) {
			p.Last.Outcome, p.Last.Failure, p.Last.Comparison.Regressed = Failed, FailureHang, true
		}, since(ran, FaultFailing)},
		{"failed after NCCL had chosen TCP", probe(Node), func(p *ProbeStatus) {
			p.Last.Outcome, p.Last.Failure, p.Last.Path.Value = Failed, FailureHang, PathSocket
		}, since(ran, FaultSocket, FaultFailing)},
		{"two collapsed in a row", probe(Node), func(p *ProbeStatus) { p.Last.Comparison.Collapsed = 2 }, nil},
		{"three collapsed in a row", probe(Node), func(p *ProbeStatus) { p.Last.Comparison.Collapsed = 3 }, since(ran, FaultSlow)},
		{"TCP collapsed, which does not page", probe(Socket), func(p *ProbeStatus) { p.Last.Comparison.Collapsed, p.Last.Comparison.Regressed = 3, true }, since(ran, FaultRegressed)},
		{"no baseline", probe(Node), func(p *ProbeStatus) {
			p.Last.Comparison = Comparison{Regressed: true, Collapsed: 9, Ratio: UnknownFact[float64](fabric.ReasonNotRead, "test", ran)}
		}, nil},
		{"drifted and regressed", probe(Node), func(p *ProbeStatus) { p.Last.Comparison.Drifted, p.Last.Comparison.Regressed = true, true }, since(ran, FaultDrifted, FaultRegressed)},
		{"aborted since: what was wrong is", probe(Node), func(p *ProbeStatus) {
			p.LastGood.Comparison.Regressed = true
			p.Last, p.LastRun = &Result{Key: p.Key, At: at, Outcome: Aborted, Failure: FailureIntruder}, at
		}, since(ran, FaultRegressed)},

		{"three intervals, to the second", old(Node), func(p *ProbeStatus) { p.LastGood.At = longAgo.Add(time.Second) }, nil},
		{"no success in three intervals", old(Node), nil, since(longAgo, FaultStale)},
		{"ran before the exporter started, and not since", never(Node), func(p *ProbeStatus) { p.LastRun = longAgo }, since(longAgo, FaultStale)},
		{"runs, and is aborted each time", old(Node), func(p *ProbeStatus) {
			p.Last, p.LastRun = &Result{Key: p.Key, At: at, Outcome: Aborted, Failure: FailureIntruder}, at
		}, since(longAgo, FaultStale)},
		{"on demand only", old(Node), func(p *ProbeStatus) { p.Every = 0 }, nil},
		{"old, and GPUs are in use", old(Node), func(p *ProbeStatus) { p.LastSkip = skip(SkipProcess) }, nil},
		{"old, and GPUs are divided", old(Node), func(p *ProbeStatus) { p.LastSkip = skip(SkipMIG) }, nil},
		{"old, and unknown whether GPUs are in use", old(Node), func(p *ProbeStatus) { p.LastSkip = skip(SkipCannotProveIdle) }, since(longAgo, FaultStale)},
		{"old, GPUs were in use before the last run", old(Node), func(p *ProbeStatus) { p.LastSkip = &Skipped{Why: SkipProcess, At: longAgo.Add(-time.Hour)} }, since(longAgo, FaultStale)},
		{"old, and failing", old(Node), func(p *ProbeStatus) {
			p.Last, p.LastRun = &Result{Key: p.Key, At: ran, Outcome: Failed, Failure: FailureHang}, ran
		}, since(ran, FaultFailing)},

		{"never tried, and an interval has passed", never(Node), nil, since(start, FaultNeverRun)},
		{"never tried, and not yet due", never(Node), func(p *ProbeStatus) { p.Every = 48 * time.Hour }, nil},
		{"never tried, on demand only", never(Node), func(p *ProbeStatus) { p.Every = 0 }, nil},
		{"never run: GPUs are in use", never(Node), func(p *ProbeStatus) { p.LastSkip = skip(SkipSlurm) }, nil},
		{"never run: GPUs are divided", never(Node), func(p *ProbeStatus) { p.LastSkip = skip(SkipMIG) }, since(start, FaultNeverRun)},
		{"never run: unknown whether GPUs are in use", never(Node), func(p *ProbeStatus) { p.LastSkip = skip(SkipCannotProveIdle) }, since(start, FaultNeverRun)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.edit != nil {
				c.edit(c.p)
			}
			s := Status{Enabled: true, Since: start, At: at, Probes: []ProbeStatus{*c.p}}
			got := s.Faults(&s.Probes[0])
			if !maps.Equal(got, c.want) {
				t.Errorf("%v, expected %v", got, c.want)
			}
			for f := range got {
				if !slices.Contains(Faults(), f) {
					t.Errorf("%s is in no table", f)
				}
			}
		})
	}
}
