// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// Devices that are for something else make up for no compute port.
func TestMovedStorageIsNoComputePort(t *testing.T) {
	n := diagnosetest.Eight()
	n.HCAs = n.HCAs[:7]
	storage := diagnosetest.Unseen(&fabric.HCA{Name: "mlx5_9", PCI: fabric.Known("0000:99:00.0", "", diagnosetest.At)})
	storage.Function = fabric.Known(fabric.FunctionVF, "", diagnosetest.At)
	n.HCAs = append(n.HCAs, storage)
	if failed := verdict.Failures(diagnosetest.Ask(n, "compute_ports")); len(failed) != 1 {
		t.Errorf("%+v", failed)
	}
}

// TestComputePorts: too few are critical. More than expected are a warning, unless the rest is not cabled;
// what cannot be read is no acquittal.
func TestComputePorts(t *testing.T) {
	at := func(s fabric.PortState) fabric.Fact[fabric.PortState] {
		return fabric.Fact[fabric.PortState]{Value: s, State: fabric.OK}
	}
	hidden := func(r fabric.Reason) fabric.Fact[fabric.PortState] {
		return fabric.Fact[fabric.PortState]{State: fabric.Unknown, Reason: r}
	}
	for _, test := range []struct {
		name   string
		states [2]fabric.Fact[fabric.PortState]
		expect int
		want   verdict.Status // of compute_ports
		more   verdict.Status // of compute_ports_surplus
	}{
		{"as many as expected", [2]fabric.Fact[fabric.PortState]{at(fabric.PortActive), at(fabric.PortActive)}, 2, verdict.OK, verdict.OK},
		{"too few", [2]fabric.Fact[fabric.PortState]{at(fabric.PortActive), at(fabric.PortActive)}, 3, verdict.Failed, verdict.OK},
		{"too many", [2]fabric.Fact[fabric.PortState]{at(fabric.PortActive), at(fabric.PortActive)}, 1, verdict.OK, verdict.Failed},
		{"one is not cabled", [2]fabric.Fact[fabric.PortState]{at(fabric.PortActive), at(fabric.PortDown)}, 1, verdict.OK, verdict.OK},
		{"too many, one hidden", [2]fabric.Fact[fabric.PortState]{at(fabric.PortActive), hidden(fabric.ReasonIO)}, 1, verdict.OK, verdict.Unknown},
		{"too many of EFA", [2]fabric.Fact[fabric.PortState]{hidden(fabric.ReasonDriverConstant), hidden(fabric.ReasonDriverConstant)}, 1, verdict.OK, verdict.Failed},
		{"down, which another check reports", [2]fabric.Fact[fabric.PortState]{at(fabric.PortDown), at(fabric.PortDown)}, 2, verdict.OK, verdict.OK},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := diagnosetest.WithDevices("")
			n.Policy.ComputePorts = &test.expect
			for i := range n.HCAs {
				n.HCAs[i].Ports[0].Role = fabric.Fact[fabric.Role]{Value: fabric.RoleCompute, State: fabric.OK}
				n.HCAs[i].Ports[0].State = test.states[i]
			}
			for id, want := range map[string]verdict.Status{"compute_ports": test.want, "compute_ports_surplus": test.more} {
				if list := diagnosetest.Ask(n, id); len(list) != 1 || list[0].Status != want {
					t.Errorf("%s: got %+v, want %s", id, list, want)
				}
			}
		})
	}
}

// A port with the default route is of role management. Where no other kind of NIC is for training, it may be
// one of those that miss.
func TestMissingPortBesideDefaultRoute(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(n *fabric.Node)
		says bool
		want verdict.Status // unknown: it is missing only if that guess is right
	}{
		"of the board of the others": {nil, true, verdict.Unknown},
		"of another board":           {func(n *fabric.Node) { n.HCAs[0].BoardID.Value = "Y" }, false, verdict.Failed},
		"the only one":               {func(n *fabric.Node) { n.HCAs = n.HCAs[:1] }, true, verdict.Failed},
		"without a link":             {func(n *fabric.Node) { n.HCAs[0].Ports[0].State.Value = fabric.PortDown }, false, verdict.Failed},
		"of a DPU":                   {func(n *fabric.Node) { n.NetDevs[0].PreferredRoute.Value = false }, false, verdict.Failed},
		"its role is stated":         {func(n *fabric.Node) { n.HCAs[0].Ports[0].RoleBy = fabric.ByConfiguration }, false, verdict.Failed},
	} {
		n := &fabric.Node{Policy: &fabric.Policy{ComputePorts: new(2)}, ClassPresent: fabric.Known(true, "", diagnosetest.At)}
		n.HCAs = append(diagnosetest.Card("a", "X", fabric.PortActive), diagnosetest.Card("b", "X", fabric.PortActive)...)
		p := &n.HCAs[0].Ports[0]
		p.Role, p.NetDev = fabric.Known(fabric.RoleManagement, "route", diagnosetest.At), fabric.Known("eth0", "ndevs", diagnosetest.At)
		p.RoleBy = fabric.ByNobody
		n.NetDevs = []fabric.NetDev{{Name: "eth0", PreferredRoute: fabric.Known(true, "route", diagnosetest.At)}}
		if test.edit != nil {
			test.edit(n)
		}
		v := diagnosetest.Alone(t, n, "compute_ports")
		if v.Status != test.want || strings.Contains(v.Remedy, "give it role compute") != test.says || strings.Contains(v.Evidence, "a_0") != test.says {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
