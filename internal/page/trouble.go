// SPDX-License-Identifier: Apache-2.0

package page

import (
	"iter"
	"slices"
	"strings"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
)

// namedValue is a value with its name.
type namedValue struct{ Name, Value string }

// trouble is a verdict as the landing page shows it.
type trouble struct {
	Where  []string // devices, ports, GPUs or files
	What   string
	Why    string // what was seen, and what follows from it
	Remedy string

	// Of what failed.
	Check, Severity, Class string
	Since                  string
	Links                  []Link       // runbook and dashboard; without Href: text
	Remedies               []namedValue // by subject, where there are several and commands differ: instead of Remedy

	members []diagnose.Verdict
}

// troubles returns what looks wrong.
func troubles(list []diagnose.Verdict) []trouble {
	var all []trouble
	for _, t := range diagnose.Together(diagnose.Failures(list)) {
		class := "bad"
		if t.Check.Severity != diagnose.Critical {
			class = "unsure"
		}
		all = append(all, trouble{
			Where: t.Subjects, What: t.What, Why: strings.TrimSpace(t.Evidence + " " + t.Consequence), Remedy: t.Remedy,
			Check: t.Check.ID, Severity: string(t.Check.Severity), Class: class, members: t.Members,
		})
	}
	return all
}

// uncheckedOf returns what could not be looked at.
func uncheckedOf(list []diagnose.Verdict) []trouble {
	var all []trouble
	for _, g := range diagnose.Unchecked(list) {
		all = append(all, trouble{Where: g.Subjects, What: g.What, Why: g.Why})
	}
	return all
}

// failing tells which checks fail for what: where the page shows a value, it shows it as bad.
type failing map[failure]bool

type failure struct {
	check   string
	subject diagnose.Subject
}

func failingOf(list []diagnose.Verdict) failing {
	f := failing{}
	for _, v := range diagnose.Failures(list) {
		f[failure{v.Check.ID, v.Subject.Key()}] = true
	}
	return f
}

// of tells whether one of the checks fails for the subject.
func (f failing) of(s diagnose.Subject, checks ...string) bool {
	return slices.ContainsFunc(checks, func(id string) bool { return f[failure{id, s.Key()}] })
}

// judged iterates over the ports that matter: those of role compute and storage.
func judged(n *fabric.Node) iter.Seq2[*fabric.HCA, *fabric.Port] {
	return func(yield func(*fabric.HCA, *fabric.Port) bool) {
		for i := range n.HCAs {
			h := &n.HCAs[i]
			for k := range h.Ports {
				if matters(&h.Ports[k]) && !yield(h, &h.Ports[k]) {
					return
				}
			}
		}
	}
}
