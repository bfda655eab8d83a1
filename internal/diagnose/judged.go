// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/internal/verdict"
)

// Judged says by which sources the ports for training of a node are judged (docs/ROLES.md). A port counts for
// each source that states its role, its link or its rate, or how many there should be; what no source states
// is a guess.
type Judged struct {
	Ports   int           // for training
	Sources []JudgedFacts // in the order of Authorities; those that state nothing are left out
	Guesses JudgedFacts

	hidden   string // why it is not known; empty: it is
	expected *int   // ports for training, as the configuration has it
}

// JudgedFacts counts what one source states of ports for training.
type JudgedFacts struct {
	By                         fabric.Authority
	Ports, Roles, Links, Rates int
	Since                      time.Time // of a record: when the newest of its links was seen first; zero: not known
}

// Authorities are the sources that may state what ports for training should be, the first before the rest.
func Authorities() []fabric.Authority {
	return []fabric.Authority{fabric.ByConfiguration, fabric.ByManifest, fabric.ByNCCL, fabric.ByProfile, fabric.ByRecord}
}

// JudgedBy counts who states what. Where ports or a source could not be read, it is not known: a smaller
// number would be wrong.
func JudgedBy(n *fabric.Node) Judged {
	j := Judged{hidden: judgedHidden(n), expected: n.Policy.ComputePorts}
	j.Guesses.By = fabric.ByNobody
	if j.hidden != "" {
		return j
	}
	by := map[fabric.Authority]*JudgedFacts{}
	for _, a := range Authorities() {
		by[a] = &JudgedFacts{By: a}
	}
	for _, p := range n.ComputePorts {
		j.Ports++
		j.count(p, by)
		if j.expected != nil { // the number judges all of them, even where it does not say which ports are meant
			by[fabric.ByConfiguration].Ports = j.Ports
		}
	}
	for _, a := range Authorities() {
		if by[a].Ports > 0 {
			j.Sources = append(j.Sources, *by[a])
		}
	}
	return j
}

func (j *Judged) count(p *fabric.Port, by map[fabric.Authority]*JudgedFacts) {
	stated := map[fabric.Authority]bool{}
	of := func(a fabric.Authority) *JudgedFacts {
		f := by[a]
		if f == nil || a == fabric.ByRecord && !recordedBefore(p) {
			return &j.Guesses
		}
		stated[a] = true
		return f
	}
	of(p.RoleBy).Roles++
	of(p.Link.By).Links++
	of(p.RateBy).Rates++
	for a := range stated {
		by[a].Ports++
	}
	if stated[fabric.ByRecord] && p.Seen.Since.After(by[fabric.ByRecord].Since) {
		by[fabric.ByRecord].Since = p.Seen.Since
	}
	if len(stated) == 0 && j.expected == nil {
		j.Guesses.Ports++
	}
}

// recordedBefore reports whether the record of a port is older than this reading: what is seen for the first
// time states nothing.
func recordedBefore(p *fabric.Port) bool { return p.Seen.Since.Before(p.State.At) }

// judgedHidden says what was not read of all that decides; empty: nothing.
func judgedHidden(n *fabric.Node) string {
	if n.ClassPresent.State == fabric.Unknown {
		return "the list of RDMA devices was not read: " + verdict.ReasonText(n.ClassPresent.Meta().Reason)
	}
	decides := func(s fabric.Source) bool {
		return !s.Up && (s.Name == fabric.SourceClass || s.Name == fabric.SourceNCCL)
	}
	if i := slices.IndexFunc(n.Sources, decides); i >= 0 {
		return "the " + verdict.SourceWords(n.Sources[i].Name) + " was not read: " + verdict.ReasonText(n.Sources[i].Reason)
	}
	if i := slices.IndexFunc(n.HCAs, func(h fabric.HCA) bool { return h.PortsHidden() }); i >= 0 {
		return "the ports of " + n.HCAs[i].Name + " were not read"
	}
	for h, p := range n.Ports {
		if p.Role.State == fabric.Unknown {
			return "the role of " + verdict.PortSubject(h, p).String() + " is not known: " +
				verdict.ReasonText(p.Role.Meta().Reason)
		}
	}
	return ""
}

// Known reports whether it is known who states what.
func (j *Judged) Known() bool { return j.hidden == "" }

// PortsBy is the number of ports for training of which a source states something.
func (j *Judged) PortsBy(a fabric.Authority) int {
	for _, s := range j.Sources {
		if s.By == a {
			return s.Ports
		}
	}
	return 0
}

// Text is one line for people.
func (j *Judged) Text() string {
	switch {
	case !j.Known():
		return "judged by: not known, because " + j.hidden
	case j.Ports == 0 && j.expected != nil:
		ports := spelling.Plural(*j.expected, "port", "ports")
		return "judged by: configuration (" + ports + " for training expected); none is known"
	case j.Ports == 0:
		return "judged by: no port for training is known, and nothing states how many there should be"
	case len(j.Sources) == 0:
		return "judged by guesses only: nothing states what this node should have; " + verdict.AcceptCommand
	}
	var parts []string
	for _, s := range j.Sources {
		part := cmp.Or(s.facts(), "their number")
		if !s.Since.IsZero() {
			part += s.Since.UTC().Format(" since 2006-01-02")
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", s.By, part))
	}
	text := "judged by: " + strings.Join(parts, ", ")
	if rest := j.Guesses.facts(); rest != "" {
		text += "; guesses: " + rest
	}
	return text
}

// facts are the numbers in words.
func (f *JudgedFacts) facts() string {
	var parts []string
	for _, c := range []struct {
		n         int
		one, many string
	}{{f.Roles, "role", "roles"}, {f.Links, "link", "links"}, {f.Rates, "rate", "rates"}} {
		if c.n > 0 {
			parts = append(parts, spelling.Plural(c.n, c.one, c.many))
		}
	}
	return strings.Join(parts, ", ")
}
