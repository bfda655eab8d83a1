// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
)

// A baseline is what results of one fingerprint have been like: median and MAD (median absolute deviation) of the bus
// bandwidths in a window. Three rules keep it from following the fabric down in silence:
//   - what came in the last hour is not compared with, so a fault is not measured against itself;
//   - results that are regressed do not enter it, so a regression remains one until it is repaired;
//   - its median is held against the highest that there was, so a loss in small steps is seen (Comparison.Drifted).
//
// A result is below the limit if it is below the share of the median that the site chose, and farther from it than
// noise explains. It is regressed if the result before it was below the limit too, and collapsed if it is below
// collapseShare of the median besides.
//
// The time of the smallest message has a median of its own, and is late beyond lateFactor times that. Late ones do not
// enter it.
const (
	windowSize  = 64                 // samples at most
	WindowAge   = 7 * 24 * time.Hour // of samples
	windowLeast = 16                 // newest samples that stay whatever their age, for nodes that are busy for weeks
	settling    = time.Hour          // age from which samples are compared with
	enough      = 5                  // samples, to compare with
	steady      = 16                 // samples, to have a best median: those of fewer are lucky too often

	noiseLimit = 4 // standard deviations that noise explains
	driftLimit = 2 // standard deviations between medians that noise explains

	collapseShare = 0.8 // of the median
	lateFactor    = 2   // times the median; small messages wait for processors, and noise is large

	sigmaOfMAD = 1.4826 // standard deviation of normal noise over its MAD

	baselinesPerProbe = 8 // fingerprints, those that were used last
)

// sample is what is kept of a result.
type sample struct {
	at    time.Time
	value float64
}

// window is what some results were like, oldest first.
type window []sample

// settled returns the values that a result is compared with.
func (w window) settled(now time.Time) []float64 {
	var values []float64
	for _, s := range w {
		if now.Sub(s.at) >= settling {
			values = append(values, s.value)
		}
	}
	return values
}

// learn returns the window with one more value, and without those that are too old or too many.
func (w window) learn(value float64, now time.Time) window {
	w = append(w, sample{now, value})
	first := max(0, len(w)-windowSize)
	for len(w)-first > windowLeast && now.Sub(w[first].at) > WindowAge {
		first++
	}
	return slices.Clone(w[first:])
}

// baseline is the history of one fingerprint.
type baseline struct {
	samples   window  // bus bandwidths in bytes per second
	latencies window  // times of the smallest message in seconds
	best      float64 // highest median of at least steady samples; 0: none yet
	below     int     // results in a row that were below the limit
	collapsed int     // results in a row that were collapsed
	used      time.Time
}

// baselines are those of one probe, by fingerprint.
type baselines map[string]*baseline

// of returns the baseline of a fingerprint, a new one if need be, and forgets that which was not used for longest.
func (bs baselines) of(print string, now time.Time) *baseline {
	b := bs[print]
	if b == nil {
		b = &baseline{}
		bs[print] = b
	}
	b.used = now
	for len(bs) > baselinesPerProbe {
		oldest := print
		for other, b := range bs {
			if b.used.Before(bs[oldest].used) || b.used.Equal(bs[oldest].used) && other > oldest && other != print {
				oldest = other
			}
		}
		delete(bs, oldest)
	}
	return b
}

// judge compares a result with those before it of its fingerprint, if it has one, and takes it in unless it is
// regressed or confirms the one before it.
func (r *record) Judge(result probes.Result, t probes.Target, config probes.Config, confirms bool,
	now time.Time,
) probes.Comparison {
	print := fingerprint(result, t, config.MaxCTAs)
	if print == "" {
		return probes.Comparison{}
	}
	busBW, _ := probes.Judged(result)
	var latency probes.Seconds
	if small := result.SmallMessage(); small != nil {
		latency = small.Time
	}
	b := r.Baselines.of(print, now)
	c := b.judge(busBW, latency, config.Warn, now)
	c.Fingerprint = print
	if !c.Regressed && !confirms {
		b.learn(busBW, latency, c.Latency != nil && c.Latency.Late, now)
	}
	return c
}

