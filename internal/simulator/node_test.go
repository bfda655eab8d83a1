// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// eachPlatform runs a test on every healthy node.
func eachPlatform(t *testing.T, test func(t *testing.T, n *Node)) {
	for _, p := range platforms() {
		t.Run(p.name, func(t *testing.T) { test(t, p.build()) })
	}
}

func TestPlatformsAreConsistent(t *testing.T) {
	eachPlatform(t, func(t *testing.T, n *Node) {
		if err := n.check(); err != nil {
			t.Fatal(err)
		}
		unique(t, "PCI path", n.Functions, func(f Function) string { return f.Path })
		unique(t, "PCI address", n.Functions, Function.Address)
		unique(t, "HCA", n.HCAs, func(h HCA) string { return h.Name })
		unique(t, "auxiliary device", n.HCAs, func(h HCA) string { return cmp.Or(h.Aux.Name, h.Name) })
		unique(t, "GPU", n.GPUs, func(g GPU) string { return g.PCI })
		unique(t, "interface", n.NetDevs, func(d NetDev) string { return d.Name })
		unique(t, "interface index", n.NetDevs, func(d NetDev) string { return strconv.Itoa(d.Index) })
		if !slices.IsSortedFunc(n.GPUs, func(a, b GPU) int { return strings.Compare(a.PCI, b.PCI) }) {
			t.Error("GPUs are not in the order of their PCI addresses")
		}
	})
}

func TestGUIDs(t *testing.T) {
	eachPlatform(t, func(t *testing.T, n *Node) {
		for _, h := range n.HCAs {
			var card []GUID // of all functions in the slot
			for _, o := range n.HCAs {
				if function := n.Function(o.PCI); inSlot(o) == inSlot(h) && function.PF == "" {
					card = append(card, o.GUID)
				}
				if o.Name != h.Name && o.GUID == h.GUID && h.GUID != 0 {
					t.Errorf("%s and %s have the same GUID", h.Name, o.Name)
				}
			}
			function := n.Function(h.PCI)
			switch driver := function.Chip.Driver; {
			case driver == "efa":
				if h.GUID != 0 || h.ImageGUID != 0 {
					t.Errorf("%s has GUIDs %s and %s", h.Name, h.GUID, h.ImageGUID)
				}
			case strings.HasPrefix(driver, "mlx") && function.PF == "":
				if h.ImageGUID != slices.Min(card) {
					t.Errorf("%s: image GUID %s is not the first of its card %v", h.Name, h.ImageGUID, card)
				}
			default:
				if h.ImageGUID != h.GUID {
					t.Errorf("%s: image GUID %s is not its own, %s", h.Name, h.ImageGUID, h.GUID)
				}
			}
		}
	})
}

func inSlot(h HCA) string { return strings.TrimRight(h.PCI, "0123456789") }

func unique[T any](t *testing.T, what string, all []T, key func(T) string) {
	t.Helper()
	seen := map[string]bool{}
	for _, v := range all {
		if k := key(v); seen[k] {
			t.Errorf("%s %s is there twice", what, k)
		} else {
			seen[k] = true
		}
	}
}

// TestRails counts the GPUs and the HCAs that share a PCIe switch with one.
func TestRails(t *testing.T) {
	want := map[string][2]int{
		"dgx-a100-ib": {8, 8}, "dgx-h100-roce": {8, 8}, "bnxt-roce": {8, 8}, "ionic-roce": {8, 8}, "efa": {8, 32},
		"sriov-vf": {2, 4}, "irdma-roce": {4, 0}, "mana": {2, 0}, "two-port": {2, 0}, "roce-bond": {8, 4}, "roce-vlan": {2, 0},
		"dgx-b200-ib": {8, 8}, "gb200": {4, 0}, "nvlink-pairs": {4, 2}, "l40s-pcie": {4, 0}, "vm-flat": {4, 0}, "cpu-node": {0, 0},
		"dual-port": {4, 8}, "mixed-vendors": {2, 2}, "half-cabled": {8, 8}, "single-card": {2, 0},
		"mixed-nics-roce": {8, 9}, "mixed-nics-ib": {8, 10}, "oci-h100": {8, 18}, "sriov-rails": {8, 128},
	}
	for _, p := range platforms() {
		n, beside := p.build(), map[string]bool{}
		for _, g := range n.GPUs {
			gpu := n.Function(g.PCI)
			for _, h := range n.HCAs {
				if nic := n.Function(h.PCI); root(nic.Path) == root(gpu.Path) {
					beside[h.Name] = true
					if nic.NUMA != gpu.NUMA {
						t.Errorf("%s: %s and GPU %s share a switch, but not the NUMA node", p.name, h.Name, g.PCI)
					}
				}
			}
		}
		if got := [2]int{len(n.GPUs), len(beside)}; got != want[p.name] {
			t.Errorf("%s: %d GPUs and HCAs beside one, want %d: %v", p.name, got, want[p.name], beside)
		}
	}
}

