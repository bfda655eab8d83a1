// SPDX-License-Identifier: Apache-2.0

package main

import (
	"html"
	"regexp"
	"strings"
)

var inline = []struct {
	pattern *regexp.Regexp
	html    string
}{ // over escaped text
	{regexp.MustCompile("`([^`]+)`"), "<code>$1</code>"},
	{regexp.MustCompile(`\*\*([^*]+)\*\*`), "<strong>$1</strong>"},
	{regexp.MustCompile(`\*([^*]+)\*`), "<em>$1</em>"},
	{regexp.MustCompile(`\[([^\]]+)\]\(([^)\s]+)\)`), "<a>$1</a>"}, // a picture needs no address
}

// markdown draws headings, lists, paragraphs, code, strong text and links. Anything else stays as it is written.
func markdown(text string) raw {
	var b strings.Builder
	b.WriteString(`<div class="text">`)
	open := ""
	become := func(tag string) {
		if open == tag {
			return
		}
		if open != "" {
			b.WriteString("</" + open + ">")
		}
		if tag != "" {
			b.WriteString("<" + tag + ">")
		}
		open = tag
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		item, isItem := strings.CutPrefix(line, "- ")
		if !isItem {
			item, isItem = strings.CutPrefix(line, "* ")
		}
		switch {
		case line == "":
			become("")
		case strings.HasPrefix(line, "#"):
			become("")
			b.WriteString("<h3>" + span(strings.TrimLeft(line, "# ")) + "</h3>")
		case isItem:
			become("ul")
			b.WriteString("<li>" + span(item) + "</li>")
		case open == "ul": // the item goes on
			b.WriteString(" " + span(line))
		default:
			become("p")
			b.WriteString(span(line) + " ")
		}
	}
	become("")
	b.WriteString("</div>")
	return raw(b.String())
}

func span(text string) string {
	text = html.EscapeString(text)
	for _, i := range inline {
		text = i.pattern.ReplaceAllString(text, i.html)
	}
	return text
}
