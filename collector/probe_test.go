// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
)

// maxProbeSeries is the budget of probes on a node with 8 rails.
const maxProbeSeries = 360

const hour = time.Hour

func measured[T any](v T) probes.Fact[T] { return probes.Known(v, "test", now) }

// good is a result as a healthy node has it.
func good(key probes.Key, at time.Time) *probes.Result {
	r := &probes.Result{
		Key: key, At: at, Wall: 4, Outcome: probes.OK, NCCL: "2.27.3", Driver: "580.65.06", CUDA: "13.0", Network: "IB",
		Path: measured(probes.PathIB), GPUDirect: measured(true), NVLS: probes.AbsentFact[bool]("test", at), SHARP: probes.AbsentFact[bool]("test", at),
		Channels: measured(4), Init: 0.9, Release: measured(probes.Seconds(0.12)),
	}
	if key.Kind == probes.Transport {
		return r
	}
	r.Connect = 0.25
	r.Measurements = []probes.Measurement{
		{Op: probes.AllReduce, Type: probes.Float32, Bytes: 1 << 10, Ranks: 2, Iterations: 20, Time: 20e-6, AlgBW: 51e6, BusBW: 51e6},
		{Op: probes.AllReduce, Type: probes.Float32, Bytes: 64 << 20, Ranks: 2, Iterations: 20, Time: 1.4e-3, AlgBW: 47.9e9, BusBW: 47.9e9},
	}
	r.Comparison = probes.Comparison{Fingerprint: "f", Samples: 40, Median: measured(48e9), MAD: measured(1e8), Best: measured(48.2e9), Ratio: measured(0.998)}
	r.Expected = probes.AbsentFact[float64]("test", at)
	r.Comparison.Latency = &probes.LatencyComparison{Samples: 40, Median: measured(probes.Seconds(19e-6)), Ratio: measured(1.05)}
	switch key.Kind {
	case probes.Node:
		r.Path, r.GPUDirect, r.NVLS = measured(probes.PathP2P), measured(true), measured(true)
	case probes.Socket:
		r.Path, r.Network, r.GPUDirect = measured(probes.PathSocket), "Socket", probes.AbsentFact[bool]("test", at)
	case probes.Rail:
		r.NVLS, r.SHARP = measured(false), measured(false)
		r.Expected = measured(1.06)
	}
	return r
}

func failed(key probes.Key, at time.Time, why probes.Failure) *probes.Result {
	r := &probes.Result{
		Key: key, At: at, Outcome: probes.Failed, Failure: why, Error: "said so", NCCL: "2.27.3",
	}
	if why == probes.FailureIntruder || why == probes.FailureStopped {
		r.Outcome = probes.Aborted
	}
	return r
}

// probed is a probe with one good run an hour ago.
func probed(key probes.Key, every time.Duration) probes.ProbeStatus {
	r := good(key, now.Add(-hour))
	return probes.ProbeStatus{Key: key, Every: every, Runs: 12, Last: r, LastGood: r, LastRun: r.At, NextRun: r.At.Add(every), Baselines: 1, Judged: 7}
}

var (
	transport = probes.Key{Kind: probes.Transport}
	node      = probes.Key{Kind: probes.Node}
	socket    = probes.Key{Kind: probes.Socket}
)

func rail(device string) probes.Key { return probes.Key{Kind: probes.Rail, Device: device, Port: 1} }

// probeSet is the collector probe with a status.
func probeSet(t *testing.T, s probes.Status) *Set {
	t.Helper()
	set, err := NewSet([]string{probeName})
	if err != nil {
		t.Fatal(err)
	}
	return set.WithProbes(func() probes.Status { return s })
}

// probeLines is what a scrape has of probes, after lint.
func probeLines(t *testing.T, s probes.Status) []string {
	t.Helper()
	families := probeSet(t, s).Gather(nodeOf(), ConfigState{LoadedAt: now, LastOK: true})
	checkCatalogue(t, families, map[string]bool{})
	checkFormats(t, families)
	problems, err := testutil.GatherAndLint(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return protos(families), nil }))
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	var lines []string
	for line := range strings.Lines(text(t, families)) {
		if rest, ok := strings.CutPrefix(line, Prefix+"probe_"); ok {
			lines = append(lines, strings.TrimSuffix(rest, "\n"))
		}
	}
	return lines
}

