// SPDX-License-Identifier: Apache-2.0

package status

import (
	"time"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
)

// JudgedBy says which sources state what the ports for training should be (docs/ROLES.md).
type JudgedBy struct {
	Text    string         `json:"text"`
	Ports   *int           `json:"compute_ports"` // null: who states what is not known
	Sources []JudgedSource `json:"sources"`
	Guesses JudgedCounts   `json:"guesses"` // what no source states; Ports are those of which none states anything
}

// JudgedSource is what one source states of ports for training.
type JudgedSource struct {
	Source string `json:"source"`
	JudgedCounts
	Since *time.Time `json:"since"` // of a record; null for other sources
}

// JudgedCounts counts ports of which role, link or rate are stated.
type JudgedCounts struct {
	Ports int `json:"ports"` // of which any is
	Roles int `json:"roles"`
	Links int `json:"links"`
	Rates int `json:"rates"`
}

// JudgedByOf is diagnose.JudgedBy for JSON.
func JudgedByOf(n *fabric.Node) *JudgedBy {
	j := diagnose.JudgedBy(n)
	counts := func(f *diagnose.JudgedFacts) JudgedCounts { return JudgedCounts{f.Ports, f.Roles, f.Links, f.Rates} }
	d := &JudgedBy{Text: j.Text(), Sources: []JudgedSource{}, Guesses: counts(&j.Guesses)}
	if j.Known() {
		d.Ports = &j.Ports
	}
	for i := range j.Sources {
		s := &j.Sources[i]
		one := JudgedSource{Source: string(s.By), JudgedCounts: counts(s)}
		if !s.Since.IsZero() {
			since := s.Since.UTC()
			one.Since = &since
		}
		d.Sources = append(d.Sources, one)
	}
	return d
}
