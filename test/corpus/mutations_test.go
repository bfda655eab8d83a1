// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"net/netip"
	"slices"

	"gpufabric_exporter/internal/simulator"
)

// place is where a mutation happens: a device with one port, a GPU, or the node.
type place struct{ device, gpu string }

// mutation is a single fact that goes wrong.
type mutation struct {
	name string
	what string // what it makes wrong there, as simulator labels call it
	mode string // the mode of failure, where that has several
	// ofNode says that it happens to a device, and is wrong with the node.
	ofNode bool
	// everywhere says that a mutation of the node is wrong on each device that trains and has a port on Ethernet.
	everywhere bool
	places     func(m machine) []place
	edit       func(n *simulator.Node, at place)
	// touches names what it changes: of two mutations of one place that touch the same, the later would undo the earlier.
	touches []string
	// hides lists what cannot be seen on the same device or GPU while this is wrong: labels become optional there. A
	// mutation of the node hides it on all of them.
	hides []string
	last  bool // takes the place away, so that nothing can be changed there afterwards
	// more are further findings that follow with certainty, as the other end of an NVLink.
	more func(m machine, at place) []finding
}

// What is hidden on a port without a link, and what on one that does not use the class that the site means.
var (
	onPort = []string{
		"port_down", "rate_below_expected", "rate_mismatch", "no_routable_gid", "gid_index_wrong", "counter_saturated", "pfc_off_on_used_priority",
		"trust_not_dscp", "dscp_maps_to_other_priority", "traffic_class_wrong", "ecn_off_on_used_priority", "global_pause_on", "lossless_buffer_missing",
		"no_bandwidth_share", "notifications_with_data", "traffic_on_wrong_priority", "marked_without_cnp", "pfc_storm", "paused_by_network",
		"lossless_priority_drops", "gid_index_mixed",
	}
	onDevice = append([]string{"firmware_mismatch", "mtu_mismatch", "pcie_link_degraded", "acs_redirect", "numa_mismatch"}, onPort...)
	ofClass  = []string{
		"pfc_off_on_used_priority", "trust_not_dscp", "dscp_maps_to_other_priority", "traffic_class_wrong", "ecn_off_on_used_priority", "global_pause_on",
		"lossless_buffer_missing", "no_bandwidth_share", "notifications_with_data", "traffic_on_wrong_priority", "marked_without_cnp", "pfc_storm",
		"paused_by_network", "lossless_priority_drops",
	}
	ofLossless = []string{"lossless_buffer_missing", "notifications_with_data", "pfc_storm", "paused_by_network", "lossless_priority_drops", "traffic_on_wrong_priority"}
	ofGPU      = []string{"nvlink_down", "gpu_throttled", "pcie_link_degraded", "fabric_not_ready", "gpu_lost", "mig_on"}
)

func mutations() []mutation {
	return slices.Concat(linkMutations(), gidMutations(), classMutations(), trafficMutations(), busMutations(), gpuMutations(), nodeMutations())
}

// on returns the devices that train and meet a condition.
func on(is func(m machine, h *simulator.HCA) bool) func(machine) []place {
	return func(m machine) []place {
		var all []place
		for _, h := range m.compute() {
			if is(m, h) {
				all = append(all, place{device: h.Name})
			}
		}
		return all
	}
}

// gpus returns the GPUs that meet a condition.
func gpus(is func(m machine, g *simulator.GPU) bool) func(machine) []place {
	return func(m machine) []place {
		var all []place
		for i := range m.GPUs {
			if is(m, &m.GPUs[i]) {
				all = append(all, place{gpu: m.GPUs[i].PCI})
			}
		}
		return all
	}
}

// node is the node itself, where it meets a condition.
func node(is func(m machine) bool) func(machine) []place {
	return func(m machine) []place {
		if !is(m) {
			return nil
		}
		return []place{{}}
	}
}

// driver is that of the PCI function of a device.
func driver(n *simulator.Node, h *simulator.HCA) string { return n.Function(h.PCI).Chip.Driver }

// alike counts the devices that train with the same driver, type and board.
func alike(m machine, h *simulator.HCA) int {
	count := 0
	for _, o := range m.compute() {
		if driver(m.Node, o) == driver(m.Node, h) && o.Type == h.Type && o.Board == h.Board {
			count++
		}
	}
	return count
}

// single reports whether no other device is of the same card.
func single(m machine, h *simulator.HCA) bool {
	return !slices.ContainsFunc(m.HCAs, func(o simulator.HCA) bool {
		return o.Name != h.Name && o.ImageGUID == h.ImageGUID && h.ImageGUID != 0
	})
}

func ethernet(_ machine, h *simulator.HCA) bool { return h.Ports[0].LinkLayer == simulator.Ethernet }

