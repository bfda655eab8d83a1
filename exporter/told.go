// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
)

// trouble is a verdict as the landing page shows it.
type trouble struct {
	Where  []string // devices, ports, GPUs or files
	What   string
	Why    string // what was seen, and what follows from it
	Remedy string

	// Of what failed.
	Check, Severity, Class string
	Since                  string
	Links                  []link       // runbook and dashboard; without Href: text
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

// unchecked returns what could not be looked at: no trouble was seen there, and none can be ruled out.
func unchecked(list []diagnose.Verdict) []trouble {
	var unread []diagnose.Verdict
	for _, v := range list {
		if v.Check.ID == diagnose.CheckReads && v.Status != diagnose.OK {
			unread = append(unread, v)
		}
	}
	var all []trouble
	var checks [][]string
	for _, t := range diagnose.Together(diagnose.Unknowns(list)) {
		if noNews(t.Verdict, unread) {
			continue
		}
		i := slices.IndexFunc(all, func(o trouble) bool { return o.Why == t.Evidence && slices.Equal(o.Where, t.Subjects) })
		if i < 0 {
			all, checks, i = append(all, trouble{Where: t.Subjects, Why: t.Evidence}), append(checks, nil), len(all)
		}
		checks[i] = append(checks[i], t.Check.ID)
	}
	for i := range all {
		all[i].What = "Could not be checked: " + few(checks[i])
		if checks[i][0] == diagnose.CheckReads {
			all[i].What = "Could not be read"
		}
	}
	return all
}

// few names the first of a long list.
func few(list []string) string {
	const most = 3
	if len(list) <= most+1 {
		return strings.Join(list, ", ")
	}
	return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", len(list)-most)
}

// noNews tells that a verdict is unknown for a reason that is told already, as a device whose reads fail or hang, with
// what it hides of its peers; or for one that the reader chose: collectors that are off, and what jobs set. Nor is it news
// that a driver does not show how it treats RoCE.
func noNews(v diagnose.Verdict, unread []diagnose.Verdict) bool {
	if v.Check.ID == diagnose.CheckReads {
		return false
	}
	switch v.Reason {
	case fabric.ReasonNotRead, fabric.ReasonStuck, fabric.ReasonRTNLStuck:
		return true
	case fabric.ReasonMissing, fabric.ReasonUnsupported:
		return v.Check.Topic == "roce"
	}
	return slices.ContainsFunc(unread, func(r diagnose.Verdict) bool {
		s := r.Subject
		return r.Reason == v.Reason && (s.Device == v.Subject.Device || s.Device == "" || slices.Contains([]string{"port_rate", "firmware_uniform", "mtu_uniform"}, v.Check.ID))
	})
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

func portSubject(h *fabric.HCA, p *fabric.Port) diagnose.Subject {
	return diagnose.Subject{Device: h.Name, Port: p.Number}
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

// portName is the device, with the port where there are several.
func portName(h *fabric.HCA, p *fabric.Port) string {
	if len(h.Ports) == 1 {
		return h.Name
	}
	return h.Name + " port " + strconv.Itoa(p.Number)
}
