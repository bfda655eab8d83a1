// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/netip"
	"slices"
)

// The methods below are what can happen to a node; scenarios are made of them.

// LinkDown takes the cables of an HCA away. The kernel then prints a rate that nobody negotiated; of EFA it goes
// on to print that all is well.
func (n *Node) LinkDown(device string) {
	h := n.HCA(device)
	if h == nil {
		return
	}
	for i := range h.Ports {
		p := &h.Ports[i]
		if p.LinkLayer == Unspecified {
			continue
		}
		p.State, p.PhysState, p.Rate = "1: DOWN", "3: Disabled", p.NoLink
		if p.LinkLayer == InfiniBand {
			p.PhysState, p.LID, p.SMLID = "2: Polling", 0xffff, 0
		}
		for k := range n.NetDevs {
			if d := &n.NetDevs[k]; p.NetDev != "" && (d.Name == p.NetDev || d.Master == p.NetDev) {
				d.Carrier = false
			}
		}
	}
}

// Unplug removes an HCA with its PCI function, the virtual functions of that, and the interfaces on them.
func (n *Node) Unplug(device string) {
	h := n.HCA(device)
	if h == nil {
		return
	}
	gone := map[string]bool{h.PCI: true}
	for _, f := range n.virtualFunctions(h.PCI) {
		gone[f.Address()] = true
	}
	n.Flaps = slices.DeleteFunc(n.Flaps, func(f Flap) bool { return gone[n.HCA(f.Device).PCI] })
	n.HCAs = slices.DeleteFunc(n.HCAs, func(h HCA) bool { return gone[h.PCI] })
	n.NetDevs = slices.DeleteFunc(n.NetDevs, func(d NetDev) bool { return gone[d.PCI] })
	n.Functions = slices.DeleteFunc(n.Functions, func(f Function) bool { return gone[f.Address()] })
	n.Routes = slices.DeleteFunc(n.Routes, func(r Route) bool { return n.NetDev(r.NetDev) == nil })
}

// SetAddrs gives an interface new addresses and the ports it shares their GIDs.
func (n *Node) SetAddrs(netdev string, addrs ...netip.Prefix) {
	d := n.NetDev(netdev)
	if d == nil {
		return
	}
	d.Addrs = addrs
	for i := range n.HCAs {
		for k := range n.HCAs[i].Ports {
			if p := &n.HCAs[i].Ports[k]; p.NetDev == netdev && p.LinkLayer == Ethernet {
				p.GIDs = roceGIDs(d, p.GIDTypes)
			}
		}
	}
}
