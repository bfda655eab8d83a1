// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// card is a card with a device for each of its ports, which are active or down.
func card(name, board string, states ...fabric.PortState) (list []fabric.HCA) {
	for i, s := range states {
		phys := fabric.PhysDisabled
		if s == fabric.PortActive {
			phys = fabric.PhysLinkUp
		}
		list = append(list, fabric.HCA{
			Name: fmt.Sprint(name, "_", i), BoardID: fabric.Known(board, "board_id", at), ImageGUID: fabric.Known(name, "sys_image_guid", at),
			PCI: fabric.Known(fmt.Sprint("0000:17:00.", i), "device", at),
			Ports: []fabric.Port{{
				Number: 1, Role: fabric.Known(fabric.RoleCompute, "", at), State: fabric.Known(s, "state", at), PhysState: fabric.Known(phys, "phys_state", at),
				LinkLayer: fabric.Known(fabric.LinkEthernet, "link_layer", at),
			}},
		})
	}
	return list
}

// halfCabled is a node with eight cards of one port, half of which have a link, and what its site says of that.
func halfCabled(list string, expected int) *fabric.Node {
	n := &fabric.Node{Policy: &fabric.Policy{ComputePorts: &expected}, ClassPresent: fabric.Known(true, "", at)}
	for i := range 8 {
		state := fabric.PortActive
		if i > 3 {
			state = fabric.PortDown
		}
		n.HCAs = append(n.HCAs, card(fmt.Sprint("mlx5_", i), "X", state)...)
	}
	n.NCCL.Files = []fabric.NCCLFile{{Path: "/etc/nccl.conf", Exists: fabric.Known(true, "", at)}}
	n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_IB_HCA", Value: list, Source: "/etc/nccl.conf:1"}}
	return n
}

const firstFour = "=mlx5_0_0,mlx5_1_0,mlx5_2_0,mlx5_3_0"

func TestHalfOfTheRailsCabled(t *testing.T) {
	for _, test := range []struct {
		name     string
		list     string
		expected int
		edit     func(n *fabric.Node)
		failed   int
		unknown  int
	}{
		{"as the site says twice", firstFour, 4, nil, 0, 0},
		{"as it says by leaving out", "^mlx5_4,mlx5_5,mlx5_6,mlx5_7", 4, nil, 0, 0},
		{"without a list", "", 4, nil, 4, 0},
		{"without an expectation", firstFour, 4, func(n *fabric.Node) { n.Policy.ComputePorts = nil }, 4, 0},
		{"the site expects none", "", 0, nil, 0, 0},
		{"the site expects none, and one had a link", "", 0, func(n *fabric.Node) { n.HCAs[5].Ports[0].Seen.Active = true }, 1, 0},
		{"the site expects eight", firstFour, 8, nil, 4, 0},
		{"the list takes all", "mlx5", 4, nil, 4, 0},
		{"one of those that are used lost its link", firstFour, 4, func(n *fabric.Node) {
			n.HCAs[2].Ports[0].State, n.HCAs[2].Ports[0].PhysState = fabric.Known(fabric.PortDown, "state", at), fabric.Known(fabric.PhysDisabled, "phys_state", at)
		}, 1, 0},
		{"one of those that are used left the bus", firstFour, 4, func(n *fabric.Node) { n.HCAs = slices.Delete(n.HCAs, 2, 3) }, 0, 0},
		{"one of the others had a link", firstFour, 4, func(n *fabric.Node) { n.HCAs[5].Ports[0].Seen.Active = true }, 1, 0},
		{"one of the others had a link when the manifest was written", firstFour, 4, func(n *fabric.Node) {
			n.Policy.Manifest = &fabric.Manifest{Devices: map[string]map[string]string{"mlx5_5_0": {"port_1_rate": "400 Gb/s"}, "mlx5_6_0": {"port_1_rate": ManifestNone}}}
		}, 1, 0},
		{"the file cannot be read", firstFour, 4, func(n *fabric.Node) {
			n.NCCL.Files[0].Exists, n.NCCL.Variables = fabric.UnknownFact[bool](fabric.ReasonIO, "", at), nil
		}, 0, 4},
		{"the file cannot be read, and a port is missing", firstFour, 5, func(n *fabric.Node) {
			n.NCCL.Files[0].Exists, n.NCCL.Variables = fabric.UnknownFact[bool](fabric.ReasonIO, "", at), nil
		}, 4, 0},
	} {
		n := halfCabled(test.list, test.expected)
		if test.edit != nil {
			test.edit(n)
		}
		list := Run(n, []*Check{Find("port_active")})
		if failed, unknown := len(Failures(list)), len(Unknowns(list)); failed != test.failed || unknown != test.unknown {
			t.Errorf("%s: %d failed and %d unknown, want %d and %d: %v", test.name, failed, unknown, test.failed, test.unknown, list)
		}
	}
}

