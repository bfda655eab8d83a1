// SPDX-License-Identifier: Apache-2.0

package document

import (
	_ "embed" // the page
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed document.html
var pageText string

//go:embed document.css
var pageStyle string

var page = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("document").Funcs(template.FuncMap{
		"line": line, "style": func() template.CSS { return template.CSS(pageStyle) }, "parts": parts, "blocks": blocks,
		"long": long,
		"is":   func(s Span, m string) bool { return marks[s.mark] == m }, "url": func(s Span) string { return s.url },
	}).Parse(pageText))
})

// marks are names of marks in the page.
var marks = map[mark]string{plain: "", code: "code", strong: "strong", link: "link", bad: "bad", unsure: "unsure"}

// WriteHTML writes a document as one page without assets or scripts. The template escapes all texts.
func WriteHTML(w io.Writer, d *Document) error { return page().Execute(w, d) }

// part is a section of level 2 with its subsections.
type part struct {
	Section
	Anchor string
	Subs   []Section
}

// parts puts sections of level 3 below those of level 2.
func parts(sections []Section) []part {
	var all []part
	for i, s := range sections {
		if s.Sub && len(all) > 0 {
			all[len(all)-1].Subs = append(all[len(all)-1].Subs, s)
			continue
		}
		all = append(all, part{Section: s, Anchor: anchor(i)})
	}
	return all
}

func anchor(i int) string { return "s" + strconv.Itoa(i) }

// Class is that of a cell, so that verdicts are not read by their words alone: what a finding is about is
// marked, and what is not known begins with that word.
func (t Text) Class() string {
	has := func(m mark) bool { return slices.ContainsFunc(t, func(s Span) bool { return s.mark == m }) }
	words := t.Plain()
	switch {
	case has(bad):
		return "bad"
	case has(unsure), strings.HasPrefix(words, "unknown"), strings.HasPrefix(words, "not measured"):
		return "unsure"
	}
	return ""
}

// labelled is a block with the name of its table, by which those who hear the page find it.
type labelled struct {
	Block
	Label string
}

func blocks(s Section) (list []labelled) {
	n := 0
	for _, b := range s.Blocks {
		label := s.Title + ": table"
		if b.Table != nil {
			if n++; n > 1 {
				label += " " + strconv.Itoa(n)
			}
		}
		list = append(list, labelled{b, label})
	}
	return list
}

const longWord = 40 // characters of code that may break anywhere

// long reports whether a code has no place to break.
func long(s string) bool {
	return slices.ContainsFunc(strings.Fields(s), func(w string) bool { return len(w) > longWord })
}
