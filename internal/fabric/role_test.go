// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// box is a machine of GPUs and NICs at places as lspci -PP writes them, with their NUMA nodes.
type box struct {
	gpus []place
	nics []nicAt
}

type place struct {
	lspci string
	numa  int
}

type nicAt struct {
	place
	name, board string
}

func (b box) node() *Node {
	n := &Node{At: at, Policy: &Policy{}, Host: Host{Hypervisor: ok(false)}}
	var functions []PCIFunction
	for _, g := range b.gpus {
		functions = append(functions, functionAt(PCIGPU, g.lspci, g.numa))
	}
	for _, c := range b.nics {
		f := functionAt(PCINIC, c.lspci, c.numa)
		f.HCAs = []string{c.name}
		functions = append(functions, f)
		h := roce(0)
		h.Name, h.BoardID = c.name, ok(c.board)
		h.Ports[0].NetDev = ok("net-" + c.name)
		n.HCAs = append(n.HCAs, h)
		n.NetDevs = append(n.NetDevs, NetDev{Name: "net-" + c.name, Speed: ok(50e9), DefaultRoute: ok(false)})
	}
	n.PCI = busOf(functions...)
	return n
}

// switched is a machine with so many switches, half of them on each socket, below each of which are a NIC and so many
// GPUs. The second half of the addresses is on NUMA node 1.
func switched(switches, gpusPerNIC int, board string) box {
	var b box
	for s := range switches {
		numa := s * 2 / switches
		root := strconv.FormatInt(int64(0x10+16*s), 16)
		up := root + ":01.0/" + strconv.FormatInt(int64(0x11+16*s), 16) + ":00.0/"
		port := strconv.FormatInt(int64(0x12+16*s), 16)
		b.nics = append(b.nics, nicAt{place{up + port + ":00.0/" + strconv.FormatInt(int64(0x13+16*s), 16) + ":00.0", numa}, "mlx5_" + strconv.Itoa(s), board})
		for g := range gpusPerNIC {
			b.gpus = append(b.gpus, place{up + port + ":0" + strconv.Itoa(g+1) + ".0/" + strconv.FormatInt(int64(0x14+16*s+g), 16) + ":00.0", numa})
		}
	}
	return b
}

func (b box) with(c ...nicAt) box {
	b.nics = append(b.nics, c...)
	return b
}

// card is a NIC at a root port of its own.
func card(name, board, lspci string, numa int) nicAt { return nicAt{place{lspci, numa}, name, board} }

// storageOf names the devices that are storage.
func storageOf(n *Node) (names []string) {
	for i := range n.HCAs {
		if n.HCAs[i].Serves(RoleStorage) {
			names = append(names, n.HCAs[i].Name)
		}
	}
	return names
}

