// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"math"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/lint"
)

// Times that were calculated by hand from the formulas of docs/COMMANDS.md.
func TestModel(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		what       string
		got, wants float64
	}{
		{"ring of 8 over NVLink, Simple: 8.4 + 14×3.4 µs, 2×7/8 of the bytes", shape{1, 8, LinkNVLink}.ring(gib, 450e9), 56.0e-6 + gib*1.75/450e9},
		{"ring of 8, small, LL: 6.6 + 14×0.6 µs at half the bandwidth", shape{1, 8, LinkNVLink}.ring(1024, 450e9), 15.0e-6 + 1024*1.75/225e9},
		{"ring of 4 nodes with 8: 56 hops inside, 6 between", shape{4, 8, LinkNVLink}.ring(gib, 400e9), (8.4+56*3.4+6*14)*1e-6 + gib*62.0/32/400e9},
		{"ring of 2 nodes with 1 over TCP or a rail, PCIe inside", shape{2, 1, LinkPCIe}.ring(gib, 50e9), (8.4+2*14)*1e-6 + gib/50e9},
		{"tree of 4 nodes with 8: 7 hops and 2 levels, twice", shape{4, 8, LinkNVLink}.tree(gib, 400e9), (8.4+2*(7*4+2*14))*1e-6 + gib*2/(0.92*400e9)},
		{"tree of 5 nodes has the levels of 4", shape{5, 8, LinkNVLink}.tree(gib, 400e9), (8.4+2*(7*4+2*14))*1e-6 + gib*2/(0.92*400e9)},
	} {
		if math.Abs(c.got-c.wants) > 1e-9*c.wants+1e-12 {
			t.Errorf("%s: %g s, want %g s", c.what, c.got, c.wants)
		}
	}
}

// The estimate between nodes of a rack with NVLink says what it does not hold for.
func TestRack(t *testing.T) {
	for scenario, want := range map[string]bool{"healthy-gb200": true, "healthy-dgx-b200": false} {
		a := For(observed(t, scenario), Workload{NCCL: lint.Newest()})
		found := false
		for _, e := range a.Estimates {
			found = found || e.Nodes > 1 && strings.Contains(e.Basis, "only for nodes in different NVLink domains")
		}
		if found != want {
			t.Errorf("%s: %+v", scenario, a.Estimates)
		}
	}
}

// Estimates take the links of the node, and measurements are shown beside them.
func TestEstimates(t *testing.T) {
	find := func(a Advice, link Link, basis string, bytes int64) *Estimate {
		for i := range a.Estimates {
			if e := &a.Estimates[i]; e.Link == link && e.Bytes == bytes && strings.Contains(e.Basis, basis) {
				return e
			}
		}
		return nil
	}
	for scenario, want := range map[string]struct {
		link      Link
		bandwidth float64
		nodes     int
	}{
		"healthy":              {LinkNVLink, 18 * 25e9, 1},
		"healthy-nvlink-pairs": {LinkPCIe, 16 * 16e9 * 128 / 130 / 8, 1},
		"healthy-dgx-b200":     {LinkInfiniBand, 8 * 50e9, 2},
		"healthy-l40s":         {LinkPCIe, 16 * 16e9 * 128 / 130 / 8, 1},
	} {
		a := For(observed(t, scenario), Workload{NCCL: lint.Newest(), MessageBytes: 123456789})
		e := find(a, want.link, "", 123456789)
		if e == nil || math.Abs(*e.Bandwidth/want.bandwidth-1) > 1e-3 || e.Nodes != want.nodes {
			t.Errorf("%s: %+v", scenario, a.Estimates)
		}
	}
	node := observed(t, "healthy")
	w := Workload{NCCL: lint.Newest(), Nodes: 4, Iteration: time.Second, IterationBytes: 14e9, Measured: []Measured{
		{Link: LinkNVLink, Ranks: 8, Bytes: 64 << 20, Seconds: 400e-6, BusBW: 290e9, From: "probe node"},
		{Link: LinkTCP, Ranks: 2, Bytes: 64 << 20, Seconds: 1, BusBW: 2e9, From: "probe socket"},
		{Link: LinkRoCE, Port: "mlx5_0:1", Ranks: 2, Bytes: 64 << 20, Seconds: 1, BusBW: 46e9, From: "probe rail"},
	}}
	a := For(node, w)
	if e := find(a, LinkNVLink, "", 64<<20); e == nil || e.Measured == nil || e.Measured.BusBW != 290e9 {
		t.Errorf("%+v", e)
	}
	if e := find(a, LinkTCP, "measured by probe socket", 64<<20); e == nil || *e.Bandwidth != 2e9 {
		t.Errorf("%+v", e)
	}
	if e := find(a, LinkRoCE, "measured", 64<<20); e != nil {
		t.Errorf("one port of eight counts for all: %+v", e)
	}
	for i := range node.HCAs {
		if h := &node.HCAs[i]; h.Serves(fabric.RoleCompute) && h.Name != "mlx5_0" {
			m := w.Measured[2]
			m.Port = h.Name + ":1"
			w.Measured = append(w.Measured, m)
		}
	}
	a = For(node, w)
	if e := find(a, LinkRoCE, "measured by probe rail", 64<<20); e == nil || math.Abs(*e.Bandwidth-8*46e9) > 1 {
		t.Errorf("%+v", e)
	}
	if len(a.Shares) != 3 || a.Shares[0].Share > 0.1 || !strings.Contains(a.Shares[0].Text, "does not limit this job") || a.Shares[2].Share < 1 || !strings.Contains(a.Shares[2].Text, "contradict each other") {
		t.Errorf("%+v", a.Shares)
	}
	w.Iteration = 200 * time.Millisecond
	if s := For(node, w).Shares[0]; s.Share < 0.3 || s.Share > 0.4 || !strings.Contains(s.Text, "if no computation overlaps with it") {
		t.Errorf("%+v", s)
	}
}
