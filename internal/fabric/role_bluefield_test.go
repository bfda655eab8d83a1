// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// superNICs is a box of Spectrum-X: a BlueField-3 SuperNIC (B3140H) below the switch of each GPU, and a BlueField-3 DPU of two ports
// (B3220) at a root port of its own. NVIDIA's platform has this NIC for traffic between GPUs:
// docs.nvidia.com/networking/display/kubernetes2640/spectrum-x/spectrum-x.html.
func superNICs() *Node {
	n := switched(8, 1, "B3140H").with(card("mlx5_8", "B3220", "90:01.0/91:00.0", 1), card("mlx5_9", "B3220", "90:01.0/91:00.1", 1)).node()
	for i := range n.HCAs {
		h := &n.HCAs[i]
		h.Type, h.ImageGUID = ok("MT41692"), ok(fmt.Sprintf("a088:c203:00ab:%04x", min(i, 8)))
		setRate(h, 50e9)
	}
	return n
}

// servers is a switched box of eight GPUs, with these NICs besides.
func servers(rail string, besides ...nicAt) *Node {
	n := switched(8, 1, "rail").with(besides...).node()
	slices.SortFunc(n.HCAs, func(a, b HCA) int { return strings.Compare(a.Name, b.Name) })
	for i := range n.HCAs {
		h := &n.HCAs[i]
		h.Type, h.ImageGUID = ok("MT41692"), ok(h.Name)
		if h.BoardID.Or("") == "rail" {
			h.Type = ok(rail)
		}
		setRate(h, 50e9)
	}
	return n
}