func TestRolesByDistance(t *testing.T) {
	storage := []nicAt{card("mlx5_8", "dual", "90:01.0/91:00.0", 1), card("mlx5_9", "dual", "90:01.0/91:00.1", 1)}
	l40s := box{
		gpus: []place{{"20:01.0/21:00.0", 0}, {"30:01.0/31:00.0", 0}, {"a0:01.0/a1:00.0", 1}, {"b0:01.0/b1:00.0", 1}},
		nics: []nicAt{card("mlx5_0", "x", "40:01.0/41:00.0", 0), card("mlx5_1", "x", "c0:01.0/c1:00.0", 1), card("mlx5_2", "y", "20:02.0/22:00.0", 0)},
	}
	// One socket has a switch, the other has not: its GPUs have no nearer NIC than mlx5_1.
	lopsided := box{
		gpus: []place{{"10:01.0/11:00.0/12:01.0/14:00.0", 0}, {"a0:01.0/a1:00.0", 1}},
		nics: []nicAt{card("mlx5_0", "x", "10:01.0/11:00.0/12:00.0/13:00.0", 0), card("mlx5_1", "y", "c0:01.0/c1:00.0", 1), card("mlx5_2", "y", "40:01.0/41:00.0", 0)},
	}
	moved := switched(8, 1, "one")
	moved.gpus[3] = place{"30:01.0/31:00.0/32:02.0/35:00.0", 0} // below the switch of mlx5_2
	for _, c := range []struct {
		name string
		box  box
		edit func(n *Node)
		want string // devices that are storage
	}{
		{"DGX H100", switched(8, 1, "one").with(storage...), nil, "mlx5_8 mlx5_9"},
		{"storage of InfiniBand", switched(8, 1, "one").with(storage...), func(n *Node) { n.HCA("mlx5_9").Ports[0].LinkLayer = ok(LinkInfiniBand) }, "mlx5_8 mlx5_9"},
		{"two GPUs a NIC", switched(4, 2, "one").with(storage...), nil, "mlx5_8 mlx5_9"},
		{"ten alike", switched(8, 1, "one").with(card("mlx5_8", "one", "90:01.0/91:00.0", 1)), nil, "mlx5_8"},
		{"ten alike, and a rail left the bus", switched(8, 1, "one").with(card("mlx5_8", "one", "90:01.0/91:00.0", 1), card("mlx5_9", "one", "98:01.0/99:00.0", 1)), func(n *Node) { n.drop("mlx5_3") }, "mlx5_8 mlx5_9"},
		{"nine alike, and a GPU has none near", switched(8, 1, "one").with(card("mlx5_8", "one", "90:01.0/91:00.0", 1)), func(n *Node) { n.drop("mlx5_3") }, ""},
		{"two GPUs a NIC, all NICs alike", switched(4, 2, "one").with(card("mlx5_8", "one", "90:01.0/91:00.0", 1)), nil, ""},
		{"board of the other unknown", switched(4, 2, "one").with(storage...), func(n *Node) { n.HCA("mlx5_8").BoardID = UnknownFact[string](ReasonIO, "", at) }, "mlx5_9"},
		{"a GPU below the wrong switch", moved.with(storage...), nil, "mlx5_8 mlx5_9"},
		{"storage below a switch of GPUs", switched(2, 1, "one").with(card("mlx5_8", "dual", "10:01.0/11:00.0/12:04.0/19:00.0", 0)), nil, ""},
		{"storage below a cascade", switched(2, 1, "one").with(card("mlx5_8", "dual", "10:01.0/11:00.0/12:04.0/19:00.0/1a:00.0/1b:00.0", 0)), nil, ""},
		{"no switches", l40s, nil, ""},
		{"a switch on one socket only", lopsided, nil, "mlx5_2"},
		{"no GPUs", box{nics: switched(8, 1, "one").with(storage...).nics}, nil, ""},
		{"no NIC near", box{gpus: l40s.gpus, nics: storage}, nil, ""},
		{"a flat guest", box{gpus: []place{{"00:05.0", 0}, {"00:06.0", 0}}, nics: []nicAt{card("mlx5_0", "x", "00:07.0", 0), card("mlx5_1", "y", "00:08.0", 0)}}, func(n *Node) { n.Host.Hypervisor = ok(true) }, ""},
		{"a guest with switches", switched(8, 1, "one").with(storage...), func(n *Node) { n.Host.Hypervisor = ok(true) }, "mlx5_8 mlx5_9"},
		{"NUMA nodes unknown", switched(8, 1, "one").with(card("mlx5_8", "dual", "90:01.0/91:00.0", -1)), nil, ""},
		{"functions not read", switched(8, 1, "one").with(storage...), func(n *Node) { n.PCI = PCI{} }, ""},
		{"the site says compute", switched(8, 1, "one").with(storage...), func(n *Node) {
			n.Policy.Roles = []RoleRule{{regexp.MustCompile("^mlx5_8$"), RoleCompute}}
		}, "mlx5_9"},
		{"the site says storage of what is near", switched(8, 1, "one"), func(n *Node) {
			n.Policy.Roles = []RoleRule{{regexp.MustCompile("^mlx5_7$"), RoleStorage}}
		}, "mlx5_7"},
		{"the site says management of all that is near", switched(8, 1, "one").with(storage...), func(n *Node) {
			n.Policy.Roles = []RoleRule{{regexp.MustCompile("^mlx5_[0-7]$"), RoleManagement}}
		}, ""},
		{"a default route", switched(8, 1, "one").with(storage...), func(n *Node) { n.NetDev("net-mlx5_8").DefaultRoute = ok(true) }, "mlx5_9"},
		{"link layer unknown", switched(8, 1, "one").with(storage...), func(n *Node) { n.HCA("mlx5_8").Ports[0].LinkLayer = UnknownFact[LinkLayer](ReasonStuck, "", at) }, "mlx5_9"},
	} {
		n := c.box.node()
		if c.edit != nil {
			c.edit(n)
		}
		n.DerivePorts()
		if got := strings.Join(storageOf(n), " "); got != c.want {
			t.Errorf("%s: %q are storage, want %q", c.name, got, c.want)
		}
	}
}

