// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// Draft writes a profile from what is seen of a node, as a start for one of the site.
func Draft(n *fabric.Node) (string, error) {
	d := draft{n: n}
	ids, gpus := d.gpus()
	match := d.match()
	if gpus > 0 {
		match = append(match, fmt.Sprintf("gpus: [%s], at_least: %d", ids, gpus/2+1))
	}
	dmi := &n.Host.DMI
	if gpus == 0 && dmi.Product.State != fabric.OK && dmi.Board.State != fabric.OK {
		return "", errors.New("nothing to recognize this node by: expected a product or board in DMI (/sys/class/dmi/id), or a GPU on the PCI bus")
	}
	title := cmp.Or(strings.TrimSpace(dmi.Vendor.Or("")+" "+dmi.Product.Or(dmi.Board.Or(""))), "machine")
	day := n.At.UTC().Format("2006-01-02")
	d.line("# The platform of one node, as it was seen on %s: a start for a profile of the site (docs/PROFILES.md).", day)
	d.line("# It has an effect only in the folder that the key profiles of the configuration names. Before you put it there, compare every line")
	d.line("# with what was ordered: the node may lack something, and roles were derived from what is plugged and configured now.")
	d.line("version: %d\nname: %s\ntitle: %q\nmatch:", layoutVersion, nameOf(title), title)
	d.line("  # Every node of the platform must say this, and no other one.\n  - {%s, source: node}", strings.Join(match, ", "))
	if gpus > 0 {
		d.line("# Seen: %d.\ngpus: {ids: [%s], number: %d, source: node}", gpus, ids, gpus)
	}
	d.nics()
	d.line("# Of links and rates only a provider that cables all its nodes alike can say something: by provider.")
	d.line("cabling: {by: %s}\nsources:\n  node: {title: One node as it was seen, date: %q}", fabric.CabledBySite, day)
	return d.String(), nil
}

// nameOf is not the name of a compiled-in profile, which it would replace.
func nameOf(title string) string {
	const most = 60
	words := strings.FieldsFunc(strings.ToLower(title), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	name := "site-" + strings.Join(words, "-")
	return strings.TrimRight(name[:min(len(name), most)], "-")
}

// draft is a profile being written.
type draft struct {
	strings.Builder
	n *fabric.Node
}

func (d *draft) line(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

// match is by what DMI recognizes the node: vendor and product, else the main board.
func (d *draft) match() (text []string) {
	dmi := &d.n.Host.DMI
	add := func(key string, f fabric.Fact[string]) {
		if s, ok := f.Get(); ok {
			begin, _, open := strings.Cut(s, "*") // which has a meaning
			text = append(text, key+": "+strconv.Quote(begin+map[bool]string{true: "*"}[open]))
		}
	}
	if dmi.Product.State == fabric.OK {
		add("vendor", dmi.Vendor)
		add("product", dmi.Product)
	} else {
		add("board_vendor", dmi.BoardVendor)
		add("board", dmi.Board)
	}
	if slices.Contains(fabric.AssetTags(), dmi.AssetTag.Or("")) {
		add("asset_tag", dmi.AssetTag)
	}
	return text
}

// gpus are the kinds of the GPUs, quoted, and how many there are.
func (d *draft) gpus() (ids string, number int) {
	var kinds []string
	for _, g := range d.n.PCI.GPUs() {
		if id, known := g.ID(); known {
			number++
			kinds = append(kinds, strconv.Quote(id.String()))
		}
	}
	slices.Sort(kinds)
	return strings.Join(slices.Compact(kinds), ", "), number
}

// group are the ports of one role on cards of one kind.
type group struct {
	role  fabric.Role
	chip  fabric.PCIID
	ports int      // on a card
	names []string // of devices, one for each port
}

// nics writes rails and other NICs. Roles that NICs of the same kind have are only stated if they are one.
func (d *draft) nics() {
	all, left := d.groups()
	heading := ""
	for _, g := range all {
		other := func(differ func(o group) bool) bool {
			return slices.ContainsFunc(all, func(o group) bool { return o.chip == g.chip && differ(o) })
		}
		if other(func(o group) bool { return o.ports == g.ports && o.role != g.role }) {
			d.line("# Not stated: %s of role %s. NICs of other roles have the same chip and as many ports.", some(g.names), g.role)
			continue
		}
		is, more := "rails:", ""
		if g.role != fabric.RoleCompute {
			is, more = "other:", ", role: "+string(g.role)
		}
		if is != heading {
			d.line("%s", is)
			heading = is
		}
		if other(func(o group) bool { return o.ports != g.ports }) {
			more += fmt.Sprintf(", ports_per_card: %d", g.ports)
		}
		d.line("  # Seen: %s.\n  - {chips: %q, number: %d%s, source: node}", some(g.names), g.chip, len(g.names), more)
	}
	if len(left) > 0 {
		d.line("# Not stated: %s, of which the role, the chip or the place is not known, or which belong to NVSwitches.", some(slices.Compact(left)))
	}
}

// groups are the ports by role and kind, and the devices about which nothing can be stated.
func (d *draft) groups() (all []group, left []string) {
	for h, p := range d.n.Ports {
		g := group{}
		f, known := d.n.PCI.NIC(h.Name), false
		if f != nil {
			g.chip, known = f.ID()
		}
		role, also := p.Role.Get()
		if !known || !also || h.Restricted.Or(false) {
			left = append(left, h.Name)
			continue
		}
		g.role, g.ports = role, d.n.PortsOnCard(h, f)
		i := slices.IndexFunc(all, func(o group) bool { return o.role == g.role && o.chip == g.chip && o.ports == g.ports })
		if i < 0 {
			i, all = len(all), append(all, g)
		}
		all[i].names = append(all[i].names, h.Name)
	}
	rank := func(g group) string { return fmt.Sprint(slices.Index(fabric.Roles(), g.role), g.chip, g.ports) }
	slices.SortFunc(all, func(a, b group) int { return strings.Compare(rank(a), rank(b)) })
	return all, left
}

// some are the first of many names.
func some(names []string) string {
	const few = 16
	slices.SortFunc(names, fabric.NaturalOrder)
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}