func TestRolesOfBlueField(t *testing.T) {
	dpus := []nicAt{card("dpu0", "dpu", "90:01.0/91:00.0", 0), card("dpu1", "dpu", "98:01.0/99:00.0", 1)}
	nearDPUs := []nicAt{card("dpu0", "dpu", besideGPU0+"0", 0), card("dpu1", "dpu", besideGPU0+"1", 0)}
	for _, c := range []struct {
		name string
		node func() *Node
		edit func(n *Node)
		want string // devices that are not compute, and their role
	}{
		{"SuperNICs and a DPU", superNICs, nil, "mlx5_8 management, mlx5_9 management"},
		{"in InfiniBand mode", superNICs, func(n *Node) {
			for i := range n.HCAs {
				n.HCAs[i].Ports[0].LinkLayer = ok(LinkInfiniBand)
			}
		}, "mlx5_8 management, mlx5_9 management"},
		{"BlueField-4", superNICs, func(n *Node) {
			for i := range n.HCAs {
				n.HCAs[i].Type = ok("MT41695")
			}
		}, "mlx5_8 management, mlx5_9 management"},
		{"a SuperNIC left the bus", superNICs, func(n *Node) { n.drop("mlx5_3") }, "mlx5_8 management, mlx5_9 management"},
		{"three lost their link before the exporter started", superNICs, func(n *Node) {
			for i := range 3 {
				unplug(n.HCA(fmt.Sprint("mlx5_", i)))
			}
		}, "mlx5_8 management, mlx5_9 management"},
		{"the default route leaves through the DPU", superNICs, func(n *Node) { n.NetDev("net-mlx5_8").DefaultRoute = ok(true) }, "mlx5_8 management, mlx5_9 management"},
		{"the DPU is of the same board", superNICs, func(n *Node) {
			n.HCA("mlx5_8").BoardID, n.HCA("mlx5_9").BoardID = ok("B3140H"), ok("B3140H")
		}, "mlx5_8 storage, mlx5_9 storage"},
		{"a list of the SuperNICs", superNICs, func(n *Node) { listed(n, "=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7") }, "mlx5_8 management, mlx5_9 management"},
		{"a list that forgets one", superNICs, func(n *Node) { listed(n, "=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6") }, "mlx5_8 management, mlx5_9 management"},
		{"a list of names that do not exist", superNICs, func(n *Node) { listed(n, "=mlx5_20,mlx5_21") }, "mlx5_8 management, mlx5_9 management"},
		{"a list that takes all", superNICs, func(n *Node) { listed(n, "mlx5") }, "mlx5_8 management, mlx5_9 management"},
		{"one is restricted", superNICs, func(n *Node) { n.HCA("mlx5_0").Restricted = ok(true) }, "mlx5_0 management, mlx5_8 management, mlx5_9 management"},
		{"the link layer of a SuperNIC cannot be read", superNICs, func(n *Node) {
			n.HCA("mlx5_2").Ports[0].LinkLayer = UnknownFact[LinkLayer](ReasonIO, "", at)
		}, "mlx5_2 unknown, mlx5_8 management, mlx5_9 management"},
		{"slow ConnectX-6 Dx below the switches too", func() *Node {
			var slow []nicAt
			for i := range 8 {
				slow = append(slow, card(fmt.Sprint("cx", i), "cx6", fmt.Sprintf("%x:01.0/%x:00.0/%x:04.0/%x:00.0", 0x10+16*i, 0x11+16*i, 0x12+16*i, 0x19+16*i), i/4))
			}
			return servers("MT41692", slow...)
		}, func(n *Node) {
			for i := range 8 {
				h := n.HCA(fmt.Sprint("cx", i))
				h.Type = ok("MT4125")
				setRate(h, 12.5e9)
			}
		}, "cx0 storage, cx1 storage, cx2 storage, cx3 storage, cx4 storage, cx5 storage, cx6 storage, cx7 storage"},
		{"DGX and HGX: ConnectX-7 rails and DPUs at root ports", func() *Node { return servers("MT4129", dpus...) }, nil, "dpu0 management, dpu1 management"},
		{"DPUs below the switch of a GPU", func() *Node { return servers("MT4129", nearDPUs...) }, nil, "dpu0 management, dpu1 management"},
		{"rails left the bus", func() *Node { return servers("MT4129", dpus...) }, func(n *Node) {
			for i := range 8 {
				n.drop(fmt.Sprint("mlx5_", i))
			}
		}, "dpu0 management, dpu1 management"},
		{"a list of the DPUs alone", func() *Node { return servers("MT4129", dpus...) }, func(n *Node) { listed(n, "=dpu0,dpu1") }, "dpu0 storage, dpu1 storage"},
		{"two SuperNICs for eight GPUs beside a card for storage", func() *Node { return apart(8, 1, 2) }, nil, "mlx5_1 management, mlx5_2 management"},
		{"which NCCL_IB_HCA names", func() *Node { return apart(8, 1, 2) }, func(n *Node) { listed(n, "=mlx5_1,mlx5_2") }, "mlx5_0 storage"},
		{"OVX L40S: one SuperNIC for two GPUs", func() *Node {
			n := switched(4, 2, "rail").with(dpus[0]).node()
			for i := range n.HCAs {
				n.HCAs[i].Type, n.HCAs[i].ImageGUID = ok("MT41692"), ok(n.HCAs[i].Name)
			}
			return n
		}, nil, "dpu0 management"},
		{"one DPU below the switch of four GPUs", func() *Node {
			n := switched(1, 4, "dpu").node()
			n.HCAs[0].Type = ok("MT41686")
			return n
		}, nil, "mlx5_0 management"},
		{"GB200 NVL72: four ConnectX-7 and two DPUs, nothing is near", func() *Node { return apart(4, 4, 2) }, nil, "mlx5_4 management, mlx5_5 management"},
		{"its ConnectX-7 have no driver", func() *Node { return apart(4, 0, 2) }, nil, "mlx5_0 management, mlx5_1 management"},
		{"a guest with SuperNICs on a flat bus", func() *Node { return apart(8, 0, 8) }, nil, ""},
		{"a guest that lost one", func() *Node { return apart(8, 0, 7) }, nil, ""},
		{"a guest with one GPU and a DPU", func() *Node { return apart(1, 0, 1) }, nil, "mlx5_0 management"},
	} {
		n := c.node()
		if c.edit != nil {
			c.edit(n)
		}
		n.Derive()
		var got []string
		for i := range n.HCAs {
			for _, p := range n.HCAs[i].Ports {
				if r := p.Role.Or("unknown"); r != RoleCompute {
					got = append(got, n.HCAs[i].Name+" "+string(r))
				}
			}
		}
		slices.Sort(got)
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s: %q, want %q", c.name, s, c.want)
		}
	}
}

// apart is a node whose PCI bus puts no NIC near a GPU: so many GPUs, ConnectX-7 and BlueField-3, each in a domain of its own.
func apart(gpus, connectX, blueField int) *Node {
	var b box
	for i := range gpus {
		b.gpus = append(b.gpus, place{fmt.Sprintf("%04x:00:00.0", 1+i), -1})
	}
	for i := range connectX + blueField {
		b.nics = append(b.nics, nicAt{place{fmt.Sprintf("%04x:00:00.0", 0x101+i), -1}, fmt.Sprint("mlx5_", i), "board"})
	}
	n := b.node()
	for i := range n.HCAs {
		h := &n.HCAs[i]
		h.Type, h.ImageGUID = ok("MT4129"), ok(h.Name)
		if i >= connectX {
			h.Type, h.BoardID = ok("MT41692"), ok("other")
		}
		setRate(h, 50e9)
	}
	return n
}
