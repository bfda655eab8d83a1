// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"
	"strings"
)

// Bonded returns the other PCI functions of its card whose RDMA device this one is, too: while interfaces of
// one card are in one bond, its first function has an RDMA device for all of them (RoCE LAG). That a function
// has an interface shows that it is on the bus, with its driver. Unknown: there may be some.
func (n *Node) Bonded(h *HCA) Fact[[]string] {
	const source = "class/net/*/device, master and lower_*"
	own, placed := h.PCI.Get()
	if !placed || h.Part() {
		return Known([]string{}, source, n.At)
	}
	list, unsure := []string{}, h.PortsHidden()
	for i := range h.Ports {
		p := &h.Ports[i]
		if p.LinkLayer.Or(LinkEthernet) != LinkEthernet || p.NetDev.State == Absent {
			continue
		}
		members, known := n.bondOf(p.NetDev.Or(""))
		unsure = unsure || !known
		for _, d := range members {
			address, onBus := d.PCI.Get()
			if !onBus || n.hasHCA(address) {
				unsure = unsure || d.PCI.State == Unknown
				continue
			}
			if slotOf(address) == slotOf(own) {
				list = append(list, address)
			} else { // of another card, but a hypervisor puts functions anywhere
				unsure = unsure || n.Host.Hypervisor.Or(false)
			}
		}
	}
	// The driver mlx5 names a device by what it is for. One without a bond may have that of more ports
	// (multi-port E-Switch).
	number, named := strings.CutPrefix(h.Name, "mlx5_")
	single := named && strings.Trim(number, "0123456789") == ""
	shared := strings.HasPrefix(number, "bond_")
	if unsure || single && len(list) > 0 || shared && len(list) == 0 {
		return UnknownFact[[]string](ReasonNotRead, source, n.At)
	}
	return Known(list, source, n.At)
}

// bondOf returns what lies below the bond that an interface is or is in, if that is known.
func (n *Node) bondOf(name string) (members []*NetDev, known bool) {
	d := n.NetDev(name)
	if d == nil || d.Upper.State == Unknown {
		return nil, false
	}
	if upper := n.NetDev(d.Upper.Or("")); upper != nil && upper.Bond.Or(false) {
		d = upper
	}
	for _, l := range d.Lower.Or(nil) {
		m := n.NetDev(l)
		if m == nil {
			return nil, false
		}
		members = append(members, m)
	}
	return members, d.Lower.State != Unknown
}

// MayBeBonded returns the device of the same card that may be that of a PCI function without one, too, or nil.
func (n *Node) MayBeBonded(address string) *HCA {
	for i := range n.HCAs {
		h := &n.HCAs[i]
		if n.Bonded(h).State == Unknown && (slotOf(h.PCI.Or("")) == slotOf(address) || n.Host.Hypervisor.Or(false) &&
			n.inBondOf(h, address)) {
			return h
		}
	}
	return nil
}

// inBondOf reports whether an interface of a PCI function is in the bond of a port of a device.
func (n *Node) inBondOf(h *HCA, address string) bool {
	return slices.ContainsFunc(h.Ports, func(p Port) bool {
		members, _ := n.bondOf(p.NetDev.Or(""))
		return slices.ContainsFunc(members, func(d *NetDev) bool { return d.PCI.Or("") == address })
	})
}

func (n *Node) hasHCA(address string) bool {
	return slices.ContainsFunc(n.HCAs, func(h HCA) bool { return h.PCI.Or("") == address })
}

// slotOf is a PCI address without the function.
func slotOf(address string) string {
	slot, _, _ := strings.Cut(address, ".")
	return slot
}
