// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"slices"
	"strings"
)

// Physical returns the interfaces that the frames of an interface go through: itself, or what lies below it if it is a
// bond or a VLAN. An interface of which it is not known has nothing below it.
func (n *Node) Physical(name string) []*NetDev {
	var list []*NetDev
	seen := map[string]bool{}
	var descend func(name string)
	descend = func(name string) {
		d := n.NetDev(name)
		if d == nil || seen[name] { // a bond that changes while it is read can look like a circle
			return
		}
		seen[name] = true
		lower := d.Lower.Or(nil)
		if len(lower) == 0 {
			list = append(list, d)
		}
		for _, l := range lower {
			descend(l)
		}
	}
	descend(name)
	return list
}

// Above reports whether an interface is that of a port, or a bond or a VLAN on top of it.
func (n *Node) Above(name string, p *Port) bool {
	of, known := p.NetDev.Get()
	return known && (of == name || slices.ContainsFunc(n.Physical(name), func(d *NetDev) bool { return d.Name == of }))
}

// SharedPort names the physical port behind a port of a device if another device, which the card has by
// another PCIe link, has it as well: their rates do not add up. Empty: it has one of its own, as far as is
// known. In virtual machines functions are where the hypervisor puts
// them.
func (n *Node) SharedPort(h *HCA, p *Port) string {
	own, function, found := strings.Cut(h.PCI.Or(""), ".")
	if !found || h.Part() {
		return ""
	}
	first, shared := own, false
	for i := range n.HCAs {
		o := &n.HCAs[i]
		slot, same, _ := strings.Cut(o.PCI.Or(""), ".")
		twin := n.oneCard(h, o) || n.Profile.IsNormal(NormalSharedPort) && afterDomain(slot) == afterDomain(own)
		if twin && slot != own && same == function && !o.Part() {
			first, shared = min(first, slot), true
		}
	}
	if !shared {
		return ""
	}
	return fmt.Sprintf("%s.%s/%d", first, function, p.Number)
}

// oneCard reports whether two devices are known to be of one card.
func (n *Node) oneCard(a, b *HCA) bool {
	image, known := a.ImageGUID.Get()
	return known && strings.Trim(image, "0:") != "" && image == b.ImageGUID.Or("") && !n.Host.Hypervisor.Or(false)
}

// afterDomain is a PCI address without the domain.
func afterDomain(address string) string {
	_, rest, _ := strings.Cut(address, ":")
	return rest
}