// A rail that left the bus is missing, however many uncabled ports there are.
func TestUncabledPortsReplaceNone(t *testing.T) {
	for expected, want := range map[int]Status{4: OK, 5: OK} { // five expected: the list takes four, and the others are not uncabled
		if list := Run(halfCabled(firstFour, expected), []*Check{Find("compute_ports")}); len(list) != 1 || list[0].Status != want {
			t.Errorf("%d expected: %v, want %s", expected, list, want)
		}
	}
	n := halfCabled(firstFour, 4)
	n.HCAs = slices.Delete(n.HCAs, 2, 3)
	if list := Run(n, []*Check{Find("compute_ports")}); len(list) != 1 || list[0].Status != Failed || list[0].What != "3 compute ports where 4 are expected" {
		t.Errorf("without one of four: %v", list)
	}
	n = halfCabled(firstFour, 4)
	n.HCAs = slices.Delete(n.HCAs, 2, 3)
	n.HCAs[5].Ports[0].State = fabric.UnknownFact[fabric.PortState](fabric.ReasonIO, "", at)
	if list := Run(n, []*Check{Find("compute_ports")}); len(list) != 1 || list[0].Status == OK {
		t.Errorf("without one of four, and one that cannot be read: %v", list)
	}
}

// A card that is not used, as the ConnectX-6 Dx of sgl-project/sglang#6823: down on both ports, beside rails.
func TestUnusedCard(t *testing.T) {
	for _, test := range []struct {
		name string
		edit func(n *fabric.Node, a, b *fabric.HCA)
		want int // failed
	}{
		{"never used", nil, 0},
		{"never used, with a subfunction", func(n *fabric.Node, a, _ *fabric.HCA) {
			sf := *a
			sf.Name, sf.Function, sf.Ports = "sf", fabric.Known(fabric.FunctionSF, "sfnum", at), slices.Clone(a.Ports)
			sf.Ports[0].Role = fabric.Known(fabric.RoleUnused, "sfnum", at)
			n.HCAs = append(n.HCAs, sf)
		}, 0},
		{"one port had a link", func(_ *fabric.Node, _, b *fabric.HCA) { b.Ports[0].Seen.Active = true }, 2},
		{"one port had a link when the manifest was written", func(n *fabric.Node, _, b *fabric.HCA) {
			n.Policy.Manifest = &fabric.Manifest{Devices: map[string]map[string]string{b.Name: {"port_1_rate": "100 Gb/s"}}}
		}, 2},
		{"one port has an address", func(_ *fabric.Node, _, b *fabric.HCA) {
			b.Ports[0].GIDs.Entries = fabric.Known([]fabric.GID{{Addr: netip.MustParseAddr("::ffff:10.0.0.1"), Family: fabric.FamilyIPv4}}, "gids", at)
		}, 2},
		{"its ports are members of a bond", func(n *fabric.Node, a, _ *fabric.HCA) {
			a.Ports[0].NetDev = fabric.Known("eth0", "ndevs", at)
			n.NetDevs = []fabric.NetDev{{Name: "eth0", Upper: fabric.Known("bond0", "master", at)}}
		}, 2},
		{"for training", func(_ *fabric.Node, a, b *fabric.HCA) {
			a.Ports[0].Role, b.Ports[0].Role = fabric.Known(fabric.RoleCompute, "", at), fabric.Known(fabric.RoleCompute, "", at)
		}, 2},
		{"another card of the board is used", func(n *fabric.Node, _, _ *fabric.HCA) {
			other := card("other", "dual", fabric.PortActive, fabric.PortActive)
			n.HCAs = append(n.HCAs, other...)
		}, 2},
		{"another card of the board has the default route, as in Oracle's shapes", func(n *fabric.Node, _, _ *fabric.HCA) {
			other := card("other", "dual", fabric.PortActive, fabric.PortActive)
			other[0].Ports[0].Role, other[1].Ports[0].Role = fabric.Known(fabric.RoleManagement, "", at), fabric.Known(fabric.RoleManagement, "", at)
			n.HCAs = append(n.HCAs, other...)
		}, 0},
		{"NCCL_IB_HCA names it", func(n *fabric.Node, a, _ *fabric.HCA) {
			n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_IB_HCA", Value: a.Name, Source: "/etc/nccl.conf:1"}}
		}, 2},
		{"InfiniBand", func(_ *fabric.Node, a, b *fabric.HCA) {
			a.Ports[0].LinkLayer, b.Ports[0].LinkLayer = fabric.Known(fabric.LinkInfiniBand, "", at), fabric.Known(fabric.LinkInfiniBand, "", at)
		}, 2},
	} {
		n := &fabric.Node{Policy: &fabric.Policy{}}
		n.NCCL.Files = []fabric.NCCLFile{{Path: "/etc/nccl.conf", Exists: fabric.AbsentFact[bool]("", at)}}
		for i := range 4 {
			n.HCAs = append(n.HCAs, card(fmt.Sprint("mlx5_", i), "rail", fabric.PortActive)...)
		}
		n.HCAs = append(n.HCAs, card("spare", "dual", fabric.PortDown, fabric.PortDown)...)
		for i := range 2 {
			p := &n.HCAs[4+i].Ports[0]
			p.Role, p.GIDs.Entries = fabric.Known(fabric.RoleStorage, "", at), fabric.Known([]fabric.GID(nil), "gids", at)
		}
		if test.edit != nil {
			test.edit(n, &n.HCAs[4], &n.HCAs[5])
		}
		if list := Run(n, []*Check{Find("port_active")}); len(Failures(list)) != test.want || len(Unknowns(list)) > 0 {
			t.Errorf("%s: %v, want %d failed", test.name, list, test.want)
		}
	}
}

