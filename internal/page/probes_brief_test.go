// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"reflect"
	"testing"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/probes"
)

const withoutGPUDirect = "without GPUDirect RDMA"

// A probe that NCCL ran without GPUDirect RDMA is not ok, unless the machine is made so.
func TestProbeWithoutGPUDirect(t *testing.T) {
	for name, c := range map[string]struct {
		used                      bool
		gdr                       func(*fabric.GDR)
		status, result, transport string
	}{
		"used":          {true, fabrictest.Usable, status.StatusOK, "ok", "ib"},
		"lost":          {false, fabrictest.Usable, status.StatusFailed, withoutGPUDirect, "ib"},
		"forbidden":     {false, fabrictest.Blocked(fabric.GDRLevel, "LOC"), status.StatusFailed, withoutGPUDirect, "ib"},
		"far by design": {false, fabrictest.Blocked(fabric.GDRDistance, "NODE"), status.StatusOK, "ok", "ib, without GPUDirect RDMA"},
		"not known":     {false, func(g *fabric.GDR) { *g = fabric.GDR{GPU: g.GPU} }, status.StatusFailed, withoutGPUDirect, "ib"},
	} {
		n := fabrictest.WithGPUs()
		n.At = probedAt()
		fabrictest.Verdicts(n, c.gdr)
		r := probedResult(probes.Transport, 0)
		r.Path, r.GPUDirect = probes.Known(probes.PathIB, "NCCL log", n.At), probes.Known(c.used, "NCCL log", n.At)
		s := probes.Status{Probes: []probes.ProbeStatus{{Key: r.Key, Runs: 1, Last: &r, LastGood: &r, LastRun: r.At}}}
		conf := probes.DefaultConfig()
		p := pagesOf(s, &conf)
		v := p.view(n, nil, n.At)
		if got := status.Of(&status.Inputs{Node: n, Probes: v.probed}).Probes[0]; got.Status != c.status || got.Result != c.result || got.Transport != c.transport {
			t.Errorf("%s: %s, %q over %q", name, got.Status, got.Result, got.Transport)
		}
		if lost := c.status == status.StatusFailed; (v.Verdict.Text == "1 of 1 probe has a problem") != lost || lost && (len(v.Troubles) != 1 || v.Troubles[0].What != c.result || v.Troubles[0].Remedy == "") {
			t.Errorf("%s: the page of probes says %+v, %+v", name, v.Verdict, v.Troubles)
		}
	}
}

// Probes of a kind with the same result are one card; one that has never run says why.
func TestProbeCards(t *testing.T) {
	rail := func(device, result string, bandwidth float64) status.Probe {
		state := map[string]string{"ok": status.StatusOK}[result]
		return status.Probe{Name: "rail " + device + " port 1", Kind: "rail", Device: device, Status: cmp.Or(state, status.StatusFailed), Severity: "warning", Result: result, BusBandwidth: &bandwidth, Ratio: new(bandwidth / 44e9)}
	}
	rows := probeRows([]status.Probe{
		{Name: "node", Kind: "node", Status: status.StatusNone, Result: "none yet", Skipped: "no GPU driver is loaded"},
		rail("mlx5_0", "ok", 44e9), rail("mlx5_1", withoutGPUDirect, 18e9), rail("mlx5_2", "ok", 43e9),
	})
	want := []probeRow{
		{Label: "node", Result: "not run", Class: "quiet", Facts: "no GPU driver is loaded"},
		{Label: "2 rails", Result: "ok", Class: "good", Facts: "43.00 to 44.00 GB/s · 98 to 100 %", Members: []probeMember{{Name: "mlx5_0"}, {Name: "mlx5_2"}}},
		{Label: "rail mlx5_1", Result: withoutGPUDirect, Class: "unsure", Facts: "18.00 GB/s · 41 %"},
	}
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("%+v", rows)
	}
}