// judge compares a result with those before it. warn is the share of the median below which it may be regressed.
// latency is the time of the smallest message, 0 if there was none.
func (b *baseline) judge(busBW float64, latency probes.Seconds, warn float64, now time.Time) probes.Comparison {
	settled := b.samples.settled(now)
	c := probes.Comparison{Samples: len(settled), Latency: b.judgeLatency(latency, now)}
	if b.best > 0 {
		c.Best = ofBaseline(b.best, now)
	}
	if len(settled) < enough {
		b.below, b.collapsed = 0, 0
		return c
	}
	median, mad := medianAndMAD(settled)
	c.Median, c.MAD, c.Ratio = ofBaseline(median, now), ofBaseline(mad, now), ofBaseline(busBW/median, now)
	sigma := sigmaOfMAD * mad
	// The MAD of few samples is often too small by chance.
	noise := noiseLimit * sigma * (1 + 8/float64(len(settled)))
	below := busBW < min(warn*median, median-noise)
	b.below = inRow(b.below, below)
	b.collapsed = inRow(b.collapsed, below && busBW < collapseShare*median)
	c.Below, c.Collapsed, c.Regressed = b.below, b.collapsed, b.below >= 2
	c.Drifted = median < min(warn*b.best, b.best-driftLimit*sigma)
	return c
}

// inRow counts on if there is one more in a row.
func inRow(n int, more bool) int {
	if !more {
		return 0
	}
	return n + 1
}

// judgeLatency returns nil if there was no small message.
func (b *baseline) judgeLatency(latency probes.Seconds, now time.Time) *probes.LatencyComparison {
	if latency <= 0 {
		return nil
	}
	settled := b.latencies.settled(now)
	c := &probes.LatencyComparison{Samples: len(settled)}
	if len(settled) < enough {
		return c
	}
	median, mad := medianAndMAD(settled)
	ratio := float64(latency) / median
	c.Median, c.MAD, c.Ratio = ofBaseline(probes.Seconds(median), now), ofBaseline(probes.Seconds(mad),
		now), ofBaseline(ratio, now)
	c.Late = ratio > lateFactor
	return c
}

func ofBaseline[T any](v T, now time.Time) probes.Fact[T] { return probes.Known(v, "baseline", now) }

// learn takes in a result that was compared, except a latency that was late or not measured.
func (b *baseline) learn(busBW float64, latency probes.Seconds, late bool, now time.Time) {
	b.samples = b.samples.learn(busBW, now)
	if latency > 0 && !late {
		b.latencies = b.latencies.learn(float64(latency), now)
	}
	if len(b.samples) >= steady {
		values := make([]float64, len(b.samples))
		for i, s := range b.samples {
			values[i] = s.value
		}
		median, _ := medianAndMAD(values)
		b.best = max(b.best, median)
	}
}

// medianAndMAD sorts values. There must be some.
func medianAndMAD(values []float64) (m, mad float64) {
	m = median(values)
	away := make([]float64, len(values))
	for i, v := range values {
		away[i] = math.Abs(v - m)
	}
	return m, median(away)
}

func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return values[(n-1)/2]/2 + values[n/2]/2
}

// fingerprint names what must be equal for results to be compared: readable, except a hash of what is long. What NCCL
// chose is not part of it, or a fallback to TCP would start a baseline of its own and never be regressed.
// It is empty for results that have no bandwidth to compare.
func fingerprint(r probes.Result, t probes.Target, maxCTAs int) string {
	busBW, ok := probes.Judged(r)
	if !ok || busBW <= 0 {
		return ""
	}
	if r.Kind == probes.Calibrate {
		maxCTAs = 0
	}
	m := r.Measurements[len(r.Measurements)-1]
	where := string(r.Kind)
	if r.Device != "" {
		where += fmt.Sprintf(" %s/%d", r.Device, r.Port)
	}
	rest := slices.Sorted(slices.Values(t.Conditions))
	sum := sha256.Sum256([]byte(strings.Join(slices.Concat(r.GPUs, []string{""}, rest), "\n")))
	return fmt.Sprintf("%s %s %s %d bytes %d ranks %d ctas nccl %s driver %s cuda %s node %s", where, m.Op, m.Type,
		m.Bytes, m.Ranks,
		maxCTAs, short(r.NCCL), short(r.Driver), short(r.CUDA), hex.EncodeToString(sum[:6]))
}

// short bounds a version, which may be anything.
func short(version string) string {
	return cmp.Or(fabric.Clip(strings.Join(strings.Fields(version), "_"), 32), "unknown")
}

// history has the samples that a result was compared with, by the clock on the wall.
func (r *record) History(of *probes.Result, now, wall time.Time) []probes.Sample {
	if of == nil || r.Baselines[of.Comparison.Fingerprint] == nil {
		return nil
	}
	var list []probes.Sample
	for _, s := range r.Baselines[of.Comparison.Fingerprint].samples {
		list = append(list, probes.Sample{At: wall.Add(s.at.Sub(now)), BusBW: s.value})
	}
	return list
}