// Eight ConnectX-8 of a B300 node with four planes each: every device has 12 ports, of which 3, 6, 9 and 12 have links
// (scitix/sichek#98). One of the 32 has none.
func TestPlanes(t *testing.T) {
	n := &fabric.Node{Policy: &fabric.Policy{ComputePorts: new(32)}, ClassPresent: fabric.Known(true, "", at)}
	for i := range 8 {
		h := card(fmt.Sprint("rail", i), "X", fabric.PortActive)[0]
		up, down := h.Ports[0], card("", "", fabric.PortDown)[0].Ports[0]
		h.Ports = nil
		for number := 1; number <= 12; number++ {
			p := down
			if number%3 == 0 && (i != 2 || number != 9) {
				p = up
			}
			p.Number = number
			h.Ports = append(h.Ports, p)
		}
		n.HCAs = append(n.HCAs, h)
	}
	list := Failures(Run(n, []*Check{Find("port_active"), Find("compute_ports"), Find("compute_ports_surplus")}))
	if len(list) != 1 || list[0].Check.ID != "port_active" || list[0].Subject.String() != "rail2_0 port 9" {
		t.Errorf("%v", list)
	}
}

// A subfunction has the image GUID, the PCI function and the port number of what it is a part of, and says nothing of its cable.
func TestSubfunctionIsNoPort(t *testing.T) {
	n := &fabric.Node{Policy: &fabric.Policy{}}
	for i, second := range []fabric.PortState{fabric.PortActive, fabric.PortDown} {
		n.HCAs = append(n.HCAs, card(fmt.Sprint("c", i), "X", fabric.PortActive, second)...)
	}
	for i := range 2 {
		sf := card(fmt.Sprint("c", i), "X", fabric.PortActive, fabric.PortDown)[1]
		sf.Name, sf.Function = fmt.Sprint("sf", i), fabric.Known(fabric.FunctionSF, "sfnum", at)
		sf.Ports[0].Role = fabric.Known(fabric.RoleUnused, "sfnum", at)
		n.HCAs = append(n.HCAs, sf)
	}
	if list := Failures(Run(n, []*Check{Find("port_active")})); len(list) != 1 || list[0].Subject.String() != "c1_1" {
		t.Errorf("%v", list)
	}
}

