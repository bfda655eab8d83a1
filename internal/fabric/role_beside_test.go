// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// besideGPU0 is a place below the switch of the first GPU of a switched box.
const besideGPU0 = "10:01.0/11:00.0/12:04.0/19:00."

// mixed is a box with a rail for each GPU and a ConnectX-6 Dx of 100 Gb/s with two ports below the switch of the first.
func mixed() *Node {
	n := switched(8, 1, "rail").with(card("mlx5_8", "cx6", besideGPU0+"0", 0), card("mlx5_9", "cx6", besideGPU0+"1", 0)).node()
	for i := range n.HCAs {
		n.HCAs[i].ImageGUID = ok(n.HCAs[i].Name)
	}
	for _, name := range []string{"mlx5_8", "mlx5_9"} {
		h := n.HCA(name)
		h.Type, h.ImageGUID = ok("MT4125"), ok("card")
		setRate(h, 12.5e9)
	}
	return n
}

func setRate(h *HCA, bytesPerSecond float64) {
	h.Ports[0].Rate = ok(Rate{BytesPerSecond: bytesPerSecond})
	h.Ports[0].Seen = PortHistory{Active: true, Rate: bytesPerSecond}
}

// unplug takes the link of a port away; the exporter has only just started.
func unplug(h *HCA) {
	p := &h.Ports[0]
	p.State, p.PhysState, p.Rate, p.Seen = ok(PortDown), ok(PhysDisabled), AbsentFact[Rate]("", at), PortHistory{}
}

func listed(n *Node, value string) {
	n.NCCL.Files = []NCCLFile{{Path: "/etc/nccl.conf", Exists: ok(true)}}
	n.NCCL.Variables = []NCCLVariable{{Name: "NCCL_IB_HCA", Value: value, Source: "/etc/nccl.conf:1"}}
}

func rails(n *Node, edit func(h *HCA)) {
	for i := range n.HCAs {
		if n.HCAs[i].BoardID.Or("") == "rail" {
			edit(&n.HCAs[i])
		}
	}
}

func (n *Node) drop(name string) {
	n.HCAs = slices.DeleteFunc(n.HCAs, func(h HCA) bool { return h.Name == name })
	n.PCI.Functions = slices.DeleteFunc(n.PCI.Functions, func(f PCIFunction) bool { return slices.Contains(f.HCAs, name) })
}

// same makes the NICs beside the rails equal to them in all but the board.
func same(n *Node) {
	for _, name := range []string{"mlx5_8", "mlx5_9"} {
		n.HCA(name).Type = ok("MT4129")
		setRate(n.HCA(name), 50e9)
	}
}

const eight = "=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7"

