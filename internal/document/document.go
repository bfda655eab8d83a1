// SPDX-License-Identifier: Apache-2.0

// Package document is the readable form of a report: sections of paragraphs, lists and tables, and writers of
// Markdown and of one HTML page.
//
// All of it is pure, and any number of goroutines may call it. Texts are not trusted: the writers put each on
// one line, bound and escape it, so that no text adds a mark, row, column or tag of its own. The only errors
// are those of the writer that a document goes to.
package document

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"gpufabric_exporter/internal/fabric"
)

// Document is what WriteMarkdown and WriteHTML write, with the same content.
type Document struct {
	Title    string
	Sections []Section
}

// Section is a heading of level 2, or of level 3 in another section, and its contents.
type Section struct {
	Title  string
	Sub    bool   // level 3
	Anchor string // of a section of level 3 that a To leads to: letters, digits and hyphens
	Blocks []Block
}

// Block is a paragraph, a list or a table: one of its fields is set.
type Block struct {
	Paragraph Text
	List      []Text
	Table     *Table
}

// Table has rows of as many cells as Head. Note says below it where the values are from, and how many rows
// were left out.
type Table struct {
	Head []string
	Rows [][]Text
	Note string
}

// Text is a line with marks.
type Text []Span

// Span is a part of a line. Its zero value with a text is plain.
type Span struct {
	Text string
	mark mark
	url  string // of a link
}

// mark is how a part of a line is shown.
type mark uint8

const (
	plain mark = iota
	code
	strong
	link
	bad
	unsure
)

// Code is text that is quoted: a name, a command, a value.
func Code(s string) Span { return Span{mark: code, Text: s} }

// Strong is text that stands out.
func Strong(s string) Span { return Span{mark: strong, Text: s} }

// Link is a link. What comes from a node or from files is never a URL.
func Link(text, url string) Span { return Span{mark: link, Text: text, url: url} }

// To is a link to the section that has an anchor.
func To(text, anchor string) Span { return Span{mark: link, Text: text, url: "#" + anchor} }

// Bad is what is wrong according to a finding. In a table, its cell has a colour.
func Bad(s string) Span { return Span{mark: bad, Text: s} }

// Unsure is what may be wrong.
func Unsure(s string) Span { return Span{mark: unsure, Text: s} }

// Line makes a line of strings, which are plain, spans and lines.
func Line(parts ...any) Text {
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

// Plain returns a line without marks.
func (t Text) Plain() string {
	var b strings.Builder
	for _, s := range t {
		b.WriteString(s.Text)
	}
	return b.String()
}

// Marked is a line with code between backticks.
func Marked(s string) Text {
	var t Text
	for i, part := range strings.Split(s, "`") {
		if i%2 == 1 {
			t = append(t, Code(part))
		} else if part != "" {
			t = append(t, Span{Text: part})
		}
	}
	return t
}

// Join makes a line of a list, of many the first, and counts the others.
func Join[T any](list []T, separator string, show func(T) any) Text {
	var t Text
	for i, of := range list[:min(len(list), MaxList)] {
		if i > 0 {
			t = append(t, Span{Text: separator})
		}
		t = append(t, Line(show(of))...)
	}
	if more := len(list) - MaxList; more > 0 {
		t = append(t, Span{Text: fmt.Sprintf("%sand %d more", strings.TrimPrefix(separator, ","), more)})
	}
	return t
}

// Codes are names as code.
func Codes(names []string) Text { return Join(names, ", ", func(s string) any { return Code(s) }) }

// Grouped are the first of different lines, each behind the names that have it. A name without a line is left out.
func Grouped[T any](list []T, of func(*T) (name, line string)) (lines []Text) {
	names := map[string][]string{}
	var order []string
	for i := range list {
		name, line := of(&list[i])
		if line != "" && names[line] == nil {
			order = append(order, line)
		}
		names[line] = append(names[line], name)
	}
	for _, line := range order[:min(len(order), MaxList)] {
		lines = append(lines, Line(Codes(names[line]), ": ", line))
	}
	return lines
}

// Say adds a paragraph, made as Line makes it.
func (s *Section) Say(parts ...any) { s.Blocks = append(s.Blocks, Block{Paragraph: Line(parts...)}) }

// List adds a list; without lines there is none.
func (s *Section) List(lines ...Text) {
	if len(lines) > 0 {
		s.Blocks = append(s.Blocks, Block{List: lines})
	}
}

// Add adds a row, each cell of it made as Line makes it.
func (t *Table) Add(cells ...any) {
	row := make([]Text, len(cells))
	for i, c := range cells {
		row[i] = Line(c)
	}
	t.Rows = append(t.Rows, row)
}

// Table adds a table of at most MaxRows rows; it counts what is left out. Columns without text have none, either.
func (s *Section) Table(t Table) {
	t.dropEmpty()
	if more := len(t.Rows) - MaxRows; more > 0 {
		t.Rows = t.Rows[:MaxRows]
		t.Note = strings.TrimSpace(fmt.Sprintf("And %d more rows (--output=json has all). ", more) + t.Note)
	}
	s.Blocks = append(s.Blocks, Block{Table: &t})
}

// dropEmpty removes the columns behind the first in which no row has a text.
func (t *Table) dropEmpty() {
	for i := len(t.Head) - 1; i > 0 && len(t.Rows) > 0; i-- {
		empty := func(row []Text) bool {
			return i >= len(row) || !slices.ContainsFunc(row[i], func(s Span) bool { return s.Text != "" || s.mark != plain })
		}
		if slices.ContainsFunc(t.Rows, func(row []Text) bool { return !empty(row) }) {
			continue
		}
		t.Head = slices.Delete(slices.Clone(t.Head), i, i+1)
		for k, row := range t.Rows {
			if i < len(row) {
				t.Rows[k] = slices.Delete(slices.Clone(row), i, i+1)
			}
		}
	}
}

// Bounds of what is shown.
const (
	MaxRows = 64 // of a table
	MaxList = 16 // names in a line, lines in a list
)

const maxText = 600 // characters of a span

// line is a text on one line, of bounded length: what leaves no mark becomes a blank, also what turns the order
// of a line around.
func line(s string) string {
	s = strings.Map(func(r rune) rune {
		if r != utf8.RuneError && fabric.Unprintable(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	n := 0
	for i := range s {
		if n++; n > maxText {
			return s[:i] + "…"
		}
	}
	return s
}