// singleCard is a node with one card of two ports: the default route leaves through the first, and the second is down.
func singleCard() *fabric.Node {
	n := &fabric.Node{Policy: &fabric.Policy{}, HCAs: card("a", "X", fabric.PortActive, fabric.PortDown)}
	n.HCAs[0].Ports[0].Role = fabric.Known(fabric.RoleManagement, "", at)
	gid := fabric.GID{Addr: netip.MustParseAddr("fe80::1"), Type: fabric.GIDRoCEv2, Family: fabric.FamilyLinkLocal}
	n.HCAs[1].Ports[0].GIDs.Entries = fabric.Known([]fabric.GID{gid}, "gids", at)
	n.NCCL.Files = []fabric.NCCLFile{{Path: "/etc/nccl.conf", Exists: fabric.AbsentFact[bool]("", at)}}
	return n
}

func withGPUs(n *fabric.Node, count int) {
	for i := range count {
		n.PCI.Functions = append(n.PCI.Functions, fabric.PCIFunction{Address: fmt.Sprintf("000f:%02x:00.0", i), Kind: fabric.PCIGPU})
	}
}

// Two ports of a ConnectX-7 that a DGX Spark has as four devices, in two PCI domains. One is cabled, as for a pair: both of its devices
// are active (geerlingguy/sbc-reviews#92).
func TestOneCableOfSpark(t *testing.T) {
	n := &fabric.Node{Policy: &fabric.Policy{}}
	n.NCCL.Files = []fabric.NCCLFile{{Path: "/etc/nccl.conf", Exists: fabric.AbsentFact[bool]("", at)}}
	withGPUs(n, 1)
	for _, domain := range []string{"0000", "0002"} {
		half := card("roce", "NVD0000000087", fabric.PortActive, fabric.PortDown)
		for i := range half {
			half[i].Name, half[i].PCI = domain+half[i].Name, fabric.Known(fmt.Sprint(domain, ":01:00.", i), "device", at)
			half[i].Ports[0].GIDs.Entries = fabric.Known([]fabric.GID(nil), "gids", at)
		}
		n.HCAs = append(n.HCAs, half...)
	}
	if list := Run(n, []*Check{Find("port_active")}); len(list) != 2 || len(Failures(list)) > 0 {
		t.Errorf("one cable: %v", list)
	}
	n.HCAs[3].Ports[0].Seen.Active = true
	if list := Failures(Run(n, []*Check{Find("port_active")})); len(list) != 1 {
		t.Errorf("the second was there before: %v", list)
	}
}

