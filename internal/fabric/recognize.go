// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ProfileMatch is by what a profile is recognized: all that it names must fit. Texts are those of DMI, whole
// or, with a * at the end, how they begin; empty: not compared.
type ProfileMatch struct {
	Vendor      string `yaml:"vendor"`
	Product     string `yaml:"product"`
	Version     string `yaml:"product_version"`
	BoardVendor string `yaml:"board_vendor"`
	Board       string `yaml:"board"`
	AssetTag    string `yaml:"asset_tag"`
	// GPUs are kinds of which there must be AtLeast so many; none: GPUs do not matter.
	GPUs    OneOrMore[PCIID]  `yaml:"gpus"`
	AtLeast int               `yaml:"at_least"`
	Sources OneOrMore[string] `yaml:"source"`
}

// ProfileCondition is one thing that a match compares.
type ProfileCondition struct {
	What     string // file of DMI, or GPUs
	Expected string
	Found    string // empty: it has none
	Fits     Fact[bool]
}

// Recognition says why a node has its profile, or none.
type Recognition struct {
	Why  RecognitionReason
	Text string // for people
}

// RecognitionReason is the bounded enumeration of how a profile is recognized, or why none is.
type RecognitionReason string

// Reasons of recognition. Empty: nobody looked.
const (
	RecognizedByDMI      RecognitionReason = "dmi"       // DMI fits, and GPUs where the profile names some
	RecognizedByGPUs     RecognitionReason = "gpus"      // kind and number of GPUs fit
	RecognizedNone       RecognitionReason = "none"      // no profile fits
	RecognizedSeveral    RecognitionReason = "ambiguous" // several fit equally well
	RecognizedIncomplete RecognitionReason = "unknown"   // what a profile is recognized by could not be read
)

// DeriveProfile recognizes the profile of the node among those of its policy.
func (n *Node) DeriveProfile() { n.Profile, n.Recognition = recognize(n.Policy.Profiles, n) }

// recognize returns the profile that fits the node better than all others: one of the site before one that is
// compiled in, one that DMI fits before one that only GPUs fit. Equally good ones are ambiguous. What could
// not be read may fit: a profile that would then be as good leaves the node without one.
func recognize(profiles []Profile, n *Node) (*Profile, Recognition) {
	var best, open []ranked
	for i := range profiles {
		fits, rank := profiles[i].Fits(n)
		switch fit, known := fits.Get(); {
		case known && fit:
			best = better(best, ranked{&profiles[i], rank})
		case !known:
			open = append(open, ranked{&profiles[i], rank})
		}
	}
	open = slices.DeleteFunc(open, func(o ranked) bool { return len(best) > 0 && o.rank < best[0].rank })
	switch {
	case len(open) > 0:
		return nil, Recognition{RecognizedIncomplete, fmt.Sprintf("what would tell whether this is %s could not be read",
			titles(open))}
	case len(best) == 0:
		return nil, Recognition{RecognizedNone, "no profile fits"}
	case len(best) > 1:
		return nil, Recognition{RecognizedSeveral, titles(best) + " fit equally well"}
	case best[0].rank&rankDMI != 0:
		return best[0].profile, Recognition{RecognizedByDMI, "DMI says " + dmiText(&n.Host.DMI)}
	default:
		return best[0].profile, Recognition{RecognizedByGPUs, "it has the GPUs"}
	}
}

// ranked is a profile that fits, or may.
type ranked struct {
	profile *Profile
	rank    int
}

// Ranks, which add up.
const (
	rankDMI  = 1
	rankSite = 2
)

func better(best []ranked, r ranked) []ranked {
	switch {
	case len(best) == 0 || r.rank > best[0].rank:
		return []ranked{r}
	case r.rank == best[0].rank:
		return append(best, r)
	}
	return best
}

func titles(list []ranked) string {
	var names []string
	for _, r := range list {
		names = append(names, r.profile.Name)
	}
	return strings.Join(names, ", ")
}

func dmiText(d *DMI) string {
	var words []string
	for _, f := range []Fact[string]{d.Vendor, d.Product} {
		if s, ok := f.Get(); ok {
			words = append(words, s)
		}
	}
	return strings.Join(words, " ")
}

// Fits reports whether a match of the profile fits the node, and the rank of the best that does or, while
// that is not known, may.
func (p *Profile) Fits(n *Node) (fits Fact[bool], rank int) {
	fits = Known(false, "", n.At)
	site := 0
	if p.File != "" {
		site = rankSite
	}
	for i := range p.Match {
		one := allOf(p.Match[i].Conditions(n), n)
		r := site
		if p.Match[i].namesDMI() {
			r |= rankDMI
		}
		switch is, known := one.Get(); {
		case known && is && (!fits.Or(false) || r > rank):
			fits, rank = one, r
		case !known && !fits.Or(false) && (fits.State == OK || r > rank):
			fits, rank = one, r
		}
	}
	return fits, rank
}