func TestProbesOfHealthyNode(t *testing.T) {
	s := probes.Status{Enabled: true, GPUTime: 1234500 * time.Millisecond}
	s.Probes = append(s.Probes, probed(node, 4*hour))
	for i := range 8 {
		s.Probes = append(s.Probes, probed(rail("mlx5_"+string(rune('0'+i))), 12*hour))
	}
	s.Probes = append(s.Probes, probed(socket, 24*hour), probed(transport, 2*hour))
	for i := range s.Probes { // as busy as a node is
		s.Probes[i].Skips = map[probes.Skip]uint64{probes.SkipProcess: 100, probes.SkipUtilization: 5, probes.SkipDuty: 10}
		s.Probes[i].LastSkip = &probes.Skipped{Why: probes.SkipProcess, At: now}
	}
	lines := probeLines(t, s)
	golden(t, filepath.Join("testdata", "probes-healthy.metrics"), []byte(strings.Join(lines, "\n")+"\n"))
	t.Logf("%d series", len(lines))
	if len(lines) > maxProbeSeries {
		t.Errorf("%d series, the budget is %d", len(lines), maxProbeSeries)
	}
}

// about are the lines of what begins with one of these names.
func about(lines []string, names ...string) []string {
	return slices.DeleteFunc(lines, func(line string) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(line, name+"{") || strings.HasPrefix(line, name+" ") })
	})
}

func TestProbesThatAreOff(t *testing.T) {
	set, err := NewSet([]string{probeName})
	if err != nil {
		t.Fatal(err)
	}
	for name, set := range map[string]*Set{"no prober": set, "none is configured": probeSet(t, probes.Status{})} {
		h := set.Health(nodeOf())[0]
		if h.Supported || !h.Success || !strings.Contains(h.Why, "no probes are switched on") {
			t.Errorf("%s: %+v", name, h)
		}
		if out := text(t, set.Gather(nodeOf(), ConfigState{})); strings.Contains(out, Prefix+"probe_") {
			t.Errorf("%s, and yet:\n%s", name, out)
		}
	}
	// On demand only: a probe that a user ran shows.
	on := probeSet(t, probes.Status{Probes: []probes.ProbeStatus{probed(node, 0)}})
	if h := on.Health(nodeOf())[0]; !h.Supported || !h.Success {
		t.Errorf("on demand: %+v", h)
	}
	if out := text(t, on.Gather(nodeOf(), ConfigState{})); strings.Contains(out, "probe_interval") || !strings.Contains(out, `probe_success{device="",kind="node",port=""} 1`) {
		t.Errorf("on demand:\n%s", out)
	}
	if sub, err := on.Select([]string{probeName}); err != nil || !sub.Health(nodeOf())[0].Supported {
		t.Errorf("a selection forgets the probes: %v", err)
	}
}

