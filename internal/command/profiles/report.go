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

// profile is a profile, and what it makes of the node.
type profile struct {
	*fabric.Profile
	Fits  *bool   `json:"fits"`  // null: not known
	Match []match `json:"match"` // of which one suffices
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

func (r *report) names() (all []string) {
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
		of := &n.Policy.Profiles[i]
		fits, _ := of.Fits(n)
		p := profile{Profile: of, Fits: known(fits)}
		for k := range of.Match {
			m := match{Sources: of.Match[k].Sources}
			for _, c := range of.Match[k].Conditions(n) {
				m.Conditions = append(m.Conditions, condition{
					c.What, c.Expected, c.Found, known(c.Fits),
					string(c.Fits.Meta().Reason),
				})
			}
			p.Match = append(p.Match, m)
		}
		r.Profiles = append(r.Profiles, p)
	}
	return r
}

func machineOf(n *fabric.Node) machine {
	m := machine{DMI: []value{}, GPUs: []gpus{}}
	for _, name := range fabric.DMINames() {
		f := n.Host.DMI.Get(name)
		m.DMI = append(m.DMI, value{name, known(f), string(f.Meta().Reason)})
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

// known is the value of a fact; nil: it has none.
func known[T any](f fabric.Fact[T]) *T {
	if v, ok := f.Get(); ok {
		return &v
	}
	return nil
}
