// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// flat is a machine whose PCI bus puts no NIC near a GPU: so many InfiniBand and Ethernet ports, each in a domain of its own.
func flat(infiniband, ethernet int) *Node {
	var b box
	for i := range 8 {
		b.gpus = append(b.gpus, place{fmt.Sprintf("%04x:00:00.0", 1+i), -1})
	}
	for i := range infiniband + ethernet {
		b.nics = append(b.nics, nicAt{place{fmt.Sprintf("%04x:00:00.0", 0x101+i), -1}, fmt.Sprint("mlx5_", i), "board"})
	}
	n := b.node()
	for i := range n.HCAs {
		if i < infiniband {
			n.HCAs[i].Ports[0].LinkLayer = ok(LinkInfiniBand)
		} else {
			n.HCAs[i].BoardID = ok("other")
		}
		setRate(&n.HCAs[i], 50e9)
	}
	n.Host.Hypervisor = ok(true)
	return n
}

// Virtual machines and boxes without PCIe switches that have an Ethernet NIC beside InfiniBand: Azure ND H100 v5 (mlx5_an0 is the
// virtual function below eth0, deepseek-ai/DeepEP#60 and sgl-project/sglang#3622 show its like), Nebius (mlx5_12 is for the
// VPC, nebius/ml-cookbook#43), GB200 and L40S (NVIDIA/NVSentinel#1221).
func TestRolesWhereNothingIsNear(t *testing.T) {
	for _, c := range []struct {
		name                 string
		infiniband, ethernet int
		edit                 func(n *Node)
		want                 string // devices that are storage
	}{
		{"eight rails and the NIC of the cloud", 8, 1, func(n *Node) { setRate(n.HCA("mlx5_8"), 12.5e9) }, "mlx5_8"},
		{"four rails and two NICs for storage, as fast", 4, 2, nil, "mlx5_4 mlx5_5"},
		{"its link is down", 8, 1, func(n *Node) { unplug(n.HCA("mlx5_8")) }, "mlx5_8"},
		{"half of the rails lost their link", 8, 1, func(n *Node) {
			for i := range 4 {
				unplug(n.HCA(fmt.Sprint("mlx5_", i)))
			}
		}, "mlx5_8"},
		{"RoCE rails and InfiniBand for storage", 1, 8, nil, ""},
		{"as many of both", 2, 2, nil, ""},
		{"InfiniBand is slower", 4, 2, func(n *Node) {
			for i := range 4 {
				setRate(n.HCA(fmt.Sprint("mlx5_", i)), 25e9)
			}
		}, ""},
		{"a list that takes all", 4, 2, func(n *Node) { listed(n, "mlx5") }, "mlx5_4 mlx5_5"},
		{"a list that names the Ethernet ports", 4, 2, func(n *Node) { listed(n, "=mlx5_4,mlx5_5") }, ""},
		{"no GPUs", 4, 2, func(n *Node) { n.PCI.Functions = n.PCI.Functions[8:] }, ""},
		{"Ethernet alone", 0, 8, nil, ""},
	} {
		n := flat(c.infiniband, c.ethernet)
		if c.edit != nil {
			c.edit(n)
		}
		n.DerivePorts()
		if got := strings.Join(storageOf(n), " "); got != c.want {
			t.Errorf("%s: %q are storage, want %q", c.name, got, c.want)
		}
	}
}

// Oracle's BM.GPU.L40S.4 has two ports of 400 Gb/s for the cluster and ports of 200 Gb/s for the virtual cloud network, with another
// board of the same chip: shapes.json of ai2-compute-gpu/oci-dr-hpc-v2.
func TestRolesOfSlowPortsWhereNothingIsNear(t *testing.T) {
	const list = "=mlx5_0,mlx5_1"
	address := func(h *HCA) {
		h.Ports[0].GIDs.Entries = ok([]GID{{Addr: netip.MustParseAddr("::ffff:10.1.0.1"), Type: GIDRoCEv2, Family: FamilyIPv4}})
	}
	for _, c := range []struct {
		name  string
		slow  int
		value string // of NCCL_IB_HCA
		edit  func(n *Node)
		want  string // devices that are storage
	}{
		{"left out by the list", 3, list, nil, "mlx5_2 mlx5_3 mlx5_4"},
		{"without a list and addresses", 3, "", nil, "mlx5_2 mlx5_3 mlx5_4"},
		{"without a list, with addresses", 3, "", func(n *Node) {
			for i := range n.HCAs {
				address(&n.HCAs[i])
			}
		}, ""},
		{"a list that takes them", 3, "mlx5", nil, ""},
		{"a list that forgets equal rails", 3, list, func(n *Node) {
			for i := range n.HCAs {
				n.HCAs[i].BoardID = ok("rail")
				setRate(&n.HCAs[i], 50e9)
			}
		}, ""},
		{"a list that names only faster storage", 6, list, nil, ""},
		{"in a bond", 3, "", func(n *Node) {
			for i := range n.NetDevs {
				n.NetDevs[i].Upper = ok("bond0")
			}
		}, ""},
		{"a spare part at half of its rate", 1, "", nil, ""},
		{"addresses not known", 3, "", func(n *Node) {
			for i := range n.HCAs {
				n.HCAs[i].Ports[0].GIDs.Entries = UnknownFact[[]GID](ReasonIO, "", at)
			}
		}, ""},
	} {
		n := flat(0, 2+c.slow)
		n.Host.Hypervisor = ok(false)
		for i := range n.HCAs {
			n.NetDevs[i].Upper = AbsentFact[string]("", at)
			if i < 2 {
				n.HCAs[i].BoardID = ok("rail")
				address(&n.HCAs[i])
			} else {
				setRate(&n.HCAs[i], 25e9)
			}
		}
		listed(n, c.value)
		if c.edit != nil {
			c.edit(n)
		}
		n.DerivePorts()
		if got := strings.Join(storageOf(n), " "); got != c.want {
			t.Errorf("%s: %q are storage, want %q", c.name, got, c.want)
		}
	}
}