func TestProbeStates(t *testing.T) {
	of := func(edit func(p *probes.ProbeStatus)) []string {
		p := probed(rail("mlx5_0"), 12*hour)
		edit(&p)
		return probeLines(t, probes.Status{Enabled: true, Probes: []probes.ProbeStatus{p}})
	}
	const at = `{device="mlx5_0",kind="rail",port="1"`
	both := []string{"success", "failing", "bus_bandwidth_bytes_per_second", "baseline_ratio", "last_success_timestamp_seconds", "last_run_timestamp_seconds", "failures_total", "transport", "regressed", "below_baseline_results", "collapsed_results", "skipped", "fault_timestamp_seconds", "fault_ratio", "result_unknown"}
	fault := func(name string) string {
		return `fault_timestamp_seconds{device="mlx5_0",fault="` + name + `",kind="rail",port="1"} 1.6999964e+09`
	}
	transports := func(current string) (lines []string) {
		for _, p := range []string{"none", "nvls", "p2p", "shm", "ib", "plugin", "socket"} {
			value := " 0"
			if p == current {
				value = " 1"
			}
			lines = append(lines, "transport"+at+`,transport="`+p+`"}`+value)
		}
		return lines
	}
	wellSince := []string{
		"success" + at + "} 1", "bus_bandwidth_bytes_per_second" + at + "} 4.79e+10", "baseline_ratio" + at + "} 0.998", "regressed" + at + "} 0",
		"last_success_timestamp_seconds" + at + "} 1.6999964e+09",
	}
	earlier := now.Add(-2 * hour)
	for _, c := range []struct {
		name string
		edit func(p *probes.ProbeStatus)
		want []string
	}{
		{"well", func(*probes.ProbeStatus) {}, slices.Concat(wellSince, transports("ib"), []string{"last_run_timestamp_seconds" + at + "} 1.6999964e+09"})},
		{"never run", func(p *probes.ProbeStatus) {
			*p = probes.ProbeStatus{Key: p.Key, Every: p.Every, LastSkip: &probes.Skipped{Why: probes.SkipCannotProveIdle, At: now}}
		}, []string{"skipped" + at + `,reason="cannot_prove_idle"} 1`, "result_unknown" + at + "} 1"}},
		{"not run since the exporter started", func(p *probes.ProbeStatus) { *p = probes.ProbeStatus{Key: p.Key, Every: p.Every, LastRun: now} }, []string{
			"last_run_timestamp_seconds" + at + "} 1.7e+09", "result_unknown" + at + "} 1",
		}},
		{"failed after it was well: what it measured then is not of now", func(p *probes.ProbeStatus) {
			p.Last, p.LastRun, p.Failures = failed(p.Key, now, probes.FailureHang), now, map[probes.Failure]uint64{probes.FailureHang: 1}
			p.Kept = []probes.Result{*p.Last}
		}, []string{
			`fault_timestamp_seconds{device="mlx5_0",fault="failing",kind="rail",port="1"} 1.7e+09`,
			"success" + at + "} 0", "failing" + at + `,reason="hang"} 1`, "failures_total" + at + `,reason="hang"} 1`,
			"last_success_timestamp_seconds" + at + "} 1.6999964e+09", "last_run_timestamp_seconds" + at + "} 1.7e+09",
		}},
		{"failed after NCCL had chosen TCP", func(p *probes.ProbeStatus) {
			p.Last = failed(p.Key, now, probes.FailureWrong)
			p.Last.At, p.Last.Path = p.LastRun, measured(probes.PathSocket)
			p.LastGood = nil
		}, slices.Concat(transports("socket"), []string{fault("socket"), fault("wrong"), fault("failing"), "success" + at + "} 0", "failing" + at + `,reason="wrong_result"} 1`, "last_run_timestamp_seconds" + at + "} 1.6999964e+09"})},
		{"aborted after it was well: nothing changed", func(p *probes.ProbeStatus) {
			p.Last, p.LastRun, p.Failures = failed(p.Key, now, probes.FailureIntruder), now, map[probes.Failure]uint64{probes.FailureIntruder: 3}
			p.Kept = []probes.Result{*failed(p.Key, earlier, probes.FailureInit)}
		}, slices.Concat(wellSince, transports("ib"), []string{"failures_total" + at + `,reason="intruder"} 3`, "last_run_timestamp_seconds" + at + "} 1.7e+09"})},
		{"aborted after it failed: still failing", func(p *probes.ProbeStatus) {
			p.Last, p.LastRun = failed(p.Key, now, probes.FailureIntruder), now
			p.LastGood.At = earlier
			p.Kept = []probes.Result{*failed(p.Key, now.Add(-hour), probes.FailureInit), *good(p.Key, now.Add(-time.Minute))}
		}, []string{
			fault("failing"),
			"success" + at + "} 0", "failing" + at + `,reason="init"} 1`,
			"last_success_timestamp_seconds" + at + "} 1.6999928e+09", "last_run_timestamp_seconds" + at + "} 1.7e+09",
		}},
		{"aborted, and nothing before", func(p *probes.ProbeStatus) { p.Last, p.LastGood = failed(p.Key, now, probes.FailureStopped), nil }, []string{
			"last_run_timestamp_seconds" + at + "} 1.6999964e+09", "result_unknown" + at + "} 1",
		}},
		{"regressed", func(p *probes.ProbeStatus) {
			c := &p.LastGood.Comparison
			c.Regressed, c.Below, c.Collapsed, c.Ratio = true, 3, 2, measured(0.75)
		}, slices.Concat(transports("ib"), []string{
			`fault_ratio{device="mlx5_0",fault="regressed",kind="rail",port="1"} 0.75`,
			"success" + at + "} 1", "bus_bandwidth_bytes_per_second" + at + "} 4.79e+10", "baseline_ratio" + at + "} 0.75", "regressed" + at + "} 1", "below_baseline_results" + at + "} 3", "collapsed_results" + at + "} 2",
			"last_success_timestamp_seconds" + at + "} 1.6999964e+09", "last_run_timestamp_seconds" + at + "} 1.6999964e+09",
		})},
		{"no baseline yet", func(p *probes.ProbeStatus) {
			p.LastGood.Comparison = probes.Comparison{Fingerprint: "f", Samples: 2, Ratio: probes.UnknownFact[float64](fabric.ReasonNotRead, "baseline", now)}
		}, slices.Concat(transports("ib"), []string{
			"success" + at + "} 1", "bus_bandwidth_bytes_per_second" + at + "} 4.79e+10",
			"last_success_timestamp_seconds" + at + "} 1.6999964e+09", "last_run_timestamp_seconds" + at + "} 1.6999964e+09",
		})},
		{"NCCL's log said nothing", func(p *probes.ProbeStatus) {
			p.LastGood.Path = probes.UnknownFact[probes.Path](fabric.ReasonIO, "test", now)
		}, slices.Concat(wellSince, []string{"last_run_timestamp_seconds" + at + "} 1.6999964e+09"})},
		{"run since it was skipped", func(p *probes.ProbeStatus) {
			p.LastSkip = &probes.Skipped{Why: probes.SkipProcess, At: earlier}
		}, slices.Concat(wellSince, transports("ib"), []string{"last_run_timestamp_seconds" + at + "} 1.6999964e+09"})},
	} {
		t.Run(c.name, func(t *testing.T) { equal(t, about(of(c.edit), both...), c.want...) })
	}
}

