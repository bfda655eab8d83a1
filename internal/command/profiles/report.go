// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"slices"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/fabric"
)

// report is what profiles prints, and as JSON what it promises.
type report struct {
	Recognized recognized `json:"recognized"`
	Machine    machine    `json:"machine"`
	Profiles   []profile  `json:"profiles"`
	LeftOut    []string   `json:"left_out"` // of the site, and why

	Configuration config.Report `json:"configuration"`
}

// recognized is which profile is in force.
type recognized struct {
	Profile string `json:"profile"` // empty: none
	Title   string `json:"title"`
	Reason  string `json:"reason"`
	Text    string `json:"text"`
}

// machine is by what a profile is recognized.
type machine struct {
	DMI  []value `json:"dmi"`
	GPUs []gpus  `json:"gpus"` // on the PCI bus
}

type value struct {
	Name   string  `json:"name"`
	Value  *string `json:"value"` // null: not known, or absent
	Reason string  `json:"unknown_reason,omitempty"`
}

type gpus struct {
	ID     string `json:"id"` // empty: not known
	Number int    `json:"number"`
}

type profile struct {
	Name    string      `json:"name"`
	Title   string      `json:"title"`
	File    string      `json:"file,omitempty"` // missing: it is compiled in
	Fits    *bool       `json:"fits"`           // null: not known
	Match   []match     `json:"match"`          // of which one suffices
	GPUs    *statedGPUs `json:"gpus"`           // null: not stated
	Rails   []nic       `json:"rails"`
	Others  []nic       `json:"other"`
	Cabling cabling     `json:"cabling"`
	Normal  []normal    `json:"normal"`
	Sources []source    `json:"sources"`
}

type match struct {
	Conditions []condition `json:"conditions"`
	Sources    []string    `json:"source"`
}

type condition struct {
	What     string `json:"what"`
	Expected string `json:"expected"`
	Found    string `json:"found"`
	Fits     *bool  `json:"fits"` // null: not known
	Reason   string `json:"unknown_reason,omitempty"`
}

type statedGPUs struct {
	IDs     []string `json:"ids"`
	Number  int      `json:"number"`
	Sources []string `json:"source"`
}

type nic struct {
	Chips            []string `json:"chips"`
	Number           int      `json:"number"`
	Optional         bool     `json:"optional"`
	Role             string   `json:"role"`
	PortsPerCard     int      `json:"ports_per_card,omitempty"` // missing, as all below: not stated
	VirtualFunctions bool     `json:"virtual_functions,omitempty"`
	LinkLayer        string   `json:"link_layer,omitempty"`
	Rate             float64  `json:"rate_gigabits_per_second,omitempty"`
	Near             string   `json:"near,omitempty"`
	Planes           int      `json:"planes,omitempty"`
	Sources          []string `json:"source"`
}

type cabling struct {
	By      string   `json:"by"`
	Sources []string `json:"source"`
}

type normal struct {
	What    string   `json:"what"`
	Sources []string `json:"source"`
}

type source struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	URL   string `json:"url"`
	Date  string `json:"date"`
}

func (r *report) names() []string {
	var all []string
	for _, p := range r.Profiles {
		all = append(all, p.Name)
	}
	return all
}

// reportOf compares all profiles with the node.
func reportOf(n *fabric.Node, conf config.Config) report {
	r := report{Machine: machineOf(n), Profiles: []profile{}, LeftOut: []string{}, Configuration: conf.Report()}
	r.Recognized.Reason, r.Recognized.Text = string(n.Recognition.Why), n.Recognition.Text
	if n.Profile != nil {
		r.Recognized.Profile, r.Recognized.Title = n.Profile.Name, n.Profile.Title
	}
	for _, err := range conf.Problems {
		r.LeftOut = append(r.LeftOut, err.Error())
	}
	for i := range n.Policy.Profiles {
		r.Profiles = append(r.Profiles, profileOf(&n.Policy.Profiles[i], n))
	}
	return r
}

func machineOf(n *fabric.Node) machine {
	m := machine{DMI: []value{}, GPUs: []gpus{}}
	for _, name := range fabric.DMINames() {
		f := n.Host.DMI.Get(name)
		v := value{Name: name, Reason: string(f.Meta().Reason)}
		if s, ok := f.Get(); ok {
			v.Value = &s
		}
		m.DMI = append(m.DMI, v)
	}
	for _, g := range n.PCI.GPUs() {
		text := ""
		if id, known := g.ID(); known {
			text = id.String()
		}
		i := slices.IndexFunc(m.GPUs, func(g gpus) bool { return g.ID == text })
		if i < 0 {
			i, m.GPUs = len(m.GPUs), append(m.GPUs, gpus{ID: text})
		}
		m.GPUs[i].Number++
	}
	return m
}

func profileOf(p *fabric.Profile, n *fabric.Node) profile {
	r := profile{
		Name: p.Name, Title: p.Title, File: p.File, Match: []match{}, Rails: []nic{}, Others: []nic{}, Cabling: cabling{By: "site", Sources: []string{}},
		Normal: []normal{}, Sources: []source{},
	}
	fits, _ := p.Fits(n)
	r.Fits = known(fits)
	for i := range p.Match {
		m := match{Sources: p.Match[i].Sources}
		for _, c := range p.Match[i].Conditions(n) {
			m.Conditions = append(m.Conditions, condition{c.What, c.Expected, c.Found, known(c.Fits), string(c.Fits.Meta().Reason)})
		}
		r.Match = append(r.Match, m)
	}
	if g := p.GPUs; g != nil {
		r.GPUs = &statedGPUs{texts(g.IDs), g.Number, g.Sources}
	}
	for _, e := range p.Rails {
		r.Rails = append(r.Rails, nicOf(e))
	}
	for _, e := range p.Others {
		r.Others = append(r.Others, nicOf(e))
	}
	if p.ProviderCables {
		r.Cabling = cabling{"provider", p.CablingSources}
	}
	for _, what := range p.Normal {
		r.Normal = append(r.Normal, normal{string(what.What), what.Sources})
	}
	for _, s := range p.Sources {
		r.Sources = append(r.Sources, source(s))
	}
	return r
}

func nicOf(e fabric.ProfileNIC) nic {
	return nic{
		Chips: texts(e.Chips), Number: e.Number, Optional: e.Optional, Role: string(e.Role), PortsPerCard: e.PortsPerCard,
		VirtualFunctions: e.VirtualFunctions, LinkLayer: string(e.LinkLayer), Rate: e.Rate * 8 / 1e9, Near: string(e.Near), Planes: e.Planes,
		Sources: e.Sources,
	}
}

func texts(ids []fabric.PCIID) []string {
	var all []string
	for _, id := range ids {
		all = append(all, id.String())
	}
	return all
}

func known(f fabric.Fact[bool]) *bool {
	if v, ok := f.Get(); ok {
		return &v
	}
	return nil
}
