// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"math"
	"slices"
	"strconv"
	"time"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
	"gpufabric_exporter/probes"
)

const probeName = "probe"

// WithProbes returns the set with the probes that status returns. It is asked in every Gather and Health, by
// any number of goroutines at once, and must not wait for anything. Without WithProbes the collector probe
// has no metrics.
func (s *Set) WithProbes(status func() probes.Status) *Set {
	with := &Set{collectors: slices.Clone(s.collectors)}
	for i := range with.collectors {
		if c := &with.collectors[i]; c.Name == probeName {
			*c = probeCollector(status)
		}
	}
	return with
}

// probeCollector is the one collector that is not about the node: nothing is observed for it.
func probeCollector(status func() probes.Status) collector {
	return collector{
		About: About{
			Name:    probeName,
			Help:    "What short NCCL collectives on idle GPUs measured: transport, GPUDirect, bandwidth against its baseline.",
			Default: true,
		},
		families: probeFamilies(),
		collect:  func(n *fabric.Node, emit emit) { collectProbes(n, status(), emit) },
		supported: func(*fabric.Node) (bool, string) {
			if s := status(); !s.Enabled && len(s.Probes) == 0 {
				return false, "no probes are switched on (probes.enabled in the configuration)"
			}
			return true, ""
		},
	}
}

func noProbes() probes.Status { return probes.Status{} }

func collectProbes(n *fabric.Node, s probes.Status, emit emit) {
	if !s.Enabled && len(s.Probes) == 0 {
		return
	}
	emit(probeStateFile, bit(s.State == ""))
	emit(probeGPUSeconds, s.GPUTime.Seconds())
	kinds := map[probes.Kind]*kindTotals{}
	for i := range s.Probes {
		p := &s.Probes[i]
		of := kinds[p.Key.Kind]
		if of == nil {
			of = &kindTotals{skips: map[probes.Skip]uint64{}}
			kinds[p.Key.Kind] = of
		}
		of.add(p)
		collectProbe(&s, p, emit)
	}
	collectFollowing(n, s.Probes, emit)
	for _, kind := range probes.Kinds() {
		if of := kinds[kind]; of != nil {
			of.collect(kind, emit)
		}
	}
}

// collectFollowing emits of which probes all that is wrong follows from a check. Checks are asked only where
// something is.
func collectFollowing(n *fabric.Node, list []probes.ProbeStatus, emit emit) {
	var verdicts []verdict.Verdict
	for i := range list {
		r := list[i].Verdict()
		if r == nil {
			continue
		}
		shown := r.Symptom()
		if !shown.Any() {
			continue
		}
		if verdicts == nil {
			verdicts = diagnose.Run(n, shownChecks())
		}
		if cause := diagnose.Explains(n, verdicts, &shown); cause != nil {
			of := subjectOf(&list[i], emit)
			of.add(probeFollows, 1, cause.Check.ID)
		}
	}
}

// kindTotals are the metrics of all probes of a kind together: how many rails there are makes no difference.
type kindTotals struct {
	every              time.Duration
	skips              map[probes.Skip]uint64
	judged, slow, late uint64
}

func (of *kindTotals) add(p *probes.ProbeStatus) {
	of.every = p.Every
	of.judged, of.slow, of.late = of.judged+p.Judged, of.slow+p.Slow, of.late+p.Late
	for reason, n := range p.Skips {
		of.skips[reason] += n
	}
}

func (of *kindTotals) collect(kind probes.Kind, emit emit) {
	if of.every > 0 {
		emit(probeInterval, of.every.Seconds(), string(kind))
	}
	if kind != probes.Transport {
		emit(probeJudged, float64(of.judged), string(kind))
		emit(probeSlow, float64(of.slow), string(kind))
		emit(probeLate, float64(of.late), string(kind))
	}
	for _, reason := range probes.Skips() {
		if n := of.skips[reason]; n > 0 {
			emit(probeSkips, float64(n), string(kind), string(reason))
		}
	}
}

