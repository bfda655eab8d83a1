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
		"line": line, "style": func() template.CSS { return template.CSS(pageStyle) }, "parts": parts, "anchor": anchor,
		"is": func(s Span, m string) bool { return marks[s.mark] == m }, "url": func(s Span) string { return s.url },
	}).Parse(pageText))
})

// marks are names of marks in the page.
var marks = map[mark]string{plain: "", code: "code", strong: "strong", link: "link"}

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

// Words that a cell of a table begins with where it says that something is wrong, or not known.
var (
	bad    = []string{"critical:", "broken", "blocked"}
	unsure = []string{"unknown", "not measured", "warning:"}
)

// Class is that of a cell, so that verdicts are not read by their words alone.
func (t Text) Class() string {
	words := strings.ToLower(t.Plain())
	begins := func(w string) bool { return strings.HasPrefix(words, w) }
	switch {
	case slices.ContainsFunc(bad, begins), words == "down":
		return "bad"
	case slices.ContainsFunc(unsure, begins):
		return "unsure"
	}
	return ""
}
