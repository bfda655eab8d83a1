// SPDX-License-Identifier: Apache-2.0

// Package signature is a table of log lines that identify failures of jobs: of NCCL 2.18 to 2.30, PyTorch, Gloo and the
// kernel. Each row has the cause and the remedy.
//
// The rows are data; docs/SIGNATURES.md is generated from them. Which releases of NCCL print a line is not
// written by hand: releases.tsv is generated from the tags of NCCL's repository (TestReleases). Functions are
// pure and may be called from any goroutine. A message is untrusted: Match keeps nothing of it, and has no
// errors.
package signature

import (
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Source is what prints a line.
type Source string

// Sources.
const (
	NCCL    Source = "NCCL"
	PyTorch Source = "PyTorch"
	Program Source = "program" // any that calls NCCL
	Gloo    Source = "Gloo"
	Kernel  Source = "kernel"
)

// Kind is what a line means for the job.
type Kind string

// Kinds.
const (
	Cause       Kind = "cause"       // something failed
	Consequence Kind = "consequence" // something failed before, often on another rank or host
	Note        Kind = "note"        // worth knowing; the job may go on
)

// Signature is a failure that a line of a log shows.
type Signature struct {
	ID     string // stable, for programs
	Source Source
	Kind   Kind
	Forms  []Form // a line that contains the text of one of them matches
	// Codes are those of which a line must have one: the completion status (ibv_wc_status), or the number of the
	// Xid. None: any.
	Codes         []int
	Cause, Remedy string
	Runbook       string // file in alerts/runbooks; empty: none
}

// Form is one wording.
type Form struct {
	Text string // what the line contains
	// In is the text in the source, if a macro composes the line from parts. Empty: Text.
	In string
	// File is where the source has it, for sources other than NCCL.
	File string
}

func (f Form) in() string {
	if f.In != "" {
		return f.In
	}
	return f.Text
}

// NoCode is the code of a line without one.
const NoCode = -1

// Match returns the first signature that fits a message of this source, and its code; nil if there is none.
// For PyTorch, Gloo and Kernel the message is a whole line.
func Match(source Source, message string) (*Signature, int) { return matchers()[source].match(message) }

// MatchInfo is Match for a line of NCCL at the level INFO: there, a failure is one that NCCL retries or can
// go on without, so that only notes match.
func MatchInfo(message string) *Signature {
	s, _ := notes().match(message)
	return s
}

// MatchLine is Match for a line that NCCL did not write.
func MatchLine(line string) (*Signature, int) { return others().match(line) }

var (
	matchers = sync.OnceValue(func() map[Source]*matcher {
		return map[Source]*matcher{
			NCCL: newMatcher(nccl), PyTorch: newMatcher(pytorch), Program: newMatcher(program),
			Gloo: newMatcher(gloo), Kernel: newMatcher(kernel),
		}
	})
	notes = sync.OnceValue(func() *matcher {
		return newMatcher(slices.DeleteFunc(slices.Clone(nccl), func(s Signature) bool { return s.Kind != Note }))
	})
	others = sync.OnceValue(func() *matcher { return newMatcher(slices.Concat(pytorch, program, gloo, kernel)) })
)

// matcher looks for the texts of all rows in one pass over a message. The first row that matches counts, so
// those with codes come before those without.
type matcher struct {
	rows  []Signature
	begin [1 << 10]uint64     // a bit for each hash of the first bytes of a text
	texts map[uint32][]anchor // by the first bytes
}

type anchor struct {
	text string
	row  int
}

// keyBytes is how many bytes of a text are looked up.
const keyBytes = 4

func newMatcher(rows []Signature) *matcher {
	m := &matcher{rows: rows, texts: map[uint32][]anchor{}}
	for i := range rows {
		for _, f := range rows[i].Forms {
			key := keyAt(f.Text, 0)
			m.texts[key] = append(m.texts[key], anchor{f.Text, i})
			h := hash(key)
			m.begin[h>>6] |= 1 << (h & 63)
		}
	}
	return m
}

func keyAt(s string, i int) uint32 {
	return uint32(s[i]) | uint32(s[i+1])<<8 | uint32(s[i+2])<<16 | uint32(s[i+3])<<24
}

// hash has as many bits as there are in matcher.begin.
func hash(key uint32) uint32 { return key * 2654435761 >> 16 }

func (m *matcher) match(message string) (*Signature, int) {
	best, code, coded := len(m.rows), NoCode, false
	for i := 0; i+keyBytes <= len(message); i++ {
		key := keyAt(message, i)
		if h := hash(key); m.begin[h>>6]&(1<<(h&63)) == 0 {
			continue
		}
		for _, a := range m.texts[key] {
			if a.row >= best || !strings.HasPrefix(message[i:], a.text) {
				continue
			}
			if !coded {
				code, coded = codeOf(message), true
			}
			if codes := m.rows[a.row].Codes; len(codes) == 0 || slices.Contains(codes, code) {
				best = a.row
			}
		}
	}
	if best == len(m.rows) {
		return nil, NoCode
	}
	return &m.rows[best], code
}

// codeOf finds the number of a completion status or an Xid: "with error 12,", "status=12 ",
// "status=IBV_WC_RETRY_EXC_ERR(12)", "Xid (PCI:0000:3b:00): 79, ".
func codeOf(message string) int {
	for _, before := range []string{" with error ", " status=", "Xid (PCI"} {
		_, rest, found := strings.Cut(message, before)
		if !found {
			continue
		}
		switch before {
		case " status=":
			word, _, _ := strings.Cut(rest, " ")
			if _, number, named := strings.Cut(word, "("); named {
				rest = number
			}
		case "Xid (PCI":
			_, rest, _ = strings.Cut(rest, "): ")
		}
		return leading(rest)
	}
	return NoCode
}

// leading is the number that a text begins with.
func leading(s string) int {
	const digits = 6
	end := 0
	for end < len(s) && end <= digits && s[end] >= '0' && s[end] <= '9' {
		end++
	}
	if n, err := strconv.Atoi(s[:end]); err == nil && end <= digits {
		return n
	}
	return NoCode
}

// Peer is the address of the other side that a message names; empty if it names none.
func Peer(message string) string {
	for _, before := range []string{"from peer ", "remote peer ", "connect to ", "Connect to ", "recv from ", "send to "} {
		if _, rest, found := strings.Cut(message, before); found {
			peer, _, _ := strings.Cut(rest, " ")
			return strings.TrimRight(peer, ",:")
		}
	}
	return ""
}

// All returns all signatures, in the order of the document.
func All() []Signature { return slices.Concat(nccl, pytorch, program, gloo, kernel) }
