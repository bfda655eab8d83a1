// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
	"unicode"
)

// Document is a report as people read it. WriteMarkdown and WriteHTML write the same content.
type Document struct {
	Title    string
	Sections []Section
}

// Section is a heading of level 2, or 3 below one, and what stands under it.
type Section struct {
	Title  string
	Sub    bool // level 3
	Blocks []Block
}

// Block is a paragraph, a list or a table: one of its fields is set.
type Block struct {
	Paragraph Text
	List      []Text
	Table     *Table
}

// Table has rows of as many cells as Head. Note says below it where the values are from, and how many rows were left out.
type Table struct {
	Head []string
	Rows [][]Text
	Note string
}

// Text is a line with marks.
type Text []Span

// Span is a part of a line.
type Span struct {
	Mark Mark
	Text string
	URL  string // of a Link
}

// Mark is how a part of a line is shown.
type Mark uint8

// Marks. What comes from the node or from files is Plain or Code, never a URL.
const (
	Plain Mark = iota
	Code
	Strong
	Link
)

func code(s string) Span   { return Span{Mark: Code, Text: s} }
func strong(s string) Span { return Span{Mark: Strong, Text: s} }

func link(text, url string) Span { return Span{Mark: Link, Text: text, URL: url} }

// text makes a line of strings, which are plain, and spans.
func text(parts ...any) Text {
	var t Text
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			t = append(t, Span{Text: p})
		case Span:
			t = append(t, p)
		case Text:
			t = append(t, p...)
		default:
			t = append(t, Span{Text: fmt.Sprint(p)})
		}
	}
	return t
}

// plain returns a line without marks.
func (t Text) plain() string {
	var b strings.Builder
	for _, s := range t {
		b.WriteString(s.Text)
	}
	return b.String()
}

func (s *Section) say(parts ...any) { s.Blocks = append(s.Blocks, Block{Paragraph: text(parts...)}) }

func (s *Section) list(lines ...Text) {
	if len(lines) > 0 {
		s.Blocks = append(s.Blocks, Block{List: lines})
	}
}

// table adds a table of at most maxRows rows; it counts what is left out.
func (s *Section) table(t Table) {
	if more := len(t.Rows) - maxRows; more > 0 {
		t.Rows = t.Rows[:maxRows]
		t.Note = strings.TrimSpace(fmt.Sprintf("And %d more rows (--output=json has all). ", more) + t.Note)
	}
	s.Blocks = append(s.Blocks, Block{Table: &t})
}

// Bounds of what a document shows. The JSON has more.
const (
	maxRows = 64  // of a table
	maxGIDs = 64  // entries of GID tables, of all ports
	maxList = 16  // names in a line, lines in a list
	maxText = 600 // characters of a span
)

// some joins names, of many the first.
func some(names []string) string {
	if more := len(names) - maxList; more > 0 {
		return strings.Join(names[:maxList], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// line is a text on one line, of bounded length: controls and separators become blanks.
func line(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	return clip(s, maxText)
}

// clip bounds a text in characters.
func clip(s string, most int) string {
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}
