// SPDX-License-Identifier: Apache-2.0

package page

import (
	"testing"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/probes"
)

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
		if got := probesInBrief(&s, n)[0]; got.Status != c.status || got.Result != c.result || got.Transport != c.transport {
			t.Errorf("%s: %s, %q over %q", name, got.Status, got.Result, got.Transport)
		}
	}
}
