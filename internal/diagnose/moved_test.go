// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

var aboutMoved = []*verdict.Check{diagnose.Find("compute_ports"), diagnose.Find("port_active"), diagnose.Find("port_rate"), diagnose.Find("nccl_devices"), diagnose.Find("nccl_socket_interface"), diagnose.Find("manifest"), diagnose.Find("mtu_uniform"), diagnose.Find("roce_dscp")}

// What pods have fails no check and leaves none unknown, seen before or not; what is missing beside it still fails.
func TestMovedIsNoFault(t *testing.T) {
	for name, moved := range map[string]func(*fabric.HCA) fabric.HCA{
		"seen": func(h *fabric.HCA) fabric.HCA { return h.Elsewhere(diagnosetest.At) }, "never seen": diagnosetest.Unseen,
		"interface": func(h *fabric.HCA) fabric.HCA {
			h.Ports[0].NetDev = fabric.UnknownFact[string](fabric.ReasonMoved, "", diagnosetest.At)
			return *h
		},
	} {
		for _, count := range []int{1, 7, 8} {
			n := diagnosetest.Eight()
			for i := range count {
				n.HCAs[i] = moved(&n.HCAs[i])
			}
			n.NetDevs = n.NetDevs[count:]
			for _, d := range n.NetDevs {
				n.Interfaces.Value = append(n.Interfaces.Value, fabric.Interface{Name: d.Name, OperState: fabric.Known("up", "", diagnosetest.At)})
			}
			n.DerivePorts()
			if list := diagnose.Run(n, aboutMoved); len(verdict.Failures(list))+len(verdict.Unknowns(list)) > 0 {
				t.Errorf("%s, %d: %+v", name, count, append(verdict.Failures(list), verdict.Unknowns(list)...))
			}
			if text := diagnose.Elsewhere(n); !strings.Contains(text, "mlx5_0") || strings.Contains(text, "mlx5_7") != (count == 8) {
				t.Errorf("%s, %d: %q", name, count, text)
			}
			n.HCAs = n.HCAs[:7] // one left the bus
			n.DerivePorts()
			failed := map[string]bool{}
			for _, v := range verdict.Failures(diagnose.Run(n, aboutMoved)) {
				failed[v.Check.ID] = true
			}
			if !failed["compute_ports"] || !failed["manifest"] {
				t.Errorf("%s, %d moved, one gone: failed are %v", name, count, failed)
			}
		}
	}
	if text := diagnose.Elsewhere(diagnosetest.Eight()); text != "" {
		t.Errorf("nothing is elsewhere: %q", text)
	}
}
