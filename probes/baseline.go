// SPDX-License-Identifier: Apache-2.0

package probes

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
)

// A baseline is what results of one fingerprint have been like: median and MAD (median absolute deviation) of the bus
// bandwidths in a window. Three rules keep it from following the fabric down in silence:
//   - what came in the last hour is not compared with, so a fault is not measured against itself;
//   - results that are regressed do not enter it, so a regression stays one until it is mended;
//   - its median is held against the highest that there was, so a loss in small steps is seen (Comparison.Drifted).
//
// A result is below the limit if it is below the share of the median that the site chose, and farther from it than noise
// explains. It is regressed if the result before it was below the limit too.
const (
	windowSize  = 64                 // samples at most
	windowAge   = 7 * 24 * time.Hour // of samples
	windowLeast = 16                 // newest samples that stay whatever their age, for nodes that are busy for weeks
	settling    = time.Hour          // age from which samples are compared with
	enough      = 5                  // samples, to compare with
	steady      = 16                 // samples, to have a best median: those of fewer are lucky too often

	noiseLimit = 4      // standard deviations that noise explains
	driftLimit = 2      // standard deviations between medians that noise explains
	sigmaOfMAD = 1.4826 // standard deviation of normal noise over its MAD

	absurd = 1e15 // bytes per second; no result, and no baseline

	baselinesPerProbe = 8 // fingerprints, those that were used last
)

// sample is the bus bandwidth of a result, in bytes per second.
type sample struct {
	at    time.Time
	busBW float64
}

// baseline is the history of one fingerprint.
type baseline struct {
	samples []sample // oldest first
	best    float64  // highest median of at least steady samples; 0: none yet
	below   int      // results in a row that were below the limit
	used    time.Time
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

// judge compares a result with those before it. warn is the share of the median below which it may be regressed.
func (b *baseline) judge(busBW, warn float64, now time.Time) Comparison {
	var c Comparison
	var settled []float64
	for _, s := range b.samples {
		if now.Sub(s.at) >= settling {
			settled = append(settled, s.busBW)
		}
	}
	c.Samples, c.Best = len(settled), b.best
	if len(settled) < enough {
		c.Ratio = fabric.NotKnown[float64](fabric.ReasonNotRead, "baseline", now)
		b.below = 0
		return c
	}
	c.Median, c.MAD = medianAndMAD(settled)
	c.Ratio = fabric.Known(busBW/c.Median, "baseline", now)
	sigma := sigmaOfMAD * c.MAD
	// The MAD of few samples is often too small by chance.
	noise := noiseLimit * sigma * (1 + 8/float64(len(settled)))
	if busBW < min(warn*c.Median, c.Median-noise) {
		b.below++
	} else {
		b.below = 0
	}
	c.Below, c.Regressed = b.below, b.below >= 2
	c.Drifted = c.Median < min(warn*b.best, b.best-driftLimit*sigma)
	return c
}

// learn takes a result into the window.
func (b *baseline) learn(busBW float64, now time.Time) {
	b.samples = append(b.samples, sample{now, busBW})
	first := max(0, len(b.samples)-windowSize)
	for len(b.samples)-first > windowLeast && now.Sub(b.samples[first].at) > windowAge {
		first++
	}
	b.samples = slices.Clone(b.samples[first:])
	if len(b.samples) >= steady {
		values := make([]float64, len(b.samples))
		for i, s := range b.samples {
			values[i] = s.busBW
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

// fingerprint names what must be equal for results to be compared: readable, but for a hash of what is long. What NCCL
// chose is not part of it, or a fallback to TCP would start a baseline of its own and never be regressed.
// It is empty for results that have no bandwidth to compare.
func fingerprint(r Result, t Target, maxCTAs int) string {
	busBW, ok := judged(r)
	if !ok || busBW <= 0 {
		return ""
	}
	if r.Key.Kind == Calibrate {
		maxCTAs = 0
	}
	m := r.Measurements[len(r.Measurements)-1]
	where := string(r.Key.Kind)
	if r.Key.Device != "" {
		where += fmt.Sprintf(" %s/%d", r.Key.Device, r.Key.Port)
	}
	rest := slices.Sorted(slices.Values(t.Conditions))
	sum := sha256.Sum256([]byte(strings.Join(slices.Concat(r.GPUs, []string{""}, rest), "\n")))
	return fmt.Sprintf("%s %s %s %d bytes %d ranks %d ctas nccl %s driver %s cuda %s node %s", where, m.Op, m.Type, m.Bytes, m.Ranks,
		maxCTAs, short(r.NCCL), short(r.Driver), short(r.CUDA), hex.EncodeToString(sum[:6]))
}

// short bounds a version, which may be anything.
func short(version string) string {
	return cmp.Or(clip(strings.Join(strings.Fields(version), "_"), 32), "unknown")
}

// judged returns the bus bandwidth that a result is judged by, that of its last measurement, in bytes per second.
func judged(r Result) (busBW float64, ok bool) {
	if r.Outcome != OK || len(r.Measurements) == 0 {
		return 0, false
	}
	busBW = r.Measurements[len(r.Measurements)-1].BusBW
	return busBW, busBW > 0 && busBW < absurd
}

// clip shortens text to n bytes at most, without leaving half a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