func linkMutations() []mutation {
	halves := map[string]string{
		"400 Gb/sec (4X NDR)": "200 Gb/sec (2X NDR)", "200 Gb/sec (4X HDR)": "100 Gb/sec (2X HDR)", "100 Gb/sec (4X EDR)": "50 Gb/sec (2X EDR)",
	}
	// Drivers take the rate from the interface, a bond's is another, and EFA prints constants.
	rated := func(m machine, h *simulator.HCA) bool {
		d := netdev(m.Node, h.Name)
		return d != nil && d.PCI != "" && d.Speed > 0 && halves[h.Ports[0].Rate] != ""
	}
	return []mutation{
		{
			name: "port-down", what: "port_down", touches: []string{"state"}, hides: onPort, last: true,
			places: func(m machine) []place {
				all := on(func(_ machine, h *simulator.HCA) bool { return h.Ports[0].LinkLayer != simulator.Unspecified })(m)
				for _, name := range m.storage {
					if len(m.HCA(name).Ports) == 1 {
						all = append(all, place{device: name})
					}
				}
				return all
			},
			edit: func(n *simulator.Node, at place) { n.LinkDown(at.device) },
		},
		{
			name: "no-subnet-manager", what: "port_down", touches: []string{"state"}, hides: onPort, last: true,
			places: on(func(_ machine, h *simulator.HCA) bool { return h.Ports[0].LinkLayer == simulator.InfiniBand }),
			edit: func(n *simulator.Node, at place) {
				p := &n.HCA(at.device).Ports[0]
				p.State, p.LID, p.SMLID = "2: INIT", 0xffff, 0
				netdev(n, at.device).Carrier = false
			},
		},
		{
			name: "device-gone", what: "compute_ports_missing", ofNode: true, touches: []string{"state"}, hides: onDevice, last: true, more: drifted,
			places: on(func(machine, *simulator.HCA) bool { return true }),
			edit:   func(n *simulator.Node, at place) { n.Unplug(at.device) },
		},
		{
			name: "half-rate", what: "rate_below_expected", touches: []string{"rate"}, places: on(rated),
			edit: func(n *simulator.Node, at place) {
				p, d := &n.HCA(at.device).Ports[0], netdev(n, at.device)
				p.Rate, d.Speed = halves[p.Rate], d.Speed/2
			},
		},
		{
			name: "rate-misreported", what: "rate_mismatch", touches: []string{"rate"},
			places: on(func(m machine, h *simulator.HCA) bool { return rated(m, h) && ethernet(m, h) }),
			edit:   func(n *simulator.Node, at place) { n.HCA(at.device).Ports[0].Rate = "10 Gb/sec (4X SDR)" },
		},
		{
			name: "old-firmware", what: "firmware_mismatch", touches: []string{"firmware"}, more: drifted,
			places: on(func(m machine, h *simulator.HCA) bool {
				return h.Firmware != "" && h.Firmware != "0.0.0.0" && alike(m, h) >= 4 && single(m, h)
			}),
			edit: func(n *simulator.Node, at place) { n.HCA(at.device).Firmware += "-rc1" },
		},
		{
			name: "new-firmware", what: "drift", touches: []string{"firmware"}, // all alike: only the manifest knows
			places: node(func(m machine) bool { return m.manifest }),
			more: func(m machine, _ place) (all []finding) {
				for i := range m.HCAs {
					all = append(all, finding{what: "drift", device: m.HCAs[i].Name})
				}
				return all
			},
			edit: func(n *simulator.Node, _ place) {
				for i := range n.HCAs {
					n.HCAs[i].Firmware += "-rc2"
				}
			},
		},
		{
			name: "small-mtu", what: "mtu_mismatch", touches: []string{"mtu"},
			places: on(func(m machine, h *simulator.HCA) bool {
				return ethernet(m, h) && netdev(m.Node, h.Name) != nil && alike(m, h) >= 4
			}),
			edit: func(n *simulator.Node, at place) { netdev(n, at.device).MTU = 1500 },
		},
		{
			name: "full-counter", what: "counter_saturated", touches: []string{"pma"},
			places: on(func(_ machine, h *simulator.HCA) bool { return h.Ports[0].Statistic("link_downed") != nil }),
			edit:   func(n *simulator.Node, at place) { n.HCA(at.device).Ports[0].Statistic("link_downed").Start = 255 },
		},
	}
}

