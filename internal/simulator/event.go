// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
)

// The methods below are what can happen to a node; scenarios are made of them.

// LinkDown takes the cables of an HCA away. The kernel then prints a rate that was not negotiated; of EFA it goes
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
			if d := &n.NetDevs[k]; p.NetDev != "" && (d.Name == p.NetDev || d.Master == p.NetDev || d.VLAN.Lower == p.NetDev) {
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
	for _, d := range n.NetDevs { // with what is below a VLAN, the VLAN goes
		if lower := n.NetDev(d.VLAN.Lower); lower != nil && gone[lower.PCI] {
			gone[d.Name] = true
		}
	}
	n.NetDevs = slices.DeleteFunc(n.NetDevs, func(d NetDev) bool { return gone[d.PCI] || gone[d.Name] })
	n.Functions = slices.DeleteFunc(n.Functions, func(f Function) bool { return gone[f.Address()] })
	n.Routes = slices.DeleteFunc(n.Routes, func(r Route) bool { return n.NetDev(r.NetDev) == nil })
}

// Rebind gives the function of an HCA to another driver, which makes neither an RDMA device nor an interface of it;
// empty: to none.
func (n *Node) Rebind(device, driver string) {
	h := n.HCA(device)
	if h == nil {
		return
	}
	address := h.PCI
	n.HCAs = slices.DeleteFunc(n.HCAs, func(h HCA) bool { return h.PCI == address })
	n.dropNetDevs(address)
	n.Function(address).Chip.Driver = driver
}

// Move gives an HCA and its interfaces to a pod in exclusive mode of the RDMA core, as "rdma dev set DEV netns POD" and
// "ip link set DEV netns POD" do. The driver keeps it.
func (n *Node) Move(device string) {
	h := n.HCA(device)
	if h == nil {
		return
	}
	m := Moved{PCI: h.PCI, Device: h.Name, Aux: h.Aux, Verbs: h.Verbs}
	n.Flaps = slices.DeleteFunc(n.Flaps, func(f Flap) bool { return f.Device == device })
	n.HCAs = slices.DeleteFunc(n.HCAs, func(h HCA) bool { return h.Name == device })
	m.NetDev = n.dropNetDevs(m.PCI)
	n.Moved = append(n.Moved, m)
}

// MoveNetDev gives the interface of an HCA to a pod in shared mode of the RDMA core: the device stays, and
// its GIDs name the interface as it is called there.
func (n *Node) MoveNetDev(device, name string) {
	h := n.HCA(device)
	if h == nil {
		return
	}
	for i := range h.Ports {
		p := &h.Ports[i]
		p.NetDev = ""
		for k := range p.GIDs {
			p.GIDs[k].NetDev = name
		}
	}
	n.Moved = append(n.Moved, Moved{PCI: h.PCI, NetDev: n.dropNetDevs(h.PCI)})
}

// dropNetDevs removes the interfaces of a PCI function, and reports whether there were any.
func (n *Node) dropNetDevs(address string) bool {
	before := len(n.NetDevs)
	n.NetDevs = slices.DeleteFunc(n.NetDevs, func(d NetDev) bool { return d.PCI == address })
	return len(n.NetDevs) < before
}

// Carry moves the RDMA traffic of a device from the lossless priority to another, on all interfaces that it uses.
func (n *Node) Carry(device string, priority int) {
	for _, d := range n.members(device) {
		for _, name := range []string{"rx_prio%d_bytes", "rx_prio%d_packets", "tx_prio%d_bytes", "tx_prio%d_packets"} {
			from, to := d.Statistic(fmt.Sprintf(name, losslessPriority)), d.Statistic(fmt.Sprintf(name, priority))
			to.Counter = to.plus(from.Counter)
			from.Counter = Counter{}
		}
	}
}

// members returns the physical interfaces of a device: that of each port, or those of its bond.
func (n *Node) members(device string) []*NetDev {
	var all []*NetDev
	for _, p := range n.HCA(device).Ports {
		for i := range n.NetDevs {
			if d := &n.NetDevs[i]; d.PCI != "" && (d.Name == p.NetDev || d.Master == p.NetDev) {
				all = append(all, d)
			}
		}
	}
	return all
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
			if p := &n.HCAs[i].Ports[k]; p.LinkLayer == Ethernet && p.NetDev != "" &&
				(p.NetDev == netdev || p.NetDev == d.VLAN.Lower) {
				p.GIDs = n.roceGIDs(p)
			}
		}
	}
}

