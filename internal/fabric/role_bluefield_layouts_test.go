// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// slotBelow is a place below the switch of that number of switched.
func slotBelow(s, port, function int) string {
	return fmt.Sprintf("%x:01.0/%x:00.0/%x:%02x.0/%x:00.%d", 0x10+16*s, 0x11+16*s, 0x12+16*s, port, 0x18+16*s+port-8, function)
}

// laid is a box of these NICs, all BlueField-3 but the boards that begin with cx. Boards with a 2 at the end run at 200 Gb/s.
func laid(b box) *Node {
	n := b.node()
	slices.SortFunc(n.HCAs, func(a, b HCA) int { return strings.Compare(a.Name, b.Name) })
	for i := range n.HCAs {
		h := &n.HCAs[i]
		f := n.PCI.NIC(h.Name)
		h.Type, h.PCI, h.ImageGUID = ok("MT41692"), ok(f.Address), ok(strings.Split(f.Address, ".")[0])
		board := h.BoardID.Or("")
		if strings.HasPrefix(board, "cx") {
			h.Type = ok("MT4129")
		}
		setRate(h, 50e9)
		if strings.HasSuffix(board, "2") {
			setRate(h, 25e9)
		}
	}
	return n
}

func rolesOf(n *Node) string {
	var got []string
	for i := range n.HCAs {
		for _, p := range n.HCAs[i].Ports {
			if r := p.Role.Or("unknown"); r != RoleCompute {
				got = append(got, n.HCAs[i].Name+" "+string(r))
			}
		}
	}
	slices.Sort(got)
	return strings.Join(got, ", ")
}

// without is the roles of the other devices.
func without(roles, device string) string {
	var rest []string
	for role := range strings.SplitSeq(roles, ", ") {
		if !strings.HasPrefix(role, device+" ") {
			rest = append(rest, role)
		}
	}
	return strings.Join(rest, ", ")
}

// and adds a GPU.
func (b box) and(gpu string) box {
	b.gpus = append(b.gpus, place{gpu, 1})
	return b
}

// paired is a box with switches of two GPUs, each with a NIC, as Dell's PowerEdge XE9680.
func paired(switches int, board string) box {
	b := switched(switches, 2, board)
	b.nics = nil
	for s := range switches {
		for k := range 2 {
			b.nics = append(b.nics, card(fmt.Sprint("mlx5_", 2*s+k), board, slotBelow(s, 8+k, 0), s*2/switches))
		}
	}
	return b
}

