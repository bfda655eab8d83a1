// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/lint"
)

// A list of rails is not removed where NCCL would take the same ones without it: it is replaced by the
// interface of the management network, or stays until that is known.
func TestListOfRailsIsReplaced(t *testing.T) {
	for _, c := range []struct {
		more       string // another interface that is up
		list, want string
	}{
		{"", "ibp26s0,ibp60s0", "replace NCCL_SOCKET_IFNAME==bond0"},
		{"eno9", "ibp26s0,ibp60s0", "open NCCL_SOCKET_IFNAME"},
		{"", "", ""},
	} {
		node := *observed(t, "healthy")
		list := slices.Clone(node.Interfaces.Value)
		for _, name := range []string{"ibp26s0", "ibp60s0", c.more} {
			if name != "" {
				list = append(list, fabric.Interface{Name: name, OperState: fabric.Known("up", "operstate", node.At)})
			}
		}
		node.Interfaces.Value, node.NetDevs = list, slices.Clone(node.NetDevs)
		for i := range node.NetDevs {
			node.NetDevs[i].DefaultRoute = fabric.Known(c.more == "" && node.NetDevs[i].Name == "bond0", "route", node.At)
		}
		node.NCCL.Files = []fabric.NCCLFile{{Path: "/etc/nccl.conf", Exists: fabric.Known(true, "etc/nccl.conf", node.At)}}
		node.NCCL.Variables = nil
		if c.list != "" {
			node.NCCL.Variables = []fabric.NCCLVariable{{Name: socketVariable, Value: c.list, Source: "/etc/nccl.conf:1"}}
		}
		node.HCAs = slices.Clone(node.HCAs)
		for i, name := range []string{"ibp26s0", "ibp60s0"} {
			node.HCAs[i].Ports = slices.Clone(node.HCAs[i].Ports)
			node.HCAs[i].Ports[0].NetDev = fabric.Known(name, "ndevs", node.At)
		}
		a := For(&node, Workload{NCCL: lint.Newest(), Nodes: 16})
		got := strings.Split(lines(a), "\n")
		if c.want != "" && !slices.Contains(got, c.want) || strings.Contains(lines(a), "open NCCL_SOCKET_IFNAME") && strings.Contains(lines(a), "remove NCCL_SOCKET_IFNAME") ||
			c.list == "" && strings.Contains(lines(a), socketVariable) {
			t.Errorf("%s: want %q in\n%s%+v", c.list, c.want, lines(a), a.Unknown)
		}
	}
}

// The devices of training are named also while all of their ports are down, and the slowest of unequal ports
// sets the pace of all.
func TestPortsThatAreDownOrSlow(t *testing.T) {
	node := *observed(t, "healthy-mixed-nics-roce")
	node.HCAs = slices.Clone(node.HCAs)
	for i := range node.HCAs {
		if h := &node.HCAs[i]; h.Serves(fabric.RoleCompute) {
			h.Ports = slices.Clone(h.Ports)
			h.Ports[0].State = fabric.Known(fabric.PortDown, "state", node.At)
		}
	}
	if got := lines(For(&node, Workload{NCCL: lint.Newest(), Nodes: 16})); !strings.Contains(got, "NCCL_IB_HCA==mlx5_0:1,mlx5_1:1,") {
		t.Errorf("all ports down: %s", got)
	}
	a := For(observed(t, "rate-degraded"), Workload{NCCL: lint.Newest(), Nodes: 16})
	for _, e := range a.Estimates {
		if strings.Contains(e.Basis, "line rate") && !strings.Contains(e.Basis, "the slowest, for which") {
			t.Errorf("%+v", e)
		}
	}
}