// roceGIDs is the GID table of a port with the entries of its interface and those of the VLANs on top, which have no
// default ones.
func (n *Node) roceGIDs(p *Port) []GID {
	gids := roceGIDs(n.NetDev(p.NetDev), p.GIDTypes)
	for i := range n.NetDevs {
		if d := &n.NetDevs[i]; d.VLAN.Lower == p.NetDev && p.NetDev != "" {
			for _, g := range roceGIDs(d, p.GIDTypes)[len(p.GIDTypes):] {
				g.Index = len(gids)
				gids = append(gids, g)
			}
		}
	}
	return gids
}

// Unbond takes the bond of an RDMA device apart: each member has a device of that name and an address again.
func (n *Node) Unbond(device string, names ...string) {
	h := n.HCA(device)
	if h == nil || len(h.Ports) == 0 || n.NetDev(h.Ports[0].NetDev) == nil {
		return
	}
	was, bond := *h, *n.NetDev(h.Ports[0].NetDev)
	n.HCAs = slices.DeleteFunc(n.HCAs, func(h HCA) bool { return h.Name == device })
	n.NetDevs = slices.DeleteFunc(n.NetDevs, func(d NetDev) bool { return d.Name == bond.Name })
	for i := range n.NetDevs {
		d := &n.NetDevs[i]
		if d.Master != bond.Name || len(names) == 0 {
			continue
		}
		d.Master = ""
		own := was
		own.Name, own.PCI, own.Aux.Name, own.Verbs = names[0], d.PCI, was.Aux.Name+d.PCI[len(d.PCI)-1:],
			was.Verbs+100*int(d.PCI[len(d.PCI)-1]-'0')
		own.GUID += GUID(d.PCI[len(d.PCI)-1] - '0')
		own.Ports = slices.Clone(was.Ports)
		own.Ports[0].NetDev = d.Name
		n.HCAs, names = append(n.HCAs, own), names[1:]
		var addrs []netip.Prefix
		for _, a := range bond.Addrs {
			for range own.GUID - was.GUID {
				a = netip.PrefixFrom(a.Addr().Next(), a.Bits())
			}
			addrs = append(addrs, a)
		}
		n.SetAddrs(d.Name, addrs...)
	}
}

// check returns what of the node refers to something that it does not have.
func (n *Node) check() error {
	errs := slices.Clone(n.unsound)
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	need(n.Host.HZ > 0, "host: %d ticks per second", n.Host.HZ)
	for _, f := range n.Functions {
		need(f.PF == "" || n.Function(f.PF) != nil, "PCI function %s: no physical function %q", f.Address(), f.PF)
	}
	for _, h := range n.HCAs {
		need(n.Function(h.PCI) != nil, "hca %s: no PCI function %q", h.Name, h.PCI)
		for _, p := range h.Ports {
			need(p.NetDev == "" || n.NetDev(p.NetDev) != nil, "hca %s port %d: no interface %q", h.Name, p.Number, p.NetDev)
			for _, g := range p.GIDs {
				need(g.Index >= 0 && g.Index < p.GIDSlots, "hca %s port %d: no GID slot %d", h.Name, p.Number, g.Index)
			}
		}
	}
	for _, m := range n.Moved {
		need(n.Function(m.PCI) != nil, "moved device %s: no PCI function %q", m.Device, m.PCI)
	}
	for _, d := range n.NetDevs {
		_, err := net.ParseMAC(d.Address)
		need(d.Address == "" || err == nil, "interface %s: address %q: expected a MAC address", d.Name, d.Address)
		need(d.PCI == "" || n.Function(d.PCI) != nil, "interface %s: no PCI function %q", d.Name, d.PCI)
		need(d.Master == "" || n.NetDev(d.Master) != nil, "interface %s: no master %q", d.Name, d.Master)
		need(d.VLAN.Lower == "" || n.NetDev(d.VLAN.Lower) != nil, "interface %s: no interface %q below", d.Name, d.VLAN.Lower)
		d.checkQoS(need)
	}
	for _, f := range n.Flaps {
		need(n.HCA(f.Device) != nil, "flap: no hca %q", f.Device)
		need(f.Period > 0 && f.Down >= 0 && f.Down <= f.Period, "flap of %s: down for %d of %d steps", f.Device, f.Down,
			f.Period)
	}
	n.checkGPUs(need)
	for name := range n.Files {
		need(filepath.IsLocal(name), "file %q: not a path below the root", name)
	}
	for _, l := range n.Logs {
		need(filepath.IsLocal(l.Path), "log %q: not a path below the root", l.Path)
	}
	return errors.Join(errs...)
}