// SuperNICs and DPUs as servers have them. No role may change when any port goes down or any device leaves the bus. Models, ports and
// PSIDs (with encryption and without) are those of docs.nvidia.com/networking/display/bf3dpu/supported+interfaces.
func TestLayoutsOfBlueField(t *testing.T) {
	flat := func(gpus int, boards ...string) box {
		var b box
		for i := range gpus {
			b.gpus = append(b.gpus, place{fmt.Sprintf("%04x:00:00.0", 1+i), -1})
		}
		for i, board := range boards {
			b.nics = append(b.nics, nicAt{place{fmt.Sprintf("%04x:00:00.0", 0x101+i), -1}, fmt.Sprint("mlx5_", i), board})
		}
		return b
	}
	dpu := []nicAt{card("x0", "B3220-2", "f0:01.0/f1:00.0", 1), card("x1", "B3220-2", "f0:01.0/f1:00.1", 1)}
	for _, c := range []struct {
		name string
		box  box
		edit func(n *Node)
		want string
	}{
		{"one SuperNIC replaced by one with crypto, another PSID", switched(8, 1, "B3140H").with(dpu...), func(n *Node) { n.HCA("mlx5_3").BoardID = ok("B3140H-crypto") }, "x0 management, x1 management"},
		{"replaced, and never up", switched(8, 1, "B3140H").with(dpu...), func(n *Node) { n.HCA("mlx5_3").BoardID = ok("B3140H-crypto"); unplug(n.HCA("mlx5_3")) }, "x0 management, x1 management"},
		{"half of each PSID", switched(8, 1, "B3140H").with(dpu...), func(n *Node) {
			for i := range 4 {
				n.HCA(fmt.Sprint("mlx5_", 2*i)).BoardID = ok("B3140H-crypto")
			}
		}, "x0 management, x1 management"},
		{"paired, half of each PSID", paired(4, "B3140H").with(dpu...), func(n *Node) {
			for i := range 4 {
				n.HCA(fmt.Sprint("mlx5_", 2*i)).BoardID = ok("B3140H-crypto")
			}
		}, "x0 management, x1 management"},
		{"flat guest, two PSIDs", flat(8, "a", "a", "a", "a", "b", "b", "b", "b"), nil, ""},
		{"flat guest, one PSID more", flat(8, "a", "a", "a", "a", "a", "a", "a", "b"), nil, ""},
		{"flat guest, and a CX-7 of 200G for storage", flat(8, "a", "a", "a", "a", "a", "a", "a", "a", "cx2"), nil, ""},
		{"flat guest, and a CX-7 of 200G that was never up", flat(8, "a", "a", "a", "a", "a", "a", "a", "a", "cx2"), func(n *Node) { unplug(n.HCA("mlx5_8")) }, ""},
		{"four CX-7 of 200G for storage, one below each switch", paired(4, "B3140H").with(card("s0", "cx2", slotBelow(0, 12, 0), 0), card("s1", "cx2", slotBelow(1, 12, 0), 0), card("s2", "cx2", slotBelow(2, 12, 0), 1), card("s3", "cx2", slotBelow(3, 12, 0), 1)), nil, "s0 storage, s1 storage, s2 storage, s3 storage"},
		{"XE9680, 8 SuperNIC and 2 DPU below switches", paired(4, "B3140H").with(
			card("d0", "B3220-2", slotBelow(0, 12, 0), 0), card("d1", "B3220-2", slotBelow(0, 12, 1), 0),
			card("d2", "B3220-2", slotBelow(2, 12, 0), 1), card("d3", "B3220-2", slotBelow(2, 12, 1), 1)), nil, "d0 management, d1 management, d2 management, d3 management"},
		{"XE9680, and 2 DPU B3240 of 400G below switches", paired(4, "B3140H").with(
			card("d0", "B3240", slotBelow(0, 12, 0), 0), card("d1", "B3240", slotBelow(2, 12, 0), 1)), func(n *Node) { n.NetDev("net-d0").Bond, n.NetDev("net-d1").Bond = ok(true), ok(true) }, "d0 management, d1 management"},
		{"4 GPUs, 4 SuperNICs, a DPU of 400G below each of two switches", paired(2, "B3140H").with(
			card("d0", "B3240", slotBelow(0, 12, 0), 0), card("d1", "B3240", slotBelow(0, 12, 1), 0), card("d2", "B3240", slotBelow(1, 12, 0), 1), card("d3", "B3240", slotBelow(1, 12, 1), 1)), nil, "d0 management, d1 management, d2 management, d3 management"},
		{"2-8-5: 4 B3220L of 200G, DPU B3220 at root", switched(4, 2, "B3220L-2").with(dpu...), nil, "x0 management, x1 management"},
		{"half of the SuperNICs left", switched(8, 1, "B3140H").with(dpu...), func(n *Node) {
			for i := range 4 {
				n.drop(fmt.Sprint("mlx5_", i))
			}
		}, "x0 management, x1 management"},
		{"half of the SuperNICs left, list names all", switched(8, 1, "B3140H").with(dpu...), func(n *Node) {
			for i := range 4 {
				n.drop(fmt.Sprint("mlx5_", i))
			}
			listed(n, eight)
		}, "x0 management, x1 management"},
		{"4 CX-7 and 4 BF3 rails, listed exactly", switched(8, 1, "B3140H").with(dpu...), func(n *Node) {
			for i := range 4 {
				n.HCA(fmt.Sprint("mlx5_", 2*i)).BoardID, n.HCA(fmt.Sprint("mlx5_", 2*i)).Type = ok("cx"), ok("MT4129")
			}
			listed(n, eight)
		}, "x0 management, x1 management"},
		{"4 CX-7 and 4 BF3 rails, no list", switched(8, 1, "B3140H").with(dpu...), func(n *Node) {
			for i := range 4 {
				n.HCA(fmt.Sprint("mlx5_", 2*i)).BoardID, n.HCA(fmt.Sprint("mlx5_", 2*i)).Type = ok("cx"), ok("MT4129")
			}
		}, "x0 management, x1 management"},
		{"a SuperNIC in a slot at a root port", switched(7, 1, "B3140H").with(card("mlx5_7", "B3140H", "e0:01.0/e1:00.0", 1)).with(dpu...).and("d8:01.0/d9:00.0"), nil, "x0 management, x1 management"},
		{"A100X: the BlueField-2 is on the card of the GPU", switched(2, 1, "A100X").with(card("mlx5_2", "A100X", slotBelow(0, 8, 1), 0), card("mlx5_3", "A100X", slotBelow(1, 8, 1), 1)), nil, ""},
		{"an older DPU beside SuperNICs, far", switched(4, 2, "B3220L-2").with(card("x0", "BF2", "f0:01.0/f1:00.0", 1)), func(n *Node) { n.HCA("x0").Type = ok("MT41686") }, "x0 management"},
		{
			"prefix list mlx5_1 takes mlx5_10 of a DPU", switched(8, 1, "cx").with(card("mlx5_10", "B3220-2", "f0:01.0/f1:00.0", 1), card("mlx5_8", "B3220-2", "f0:01.0/f1:00.1", 1)),
			func(n *Node) { listed(n, "mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7") }, "mlx5_10 management, mlx5_8 management",
		},
		{
			"the same beside SuperNICs", switched(8, 1, "B3140H").with(card("mlx5_10", "B3220-2", "f0:01.0/f1:00.0", 1), card("mlx5_8", "B3220-2", "f0:01.0/f1:00.1", 1)),
			func(n *Node) { listed(n, "mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7") }, "mlx5_10 management, mlx5_8 management",
		},
		{"a guest whose only NIC is a SuperNIC that the list names", flat(1, "B3140H"), func(n *Node) { listed(n, "=mlx5_0") }, ""},
		{"GB200 with four SuperNICs and two DPUs", flat(4, "B3140H", "B3140H", "B3140H", "B3140H", "B3240", "B3240"), func(n *Node) { n.NetDev("net-mlx5_4").Bond, n.NetDev("net-mlx5_5").Bond = ok(true), ok(true) }, "mlx5_4 management, mlx5_5 management"},
		{"all SuperNICs down, CX-6 storage near each", paired(4, "B3140H").with(card("s0", "cx2", slotBelow(0, 12, 0), 0), card("s1", "cx2", slotBelow(1, 12, 0), 0), card("s2", "cx2", slotBelow(2, 12, 0), 1), card("s3", "cx2", slotBelow(3, 12, 0), 1)), func(n *Node) {
			for i := range 8 {
				unplug(n.HCA(fmt.Sprint("mlx5_", i)))
			}
		}, ""},
		{"CX-7 rails and four DPUs below the switches", paired(4, "cx").with(card("d0", "B3220-2", slotBelow(0, 12, 0), 0), card("d1", "B3220-2", slotBelow(1, 12, 0), 0), card("d2", "B3220-2", slotBelow(2, 12, 0), 1), card("d3", "B3220-2", slotBelow(3, 12, 0), 1)), nil, "d0 management, d1 management, d2 management, d3 management"},
		{"and three CX-7 left", paired(4, "cx").with(card("d0", "B3220-2", slotBelow(0, 12, 0), 0), card("d1", "B3220-2", slotBelow(1, 12, 0), 0), card("d2", "B3220-2", slotBelow(2, 12, 0), 1), card("d3", "B3220-2", slotBelow(3, 12, 0), 1)), func(n *Node) {
			n.drop("mlx5_0")
			n.drop("mlx5_2")
			n.drop("mlx5_5")
		}, "d0 management, d1 management, d2 management, d3 management"},
	} {
		build := func() *Node {
			n := laid(c.box)
			if c.edit != nil {
				c.edit(n)
			}
			return n
		}
		n := build()
		n.Derive()
		if s := rolesOf(n); s != c.want {
			t.Errorf("%s: %q, want %q", c.name, s, c.want)
		}
		for i := range n.HCAs {
			name := n.HCAs[i].Name
			down, gone := build(), build()
			unplug(down.HCA(name))
			down.Derive()
			if s := rolesOf(down); s != c.want {
				t.Errorf("%s, %s down: %q, want %q", c.name, name, s, c.want)
			}
			gone.drop(name)
			gone.Derive()
			if s, want := rolesOf(gone), without(c.want, name); s != want {
				t.Errorf("%s, %s gone: %q, want %q", c.name, name, s, want)
			}
		}
	}
}
