// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"fmt"
	"testing"
	"time"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/verdict"
)

// Ten nodes whose verdicts readers of docs/ROLES.md predict.
func TestRolesDocument(t *testing.T) {
	eight, at := 8, fabrictest.Healthy().At
	for name, c := range map[string]struct {
		ports int
		edit  func(n *fabric.Node)
		code  int
	}{
		"nothing is stated, and all is well":          {8, func(*fabric.Node) {}, 0},
		"a port never had a link":                     {8, func(n *fabric.Node) { dark(n, 3) }, 2},
		"a port had a link, by the record":            {8, func(n *fabric.Node) { dark(n, 3); had(n, 3, at) }, 1},
		"eight ports are expected, and one is down":   {8, func(n *fabric.Node) { n.Policy.ComputePorts = &eight; dark(n, 3) }, 1},
		"ten active where eight are expected":         {10, func(n *fabric.Node) { n.Policy.ComputePorts = &eight }, 2},
		"one of them is down":                         {10, func(n *fabric.Node) { n.Policy.ComputePorts = &eight; dark(n, 3) }, 2},
		"two of them are down":                        {10, func(n *fabric.Node) { n.Policy.ComputePorts = &eight; dark(n, 3); dark(n, 9) }, 0},
		"three of them are down":                      {10, func(n *fabric.Node) { n.Policy.ComputePorts = &eight; dark(n, 3); dark(n, 8); dark(n, 9) }, 1},
		"two of them are down, and one had a link":    {10, func(n *fabric.Node) { n.Policy.ComputePorts = &eight; dark(n, 3); dark(n, 9); had(n, 3, at) }, 1},
		"a port that NCCL_IB_HCA takes by chance":     {12, func(n *fabric.Node) { list(n, "mlx5_1,mlx5_2,mlx5_3,mlx5_10"); dark(n, 11) }, 0},
		"a port that NCCL_IB_HCA names":               {12, func(n *fabric.Node) { list(n, "mlx5_1,mlx5_2,mlx5_3,mlx5_10"); dark(n, 3) }, 1},
		"virtual functions, one of them without link": {8, func(n *fabric.Node) { virtual(n); dark(n, 3) }, 2},
		"virtual functions and no statement":          {8, virtual, 2},
		"a manifest, and another rate is configured": {8, func(n *fabric.Node) {
			n.Policy.Manifest = &fabric.Manifest{Devices: map[string]map[string]string{"mlx5_3": {"port_1_role": "compute", "port_1_rate": "200 Gb/s"}}}
			n.Policy.PortRates = map[fabric.Role]float64{fabric.RoleCompute: 50e9}
			n.HCAs[3].Ports[0].Rate.Value.BytesPerSecond = 12.5e9
		}, 1},
		"one rate is lower": {8, func(n *fabric.Node) { n.HCAs[3].Ports[0].Rate.Value.BytesPerSecond = 12.5e9 }, 2},
	} {
		n := rails(c.ports)
		c.edit(n)
		n.Derive()
		code := 0
		for _, v := range diagnose.Run(n, []*verdict.Check{diagnose.Find("compute_ports"), diagnose.Find("port_active"), diagnose.Find("port_rate")}) {
			switch {
			case v.Severity() == verdict.Critical && v.Status == verdict.Failed && !v.Unstated:
				code = 1
			case code == 0 && (v.Unstated || v.Status == verdict.Unknown):
				code = 2
			}
		}
		if code != c.code {
			t.Errorf("%s: check ends with %d, want %d", name, code, c.code)
		}
	}
}

// rails is a node with so many equal InfiniBand ports, of which nothing is stated, and eight GPUs.
func rails(number int) *fabric.Node {
	n := diagnosetest.Fresh(func(*fabric.Node) {})
	one := n.HCAs[0]
	n.HCAs = nil
	n.GPUs = fabric.Known(8, "bus/pci/devices", n.At)
	for i := range number {
		h := one
		h.Name = fmt.Sprintf("mlx5_%d", i)
		p := one.Ports[0]
		p.LinkLayer.Value, p.NetDev, p.Seen = fabric.LinkInfiniBand, fabric.AbsentFact[string]("net", n.At), fabric.PortHistory{}
		h.Ports = []fabric.Port{p}
		n.HCAs = append(n.HCAs, h)
	}
	return n
}

func dark(n *fabric.Node, device int) { n.HCAs[device].Ports[0].State.Value = fabric.PortDown }

// had lets the record have a link of a port.
func had(n *fabric.Node, device int, at time.Time) {
	n.HCAs[device].Ports[0].Seen = fabric.PortHistory{Active: true, Since: at.Add(-48 * time.Hour), Last: at.Add(-time.Hour)}
}

func list(n *fabric.Node, devices string) {
	n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_IB_HCA", Value: devices, Source: "/etc/nccl.conf:1"}}
}

func virtual(n *fabric.Node) {
	for i := range n.HCAs {
		n.HCAs[i].Function = fabric.Known(fabric.FunctionVF, "physfn", n.At)
	}
}
