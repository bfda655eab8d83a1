// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// A manifest that is of another node, older than the board, or contradicts itself is said to be so, and makes
// nothing critical.
func TestManifestOfAnotherNode(t *testing.T) {
	const board = "MT_0000000838" // of fabrictest
	for name, c := range map[string]struct {
		board, role, rate string
		edit              func(h *fabric.HCA)
		critical          bool   // the port has no link, and should have by the manifest
		says              string // the check manifest
	}{
		"of this node":             {board, "compute", "400 Gb/s", func(*fabric.HCA) {}, true, "Changed since the manifest: port 1 rate"},
		"without a board":          {"", "compute", "400 Gb/s", func(*fabric.HCA) {}, true, "Changed since the manifest: port 1 rate"},
		"the board is unknown":     {board, "compute", "400 Gb/s", func(h *fabric.HCA) { h.BoardID = fabric.UnknownFact[string](fabric.ReasonIO, "", h.BoardID.At) }, true, "Changed since"},
		"another board":            {"MT_0000000359", "compute", "400 Gb/s", func(*fabric.HCA) {}, false, "Changed since the manifest: board, port 1 rate"},
		"a board there, none here": {board, "compute", "400 Gb/s", func(h *fabric.HCA) { h.BoardID = fabric.AbsentFact[string]("", h.BoardID.At) }, false, "Changed since the manifest: board"},
		"for another purpose":      {board, "storage", fabric.ManifestNone, func(*fabric.HCA) {}, false, "is ok"},
		"no role":                  {board, "cmpute", "400 Gb/s", func(*fabric.HCA) {}, true, "role is compute, the manifest has cmpute"},
		"no rate":                  {board, "compute", "fast", func(*fabric.HCA) {}, false, "the manifest has fast"},
		"a rate below 0":           {board, "compute", "-400 Gb/s", func(*fabric.HCA) {}, false, "the manifest has -400 Gb/s"},
	} {
		n := diagnosetest.Fresh(func(n *fabric.Node) {
			values := map[string]string{"board": c.board, "port_1_role": c.role, "port_1_rate": c.rate}
			if c.board == "" {
				delete(values, "board")
			}
			n.Policy.Manifest = &fabric.Manifest{Devices: map[string]map[string]string{"mlx5_0": values}}
			p := &n.HCAs[0].Ports[0]
			p.State.Value, p.PhysState.Value, p.Rate, p.Seen = fabric.PortDown, fabric.PhysPolling, fabric.AbsentFact[fabric.Rate]("", n.At), fabric.PortHistory{}
			c.edit(&n.HCAs[0])
		})
		critical, said := false, ""
		for _, v := range diagnose.Run(n, nil) {
			if v.Subject.Device != "mlx5_0" {
				continue
			}
			critical = critical || v.Status == verdict.Failed && v.Severity() == verdict.Critical
			if v.Check.ID == "manifest" {
				said = v.What + ". " + v.Evidence + " is " + string(v.Status)
			}
		}
		if critical != c.critical || !strings.Contains(said, c.says) {
			t.Errorf("%s: critical %v, %q", name, critical, said)
		}
	}
}
