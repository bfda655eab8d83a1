// SPDX-License-Identifier: Apache-2.0

package nccl_test

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

func TestDevicesLeftOut(t *testing.T) {
	port := func(n *fabric.Node, i int) *fabric.Port { return &n.HCAs[i].Ports[0] }
	down := func(i int) func(*fabric.Node) {
		return func(n *fabric.Node) { port(n, i).State = fabric.Known(fabric.PortDown, "state", diagnosetest.At) }
	}
	hidden := func(i int) func(*fabric.Node) {
		return func(n *fabric.Node) {
			port(n, i).State = fabric.UnknownFact[fabric.PortState](fabric.ReasonStuck, "state", diagnosetest.At)
		}
	}
	for name, c := range map[string]struct {
		list string
		want int
		edit func(*fabric.Node)
		is   verdict.Status
		says string
	}{
		"all":                                   {"mlx5", 8, nil, verdict.OK, ""},
		"no line":                               {"", 8, nil, "", ""},
		"two of eight":                          {"=mlx5_0:1,mlx5_1:1", 8, nil, verdict.Failed, "takes 2 of the 8 active compute ports, and the site expects 8. Left out: mlx5_2, mlx5_3, "},
		"all but one":                           {"^=mlx5_2", 8, nil, verdict.Failed, "takes 7 of the 8 active compute ports, and the site expects 8. Left out: mlx5_2."},
		"another name, as nccl_devices reports": {"mlx5_bond", 8, nil, "", ""},
		"as the site expects":                   {"=mlx5_0,mlx5_1", 2, nil, verdict.OK, ""},
		"the site says nothing":                 {"=mlx5_0", -1, nil, "", ""},
		"a rail is down":                        {"mlx5", 8, down(3), verdict.OK, ""},
		"a rail is down, and two are to spare":  {"^=mlx5_6,mlx5_7", 6, down(3), verdict.OK, ""},
		"a rail that it names is gone, as nccl_devices reports": {"=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5", 6, func(n *fabric.Node) { n.HCAs = n.HCAs[1:] }, verdict.OK, ""},
		"a rail is gone":                       {"mlx5", 8, func(n *fabric.Node) { n.HCAs = n.HCAs[1:] }, "", ""},
		"a rail is gone, and two are to spare": {"^=mlx5_6,mlx5_7", 6, func(n *fabric.Node) { n.HCAs = n.HCAs[1:] }, verdict.Failed, "takes 5 of the 7 active compute ports, and the site expects 6"},
		"what is left out is down":             {"^=mlx5_2", 8, down(2), "", ""},
		"what is left out is for storage":      {"^=mlx5_2", 8, func(n *fabric.Node) { port(n, 2).Role = fabric.Known(fabric.RoleStorage, "", diagnosetest.At) }, "", ""},
		"a rail that it takes is hidden":       {"^=mlx5_7", 7, hidden(0), verdict.Unknown, "takes as many ports as the site expects is unknown"},
		"what is left out is hidden":           {"^=mlx5_7", 7, hidden(7), verdict.OK, ""},
		"too few whatever is hidden":           {"=mlx5_0,mlx5_1", 8, hidden(0), verdict.Failed, "takes 1 of the 7"},
		"a pod has the rails": {"^=mlx5_7", 7, func(n *fabric.Node) {
			for i := range 7 {
				n.HCAs[i].Moved, n.HCAs[i].Ports = true, nil
			}
		}, "", ""},
		"EFA": {"mlx5_0", 8, func(n *fabric.Node) {
			for i := range n.HCAs {
				n.HCAs[i].Driver = fabric.Known("efa", "driver", diagnosetest.At)
			}
		}, "", ""},
		"RDMA is off": {"mlx5_0", 8, func(n *fabric.Node) { n.NCCL = trainer(0, "NCCL_IB_DISABLE=1", "NCCL_IB_HCA=mlx5_0").NCCL }, "", ""},
		"devices are unknown": {"mlx5_0", 8, func(n *fabric.Node) {
			n.HCAs, n.ClassPresent = nil, fabric.UnknownFact[bool](fabric.ReasonIO, "class/infiniband", diagnosetest.At)
		}, verdict.Unknown, ""},
	} {
		n := trainer(8, "NCCL_IB_HCA="+c.list)
		n.ClassPresent = fabric.Known(true, "class/infiniband", diagnosetest.At)
		if c.want >= 0 {
			n.Policy.ComputePorts = &c.want
		}
		if c.edit != nil {
			c.edit(n)
		}
		if v := diagnosetest.Alone(t, n, "nccl_devices_left_out"); v.Status != c.is || !strings.Contains(v.Evidence, c.says) {
			t.Errorf("%s: %+v, want %q with %q", name, v, c.is, c.says)
		}
	}
}
