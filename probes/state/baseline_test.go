// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/probestest"
)

// history is a baseline that is fed as a prober does: results at an interval, a confirmation a minute later.
type history struct {
	baseline
	at        time.Time
	regressed int
	drifted   bool
	last      probes.Comparison
}

func (h *history) result(busBW float64) {
	h.at = h.at.Add(4 * time.Hour)
	h.last = h.judge(busBW, 0, 0.95, h.at)
	if !h.last.Regressed {
		h.learn(busBW, 0, false, h.at)
	}
	if h.below == 1 {
		h.last = h.judge(busBW, 0, 0.95, h.at.Add(time.Minute))
	}
	if h.last.Regressed {
		h.regressed++
	}
	h.drifted = h.drifted || h.last.Drifted
}

func TestBaselineNeedsEnoughThatIsSettled(t *testing.T) {
	var b baseline
	for i := range enough {
		at := probestest.Origin.Add(time.Duration(i) * time.Minute)
		if c := b.judge(100e9, 0, 0.95, at); c.Samples != 0 || c.Ratio.State == fabric.OK {
			t.Fatalf("result %d is compared with results of this hour: %+v", i, c)
		}
		b.learn(100e9, 0, false, at)
	}
	if c := b.judge(50e9, 0, 0.95, probestest.Origin.Add(time.Hour+3*time.Minute)); c.Samples != 4 || c.Ratio.State == fabric.OK {
		t.Errorf("compared with 4 results: %+v", c)
	}
	c := b.judge(50e9, 0, 0.95, probestest.Origin.Add(time.Hour+4*time.Minute))
	if c.Samples != 5 || c.Median.Value != 100e9 || c.MAD.Value != 0 || c.Ratio.Value != 0.5 || c.Regressed {
		t.Errorf("compared with 5 results: %+v", c)
	}
}

func TestDropIsRegressedOnceConfirmed(t *testing.T) {
	for _, noise := range []float64{0, 0.002, 0.01} {
		rnd := rand.New(rand.NewPCG(1, 2))
		h := history{at: probestest.Origin}
		for range 30 {
			h.result(100e9 * (1 + noise*rnd.NormFloat64()))
		}
		if h.regressed > 0 {
			t.Fatalf("noise %g: regressed without cause", noise)
		}
		at := h.at.Add(4 * time.Hour)
		if c := h.judge(80e9, 0, 0.95, at); c.Regressed || h.below != 1 || c.Below != 1 || math.Abs(c.Ratio.Value-0.8) > 0.02 {
			t.Errorf("noise %g: first result of 80 %%: %+v, %d below the limit, expected 1", noise, c, h.below)
		}
		if c := h.judge(80e9, 0, 0.95, at.Add(time.Minute)); !c.Regressed || c.Below != 2 {
			t.Errorf("noise %g: the second result of 80 %% did not confirm it: %+v", noise, c)
		}
		if c := h.judge(100e9, 0, 0.95, at.Add(time.Hour)); c.Regressed || c.Below != 0 {
			t.Errorf("noise %g: mended, but still regressed: %+v", noise, c)
		}
	}
}

// Three results far below, one after the other; any other result in between begins the count anew.
func TestCollapseCountsInARow(t *testing.T) {
	for _, c := range []struct {
		warn    float64
		results []float64 // GB/s, of 100
		want    []int
	}{
		{0.95, []float64{70, 70, 90}, []int{1, 2, 0}},
		{0.95, []float64{79, 60, 10, 79.9}, []int{1, 2, 3, 4}},
		{0.95, []float64{90, 90, 70}, []int{0, 0, 1}},
		{0.95, []float64{70, 70, 100, 70}, []int{1, 2, 0, 1}},
		{0.95, []float64{80, 80, 80}, []int{0, 0, 0}},
		{0.75, []float64{78, 78, 70}, []int{0, 0, 1}}, // what the site allows is no collapse
	} {
		h := history{at: probestest.Origin}
		for range 30 {
			h.result(100e9)
		}
		for i, gb := range c.results {
			if got := h.judge(gb*1e9, 0, c.warn, h.at.Add(time.Duration(i+1)*time.Hour)); got.Collapsed != c.want[i] || got.Collapsed > got.Below {
				t.Errorf("share %g, %v: result %d: %+v, expected %d collapsed", c.warn, c.results, i, got, c.want[i])
			}
		}
	}
	// Noise explains more than a fifth.
	rnd := rand.New(rand.NewPCG(9, 10))
	h := history{at: probestest.Origin}
	for range 60 {
		h.result(100e9 * (1 + 0.2*rnd.NormFloat64()))
	}
	if c := h.judge(75e9, 0, 0.95, h.at.Add(4*time.Hour)); c.Below != 0 || c.Collapsed != 0 {
		t.Errorf("75 %% with a noise of 20 %%: %+v", c)
	}
}

