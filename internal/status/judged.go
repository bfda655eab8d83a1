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
	Guesses JudgedGuesses  `json:"guesses"`
}

// JudgedSource is what one source states of ports for training.
type JudgedSource struct {
	Source string     `json:"source"`
	Ports  int        `json:"ports"` // of which it states role, link or rate
	Roles  int        `json:"roles"`
	Links  int        `json:"links"`
	Rates  int        `json:"rates"`
	Since  *time.Time `json:"since"` // of a record; null for other sources
}

// JudgedGuesses is what no source states.
type JudgedGuesses struct {
	Ports int `json:"ports"` // of which none states anything
	Roles int `json:"roles"`
	Links int `json:"links"`
	Rates int `json:"rates"`
}

// JudgedByOf is diagnose.JudgedBy for JSON.
func JudgedByOf(n *fabric.Node) *JudgedBy {
	j := diagnose.JudgedBy(n)
	g := &j.Guesses
	d := &JudgedBy{
		Text: j.Text(), Sources: []JudgedSource{}, Guesses: JudgedGuesses{g.Ports, g.Roles, g.Links, g.Rates},
	}
	if j.Known() {
		d.Ports = &j.Ports
	}
	for i := range j.Sources {
		s := &j.Sources[i]
		one := JudgedSource{Source: string(s.By), Ports: s.Ports, Roles: s.Roles, Links: s.Links, Rates: s.Rates}
		if !s.Since.IsZero() {
			since := s.Since.UTC()
			one.Since = &since
		}
		d.Sources = append(d.Sources, one)
	}
	return d
}