func TestSparePortOfTheOnlyCard(t *testing.T) {
	one := 1
	for _, test := range []struct {
		name string
		edit func(n *fabric.Node, p *fabric.Port)
		want Status // empty: not asked
	}{
		{"never used", nil, ""},
		{"beside a storage port", func(n *fabric.Node, p *fabric.Port) {
			n.HCAs[0].Ports[0].Role, p.Role = fabric.Known(fabric.RoleStorage, "", at), fabric.Known(fabric.RoleStorage, "", at)
		}, ""},
		{"beside a training port", func(n *fabric.Node, _ *fabric.Port) {
			n.HCAs[0].Ports[0].Role = fabric.Known(fabric.RoleCompute, "", at)
		}, Failed},
		{"beside a training port, of one GPU", func(n *fabric.Node, _ *fabric.Port) {
			n.HCAs[0].Ports[0].Role = fabric.Known(fabric.RoleCompute, "", at)
			withGPUs(n, 1)
		}, ""},
		{"beside a training port, of two GPUs", func(n *fabric.Node, _ *fabric.Port) {
			n.HCAs[0].Ports[0].Role = fabric.Known(fabric.RoleCompute, "", at)
			withGPUs(n, 2)
		}, Failed},
		{"it had a link", func(_ *fabric.Node, p *fabric.Port) { p.Seen.Active = true }, Failed},
		{"it has an address", func(_ *fabric.Node, p *fabric.Port) {
			p.GIDs.Entries.Value = []fabric.GID{{Addr: netip.MustParseAddr("::ffff:10.0.0.1"), Type: fabric.GIDRoCEv2, Family: fabric.FamilyIPv4}}
		}, Failed},
		{"the site expects it", func(n *fabric.Node, _ *fabric.Port) { n.Policy.ComputePorts = &one }, Failed},
		{"NCCL_IB_HCA names it", func(n *fabric.Node, _ *fabric.Port) {
			n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_IB_HCA", Value: "a_1", Source: "/etc/nccl.conf:1"}}
		}, Failed},
		{"both are down", func(n *fabric.Node, _ *fabric.Port) { n.HCAs[0].Ports[0].State = fabric.Known(fabric.PortDown, "", at) }, Failed},
		{"InfiniBand, whose addresses are not known", func(_ *fabric.Node, p *fabric.Port) { p.LinkLayer = fabric.Known(fabric.LinkInfiniBand, "", at) }, Failed},
		{"another card of the board uses both", func(n *fabric.Node, _ *fabric.Port) {
			n.HCAs = append(n.HCAs, card("b", "X", fabric.PortActive, fabric.PortActive)...)
		}, Failed},
		{"the use of the other port is not known", func(n *fabric.Node, _ *fabric.Port) {
			n.HCAs[0].Ports[0].Role = fabric.UnknownFact[fabric.Role](fabric.ReasonStuck, "", at)
		}, Unknown},
		{"its addresses are not known", func(_ *fabric.Node, p *fabric.Port) {
			p.GIDs.Entries = fabric.UnknownFact[[]fabric.GID](fabric.ReasonIO, "", at)
		}, Unknown},
	} {
		n := singleCard()
		if test.edit != nil {
			test.edit(n, &n.HCAs[1].Ports[0])
		}
		var got Status
		for _, v := range Run(n, []*Check{Find("port_active")}) {
			if v.Subject.Device == "a_1" {
				got = v.Status
			}
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// The leaf switch of all second ports may fail at once: they are not uncabled because all of them are down.
func TestUncabledPortsNeverHadALink(t *testing.T) {
	n := &fabric.Node{Policy: &fabric.Policy{}}
	for _, name := range []string{"a", "b"} {
		n.HCAs = append(n.HCAs, card(name, "X", fabric.PortActive, fabric.PortDown)...)
	}
	n.HCAs[1].Ports[0].Seen.Active, n.HCAs[3].Ports[0].Seen.Active = true, true
	if list := Run(n, []*Check{Find("port_active")}); len(Failures(list)) != 2 {
		t.Errorf("%v", list)
	}
}

// Uncabled ports are those that are down with the same number on every card of the board, and on two at least.
func TestUncabledPorts(t *testing.T) {
	const up, down = fabric.PortActive, fabric.PortDown
	for _, test := range []struct {
		name  string
		cards [][]fabric.HCA
		want  int // verdicts that failed
	}{
		{"the second of both", [][]fabric.HCA{card("a", "X", up, down), card("b", "X", up, down)}, 0},
		{"one alone", [][]fabric.HCA{card("a", "X", up, down)}, 1},
		{"one of two", [][]fabric.HCA{card("a", "X", up, down), card("b", "X", up, up)}, 1},
		{"another board uses it", [][]fabric.HCA{card("a", "X", up, down), card("b", "X", up, down), card("c", "Y", up, up)}, 0},
		{"another board lacks it", [][]fabric.HCA{card("a", "X", up, down), card("c", "Y", up, down)}, 2},
		{"different ones", [][]fabric.HCA{card("a", "X", up, down), card("b", "X", down, up)}, 2},
		{"a card without any", [][]fabric.HCA{card("a", "X", up, down), card("b", "X", up, down), card("c", "X", down, down)}, 1},
	} {
		n := &fabric.Node{Policy: &fabric.Policy{}}
		for _, c := range test.cards {
			n.HCAs = append(n.HCAs, c...)
		}
		list := Run(n, []*Check{Find("port_active")})
		if failed := len(Failures(list)); failed != test.want || len(Unknowns(list)) > 0 {
			t.Errorf("%s: %d failed, want %d: %v", test.name, failed, test.want, list)
		}
	}
}