// The small message has a median of its own, which late ones do not move.
func TestLatency(t *testing.T) {
	b, at := baseline{}, probestest.Origin
	result := func(latency time.Duration) *probes.LatencyComparison {
		at = at.Add(4 * time.Hour)
		c := b.judge(100e9, probes.SecondsOf(latency), 0.95, at)
		b.learn(100e9, probes.SecondsOf(latency), c.Latency != nil && c.Latency.Late, at)
		return c.Latency
	}
	for i := range enough {
		if c := result(time.Duration(19+i%3) * time.Microsecond); c.Ratio.State == fabric.OK || c.Late || c.Samples != i {
			t.Errorf("result %d is compared: %+v", i, c)
		}
	}
	if c := result(40 * time.Microsecond); c.Late || math.Abs(c.Ratio.Value-2) > 1e-12 || c.Median.Value != 20e-6 || c.MAD.Value.Duration() != time.Microsecond || c.Samples != enough {
		t.Errorf("twice the median: %+v", c)
	}
	for i := range 200 { // a month
		if c := result(41 * time.Microsecond); !c.Late || c.Median.Value != 20e-6 {
			t.Fatalf("late result %d: %+v", i, c)
		}
	}
	if c := result(0); c != nil {
		t.Errorf("no small message: %+v", c)
	}
	if c := result(time.Nanosecond); c.Late || c.Ratio.State != fabric.OK {
		t.Errorf("a fast one: %+v", c)
	}
}

func TestSmallMessage(t *testing.T) {
	of := func(sizes ...uint64) *probes.Result {
		r := &probes.Result{Outcome: probes.OK}
		for _, size := range sizes {
			r.Measurements = append(r.Measurements, probes.Measurement{Bytes: size, Time: probes.Seconds(size) / 1e9})
		}
		return r
	}
	for _, c := range []struct {
		r    *probes.Result
		want uint64 // 0: none
	}{
		{of(), 0}, {of(1024), 0}, {of(1024, 1<<20), 1024}, {of(4096, 1024, 1<<20), 1024}, {of(1<<20, 1024), 0}, {of(1024, 1024), 0},
	} {
		m := c.r.SmallMessage()
		if (m == nil) != (c.want == 0) || m != nil && m.Bytes != c.want {
			t.Errorf("%+v: %+v, expected %d bytes", c.r.Measurements, m, c.want)
		}
	}
	for _, took := range []probes.Seconds{0, -1, probes.Slowest + 1} {
		r := of(1024, 1<<20)
		r.Measurements[0].Time = took
		if m := r.SmallMessage(); m != nil {
			t.Errorf("it took %s: %+v", took, m)
		}
	}
}

// A month later it must still be one: results that are regressed do not become what is normal.
func TestRegressionStaysOne(t *testing.T) {
	h := history{at: probestest.Origin}
	for range 30 {
		h.result(100e9)
	}
	for range 180 {
		h.result(80e9)
	}
	if h.regressed != 180 || !h.last.Regressed || h.last.Median.Value != 100e9 {
		t.Errorf("%d of 180 results of 80 %% are regressed, the last is %+v", h.regressed, h.last)
	}
}

func TestNoiseIsNoRegression(t *testing.T) {
	for _, noise := range []float64{0.005, 0.02, 0.05, 0.1} {
		runs := 10000
		if testing.Short() {
			runs = 2000
		}
		rnd := rand.New(rand.NewPCG(3, 4))
		h := history{at: probestest.Origin}
		for range runs {
			h.at = h.at.Add(4 * time.Hour)
			draw := func() float64 { return 100e9 * max(0.1, 1+noise*rnd.NormFloat64()) }
			first := draw()
			c := h.judge(first, 0, 0.95, h.at)
			if !c.Regressed {
				h.learn(first, 0, false, h.at)
			}
			if h.below == 1 {
				c = h.judge(draw(), 0, 0.95, h.at.Add(time.Minute))
			}
			if c.Regressed {
				h.regressed++
			}
			if c.Drifted {
				h.drifted = true
			}
		}
		t.Logf("noise %g: best median %.2f of the true one after %d results", noise, h.best/100e9, runs)
		if h.regressed > 0 || h.drifted {
			t.Errorf("noise %g: %d of %d results are regressed, drifted is %v: expected none", noise, h.regressed, runs, h.drifted)
		}
	}
}

func TestSlowLossIsReportedAsDrift(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	h := history{at: probestest.Origin}
	level := 100e9
	for i := range 2000 {
		h.result(level * (1 + 0.003*rnd.NormFloat64()))
		if i > 100 {
			level *= 0.9999 // 10 % in 1,000 results, which is half a year
		}
		if h.drifted {
			if h.regressed > 0 {
				t.Errorf("no single result lost much, but %d are regressed", h.regressed)
			}
			if loss := 1 - level/100e9; loss < 0.045 || loss > 0.08 {
				t.Errorf("reported at a loss of %.1f %%, expected 5 to 8 %%", 100*loss)
			}
			return
		}
	}
	t.Errorf("a loss of %.0f %% was not reported", 100*(1-level/100e9))
}