func gidMutations() []mutation {
	has := func(m machine, h *simulator.HCA) bool {
		d := addressed(m.Node, h.Name)
		return ethernet(m, h) && d != nil && len(d.Addrs) > 0
	}
	return []mutation{
		{
			name: "no-address", what: "no_routable_gid", touches: []string{"gids"}, hides: ofClass, places: on(has),
			edit: func(n *simulator.Node, at place) { n.SetAddrs(addressed(n, at.device).Name) },
		},
		{
			name: "roce-v1-only", what: "no_routable_gid", touches: []string{"gids"}, hides: ofClass,
			places: on(func(m machine, h *simulator.HCA) bool { return has(m, h) && len(h.Ports[0].GIDTypes) == 2 }),
			edit: func(n *simulator.Node, at place) {
				p := &n.HCA(at.device).Ports[0]
				var v1 []simulator.GID
				for _, g := range p.GIDs {
					if g.Type == simulator.RoCEv1 {
						g.Index = len(v1)
						v1 = append(v1, g)
					}
				}
				p.GIDs = v1
			},
		},
		{
			name: "gid-index-0", what: "gid_index_wrong", everywhere: true, touches: []string{"nccl-gid"}, hides: ofClass,
			places: node(func(m machine) bool { return len(on(has)(m)) > 0 }),
			edit:   func(n *simulator.Node, _ place) { configure(n, "NCCL_IB_GID_INDEX=0") },
		},
		{
			name: "gid-index-3", what: "gid_index_set", touches: []string{"nccl-gid"}, places: node(third),
			edit: func(n *simulator.Node, _ place) { configure(n, "NCCL_IB_GID_INDEX=3") },
		},
		{
			name: "gid-index-of-ipv6", what: "gid_index_mixed", ofNode: true, touches: []string{"nccl-gid", "gids"},
			places: on(func(m machine, _ *simulator.HCA) bool { return third(m) && len(m.compute()) >= 4 }),
			edit: func(n *simulator.Node, at place) {
				configure(n, "NCCL_IB_GID_INDEX=3")
				n.SetAddrs(addressed(n, at.device).Name, netip.MustParsePrefix("fd00:7::2/64"))
			},
		},
	}
}

// third reports whether entry 3 of every device that trains is RoCE v2 with an IPv4 address.
func third(m machine) bool {
	return len(m.compute()) > 0 && !slices.ContainsFunc(m.compute(), func(h *simulator.HCA) bool {
		gids := h.Ports[0].GIDs
		return !ethernet(m, h) || len(gids) != 4 || gids[3].Type != simulator.RoCEv2 || !gids[3].Addr.Is4In6()
	})
}

const ncclConf = "etc/nccl.conf"

// configure adds a line to the NCCL configuration of the host.
func configure(n *simulator.Node, line string) { n.Files[ncclConf] += line + "\n" }

func busMutations() []mutation {
	// A card alone in its slot, on a machine that shows its links. A virtual function, as the one that stands on a bus of
	// its own in sriov-vf, has no link.
	alone := func(m machine, h *simulator.HCA) bool {
		f := m.Function(h.PCI)
		slot := f.Path[:len(f.Path)-1]
		count := 0
		for _, o := range m.Functions {
			if len(o.Path) == len(f.Path) && o.Path[:len(o.Path)-1] == slot {
				count++
			}
		}
		return !m.Host.Virtual && count == 1 && f.Link.Width == 16 && bridge(m.Node, h.PCI) != nil
	}
	return []mutation{
		{
			name: "nic-x8", what: "pcie_link_degraded", touches: []string{"link"}, places: on(alone),
			edit: func(n *simulator.Node, at place) { n.Function(n.HCA(at.device).PCI).Link.Width = 8 },
		},
		{
			name: "nic-gen3", what: "pcie_link_degraded", touches: []string{"link"}, places: on(alone),
			edit: func(n *simulator.Node, at place) { n.Function(n.HCA(at.device).PCI).Link.Speed = "8.0 GT/s PCIe" },
		},
		{
			name: "nic-numa", what: "numa_mismatch", touches: []string{"numa"},
			places: on(func(m machine, h *simulator.HCA) bool { return alone(m, h) && beside(m, h) != nil }),
			edit: func(n *simulator.Node, at place) {
				f := n.Function(n.HCA(at.device).PCI)
				f.NUMA = 1 - f.NUMA
			},
		},
		{
			name: "acs", what: "acs_redirect", touches: []string{"acs"},
			places: on(func(m machine, h *simulator.HCA) bool { return alone(m, h) && beside(m, h) != nil }),
			edit: func(n *simulator.Node, at place) {
				above := bridge(n, n.HCA(at.device).PCI)
				for i := range n.Functions { // all ports of the switch
					if f := &n.Functions[i]; f.Chip.Class == above.Chip.Class && parent(f.Path) == parent(above.Path) {
						f.ACS = 0x1d
					}
				}
			},
		},
	}
}

// beside is the one GPU or one of two below the same PCIe switch as a NIC that no other NIC shares, or nil.
func beside(m machine, h *simulator.HCA) *simulator.GPU {
	port := bridge(m.Node, h.PCI)
	if port == nil {
		return nil
	}
	below := func(address string) bool {
		b := bridge(m.Node, address)
		return b != nil && parent(b.Path) == parent(port.Path) && bridge(m.Node, b.Address()) != nil
	}
	for _, o := range m.HCAs {
		if o.Name != h.Name && below(o.PCI) {
			return nil
		}
	}
	for i := range m.GPUs {
		if below(m.GPUs[i].PCI) {
			return &m.GPUs[i]
		}
	}
	return nil
}

// bridge is the one right above a function, or nil.
func bridge(n *simulator.Node, address string) *simulator.Function {
	up := parent(n.Function(address).Path)
	for i := range n.Functions {
		if n.Functions[i].Path == up {
			return &n.Functions[i]
		}
	}
	return nil
}

func parent(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[:i]
		}
	}
	return ""
}
