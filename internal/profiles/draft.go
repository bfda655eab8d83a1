// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// Draft writes a profile from what is seen of a node, as a start for one of the site.
func Draft(n *fabric.Node) (string, error) {
	d := draft{n: n}
	match, err := d.match()
	if err != nil {
		return "", err
	}
	const of = "node"
	day := n.At.UTC().Format("2006-01-02")
	d.line("# The platform of one node, as it was seen on %s: a start for a profile of the site (docs/PROFILES.md).", day)
	d.line("# It has an effect only in the folder that the key profiles of the configuration names. Before you put it there, compare every line")
	d.line("# with what was ordered: the node may lack something, and roles were derived from what is plugged and configured now.")
	d.line("version: %d", layoutVersion)
	d.line("name: %s", d.name())
	d.line("title: %s", strconv.Quote(d.title()))
	d.line("match:")
	d.line("  # Every node of the platform must say this, and no other one.")
	d.line("  - {%s, source: %s}", match, of)
	if ids, number := d.gpus(); number > 0 {
		d.line("# Seen: %d.", number)
		d.line("gpus: {ids: [%s], number: %d, source: %s}", quoted(ids), number, of)
	}
	d.nics(of)
	d.line("# Of links and rates only a provider that cables all its nodes alike can say something: by provider.")
	d.line("cabling: {by: %s}", bySite)
	d.line("sources:")
	d.line("  %s: {title: One node as it was seen, date: %q}", of, day)
	return d.String(), nil
}

// draft is a profile being written.
type draft struct {
	strings.Builder
	n *fabric.Node
}

func (d *draft) line(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

func quoted(ids []fabric.PCIID) string {
	var all []string
	for _, id := range ids {
		all = append(all, strconv.Quote(id.String()))
	}
	return strings.Join(all, ", ")
}

// match is by what the node may be recognized: vendor and product, else the main board, and more than half of its GPUs.
func (d *draft) match() (string, error) {
	dmi := &d.n.Host.DMI
	vendor, product, text := dmi.Vendor, dmi.Product, []string{}
	names := [2]string{"vendor", "product"}
	if product.State != fabric.OK {
		vendor, product, names = dmi.BoardVendor, dmi.Board, [2]string{"board_vendor", "board"}
	}
	for i, f := range []fabric.Fact[string]{vendor, product} {
		if s, ok := f.Get(); ok {
			text = append(text, names[i]+": "+strconv.Quote(s))
		}
	}
	if tag, ok := dmi.AssetTag.Get(); ok && slices.Contains(fabric.AssetTags(), tag) {
		text = append(text, "asset_tag: "+strconv.Quote(tag))
	}
	ids, number := d.gpus()
	if number > 0 {
		text = append(text, fmt.Sprintf("gpus: [%s], at_least: %d", quoted(ids), number/2+1))
	}
	if product.State != fabric.OK && number == 0 {
		return "", errors.New("nothing to recognize this node by: expected a product or board in DMI (/sys/class/dmi/id), or a GPU on the PCI bus")
	}
	return strings.Join(text, ", "), nil
}

func (d *draft) title() string {
	dmi := &d.n.Host.DMI
	words := strings.TrimSpace(dmi.Vendor.Or("") + " " + dmi.Product.Or(dmi.Board.Or("")))
	return cmp.Or(words, "machine")
}

// name is not that of a compiled-in profile, which it would replace.
func (d *draft) name() string {
	words := strings.FieldsFunc(strings.ToLower(d.title()), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	name := "site-" + strings.Join(words, "-")
	return strings.TrimRight(name[:min(len(name), 60)], "-")
}

// gpus are the kinds of the GPUs, and how many there are.
func (d *draft) gpus() (ids []fabric.PCIID, number int) {
	for _, g := range d.n.PCI.GPUs() {
		id, known := g.ID()
		if !known {
			continue
		}
		number++
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, number
}

// kind is what an entry distinguishes NICs by.
type kind struct {
	chip  fabric.PCIID
	ports int // on a card
}

// nics writes rails and other NICs. Roles that NICs of the same kind have are only stated if they are one.
func (d *draft) nics(source string) {
	seen, roles, left := d.ports()
	kinds := slices.Collect(maps.Keys(roles))
	heading := map[bool]string{true: "rails:", false: "other:"}
	for _, role := range fabric.Roles() {
		for _, is := range slices.SortedFunc(maps.Keys(seen[role]), func(a, b kind) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) {
			names := seen[role][is]
			if len(roles[is]) > 1 {
				d.line("# Not stated: %s of role %s. NICs of other roles have the same chip and as many ports.", some(names), role)
				continue
			}
			rail := role == fabric.RoleCompute
			if heading[rail] != "" {
				d.line("%s", heading[rail])
				heading[rail] = ""
			}
			more := ""
			if !rail {
				more = ", role: " + string(role)
			}
			if slices.ContainsFunc(kinds, func(k kind) bool { return k.chip == is.chip && k.ports != is.ports }) {
				more += fmt.Sprintf(", ports_per_card: %d", is.ports)
			}
			d.line("  # Seen: %s.", some(names))
			d.line("  - {chips: %q, number: %d%s, source: %s}", is.chip.String(), len(names), more, source)
		}
	}
	if len(left) > 0 {
		d.line("# Not stated: %s, of which the role, the chip or the place is not known, or which belong to NVSwitches.", some(slices.Compact(left)))
	}
}

// ports are the names of devices, one for each port, by role and kind; the roles that a kind has; and the devices about which nothing can
// be stated.
func (d *draft) ports() (seen map[fabric.Role]map[kind][]string, roles map[kind][]fabric.Role, left []string) {
	seen = map[fabric.Role]map[kind][]string{}
	roles = map[kind][]fabric.Role{}
	for i := range d.n.HCAs {
		h := &d.n.HCAs[i]
		f := d.n.PCI.NIC(h.Name)
		for k := range h.Ports {
			role, known := h.Ports[k].Role.Get()
			if f == nil || !known || h.Restricted.Or(false) {
				left = append(left, h.Name)
				continue
			}
			id, known := f.ID()
			if !known {
				left = append(left, h.Name)
				continue
			}
			is := kind{id, d.n.PortsOnCard(h, f)}
			if seen[role] == nil {
				seen[role] = map[kind][]string{}
			}
			seen[role][is] = append(seen[role][is], h.Name)
			if !slices.Contains(roles[is], role) {
				roles[is] = append(roles[is], role)
			}
		}
	}
	return seen, roles, left
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