func TestWindowIsBounded(t *testing.T) {
	var b baseline
	for i := range 1000 {
		b.learn(1e9, 0, false, probestest.Origin.Add(time.Duration(i)*time.Minute))
	}
	if len(b.samples) != windowSize {
		t.Errorf("%d samples, expected %d", len(b.samples), windowSize)
	}
	b.learn(2e9, 0, false, probestest.Origin.Add(30*24*time.Hour))
	if len(b.samples) != windowLeast {
		t.Errorf("%d samples after a month without any, expected the newest %d", len(b.samples), windowLeast)
	}
}

func TestFingerprintsAreForgottenLeastUsedFirst(t *testing.T) {
	bs := baselines{}
	for i := range 20 {
		at := probestest.Origin.Add(time.Duration(i) * time.Hour)
		bs.of("kept", at).below = 7
		bs.of(fmt.Sprint("driver ", i), at)
	}
	if len(bs) != baselinesPerProbe || bs["kept"] == nil || bs["kept"].below != 7 || bs["driver 19"] == nil || bs["driver 12"] != nil {
		t.Errorf("got %d fingerprints: %v", len(bs), bs)
	}
}

func TestFingerprintHasWhatMustBeEqual(t *testing.T) {
	base := func() (probes.Result, probes.Target, int) {
		return probes.Result{
			Key: probes.Key{Kind: probes.Rail, Device: "mlx5_0", Port: 1}, Outcome: probes.OK, NCCL: "2.27.3", Driver: "580.65.06", CUDA: "13.0", GPUs: []string{"GPU-a", "GPU-b"},
			Measurements: []probes.Measurement{{Op: probes.AllReduce, Type: probes.Float32, Bytes: 1 << 20, Ranks: 2, BusBW: 1e9}},
		}, probes.Target{Conditions: []string{"firmware 28.43", "nvlink 18"}}, 4
	}
	prints := map[string]string{}
	check := func(name string, change func(*probes.Result, *probes.Target, *int), differs bool) {
		r, target, ctas := base()
		change(&r, &target, &ctas)
		print := fingerprint(r, target, ctas)
		r, target, ctas = base()
		if same := print == fingerprint(r, target, ctas); same == differs {
			t.Errorf("%s: fingerprint %q, expected another: %v", name, print, differs)
		}
		if other, ok := prints[print]; ok && differs {
			t.Errorf("%s and %s have one fingerprint", name, other)
		}
		prints[print] = name
	}
	check("device", func(r *probes.Result, _ *probes.Target, _ *int) { r.Device = "mlx5_1" }, true)
	check("kind", func(r *probes.Result, _ *probes.Target, _ *int) { r.Kind = probes.Socket }, true)
	check("op", func(r *probes.Result, _ *probes.Target, _ *int) { r.Measurements[0].Op = probes.Reduce }, true)
	check("type", func(r *probes.Result, _ *probes.Target, _ *int) { r.Measurements[0].Type = probes.Float16 }, true)
	check("size", func(r *probes.Result, _ *probes.Target, _ *int) { r.Measurements[0].Bytes /= 2 }, true)
	check("ranks", func(r *probes.Result, _ *probes.Target, _ *int) { r.Measurements[0].Ranks = 8 }, true)
	check("channels", func(_ *probes.Result, _ *probes.Target, ctas *int) { *ctas = 8 }, true)
	check("nccl", func(r *probes.Result, _ *probes.Target, _ *int) { r.NCCL = "2.28.9" }, true)
	check("driver", func(r *probes.Result, _ *probes.Target, _ *int) { r.Driver = "590.10" }, true)
	check("gpu", func(r *probes.Result, _ *probes.Target, _ *int) { r.GPUs[1] = "GPU-c" }, true)
	check("firmware", func(_ *probes.Result, t *probes.Target, _ *int) { t.Conditions[0] = "firmware 28.44" }, true)
	check("order", func(_ *probes.Result, t *probes.Target, _ *int) {
		t.Conditions[0], t.Conditions[1] = t.Conditions[1], t.Conditions[0]
	}, false)
	check("path", func(r *probes.Result, _ *probes.Target, _ *int) {
		r.Path = probes.Known(probes.PathSocket, "log", probestest.Origin)
	}, false)
	check("bandwidth", func(r *probes.Result, _ *probes.Target, _ *int) { r.Measurements[0].BusBW = 2e9 }, false)

	for name, change := range map[string]func(*probes.Result){
		"failed":          func(r *probes.Result) { r.Outcome = probes.Failed },
		"aborted":         func(r *probes.Result) { r.Outcome = probes.Aborted },
		"one rank":        func(r *probes.Result) { r.Measurements[0].BusBW = 0 },
		"no measurement":  func(r *probes.Result) { r.Measurements = nil },
		"not a number":    func(r *probes.Result) { r.Measurements[0].BusBW = math.NaN() },
		"infinite":        func(r *probes.Result) { r.Measurements[0].BusBW = math.Inf(1) },
		"less than none":  func(r *probes.Result) { r.Measurements[0].BusBW = -1 },
		"beyond all lies": func(r *probes.Result) { r.Measurements[0].BusBW = 1e300 },
	} {
		r, target, ctas := base()
		change(&r)
		if print := fingerprint(r, target, ctas); print != "" {
			t.Errorf("%s: fingerprint %q, expected none", name, print)
		}
	}
}
