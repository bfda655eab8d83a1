// SPDX-License-Identifier: Apache-2.0

package openat

import (
	"net/netip"
	"path"
	"strings"
)

// Redaction says what of a file may leave the node in a capture. Each reader has its redactions beside it; a
// file without one does not leave the node.
type Redaction struct {
	File string // path as the reader has it, a pattern of path.Match
	// Keep returns what may leave of a text.
	Keep  func(text string, with Replacements) string
	Empty bool // the file leaves also where nothing of its text may
}

// RedactionOf returns the redaction for a file.
func RedactionOf(rules []Redaction, file string) (Redaction, bool) {
	for _, r := range rules {
		if ok, _ := path.Match(r.File, file); ok {
			return r, true
		}
	}
	return Redaction{}, false
}

// Removed stands for what does not leave the node.
const Removed = "removed"

// Lines rewrites each line of a text.
func Lines(text string, rewrite func(line string) string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, end := strings.CutSuffix(line, "\n")
		b.WriteString(rewrite(line))
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// Replacements replace what identifies a node, its owner or its users. Within a capture equal things stay equal.
type Replacements struct {
	Device func(name string) string // of an interface or RDMA device, or how such names begin
	Listed func(name string) string // in a list of names of devices: keywords stay
	Word   func(string) string      // any word
	Words  func(string) string      // identifiers in a text, and all words that are not known to be harmless
	Text   func(string) string      // identifiers in a text
	Shift  func(string) string      // letter by letter
	Addr   func(netip.Addr) netip.Addr
	Prefix func(netip.Prefix) netip.Prefix
}