func collectProbe(s *probes.Status, p *probes.ProbeStatus, emit emit) {
	of := subjectOf(p, emit)
	of.add(probeRuns, float64(p.Runs))
	of.add(probeWrong, float64(p.Wrong))
	for _, reason := range probes.Failures() {
		if n := p.Failures[reason]; n > 0 {
			of.add(probeFailures, float64(n), string(reason))
		}
	}
	of.timestamp(probeLastRun, p.LastRun)
	if skip := p.Skipping(); skip != nil && slices.Contains(probes.Skips(), skip.Why) {
		of.add(probeSkipped, 1, string(skip.Why))
	}
	if r := p.LastGood; r != nil {
		of.timestamp(probeLastSuccess, r.At)
	}
	if r := p.Last; r != nil {
		of.measured(probeRelease, float64(r.Release.Or(0)))
	}
	r, faults := p.Verdict(), s.Faults(p)
	for _, fault := range probes.Faults() {
		at, found := faults[fault]
		switch {
		case !found:
		case fault.OfBandwidth():
			of.measured(probeFaultRatio, r.Comparison.Ratio.Or(0), string(fault))
		default:
			of.timestamp(probeFault, at, string(fault))
		}
		if found {
			for _, cause := range p.Causes(fault) {
				of.add(probeFaultCause, 1, string(fault), string(cause))
			}
		}
	}
	if r == nil {
		of.add(probeUnknown, 1)
		return
	}
	of.add(probeSuccess, bit(r.Outcome == probes.OK))
	of.paths(r)
	if r.Outcome == probes.OK {
		of.figures(r)
	} else if slices.Contains(probes.Failures(), r.Failure) {
		of.add(probeFailing, 1, string(r.Failure))
	}
}

// subject is the probe that series are about.
type subject struct {
	kind, device, port string
	emit               emit
}

func subjectOf(p *probes.ProbeStatus, emit emit) subject {
	of := subject{kind: string(p.Key.Kind), device: label(p.Key.Device), emit: emit}
	if p.Key.Port != 0 {
		of.port = strconv.Itoa(p.Key.Port)
	}
	return of
}

func (of *subject) add(f *Family, value float64, more ...string) {
	of.emit(f, value, append([]string{of.kind, of.device, of.port}, more...)...)
}

func (of *subject) timestamp(f *Family, t time.Time, more ...string) {
	if !t.IsZero() {
		of.add(f, float64(t.UnixNano())/1e9, more...)
	}
}

// measured emits what is 0, or absurd, if it is not known.
func (of *subject) measured(f *Family, value float64, more ...string) {
	if value > 0 && !math.IsInf(value, 0) {
		of.add(f, value, more...)
	}
}

// paths returns what a run went over, also one that failed after NCCL had chosen.
func (of *subject) paths(r *probes.Result) {
	var m probes.Measurement
	size, ranks := "", ""
	if n := len(r.Measurements); n > 0 {
		m = r.Measurements[n-1]
		size, ranks = strconv.FormatUint(m.Bytes, 10), strconv.Itoa(m.Ranks)
	}
	of.add(probeInfo, 1, label(r.NCCL), label(r.Driver), label(r.CUDA), label(r.Network), string(m.Op), string(m.Type),
		size, ranks)
	if path, ok := r.Path.Get(); ok && slices.Contains(probes.Paths(), path) {
		state(of.emit, probeTransport, path, probes.Paths(), of.kind, of.device, of.port)
	}
	boolean(of.emit, probeGPUDirect, r.GPUDirect.Fact, of.kind, of.device, of.port)
	if r.Kind == probes.Node || r.Kind == probes.Calibrate { // the others have too few GPUs for sums in a switch
		boolean(of.emit, probeNVLS, r.NVLS.Fact, of.kind, of.device, of.port)
		boolean(of.emit, probeSHARP, r.SHARP.Fact, of.kind, of.device, of.port)
	}
	number(of.emit, probeChannels, r.Channels.Fact, of.kind, of.device, of.port)
}

// figures returns what a successful run measured. After a failure there are none: earlier ones would look current.
func (of *subject) figures(r *probes.Result) {
	of.measured(probeInit, float64(r.Init))
	of.measured(probeConnect, float64(r.Connect))
	if n := len(r.Measurements); n > 0 {
		m := &r.Measurements[n-1]
		of.measured(probeLatency, float64(m.Time))
		of.measured(probeAlgBW, m.AlgBW)
		of.measured(probeBusBW, m.BusBW)
	}
	if m := r.SmallMessage(); m != nil {
		of.measured(probeSmallLatency, float64(m.Time))
	}
	c := &r.Comparison
	of.measured(probeExpectedRatio, r.Expected.Or(0))
	if c.Fingerprint != "" {
		of.add(probeBaselineSamples, float64(c.Samples))
	}
	if l := c.Latency; l != nil {
		of.measured(probeSmallLatencyRatio, l.Ratio.Or(0))
	}
	if ratio, ok := c.Ratio.Get(); ok {
		of.measured(probeBaselineRatio, ratio)
		of.add(probeRegressed, bit(c.Regressed))
		of.measured(probeBelow, float64(c.Below))
		of.measured(probeCollapsed, float64(c.Collapsed))
		if _, known := c.Best.Get(); known {
			of.add(probeDrifted, bit(c.Drifted))
		}
	}
}
