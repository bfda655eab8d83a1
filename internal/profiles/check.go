// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/lazyregexp"
)

// checker collects what is wrong with a profile.
type checker struct {
	sources map[string]sourceEntry
	wrong   []string
}

func (c *checker) errorf(format string, args ...any) {
	if len(c.wrong) < 10 {
		c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
	}
}

var profileName = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,62}$`)

func (c *checker) profile(d *document) fabric.Profile {
	p := fabric.Profile{Name: d.Name, Title: c.text("title", d.Title)}
	if !profileName().MatchString(d.Name) {
		c.errorf("name %.64q: expected lower-case letters, digits and dashes", d.Name)
	}
	c.few("match", len(d.Match))
	c.few("rails and other", len(d.Rails)+len(d.Other))
	c.few("normal", len(d.Normal))
	c.few("sources", len(d.Sources))
	if g := d.GPUs; g != nil {
		p.GPUs = &fabric.ProfileGPUs{IDs: c.ids("gpus.ids", g.IDs), Number: c.number("gpus.number", g.Number), Sources: c.named("gpus", g.Source)}
	}
	if len(d.Match) == 0 {
		c.errorf("match: expected by what it is recognized")
	}
	for i := range d.Match {
		p.Match = append(p.Match, c.match(fmt.Sprintf("match[%d]", i), &d.Match[i], p.GPUs))
	}
	c.cabling(d, &p)
	for i := range d.Rails {
		p.Rails = append(p.Rails, c.rail(fmt.Sprintf("rails[%d]", i), &d.Rails[i], &p))
	}
	for i := range d.Other {
		p.Others = append(p.Others, c.other(fmt.Sprintf("other[%d]", i), &d.Other[i], &p))
	}
	c.overlaps(&p)
	for i, n := range d.Normal {
		what := fmt.Sprintf("normal[%d]", i)
		if !slices.Contains(fabric.Normals(), fabric.Normal(n.What)) || p.IsNormal(fabric.Normal(n.What)) {
			c.errorf("%s: %.64q: expected one of %v, each once", what, n.What, fabric.Normals())
		}
		p.Normal = append(p.Normal, fabric.ProfileNormal{What: fabric.Normal(n.What), Sources: c.named(what, n.Source)})
	}
	virtual := slices.ContainsFunc(p.Rails, func(e fabric.ProfileNIC) bool { return e.VirtualFunctions })
	if virtual != p.IsNormal(fabric.NormalVFRails) {
		c.errorf("normal: %s is expected where rails are virtual functions, and only there", fabric.NormalVFRails)
	}
	c.documents(&p)
	return p
}

func (c *checker) documents(p *fabric.Profile) {
	for name, s := range c.sources {
		p.Sources = append(p.Sources, fabric.ProfileSource{
			Name: c.text("sources", name), Title: c.text(name+": title", s.Title), URL: s.URL, Date: c.text(name+": date", s.Date),
		})
		if s.URL != "" && (c.text("url", s.URL) == "" || !strings.HasPrefix(s.URL, "https://")) {
			c.errorf("sources: %s: url %.64q: expected https://...", name, s.URL)
		}
	}
	slices.SortFunc(p.Sources, func(a, b fabric.ProfileSource) int { return strings.Compare(a.Name, b.Name) })
}

// match reads by what the profile is recognized. What many platforms have in common does not suffice.
func (c *checker) match(what string, m *matchEntry, gpus *fabric.ProfileGPUs) fabric.ProfileMatch {
	is := fabric.ProfileMatch{
		Vendor: m.Vendor, Product: m.Product, Version: m.Version, BoardVendor: m.BoardVendor, Board: m.Board, AssetTag: m.AssetTag,
		AtLeast: m.AtLeast, Sources: c.named(what, m.Source),
	}
	for _, s := range []string{m.Vendor, m.Product, m.Version, m.BoardVendor, m.Board, m.AssetTag} {
		if start, open := strings.CutSuffix(s, "*"); open {
			s = strings.TrimRight(start, " ")
			c.text(what, s)
		} else if s != "" {
			c.text(what, s)
		}
	}
	switch {
	case len(m.GPUs) > 0:
		is.GPUs = c.ids(what+".gpus", m.GPUs)
		c.number(what+".at_least", m.AtLeast)
	case m.AtLeast != 0:
		c.errorf("%s: at_least without gpus", what)
	case m.Product == "" && m.Board == "":
		c.errorf("%s: expected product, board or gpus: the rest is common to many platforms", what)
	}
	if gpus == nil {
		return is
	}
	if is.AtLeast > gpus.Number {
		c.errorf("%s: at_least %d: the profile states %d GPUs", what, is.AtLeast, gpus.Number)
	}
	for _, id := range is.GPUs {
		if !slices.Contains(gpus.IDs, id) {
			c.errorf("%s: GPUs %s: the profile states others", what, id)
		}
	}
	return is
}

func (c *checker) cabling(d *document, p *fabric.Profile) {
	switch d.Cabling.By {
	case byProvider:
		p.ProviderCables, p.CablingSources = true, c.named("cabling", d.Cabling.Source)
	case bySite:
	default:
		c.errorf("cabling: by %.64q: expected %s or %s", d.Cabling.By, byProvider, bySite)
	}
}

func (c *checker) rail(what string, n *nicEntry, p *fabric.Profile) fabric.ProfileNIC {
	if n.Role != "" {
		c.errorf("%s: role %.64q: expected none, rails are of role %s", what, n.Role, fabric.RoleCompute)
	}
	return c.nic(what, n, fabric.RoleCompute, p)
}

func (c *checker) other(what string, n *nicEntry, p *fabric.Profile) fabric.ProfileNIC {
	role := fabric.Role(n.Role)
	if role == fabric.RoleCompute || !slices.Contains(fabric.Roles(), role) {
		c.errorf("%s: role %.64q: expected %s, %s or %s", what, n.Role, fabric.RoleStorage, fabric.RoleManagement, fabric.RoleUnused)
	}
	return c.nic(what, n, role, p)
}

func (c *checker) nic(what string, n *nicEntry, role fabric.Role, p *fabric.Profile) fabric.ProfileNIC {
	const bitsPerByte, giga, most = 8, 1e9, 100_000
	e := fabric.ProfileNIC{
		Chips: c.ids(what+".chips", n.Chips), Number: c.number(what+".number", n.Number), Optional: n.Optional, Role: role,
		PortsPerCard: n.PortsPerCard, VirtualFunctions: n.VirtualFunctions, LinkLayer: fabric.LinkLayer(n.LinkLayer), Rate: n.Rate * giga / bitsPerByte,
		Near: fabric.Nearness(n.Near), Planes: n.Planes, Sources: c.named(what, n.Source),
	}
	layers := []fabric.LinkLayer{"", fabric.LinkInfiniBand, fabric.LinkEthernet, fabric.LinkUnspecified}
	switch {
	case !slices.Contains(layers, e.LinkLayer):
		c.errorf("%s: link_layer %.64q: expected %v", what, n.LinkLayer, layers[1:])
	case !p.ProviderCables && (e.LinkLayer != "" || n.Rate != 0):
		c.errorf("%s: link_layer and rate are stated only where the provider cables", what)
	}
	if !(n.Rate >= 0 && n.Rate <= most) {
		c.errorf("%s: rate_gigabits_per_second %v: expected up to %d", what, n.Rate, most)
	}
	for name, v := range map[string]int{"ports_per_card": n.PortsPerCard, "planes": n.Planes} {
		if v < 0 || v > maxList {
			c.errorf("%s: %s %d: expected up to %d", what, name, v, maxList)
		}
	}
	switch {
	case e.Near != "" && !slices.Contains(fabric.Nearnesses(), e.Near):
		c.errorf("%s: near %.64q: expected one of %v", what, n.Near, fabric.Nearnesses())
	case e.Near == fabric.NearGPUs && p.GPUs == nil:
		c.errorf("%s: near gpus: the profile states no GPUs", what)
	}
	return e
}

// overlaps complains of entries that a port could belong to both of.
func (c *checker) overlaps(p *fabric.Profile) {
	all := p.NICs()
	for i := range all {
		for k := range all[:i] {
			if all[i].Overlaps(&all[k]) {
				c.errorf("rails and other: two entries have %v as chips and do not differ in link_layer or ports_per_card", all[i].Chips)
			}
		}
	}
}

func (c *checker) text(what, s string) string {
	if s == "" || len(s) > maxText || strings.TrimSpace(s) != s || strings.ContainsFunc(s, fabric.Unprintable) {
		c.errorf("%s: %.64q: expected a line of up to %d printable characters", what, s, maxText)
		return ""
	}
	return s
}

func (c *checker) number(what string, n int) int {
	if n < 1 || n > maxNumber {
		c.errorf("%s %d: expected 1 to %d", what, n, maxNumber)
	}
	return n
}

func (c *checker) few(what string, n int) {
	if n > maxList {
		c.errorf("%s: %d entries: expected up to %d", what, n, maxList)
	}
}

var idText = lazyregexp.New(`^[0-9a-f]{4}:[0-9a-f]{4}$`)

// ids reads kinds of PCI devices, "15b3:1021".
func (c *checker) ids(what string, texts names) []fabric.PCIID {
	c.few(what, len(texts))
	if len(texts) == 0 {
		c.errorf("%s: expected ids of vendor and device, as in 15b3:1021", what)
	}
	var all []fabric.PCIID
	for _, s := range texts {
		if !idText().MatchString(s) {
			c.errorf("%s: %.64q: expected ids of vendor and device, as in 15b3:1021", what, s)
			continue
		}
		both, _ := strconv.ParseUint(s[:4]+s[5:], 16, 32)                                 // which are eight digits
		all = append(all, fabric.PCIID{Vendor: uint16(both >> 16), Device: uint16(both)}) //nolint:gosec // its halves
	}
	return all
}

// named are the sources of a statement.
func (c *checker) named(what string, sources names) []string {
	c.few(what+".source", len(sources))
	if len(sources) == 0 {
		c.errorf("%s: expected its source", what)
	}
	for _, s := range sources {
		if _, known := c.sources[s]; !known {
			c.errorf("%s: source %.64q is not among sources", what, s)
		}
	}
	return sources
}
