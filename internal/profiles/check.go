// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/lazyregexp"
)

// checker collects what is wrong with a profile.
type checker struct {
	*fabric.Profile
	wrong []string
}

var profileName = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,62}$`)

// check returns what is wrong with a profile that was decoded, in one line.
func check(p *fabric.Profile) error {
	c := checker{Profile: p}
	c.must(profileName().MatchString(p.Name), "name %.64q: expected lower-case letters, digits and dashes", p.Name)
	c.text("title", p.Title)
	if g := p.GPUs; g != nil {
		c.must(len(g.IDs) > 0, "gpus.ids: expected ids of vendor and device, as in 10de:2330")
		c.within("gpus.number", g.Number, 1, maxNumber)
		c.from("gpus", g.Sources)
	}
	c.must(len(p.Match) > 0, "match: expected by what it is recognized")
	for i := range p.Match {
		c.match(fmt.Sprintf("match[%d]", i), &p.Match[i])
	}
	by := p.Cabling.By
	c.must(by == fabric.CabledByProvider || by == fabric.CabledBySite, "cabling: by %.64q: expected %s or %s", by,
		fabric.CabledByProvider, fabric.CabledBySite)
	if by == fabric.CabledByProvider || len(p.Cabling.Sources) > 0 {
		c.from("cabling", p.Cabling.Sources)
	}
	c.nics()
	for i, n := range p.Normal {
		what := fmt.Sprintf("normal[%d]", i)
		once := slices.IndexFunc(p.Normal, func(o fabric.ProfileNormal) bool { return o.What == n.What }) == i
		c.must(once && slices.Contains(fabric.Normals(), n.What), "%s: %.64q: expected one of %v, each once", what,
			string(n.What), fabric.Normals())
		c.from(what, n.Sources)
	}
	virtual := slices.ContainsFunc(p.Rails, func(e fabric.ProfileNIC) bool { return e.VirtualFunctions })
	c.must(virtual == p.IsNormal(fabric.NormalVFRails),
		"normal: %s is expected where rails are virtual functions, and only there", fabric.NormalVFRails)
	for _, s := range p.Sources {
		c.text("sources", s.Name)
		c.text(s.Name+": title", s.Title)
		c.text(s.Name+": date", s.Date)
		if s.URL != "" {
			c.text(s.Name+": url", s.URL)
			c.must(strings.HasPrefix(s.URL, "https://"), "sources: %s: url %.64q: expected https://...", s.Name, s.URL)
		}
	}
	if len(c.wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(c.wrong[:min(len(c.wrong), 10)], "; "))
}

func (c *checker) must(ok bool, format string, args ...any) {
	if !ok {
		c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
	}
}

func (c *checker) text(what, s string) {
	c.must(s != "" && len(s) <= maxText && strings.TrimSpace(s) == s && !strings.ContainsFunc(s, fabric.Unprintable),
		"%s: %.64q: expected a line of up to %d printable characters", what, s, maxText)
}

func (c *checker) within(what string, n, least, most int) {
	c.must(n >= least && n <= most, "%s %d: expected %d to %d", what, n, least, most)
}

// from says that a statement needs sources.
func (c *checker) from(what string, names []string) {
	c.must(len(names) > 0, "%s: expected its source", what)
	for _, name := range names {
		known := slices.ContainsFunc(c.Sources, func(s fabric.ProfileSource) bool { return s.Name == name })
		c.must(known, "%s: source %.64q is not among sources", what, name)
	}
}

// match reads by what the profile is recognized. What many platforms have in common does not suffice.
func (c *checker) match(what string, m *fabric.ProfileMatch) {
	const start = 3 // of a text that ends in *
	c.from(what, m.Sources)
	for _, name := range fabric.DMINames() {
		s := m.Text(name)
		if s == "" {
			continue
		}
		begin, open := strings.CutSuffix(s, "*")
		c.must(!strings.Contains(begin, "*"), "%s: %.64q: a * is only at the end", what, s)
		c.must(!open || len(begin) >= start, "%s: %.64q: expected at least %d characters before the *", what, s, start)
		if open {
			begin = strings.TrimRight(begin, " ")
		}
		c.text(what, begin)
	}
	c.must(len(m.GPUs) > 0 || m.AtLeast == 0, "%s: at_least without gpus", what)
	c.must(len(m.GPUs) > 0 || m.Product != "" || m.Board != "",
		"%s: expected product, board or gpus: the rest is common to many platforms", what)
	switch {
	case len(m.GPUs) == 0:
	case c.GPUs == nil:
		c.within(what+".at_least", m.AtLeast, 1, maxNumber)
	default: // fewer fit a smaller machine, and with all a lost one would take the profile away
		all, least := c.GPUs.Number, c.GPUs.Number/2+1
		most := max(least, all-1)
		c.must(m.AtLeast >= least && m.AtLeast <= most,
			"%s.at_least %d: expected %d to %d, because the profile states %d GPUs", what, m.AtLeast, least, most, all)
		for _, id := range m.GPUs {
			c.must(slices.Contains(c.GPUs.IDs, id), "%s: GPUs %s: the profile states others", what, id)
		}
	}
}

// nics checks rails, which it gives their role, and other NICs.
func (c *checker) nics() {
	for i := range c.Rails {
		e, what := &c.Rails[i], fmt.Sprintf("rails[%d]", i)
		c.must(e.Role == "", "%s: role %.64q: expected none, rails are of role %s", what, string(e.Role), fabric.RoleCompute)
		e.Role = fabric.RoleCompute
		c.nic(what, e)
	}
	for i := range c.Others {
		e, what := &c.Others[i], fmt.Sprintf("other[%d]", i)
		others := []fabric.Role{fabric.RoleStorage, fabric.RoleManagement, fabric.RoleUnused}
		c.must(slices.Contains(others, e.Role), "%s: role %.64q: expected storage, management or unused", what,
			string(e.Role))
		c.nic(what, e)
	}
	all := c.NICs()
	for i := range all {
		for k := range all[:i] {
			c.must(!all[i].Overlaps(&all[k]),
				"rails and other: two entries have %v as chips and do not differ in link_layer or ports_per_card", all[i].Chips)
		}
	}
}

func (c *checker) nic(what string, e *fabric.ProfileNIC) {
	const fastest = 100_000
	c.from(what, e.Sources)
	c.must(len(e.Chips) > 0, "%s.chips: expected ids of vendor and device, as in 15b3:1021", what)
	c.within(what+".number", e.Number, 1, maxNumber)
	c.within(what+": ports_per_card", e.PortsPerCard, 0, maxList)
	layers := []fabric.LinkLayer{"", fabric.LinkInfiniBand, fabric.LinkEthernet, fabric.LinkUnspecified}
	c.must(slices.Contains(layers, e.LinkLayer), "%s: link_layer %.64q: expected %v", what, string(e.LinkLayer),
		layers[1:])
	c.must(e.Gigabits >= 0 && e.Gigabits <= fastest, "%s: rate_gigabits_per_second %v: expected up to %d", what,
		e.Gigabits, fastest)
	c.must(c.Cabling.By == fabric.CabledByProvider || e.LinkLayer == "" && e.Gigabits == 0,
		"%s: link_layer and rate are stated only where the provider cables", what)
	nearnesses := fabric.Nearnesses()
	c.must(e.Near == "" || slices.Contains(nearnesses, e.Near), "%s: near %.64q: expected one of %v", what,
		string(e.Near), nearnesses)
	if c.GPUs == nil {
		c.must(e.Near != fabric.NearGPUs, "%s: near gpus: the profile states no GPUs", what)
		return
	}
	few, many := min(e.Number, c.GPUs.Number), max(e.Number, c.GPUs.Number)
	c.must(e.Near != fabric.NearGPUs || few < 1 || many%few == 0,
		"%s: near gpus: %d ports cannot be spread evenly over %d GPUs", what, e.Number, c.GPUs.Number)
	for _, id := range e.Chips {
		c.must(!slices.Contains(c.GPUs.IDs, id), "%s: %s is a GPU", what, id)
	}
}
