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
	"gpufabric_exporter/internal/spelling"
)

const draft = `# The platform of one node, as it was seen on %[1]s: a start for a profile of the site (docs/PROFILES.md).
# It has an effect only in the folder that the key profiles of the configuration names. Before you put it there, compare every line
# with what was ordered: the node may lack something, and roles were derived from what is plugged and configured now.
version: %[2]d
name: %[3]s
title: %[4]q
match:
  # Every node of the platform must say this, and no other one.
  - {%[5]s, source: node}
%[6]s# Of links and rates only a provider that cables all its nodes alike can say something: by provider.
cabling: {by: site}
sources:
  node: {title: One node as it was seen, date: %[1]q}
`

// Draft writes a profile from what is seen of a node, as a start for one of the site.
func Draft(n *fabric.Node) (string, error) {
	match, stated := matchDMI(&n.Host.DMI), ""
	var kinds []string
	for _, g := range n.PCI.GPUs() {
		if id, known := g.ID(); known {
			kinds = append(kinds, strconv.Quote(id.String()))
		}
	}
	dmi, number := &n.Host.DMI, len(kinds)
	if number > 0 {
		slices.Sort(kinds)
		ids := strings.Join(slices.Compact(kinds), ", ")
		match = append(match, fmt.Sprintf("gpus: [%s], at_least: %d", ids, number/2+1))
		stated = fmt.Sprintf("# Seen: %[1]d.\ngpus: {ids: [%[2]s], number: %[1]d, source: node}\n", number, ids)
	}
	if number == 0 && dmi.Product.State != fabric.OK && dmi.Board.State != fabric.OK {
		return "",
			errors.New("nothing to recognize this node by: expected a product or board in DMI (/sys/class/dmi/id), or a GPU on the PCI bus")
	}
	title := cmp.Or(strings.TrimSpace(dmi.Vendor.Or("")+" "+dmi.Product.Or(dmi.Board.Or(""))), "machine")
	day := n.At.UTC().Format("2006-01-02")
	return fmt.Sprintf(draft, day, layoutVersion, nameOf(title), title, strings.Join(match, ", "), stated+draftNICs(n)),
		nil
}

// nameOf is not the name of a compiled-in profile, which it would replace.
func nameOf(title string) string {
	const most = 60
	words := strings.FieldsFunc(strings.ToLower(title),
		func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	name := "site-" + strings.Join(words, "-")
	return strings.TrimRight(name[:min(len(name), most)], "-")
}

// matchDMI is by what DMI recognizes the node: vendor and product, else the main board.
func matchDMI(dmi *fabric.DMI) (text []string) {
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

// group are the ports of one role on cards of one kind.
type group struct {
	role  fabric.Role
	chip  fabric.PCIID
	ports int      // on a card
	names []string // of devices, one for each port
}

// draftNICs are rails and other NICs. Roles that NICs of the same kind have are only stated if they are one.
func draftNICs(n *fabric.Node) string {
	var b strings.Builder
	all, left := groups(n)
	heading := ""
	for _, g := range all {
		other := func(differ func(o group) bool) bool {
			return slices.ContainsFunc(all, func(o group) bool { return o.chip == g.chip && differ(o) })
		}
		if other(func(o group) bool { return o.ports == g.ports && o.role != g.role }) {
			fmt.Fprintf(&b, "# Not stated: %s of role %s. NICs of other roles have the same chip and as many ports.\n",
				some(g.names), g.role)
			continue
		}
		is, more := "rails:\n", ""
		if g.role != fabric.RoleCompute {
			is, more = "other:\n", ", role: "+string(g.role)
		}
		if is != heading {
			b.WriteString(is)
			heading = is
		}
		if other(func(o group) bool { return o.ports != g.ports }) {
			more += fmt.Sprintf(", ports_per_card: %d", g.ports)
		}
		fmt.Fprintf(&b, "  # Seen: %s.\n  - {chips: %q, number: %d%s, source: node}\n", some(g.names), g.chip, len(g.names),
			more)
	}
	if len(left) > 0 {
		fmt.Fprintf(&b,
			"# Not stated: %s, of which the role, the chip or the place is not known, or which belong to NVSwitches.\n",
			some(slices.Compact(left)))
	}
	return b.String()
}

// groups are the ports by role and kind, and the devices about which nothing can be stated.
func groups(n *fabric.Node) (all []group, left []string) {
	for h, p := range n.Ports {
		var g group
		f, known := n.PCI.NIC(h.Name), false
		if f != nil {
			g.chip, known = f.ID()
		}
		role, also := p.Role.Get()
		if !known || !also || h.Restricted.Or(false) {
			left = append(left, h.Name)
			continue
		}
		g.role, g.ports = role, n.PortsOnCard(h, f)
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
	slices.SortFunc(names, fabric.NaturalOrder)
	return spelling.Few(names, 16)
}