// Ports of one device may be for different things: only the one without evidence against it follows the distance.
func TestRolesOfMixedPorts(t *testing.T) {
	n := switched(8, 1, "one").with(card("mlx5_8", "dual", "90:01.0/91:00.0", 1)).node()
	h := n.HCA("mlx5_8")
	second := h.Ports[0]
	second.Number, second.NetDev = 2, ok("eno1")
	h.Ports = append(h.Ports, second)
	n.NetDevs = append(n.NetDevs, NetDev{Name: "eno1", Speed: ok(50e9), DefaultRoute: ok(true)})
	n.DerivePorts()
	if a, b := h.Ports[0].Role.Or(""), h.Ports[1].Role.Or(""); a != RoleStorage || b != RoleManagement {
		t.Errorf("ports are %s and %s", a, b)
	}
}

// One GPU to which the distance is not known is enough to leave a NIC what it was.
func TestRolesWithoutDistance(t *testing.T) {
	storage := func(n *Node) []string {
		n.DerivePorts()
		return storageOf(n)
	}
	b := switched(8, 1, "one").with(card("mlx5_8", "dual", "90:01.0/91:00.0", 1))
	want := []string{"mlx5_8"}
	if got := storage(b.node()); !slices.Equal(got, want) {
		t.Fatalf("%v are storage, want %v", got, want)
	}
	for i, f := range b.node().PCI.Functions {
		n := b.node()
		n.PCI.Functions[i].NUMANode = UnknownFact[int](ReasonMissing, "", at)
		decides := f.Kind == PCIGPU || slices.Contains(f.HCAs, "mlx5_8")
		if got := storage(n); decides && len(got) > 0 || !decides && !slices.Equal(got, want) {
			t.Errorf("without the NUMA node of %s %v are storage", f.Address, got)
		}
	}
	again := b.node()
	storage(again)
	if got := storage(again); !slices.Equal(got, want) {
		t.Errorf("a second derivation says %v, the first %v", got, want)
	}
}

// A device that hangs must not make it look as if GPUs had other NICs, nor storage be compute.
func TestRailsOutliveADevice(t *testing.T) {
	healthy := switched(4, 1, "one").with(card("mlx5_8", "one", "90:01.0/91:00.0", 1)).node()
	healthy.DerivePorts()
	for name, hide := range map[string]func(h *HCA){
		"stuck":      func(h *HCA) { *h = h.WithoutFacts(ReasonStuck, at) },
		"never read": func(h *HCA) { *h = (&HCA{Name: h.Name}).WithoutFacts(ReasonStuck, at) },
	} {
		for _, device := range []string{"mlx5_1", "mlx5_8"} {
			n := switched(4, 1, "one").with(card("mlx5_8", "one", "90:01.0/91:00.0", 1)).node()
			hide(n.HCA(device))
			n.DerivePorts()
			for i, r := range n.PCI.Rails {
				if was := healthy.PCI.Rails[i]; r.NIC != was.NIC || r.Number != was.Number || r.Shared || r.Distance.Or(DistanceSYS) != DistancePIX {
					t.Errorf("%s %s: GPU %s has rail %+v, had %+v", device, name, r.GPU, r, was)
				}
			}
			if got := storageOf(n); device != "mlx5_8" && !slices.Equal(got, []string{"mlx5_8"}) {
				t.Errorf("%s %s: %v are storage", device, name, got)
			}
		}
	}
}