// root returns the path as far as the root port.
func root(path string) string { return strings.Join(strings.SplitN(path, "/", 3)[:2], "/") }

func TestGIDTables(t *testing.T) {
	eachPlatform(t, func(t *testing.T, n *Node) {
		for _, h := range n.HCAs {
			for _, p := range h.Ports {
				id := h.GUID
				if p.LinkLayer == Unspecified {
					id = eui48(macOf(fmt.Sprintf("0e:f0:1e:40:%s:01", h.PCI[5:7])))
				}
				if p.LinkLayer != Ethernet {
					want := GID{0, netip.MustParseAddr("fe80::" + id.String()), RoCEv1, ""}
					if !slices.Equal(p.GIDs, []GID{want}) {
						t.Errorf("%s: GIDs %v, want %v", h.Name, p.GIDs, want)
					}
					continue
				}
				types := len(p.GIDTypes)
				if p.State != active && len(p.GIDs) == types { // no cable, and no address
					continue
				}
				if len(p.GIDs) != 2*types || !p.GIDs[0].Addr.IsLinkLocalUnicast() || !p.GIDs[types].Addr.Is4In6() {
					t.Fatalf("%s: GIDs %v", h.Name, p.GIDs)
				}
				for i, g := range p.GIDs {
					want := GID{i, p.GIDs[i/types*types].Addr, p.GIDTypes[i%types], p.NetDev}
					if vlan := lookup(n.NetDevs, func(d NetDev) bool { return d.VLAN.Lower == p.NetDev }); vlan != nil && i >= types {
						want.NetDev = vlan.Name
					}
					if g != want {
						t.Errorf("%s: GID %v, want %v", h.Name, g, want)
					}
				}
			}
		}
	})
}

func TestTextsOfTheKernel(t *testing.T) {
	if got := guidOf(macOf("a0:88:c2:4e:10:18")).String(); got != "a088:c203:004e:1018" {
		t.Errorf("GUID %s", got)
	}
	if got := gidText(netip.MustParseAddr("::ffff:192.168.7.1")); got != "0000:0000:0000:0000:0000:ffff:c0a8:0701" {
		t.Errorf("GID %s", got)
	}
	d := NetDev{Name: "hca0", Address: "36:4f:2f:b7:27:f8"}
	if got := gidText(roceGIDs(&d, []string{RoCEv2})[0].Addr); got != "fe80:0000:0000:0000:344f:2fff:feb7:27f8" {
		t.Errorf("link-local GID %s", got)
	}
	if got := ipoibAddress(0x0c42a103005562a2); got != "00:00:10:29:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:55:62:a2" {
		t.Errorf("IPoIB address %s", got)
	}
	for route, want := range map[Route]string{
		{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr("192.0.2.1"), "eth0", 0}: "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0",
		{netip.MustParsePrefix("192.0.2.0/24"), netip.Addr{}, "eth0", 0}:                  "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0",
	} {
		if got := route.v4(); got != want {
			t.Errorf("route %q, want %q", got, want)
		}
	}
	const v6 = "00000000000000000000000000000000 00 00000000000000000000000000000000 00 fd000000000000000000000000000001 00000400 00000001 00000000 00000003     eth0"
	if got := (Route{netip.MustParsePrefix("::/0"), netip.MustParseAddr("fd00::1"), "eth0", 0}).v6(); got != v6 {
		t.Errorf("route %q, want %q", got, v6)
	}
}

