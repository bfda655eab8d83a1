// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/simulator"
)

// What sites expect of RoCE: below the key expected, with which the configuration of every platform ends.
const (
	lossless       = "  roce: {dscp: 26, priority: 3, lossless: true, ecn: true}\n"
	losslessUnread = "  roce: {dscp: 26, priority: 3, lossless: true}\n" // of drivers that do not show congestion control
)

// base is a healthy node that mutations are made of.
type base struct {
	scenario string
	policy   string   // what the site expects of RoCE beside what the scenario has; empty: nothing
	manifest bool     // the site has a manifest with the firmware of all devices
	others   []string // devices that are not for training
	storage  []string // those of them that carry storage
}

// bases returns what compositions start from.
func bases() []base {
	return []base{
		{scenario: "healthy", policy: lossless, others: []string{"mlx5_8", "mlx5_9", "mlx5_bond_0"}, storage: []string{"mlx5_8", "mlx5_9"}},
		{scenario: "healthy-ib", others: []string{"mlx5_4", "mlx5_5"}, storage: []string{"mlx5_4", "mlx5_5"}},
		{scenario: "healthy-bnxt-roce", policy: losslessUnread},
		{scenario: "healthy-dgx-b200"},
		{scenario: "healthy-roce-bond", others: nil},
		{scenario: "healthy-ionic-roce"},
		{scenario: "healthy", others: []string{"mlx5_8", "mlx5_9", "mlx5_bond_0"}, storage: []string{"mlx5_8", "mlx5_9"}},
		{scenario: "healthy-irdma-roce", policy: losslessUnread},
		{scenario: "healthy-sriov-vf", others: []string{"mlx5_2", "mlx5_3"}},
		{scenario: "healthy-two-port", policy: losslessUnread, others: []string{"mlx4_0"}, storage: []string{"mlx4_0"}},
		{scenario: "healthy-roce-vlan"},
		{scenario: "healthy-gb200"},
		{scenario: "healthy-nvlink-pairs"},
		{scenario: "healthy-l40s"},
		{scenario: "healthy-vm-flat"},
		{scenario: "healthy-cpu-node"},
		{scenario: "healthy-mana"},
		{scenario: "healthy-uncabled-ports"},
		{scenario: "healthy-mixed-vendors", others: []string{"bnxt_re0", "bnxt_re1", "rocep138s0f0"}, storage: []string{"bnxt_re0", "bnxt_re1"}},
		{scenario: "healthy-half-cabled"},
		{scenario: "healthy-single-card", others: []string{"mlx5_0"}},
		{scenario: "healthy-mixed-nics-roce", policy: lossless, others: []string{"mlx5_2"}, storage: []string{"mlx5_2"}},
		{scenario: "healthy-mixed-nics-ib", others: []string{"mlx5_2", "mlx5_3"}, storage: []string{"mlx5_3"}},
		{scenario: "healthy-oci-h100", policy: "  roce: {dscp: 10, priority: 3, lossless: true}\n", others: []string{"mlx5_2", "mlx5_11"}, storage: []string{"mlx5_11"}},
		{scenario: "lossy-design", others: []string{"mlx5_8", "mlx5_9", "mlx5_bond_0"}, storage: []string{"mlx5_8", "mlx5_9"}},
		{scenario: "healthy-efa"},
		{scenario: "healthy-dgx-b200", manifest: true},
	}
}

// machine is a base with its healthy node: what mutations ask where they can happen.
type machine struct {
	base
	*simulator.Node
	config string
	gdr    func(gpu string) (simulator.GDRLabel, bool)
}

func (b base) machine() (machine, error) {
	s, err := simulator.Find(b.scenario)
	if err != nil {
		return machine{}, err
	}
	m := machine{base: b, Node: s.Build(), config: s.Config() + b.policy, gdr: s.GDROf}
	if b.manifest {
		m.config += "  manifest:\n    version: 1\n    devices:\n"
		for _, h := range m.HCAs {
			m.config += fmt.Sprintf("      %s: {firmware: %q}\n", h.Name, h.Firmware)
		}
		m.config += "    gpus:\n"
		for i := range m.GPUs {
			m.config += fmt.Sprintf("      GPU%d: {}\n", i)
		}
	}
	return m, nil
}

// key names what nodes of one base have in common.
func (b base) key() string { return fmt.Sprint(b.scenario, b.policy, b.manifest) }

// drifted returns the findings of a manifest about a device, where there is one.
func drifted(m machine, at place) []finding {
	if !m.manifest {
		return nil
	}
	return []finding{{what: "drift", device: at.device}}
}

// compute returns the devices that train, each with one active port.
func (m machine) compute() []*simulator.HCA {
	var all []*simulator.HCA
	for i := range m.HCAs {
		h := &m.HCAs[i]
		if !slices.Contains(m.others, h.Name) && len(h.Ports) == 1 && strings.HasSuffix(h.Ports[0].State, "ACTIVE") {
			all = append(all, h)
		}
	}
	return all
}

// wants reports whether the site says so of RoCE.
func (m machine) wants(what string) bool { return strings.Contains(m.config, what) }

// netdev is the interface of a device with one port, or nil.
func netdev(n *simulator.Node, device string) *simulator.NetDev {
	h := n.HCA(device)
	if h == nil || len(h.Ports) != 1 {
		return nil
	}
	return n.NetDev(h.Ports[0].NetDev)
}

// physical returns the physical interfaces of a device: its own, or the members of its bond.
func physical(n *simulator.Node, device string) []*simulator.NetDev {
	var all []*simulator.NetDev
	top := netdev(n, device)
	for i := range n.NetDevs {
		if d := &n.NetDevs[i]; top != nil && d.PCI != "" && (d.Name == top.Name || d.Master == top.Name) {
			all = append(all, d)
		}
	}
	return all
}

// addressed is the interface whose addresses are the GIDs of a device: its own, or the VLAN on top.
func addressed(n *simulator.Node, device string) *simulator.NetDev {
	top := netdev(n, device)
	for i := range n.NetDevs {
		if d := &n.NetDevs[i]; top != nil && d.VLAN.Lower == top.Name {
			return d
		}
	}
	return top
}
