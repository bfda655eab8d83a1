// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// TestComputePorts: ports that nobody cabled are no surplus, and what cannot be read acquits nobody of one.
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
		want   Status
	}{
		{"as many as expected", [2]fabric.Fact[fabric.PortState]{at(fabric.PortActive), at(fabric.PortActive)}, 2, OK},
		{"too few", [2]fabric.Fact[fabric.PortState]{at(fabric.PortActive), at(fabric.PortActive)}, 3, Failed},
		{"too many", [2]fabric.Fact[fabric.PortState]{at(fabric.PortActive), at(fabric.PortActive)}, 1, Failed},
		{"one is not cabled", [2]fabric.Fact[fabric.PortState]{at(fabric.PortActive), at(fabric.PortDown)}, 1, OK},
		{"too many, one hidden", [2]fabric.Fact[fabric.PortState]{at(fabric.PortActive), hidden(fabric.ReasonIO)}, 1, Unknown},
		{"too many of EFA", [2]fabric.Fact[fabric.PortState]{hidden(fabric.ReasonDriverConstant), hidden(fabric.ReasonDriverConstant)}, 1, Failed},
		{"down, which another check tells", [2]fabric.Fact[fabric.PortState]{at(fabric.PortDown), at(fabric.PortDown)}, 2, OK},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := withDevices("")
			n.Policy.ComputePorts = &test.expect
			for i := range n.HCAs {
				n.HCAs[i].Ports[0].Role = fabric.Fact[fabric.Role]{Value: fabric.RoleCompute, State: fabric.OK}
				n.HCAs[i].Ports[0].State = test.states[i]
			}
			if list := Run(n, []*Check{Find("compute_ports")}); len(list) != 1 || list[0].Status != test.want {
				t.Errorf("got %+v, want %s", list, test.want)
			}
		})
	}
}