func TestCloneSharesNothing(t *testing.T) {
	eachPlatform(t, func(t *testing.T, n *Node) {
		before := layoutAndAnswers(n)
		c := n.Clone()
		for i := range c.HCAs {
			c.LinkDown(c.HCAs[i].Name)
			p := c.HCAs[i].Port(1)
			p.GIDs[0].Type = "other"
			for _, all := range [][]Statistic{p.PMA, p.HW, p.CM, c.HCAs[i].HW} {
				for k := range all {
					all[k].Start++
				}
			}
		}
		for i, d := range n.NetDevs {
			c.SetAddrs(d.Name)
			for k := range d.Stats {
				c.NetDevs[i].Stats[k].Start++
			}
			for k := range d.QoS.Apps {
				c.NetDevs[i].QoS.Apps[k].Priority++
			}
		}
		c.Files[ncclConf] = ""
		c.Routes[0].NetDev = "lo"
		for i := range c.Daemons {
			c.Daemons[i].PID++
		}
		c.Functions[0].Link.Width = 1
		if ch := before.to(layoutAndAnswers(n)); len(ch.added)+len(ch.removed)+len(ch.changed) > 0 {
			t.Errorf("changing the copy changed the original: %v", ch)
		}
	})
}

func TestMistakesInANode(t *testing.T) {
	for want, edit := range map[string]func(*Node){
		`hca mlx5_0: no PCI function "0000:ff:00.0"`:                     func(n *Node) { n.HCAs[0].PCI = "0000:ff:00.0" },
		`hca mlx5_0 port 1: no interface "eth9"`:                         func(n *Node) { n.HCAs[0].Ports[0].NetDev = "eth9" },
		`hca mlx5_0 port 1: no GID slot 256`:                             func(n *Node) { n.HCAs[0].Ports[0].GIDs[0].Index = 256 },
		`interface lo: no PCI function "0000:ff:00.0"`:                   func(n *Node) { n.NetDevs[0].PCI = "0000:ff:00.0" },
		`interface enp41s0f0np0: no master "bond1"`:                      func(n *Node) { n.NetDev("enp41s0f0np0").Master = "bond1" },
		`interface bond0: no interface "eth9" below`:                     func(n *Node) { n.NetDev("bond0").VLAN.Lower = "eth9" },
		`interface bond0: no DCB, but PFC or applications`:               func(n *Node) { n.NetDev("bond0").QoS.PFC = 1 },
		`interface enp24s0np0: both PFC and global pause`:                func(n *Node) { n.qos("mlx5_0").Pause.Receive = true },
		`interface enp24s0np0: priority 8 of an application`:             func(n *Node) { n.qos("mlx5_0").MapDSCP(26, 8) },
		`interface enp24s0np0: DSCP 64`:                                  func(n *Node) { n.qos("mlx5_0").Apps[0].Protocol = 64 },
		`flap: no hca "mlx5_x"`:                                          func(n *Node) { n.Flaps = []Flap{{"mlx5_x", 2, 1}} },
		`flap of mlx5_0: down for 1 of 0 steps`:                          func(n *Node) { n.Flaps = []Flap{{"mlx5_0", 0, 1}} },
		`host: 0 ticks per second`:                                       func(n *Node) { n.Host.HZ = 0 },
		`PCI function 0000:18:00.0: no physical function "0000:ff:00.0"`: func(n *Node) { n.Function("0000:18:00.0").PF = "0000:ff:00.0" },
		`file "../escape": not a path below the root`:                    func(n *Node) { n.Files["../escape"] = "" },
	} {
		n := healthyNode(h100)
		edit(n)
		if _, err := n.Materialise(t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// The error names a wrong entry, whatever function lays the node out.
func TestWrongEntryIsNamed(t *testing.T) {
	n := assembly{Node: &Node{Host: Host{HZ: 100}}}
	n.addNetDev(adapter{driver: rdmaDriver{linkLayer: Ethernet}}, nic{device: "mlx5_9", netdev: "eth9", mac: "a0:88:c2", addr: "10.0.0.1"}, "", 0)
	_, err := n.Materialise(t.TempDir())
	if err == nil || strings.Count(err.Error(), `internal/simulator/platforms_*.go: entry "mlx5_9" has `) != 2 {
		t.Errorf("%v, expected the entry and both its faults", err)
	}
}