// Numbers that are none, words that are in no table, and names that a rank made up cost nothing but themselves.
func TestProbesWithWrongNumbers(t *testing.T) {
	p := probed(node, hour)
	r := p.LastGood
	r.NCCL, r.Network = "2\n\xff"+strings.Repeat("x", 1000), strings.Repeat("y", 1000)
	r.Path, r.Init, r.Connect = measured(probes.Path("smoke")), -1, 0
	m := &r.Measurements[1]
	m.BusBW, m.AlgBW, m.Time = math.NaN(), math.Inf(1), -1
	r.Comparison.Ratio, r.Expected = measured(math.NaN()), measured(math.Inf(1))
	p.Skips, p.Failures = map[probes.Skip]uint64{"whim": 3}, map[probes.Failure]uint64{"whim": 3}
	p.LastSkip = &probes.Skipped{Why: "whim", At: now}
	lines := probeLines(t, probes.Status{Enabled: true, Probes: []probes.ProbeStatus{p}})
	for _, line := range lines {
		if len(line) > 600 || strings.Contains(line, "NaN") || strings.Contains(line, "Inf") || strings.Contains(line, "whim") || strings.Contains(line, "smoke") {
			t.Errorf("%s", line)
		}
	}
	if got := about(lines, "bus_bandwidth_bytes_per_second", "algorithm_bandwidth_bytes_per_second", "latency_seconds", "init_seconds", "connect_seconds", "transport", "expected_ratio", "baseline_ratio"); len(got) > 0 {
		t.Errorf("of numbers that are none: %q", got)
	}
	p.LastGood, p.Last = nil, &probes.Result{Outcome: probes.Failed, Failure: "whim", At: now}
	equal(t, about(probeLines(t, probes.Status{Enabled: true, Probes: []probes.ProbeStatus{p}}), "success", "failing"), `success{device="",kind="node",port=""} 0`)
}

