// SPDX-License-Identifier: Apache-2.0

package report

import (
	_ "embed" // the page
	"html/template"
	"io"
	"strconv"
	"strings"
)

//go:embed report.html
var pageText string

//go:embed report.css
var pageStyle string

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"line": line, "style": func() template.CSS { return template.CSS(pageStyle) }, "parts": parts, "anchor": anchor,
	"is": func(s Span, m string) bool { return marks[s.Mark] == m },
}).Parse(pageText))

// marks are names of marks in the page.
var marks = map[Mark]string{Plain: "", Code: "code", Strong: "strong", Link: "link"}

// WriteHTML writes a document as one page without assets or scripts. The template escapes all texts.
func WriteHTML(w io.Writer, d *Document) error { return page.Execute(w, d) }

// part is a section of level 2 with those below it.
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

// Class is that of a cell, so that verdicts are not read by their words alone.
func (t Text) Class() string {
	switch words := strings.ToLower(t.plain()); {
	case strings.HasPrefix(words, "critical:"), strings.HasPrefix(words, broken), strings.HasPrefix(words, "blocked"), words == "down":
		return "bad"
	case strings.HasPrefix(words, unknown), strings.HasPrefix(words, "not measured"), strings.HasPrefix(words, "warning:"):
		return "unsure"
	}
	return ""
}
