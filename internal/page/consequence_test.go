// SPDX-License-Identifier: Apache-2.0

package page

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/probes"
)

// A slow port and the probe that it slows down are one problem. A probe that is slower than that is another one.
func TestCauseIsCountedOnce(t *testing.T) {
	slow := func() *fabric.Node {
		n := fabrictest.WithGPUs()
		n.At = probedAt()
		n.Policy.PortRates = map[fabric.Role]float64{fabric.RoleCompute: 50e9}
		n.HCAs[0].Ports[0].Rate.Value.BytesPerSecond, n.NetDevs[0].Speed.Value = 25e9, 25e9
		fabrictest.Verdicts(n, fabrictest.Usable)
		return n
	}
	for ratio, want := range map[float64]string{0.5: "1 problem found", 0.2: "2 problems found"} {
		r := probedResult(probes.Rail, 0)
		r.Key = probes.Key{Kind: probes.Rail, Device: "mlx5_0", Port: 1}
		r.Path = probes.Known(probes.PathIB, "NCCL log", r.At)
		r.Comparison.Ratio, r.Comparison.Regressed = probes.Known(ratio, "baseline", r.At), true
		s := probes.Status{Probes: []probes.ProbeStatus{{Key: r.Key, Runs: 1, Last: &r, LastGood: &r, LastRun: r.At}}}
		c := probes.DefaultConfig()
		page := landingOf(t, slow, func(o *LandingOptions) { o.Probes = pagesOf(s, &c) })
		contains(t, page, want)
		if follows := strings.Contains(page, "What follows from it:"); follows != (ratio == 0.5) {
			t.Errorf("at %g of its baseline: the probe is listed as a consequence: %t", ratio, follows)
		}
	}
}

// A badge has the severity of its own check, as alerts, tiles and /status.json have: that of a cause is not
// raised by what follows.
func TestBadgesHaveTheSeverityOfTheirChecks(t *testing.T) {
	page := landingOf(t, func() *fabric.Node {
		n := fabrictest.Healthy()
		n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_IB_GID_INDEX", Value: "0", IsNumber: true, Source: "/etc/nccl.conf:1"}}
		n.Derive()
		return n
	})
	cause, follows, found := strings.Cut(page, "What follows from it:")
	if !found {
		t.Fatal("nothing follows")
	}
	if !strings.Contains(cause, `<span class="badge unsure">info</span>`) || strings.Contains(cause, `<span class="badge bad">`) {
		t.Error("nccl_gid_index is not info")
	}
	contains(t, follows, `<span class="badge bad">critical</span>`)
}

// The result of a probe over TCP is not shown as good.
func TestCompletedIsNotGood(t *testing.T) {
	s := probedStatus()
	c := probes.DefaultConfig()
	rail := &s.Probes[2]
	rail.Last.Comparison = probes.Comparison{}
	n := fabrictest.Healthy()
	v := pagesOf(s, &c).view(n, nil, probedAt())
	if got := v.Probes[2]; got.Path.Class != "bad" || got.Result.Class == "good" {
		t.Errorf("over %+v: %+v", got.Path, got.Result)
	}
}
