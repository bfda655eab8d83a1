// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"testing"
	"time"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
)

// Who states what of the ports for training, and what nobody states.
func TestJudgedBy(t *testing.T) {
	two := 2
	recorded := func(n *fabric.Node) {
		for i := range n.HCAs {
			p := &n.HCAs[i].Ports[0]
			p.Seen.Since, p.State.At = time.Date(2026, 11, 20+i, 3, 0, 0, 0, time.UTC), time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC)
		}
	}
	const guesses = "judged by guesses only: nothing states what this node should have; run gpufabric_exporter check --write-manifest=FILE on a node that is in order and name the file in expected.manifest"
	for name, c := range map[string]struct {
		edit  func(n *fabric.Node)
		want  string
		ports map[fabric.Authority]int
	}{
		"nobody": {func(*fabric.Node) {}, guesses, map[fabric.Authority]int{}},
		"record": {
			recorded, "judged by: record (2 links, 2 rates since 2026-11-21); guesses: 2 roles", map[fabric.Authority]int{fabric.ByRecord: 2},
		},
		"the number of ports": {
			func(n *fabric.Node) { n.Policy.ComputePorts = &two }, "judged by: configuration (2 roles, 2 links); guesses: 2 rates", map[fabric.Authority]int{fabric.ByConfiguration: 2},
		},
		"a number that does not say which ports": {
			func(n *fabric.Node) {
				one := 1
				n.Policy.ComputePorts = &one
				for i := range n.HCAs {
					n.HCAs[i].Ports[0].State.Value = fabric.PortDown
					n.HCAs[i].Ports[0].Seen = fabric.PortHistory{}
				}
			},
			"judged by: configuration (their number); guesses: 2 roles, 2 links, 2 rates",
			map[fabric.Authority]int{fabric.ByConfiguration: 2},
		},
		"rates, and a record": {
			func(n *fabric.Node) {
				recorded(n)
				n.Policy.PortRates = map[fabric.Role]float64{fabric.RoleCompute: 50e9}
			},
			"judged by: configuration (2 rates), record (2 links since 2026-11-21); guesses: 2 roles",
			map[fabric.Authority]int{fabric.ByConfiguration: 2, fabric.ByRecord: 2},
		},
		"a manifest of one port": {
			func(n *fabric.Node) {
				n.Policy.Manifest = &fabric.Manifest{Devices: map[string]map[string]string{"mlx5_0": {"port_1_role": "compute", "port_1_rate": "400 Gb/s"}}}
			},
			"judged by: manifest (1 role, 1 link, 1 rate); guesses: 1 role, 1 link, 1 rate",
			map[fabric.Authority]int{fabric.ByManifest: 1},
		},
		"a link that is seen for the first time": {
			func(n *fabric.Node) {
				n.Policy.PortRates = map[fabric.Role]float64{fabric.RoleCompute: 50e9}
			},
			"judged by: configuration (2 rates); guesses: 2 roles, 2 links",
			map[fabric.Authority]int{fabric.ByConfiguration: 2},
		},
		"a port for storage": {
			func(n *fabric.Node) {
				recorded(n)
				n.Policy.Roles = fabrictest.Healthy().Policy.Roles
				n.Policy.Roles[0].Role = fabric.RoleStorage
			},
			"judged by: no port for training is known, and nothing states how many there should be",
			map[fabric.Authority]int{},
		},
		"no port, of two": {
			func(n *fabric.Node) { n.HCAs, n.Policy.ComputePorts = nil, &two },
			"judged by: configuration (2 ports for training expected); none is known",
			map[fabric.Authority]int{},
		},
		"no list of devices": {
			func(n *fabric.Node) {
				n.HCAs, n.Sources[0] = nil, fabric.Source{Name: fabric.SourceClass, Reason: fabric.ReasonIO}
			},
			"judged by: not known, because the list of RDMA devices was not read: the read fails", nil,
		},
		"a device that shows no ports": {
			func(n *fabric.Node) { recorded(n); n.HCAs[0].Ports = nil },
			"judged by: not known, because the ports of mlx5_0 were not read", nil,
		},
		"no NCCL configuration": {
			func(n *fabric.Node) { n.Sources[1].Up, n.Sources[1].Reason = false, fabric.ReasonPrivilege },
			"judged by: not known, because the NCCL configuration was not read: not permitted for this user", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := diagnose.JudgedBy(diagnosetest.Fresh(c.edit))
			if got := j.Text(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if j.Known() != (c.ports != nil) {
				t.Errorf("known: %v", j.Known())
			}
			for _, a := range diagnose.Authorities() {
				if got := j.PortsBy(a); got != c.ports[a] {
					t.Errorf("%d ports by %s, want %d", got, a, c.ports[a])
				}
			}
		})
	}
}