func TestRolesBesideRails(t *testing.T) {
	const both, none = "mlx5_8 mlx5_9", ""
	for _, c := range []struct {
		name string
		edit func(n *Node)
		want string // devices that are storage
	}{
		{"a slower NIC of another board", func(*Node) {}, both},
		{"one port of it never had a link", func(n *Node) { unplug(n.HCA("mlx5_9")) }, both},
		// An unused ConnectX-6 Dx beside ConnectX-7: sgl-project/sglang#6823.
		{"no port of it ever had a link", func(n *Node) { unplug(n.HCA("mlx5_8")); unplug(n.HCA("mlx5_9")) }, both},
		{"no port of it ever had a link, and its chip is that of the rails", func(n *Node) {
			same(n)
			unplug(n.HCA("mlx5_8"))
			unplug(n.HCA("mlx5_9"))
		}, none},
		{"no port of it ever had a link, and a GPU has no other NIC", func(n *Node) {
			n.drop("mlx5_0")
			unplug(n.HCA("mlx5_8"))
			unplug(n.HCA("mlx5_9"))
		}, none},
		{"its link is down, and was up", func(n *Node) {
			for _, name := range []string{"mlx5_8", "mlx5_9"} {
				unplug(n.HCA(name))
				n.HCA(name).Ports[0].Seen = PortHistory{Active: true, Rate: 12.5e9}
			}
		}, both},
		{"the links of all rails are down, and were up", func(n *Node) {
			rails(n, func(h *HCA) { unplug(h); h.Ports[0].Seen = PortHistory{Active: true, Rate: 50e9} })
		}, both},
		{"the links of all rails are down, and the site says how fast they are", func(n *Node) {
			rails(n, unplug)
			n.Policy.PortRates = map[Role]float64{RoleCompute: 50e9}
		}, both},
		{"the rail beside it left the bus", func(n *Node) { n.drop("mlx5_0") }, both},
		{"the rail beside it hangs", func(n *Node) { *n.HCA("mlx5_0") = n.HCA("mlx5_0").WithoutFacts(ReasonStuck, at) }, both},
		{"all rails lost half of their lanes", func(n *Node) { rails(n, func(h *HCA) { setRate(h, 25e9) }) }, both},
		{"as fast as the rails", same, none},
		{"a rail of the same board is degraded", func(n *Node) {
			n.drop("mlx5_8")
			n.drop("mlx5_9")
			setRate(n.HCA("mlx5_3"), 12.5e9)
		}, none},
		{"a rail was replaced by one with another PSID, which is degraded", func(n *Node) {
			n.drop("mlx5_8")
			n.drop("mlx5_9")
			n.HCA("mlx5_3").BoardID = ok("spare")
			setRate(n.HCA("mlx5_3"), 12.5e9)
		}, none},
		{"boards that no driver reports, one degraded", func(n *Node) {
			n.drop("mlx5_8")
			n.drop("mlx5_9")
			rails(n, func(h *HCA) { h.BoardID, h.Type = AbsentFact[string]("", at), AbsentFact[string]("", at) })
			setRate(n.HCA("mlx5_3"), 12.5e9)
		}, none},
		{"the board is not known", func(n *Node) {
			for _, name := range []string{"mlx5_8", "mlx5_9"} {
				n.HCA(name).BoardID, n.HCA(name).Type = UnknownFact[string](ReasonIO, "", at), UnknownFact[string](ReasonIO, "", at)
			}
		}, none},

		{"Ethernet beside InfiniBand, as fast", func(n *Node) {
			same(n)
			rails(n, func(h *HCA) { h.Ports[0].LinkLayer = ok(LinkInfiniBand) })
		}, both},
		{"Ethernet beside InfiniBand, without a link", func(n *Node) {
			rails(n, func(h *HCA) { h.Ports[0].LinkLayer = ok(LinkInfiniBand) })
			unplug(n.HCA("mlx5_8"))
			unplug(n.HCA("mlx5_9"))
		}, both},
		{"InfiniBand for storage beside Ethernet", func(n *Node) {
			n.HCA("mlx5_8").Ports[0].LinkLayer, n.HCA("mlx5_9").Ports[0].LinkLayer = ok(LinkInfiniBand), ok(LinkInfiniBand)
		}, both},

		{"left out by the list", func(n *Node) { same(n); listed(n, eight) }, both},
		{"left out by name", func(n *Node) { same(n); listed(n, "^mlx5_8,mlx5_9") }, both},
		{"left out by port", func(n *Node) { same(n); listed(n, "^=mlx5_8:1") }, "mlx5_8"},
		{"a list that takes them", func(n *Node) { same(n); listed(n, "mlx5") }, none},
		{"an empty list", func(n *Node) { same(n); listed(n, "") }, none},
		{"a list of devices that are not there", func(n *Node) { same(n); listed(n, "bnxt_re") }, none},
		{"left out and of the same board", func(n *Node) {
			same(n)
			n.HCA("mlx5_8").BoardID, n.HCA("mlx5_9").BoardID = ok("rail"), ok("rail")
			listed(n, eight)
		}, none},
		{"a device in software beside a rail, left out by the list", func(n *Node) {
			rails(n, func(h *HCA) { h.PCI = ok("0000:01:00.0") })
			n.drop("mlx5_9")
			h := n.HCA("mlx5_8")
			h.PCI, h.BoardID, h.Type = AbsentFact[string]("", at), AbsentFact[string]("", at), AbsentFact[string]("", at)
			n.PCI.Functions = slices.DeleteFunc(n.PCI.Functions, func(f PCIFunction) bool { return slices.Contains(f.HCAs, "mlx5_8") })
			listed(n, eight)
		}, "mlx5_8"},
		{"a list that forgets a rail", func(n *Node) { listed(n, "^=mlx5_3") }, both},
		{"a list of the wrong ones", func(n *Node) { listed(n, "=mlx5_8,mlx5_9") }, none},
		{"left out, and no distance is known", func(n *Node) {
			same(n)
			listed(n, eight)
			n.PCI = PCI{}
		}, both},

		{"beside the port of the default route", func(n *Node) {
			same(n)
			n.HCA("mlx5_8").BoardID, n.HCA("mlx5_9").BoardID = ok("rail"), ok("rail")
			n.NetDev("net-mlx5_8").DefaultRoute = ok(true)
		}, "mlx5_9"},
		{"rails of two ports, one with the default route", func(n *Node) {
			n.drop("mlx5_8")
			n.drop("mlx5_9")
			n.HCA("mlx5_1").ImageGUID = n.HCA("mlx5_0").ImageGUID
			n.NetDev("net-mlx5_0").DefaultRoute = ok(true)
		}, none},
		{"the site says compute", func(n *Node) { n.Policy.Roles = []RoleRule{{regexp.MustCompile("^mlx5_[89]$"), RoleCompute}} }, none},
	} {
		n := mixed()
		c.edit(n)
		for range 2 { // a second derivation says the same
			n.DerivePorts()
			if got := strings.Join(storageOf(n), " "); got != c.want {
				t.Errorf("%s: %q are storage, want %q", c.name, got, c.want)
			}
		}
	}
}