// Results are counted from the start on, and the time of a small message is shown where there was one.
func TestProbeResults(t *testing.T) {
	names := []string{"judged_results_total", "slow_results_total", "late_results_total", "small_message_latency_seconds", "small_message_latency_ratio"}
	of := func(p probes.ProbeStatus) []string {
		return about(probeLines(t, probes.Status{Enabled: true, Probes: []probes.ProbeStatus{p}}), names...)
	}
	const at, kind = `{device="",kind="node",port=""}`, `{kind="node"}`
	counts := func(judged, slow, late string) []string {
		return []string{"judged_results_total" + kind + " " + judged, "slow_results_total" + kind + " " + slow, "late_results_total" + kind + " " + late}
	}
	p := probed(node, hour)
	p.Judged, p.Slow, p.Late = 12, 3, 1
	equal(t, of(p), append(counts("12", "3", "1"), "small_message_latency_seconds"+at+" 2e-05", "small_message_latency_ratio"+at+" 1.05")...)
	p.LastGood.Comparison.Latency.Ratio = probes.UnknownFact[float64](fabric.ReasonIO, "test", now)
	equal(t, of(p), append(counts("12", "3", "1"), "small_message_latency_seconds"+at+" 2e-05")...)
	p.LastGood.Measurements = p.LastGood.Measurements[1:]
	equal(t, of(p), counts("12", "3", "1")...)
	equal(t, of(probes.ProbeStatus{Key: node, Every: hour}), counts("0", "0", "0")...)
	equal(t, of(probed(transport, hour)))
	lies := probed(node, hour)
	lies.Judged, lies.LastGood.Measurements[0].Time, lies.LastGood.Comparison.Latency.Ratio = 0, math.MinInt64, measured(math.Inf(1))
	equal(t, of(lies), counts("0", "0", "0")...)
}

// How soon the GPUs were free is shown of aborted runs, too, and never of another run than the last.
func TestProbeRelease(t *testing.T) {
	p := probed(node, hour)
	of := func() []string {
		return about(probeLines(t, probes.Status{Enabled: true, Probes: []probes.ProbeStatus{p}}), "release_seconds")
	}
	equal(t, of(), `release_seconds{device="",kind="node",port=""} 0.12`)
	p.Last = failed(p.Key, now, probes.FailureIntruder)
	equal(t, of())
	p.Last.Release = measured(probes.Seconds(2))
	equal(t, of(), `release_seconds{device="",kind="node",port=""} 2`)
	p.Last.Release = probes.UnknownFact[probes.Seconds](fabric.ReasonTimeout, "test", now)
	equal(t, of())
}

func TestProbesTogether(t *testing.T) {
	s := probes.Status{Enabled: true, GPUTime: 2500 * time.Millisecond, State: fabric.ReasonMalformed, Probes: []probes.ProbeStatus{probed(rail("mlx5_0"), 12*hour), probed(rail("mlx5_1"), 12*hour)}}
	for i := range s.Probes {
		s.Probes[i].Skips, s.Probes[i].Slow = map[probes.Skip]uint64{probes.SkipSlurm: 4}, 2
	}
	equal(t, about(probeLines(t, s), "state_file_ok", "gpu_seconds_total", "interval_seconds", "skips_total", "judged_results_total", "slow_results_total"),
		"state_file_ok 0", "gpu_seconds_total 2.5", `interval_seconds{kind="rail"} 43200`, `skips_total{kind="rail",reason="slurm"} 8`,
		`judged_results_total{kind="rail"} 14`, `slow_results_total{kind="rail"} 4`)
}
