// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// Departure is a variable in which the settings of a job differ from the advice.
type Departure struct {
	Name string `json:"name"`
	// Present is the value that the job has, nil: it does not set the variable. Hidden: the job sets it, and the
	// value is not read.
	Present *string `json:"present"`
	Hidden  bool    `json:"hidden"`
	// Advised is the recommended value, nil: leave the variable unset.
	Advised *string `json:"advised"`
	Reason  string  `json:"reason"`
}

// Departures compares the variables of a job with the advice for it, in the order of the advice. A value of
// an interface list is compared only where the job sets one: the job may have interfaces of its own.
func (a *Advice) Departures(job []fabric.NCCLVariable) []Departure {
	list := []Departure{}
	for i := range a.Settings {
		s := &a.Settings[i]
		d := Departure{Name: s.Name, Advised: &s.Value, Reason: s.Reason}
		at := slices.IndexFunc(job, func(v fabric.NCCLVariable) bool { return v.Name == s.Name && v.Value != "" })
		switch {
		case at < 0 && s.HostNames:
			continue
		case at < 0:
		case job[at].Masked:
			d.Hidden = true
		case job[at].Value == s.Value || s.equal != nil && s.equal(job[at].Value):
			continue
		default:
			d.Present = &job[at].Value
		}
		list = append(list, d)
	}
	for _, l := range a.Leave {
		for i := range job {
			if v := &job[i]; v.Value != "" && l.names(v.Name) {
				d := Departure{Name: v.Name, Hidden: v.Masked, Reason: l.Reason}
				if !v.Masked {
					d.Present = &v.Value
				}
				list = append(list, d)
			}
		}
	}
	return list
}

// names reports whether a variable is one to leave unset. The name may end in *.
func (l *Left) names(variable string) bool {
	return slices.ContainsFunc(strings.Split(l.Name, ", "), func(name string) bool {
		prefix, all := strings.CutSuffix(name, "*")
		return name == variable || all && strings.HasPrefix(variable, prefix)
	})
}
