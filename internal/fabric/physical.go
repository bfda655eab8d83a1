// SPDX-License-Identifier: Apache-2.0

package fabric

import "slices"

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