// allOf is whether all conditions hold: one that does not decides.
func allOf(all []ProfileCondition, n *Node) Fact[bool] {
	whole := Known(len(all) > 0, "", n.At)
	for _, c := range all {
		switch is, known := c.Fits.Get(); {
		case known && !is:
			return c.Fits
		case !known:
			whole = c.Fits
		}
	}
	return whole
}

// Names of DMI's values, as the kernel has them.
const (
	DMIVendor      = "sys_vendor"
	DMIProduct     = "product_name"
	DMIVersion     = "product_version"
	DMIBoardVendor = "board_vendor"
	DMIBoard       = "board_name"
	DMIAssetTag    = "chassis_asset_tag"
)

// Text is what the match expects of a value of DMI; empty: nothing.
func (m *ProfileMatch) Text(name string) string {
	switch name {
	case DMIVendor:
		return m.Vendor
	case DMIProduct:
		return m.Product
	case DMIVersion:
		return m.Version
	case DMIBoardVendor:
		return m.BoardVendor
	case DMIBoard:
		return m.Board
	default:
		return m.AssetTag
	}
}

// DMINames returns the names of DMI's values.
func DMINames() []string {
	return []string{DMIVendor, DMIProduct, DMIVersion, DMIBoardVendor, DMIBoard, DMIAssetTag}
}

// Get returns a value by its name.
func (d *DMI) Get(name string) Fact[string] {
	switch name {
	case DMIVendor:
		return d.Vendor
	case DMIProduct:
		return d.Product
	case DMIVersion:
		return d.Version
	case DMIBoardVendor:
		return d.BoardVendor
	case DMIBoard:
		return d.Board
	default:
		return d.AssetTag
	}
}

func (m *ProfileMatch) namesDMI() bool {
	return slices.ContainsFunc(DMINames(), func(name string) bool { return m.Text(name) != "" })
}

// Conditions compares the node with all that the match names.
func (m *ProfileMatch) Conditions(n *Node) []ProfileCondition {
	var all []ProfileCondition
	for _, name := range DMINames() {
		if pattern := m.Text(name); pattern != "" {
			all = append(all, textCondition(name, pattern, n.Host.DMI.Get(name)))
		}
	}
	if len(m.GPUs) > 0 {
		all = append(all, m.gpuCondition(n))
	}
	return all
}

func textCondition(name, pattern string, is Fact[string]) ProfileCondition {
	c := ProfileCondition{What: name, Expected: pattern, Found: is.Or("")}
	switch start, open := strings.CutSuffix(pattern, "*"); {
	case is.State == Unknown:
		c.Fits = UnknownFact[bool](is.Meta().Reason, is.Source, is.At)
	case open:
		c.Fits = Known(is.State == OK && strings.HasPrefix(is.Value, start), is.Source, is.At)
	default:
		c.Fits = Known(is.State == OK && is.Value == pattern, is.Source, is.At)
	}
	return c
}

// gpuCondition counts the GPUs on the bus, bound to a driver or not.
func (m *ProfileMatch) gpuCondition(n *Node) ProfileCondition {
	const source = "bus/pci/devices"
	var ids []string
	for _, id := range m.GPUs {
		ids = append(ids, id.String())
	}
	c := ProfileCondition{What: "GPUs", Expected: fmt.Sprintf("at least %d of %s", m.AtLeast, strings.Join(ids, ", "))}
	count, unread := 0, 0
	reason := n.pciUnread()
	for _, g := range n.PCI.GPUs() {
		switch id, known := g.ID(); {
		case !known:
			unread++
			reason = g.Device.Meta().Reason
		case slices.Contains(m.GPUs, id):
			count++
		}
	}
	c.Found = strconv.Itoa(count)
	switch {
	case count >= m.AtLeast:
		c.Fits = Known(true, source, n.At)
	case reason != "" && (unread == 0 || count+unread >= m.AtLeast):
		c.Fits = UnknownFact[bool](reason, source, n.At)
	default:
		c.Fits = Known(false, source, n.At)
	}
	return c
}

// pciUnread is why nothing is known of the bus; empty: it was read, now or before.
func (n *Node) pciUnread() Reason {
	if len(n.PCI.Functions) > 0 {
		return ""
	}
	i := slices.IndexFunc(n.Sources, func(s Source) bool { return s.Name == SourcePCI })
	switch {
	case i < 0:
		return ReasonNotRead
	case n.Sources[i].Up:
		return ""
	}
	return n.Sources[i].Reason
}
