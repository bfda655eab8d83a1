// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/netip"
	"slices"
)

// The methods below are what can happen to a node; scenarios are made of them.

// LinkDown takes the cables of an HCA away. The kernel then prints a rate that nobody negotiated.
func (n *Node) LinkDown(device string) {
	h := n.HCA(device)
	if h == nil {
		return
	}
	for i := range h.Ports {
		p := &h.Ports[i]
		p.State = "1: DOWN"
		if p.LinkLayer == InfiniBand {
			p.PhysState, p.Rate = "2: Polling", "10 Gb/sec (4X SDR)"
			p.LID, p.SMLID = 0xffff, 0
		} else {
			p.PhysState, p.Rate = "3: Disabled", "40 Gb/sec (4X QDR)"
		}
		for k := range n.NetDevs {
			if d := &n.NetDevs[k]; p.NetDev != "" && (d.Name == p.NetDev || d.Master == p.NetDev) {
				d.Carrier = false
			}
		}
	}
}

// Unplug removes an HCA with its PCI function and the interfaces on it.
func (n *Node) Unplug(device string) {
	h := n.HCA(device)
	if h == nil {
		return
	}
	address := h.PCI
	n.HCAs = slices.DeleteFunc(n.HCAs, func(h HCA) bool { return h.PCI == address })
	n.NetDevs = slices.DeleteFunc(n.NetDevs, func(d NetDev) bool { return d.PCI == address })
	n.Functions = slices.DeleteFunc(n.Functions, func(f Function) bool { return f.Address() == address })
	n.Routes = slices.DeleteFunc(n.Routes, func(r Route) bool { return n.NetDev(r.NetDev) == nil })
	n.Flaps = slices.DeleteFunc(n.Flaps, func(f Flap) bool { return f.Device == device })
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
				p.GIDs = roceGIDs(d)
			}
		}
	}
}