// Where two GPUs share a rail, the NIC beside it has to be slower than the half that each of them gets.
func TestRolesBesideSharedRails(t *testing.T) {
	for gigabits, want := range map[float64]string{100: "mlx5_8", 200: ""} {
		n := switched(4, 2, "rail").with(card("mlx5_8", "cx6", besideGPU0+"0", 0)).node()
		h := n.HCA("mlx5_8")
		h.Type = ok("MT4125")
		setRate(h, gigabits*1e9/8)
		n.DerivePorts()
		if got := strings.Join(storageOf(n), " "); got != want {
			t.Errorf("%g Gb/s: %q are storage, want %q", gigabits, got, want)
		}
	}
}

// Both kinds of evidence at once must not leave a node without a port for training.
func TestRolesNeverAllBeside(t *testing.T) {
	b := box{}
	for i := range 4 { // one switch for everything
		at := func(device int) place {
			return place{fmt.Sprintf("10:01.0/11:00.0/12:%02x.0/%02x:00.0", device, 0x20+device), 0}
		}
		b.gpus = append(b.gpus, at(i))
		b.nics = append(b.nics, nicAt{at(8 + i), fmt.Sprint("mlx5_", i), "rail"})
	}
	n := b.with(nicAt{place{"10:01.0/11:00.0/12:0f.0/2f:00.0", 0}, "mlx5_4", "old"}).node()
	h := n.HCA("mlx5_4")
	h.Type, h.Ports[0].LinkLayer = ok("MT4115"), ok(LinkInfiniBand)
	setRate(h, 12.5e9)
	n.DerivePorts()
	if got := strings.Join(storageOf(n), " "); got != "mlx5_4" {
		t.Errorf("%q are storage beside four RoCE rails", got)
	}
}

// The port of a device with two, one for each fabric, has a role of its own.
func TestRolesOfVPIPorts(t *testing.T) {
	n := switched(4, 1, "rail").node()
	for i := range n.HCAs {
		h := &n.HCAs[i]
		h.Ports[0].LinkLayer = ok(LinkInfiniBand)
		second := h.Ports[0]
		second.Number, second.LinkLayer, second.NetDev = 2, ok(LinkEthernet), ok(fmt.Sprint("eth", i))
		h.Ports = append(h.Ports, second)
	}
	n.DerivePorts()
	for _, h := range n.HCAs {
		if a, b := h.Ports[0].Role.Or(""), h.Ports[1].Role.Or(""); a != RoleCompute || b != RoleStorage {
			t.Errorf("ports of %s are %s and %s", h.Name, a, b)
		}
	}
}

// What the exporter remembers of a port stays while its device hangs.
func TestPortHistory(t *testing.T) {
	h := roce(0)
	p := &h.Ports[0]
	p.Remember()
	p.State, p.Rate = ok(PortDown), AbsentFact[Rate]("", at)
	p.Remember()
	if want := (PortHistory{Active: true, Rate: 50e9}); p.Seen != want || h.WithoutFacts(ReasonStuck, at).Ports[0].Seen != want {
		t.Errorf("remembered %+v, while it hangs %+v", p.Seen, h.WithoutFacts(ReasonStuck, at).Ports[0].Seen)
	}
	p.State, p.Rate = ok(PortActive), ok(Rate{BytesPerSecond: 25e9})
	p.Remember()
	if p.Seen.Rate != 50e9 {
		t.Errorf("the highest rate is %g", p.Seen.Rate)
	}
}

// Nothing is known of the bus: that the slower NIC stands beside the rails is not, either.
func TestRolesWhereTheBusIsUnread(t *testing.T) {
	roles := func(n *Node) string {
		n.DerivePorts()
		var all strings.Builder
		for i := range n.HCAs {
			all.WriteString(string(n.HCAs[i].Ports[0].Role.Or("?")) + " ")
		}
		return all.String()
	}
	rails := strings.Repeat("compute ", 8)
	n := mixed()
	n.Sources = []Source{{Name: SourcePCI, Reason: ReasonIO}}
	if got, want := roles(n), rails+"storage storage "; got != want {
		t.Errorf("it was read before: %s, want %s", got, want)
	}
	n.PCI = PCI{}
	if got, want := roles(n), rails+"? ? "; got != want {
		t.Errorf("never read: %s, want %s", got, want)
	}
	unplug(n.HCA("mlx5_8"))
	unplug(n.HCA("mlx5_9"))
	if got, want := roles(n), rails+"? ? "; got != want {
		t.Errorf("it never had a link: %s, want %s", got, want)
	}
	setRate(n.HCA("mlx5_0"), 12.5e9)
	if got, want := roles(n), rails+"? ? "; got != want {
		t.Errorf("a rail is degraded: %s, want %s", got, want)
	}
	n.Policy.Roles = []RoleRule{{regexp.MustCompile("^mlx5_[89]$"), RoleStorage}}
	if got, want := roles(n), rails+"storage storage "; got != want {
		t.Errorf("the site's word: %s, want %s", got, want)
	}
	n = mixed()
	n.PCI, n.Sources = PCI{}, []Source{{Name: SourcePCI, Up: true}}
	if got, want := roles(n), rails+"compute compute "; got != want {
		t.Errorf("there is no bus: %s, want %s", got, want)
	}
}
