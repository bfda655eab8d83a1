// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
)

const (
	rowHeight  = 34
	leastWidth = 150 // of a column without a width: Grafana scrolls sideways instead of making it narrower
)

// table draws the first frame of a panel, as Grafana does.
func (s *sheet) table(v *view, w, h float64) raw {
	f := v.frames[0]
	if len(v.frames) > 1 {
		v.note("Grafana shows one of %d frames", len(v.frames))
	}
	for _, by := range slices.Backward(v.Options.SortBy) {
		for _, c := range f.Fields {
			if c.title() == by.DisplayName {
				f.sort(c.display(), by.Desc)
			}
		}
	}
	var columns []*Field
	total, free := 0.0, 0
	for _, c := range f.Fields {
		if c.Config.Custom.Hidden {
			continue
		}
		columns = append(columns, c)
		total += c.Config.Custom.Width
		if c.Config.Custom.Width == 0 {
			free++
		}
	}
	share := 0.0
	if free > 0 {
		share = max((w-total)/float64(free), leastWidth)
		total += share * float64(free)
	}
	if total > w*1.01 { // a hundredth more is in the padding of the last one
		v.note("its columns are %.0f pixels wide, and %.0f have a place", total, w)
	}
	var b buf
	b.f("<table style=\"width:%.0fpx\"><colgroup>", total)
	for _, c := range columns {
		width := c.Config.Custom.Width
		if width == 0 {
			width = share
		}
		b.f("<col style=\"width:%.0fpx\">", width)
	}
	b.f("</colgroup>")
	fit := int((h - 2) / rowHeight)
	if v.Options.ShowHeader == nil || *v.Options.ShowHeader {
		fit--
		b.f("<tr>")
		for _, c := range columns {
			b.f("<th style=\"text-align:%s\">%s</th>", align(c), c.title())
		}
		b.f("</tr>")
	}
	rows := f.rows()
	for i := range min(rows, max(fit, 0)) {
		b.f("<tr>")
		for _, c := range columns {
			s.tableCell(&b, v, c, c.Values[i])
		}
		b.f("</tr>")
	}
	if rows > fit {
		v.note("%d of %d rows are seen without scrolling", max(fit, 0), rows)
	}
	b.f("</table>%s", hidden(rows-fit))
	return b.raw()
}

func (s *sheet) tableCell(b *buf, v *view, c *Field, value any) {
	lowest, highest := c.limits()
	is := c.Config.show(value, lowest, highest, s.to)
	kind := c.Config.Custom.DisplayMode
	if t := c.Config.Custom.CellOptions.Type; t != "" {
		kind = t
	}
	if t := c.Config.Custom.CellOptions; t.Type == "color-background" && string(t.Mode) == `"basic"` {
		kind = "color-background-solid"
	}
	style := "text-align:" + align(c)
	if is.color != "" && value != nil {
		switch {
		case kind == "color-text":
			style += ";color:" + is.color
		case strings.HasPrefix(kind, "color-background"):
			style += ";background:" + is.color + ";color:" + over(is.color)
		}
	}
	if is.text == c.Config.NoValue && value == nil {
		style += ";color:" + colorWeak
	}
	class := ""
	if len(c.Config.Links) > 0 && is.text != "" {
		class = "link"
	}
	b.f("<td style=\"%s\"><span class=\"%s\">%s</span></td>", style, class, is.text)
}

// align is where a column stands: numbers at the right.
func align(c *Field) string {
	if a := c.Config.Custom.Align; a != "" && a != "auto" {
		return a
	}
	if c.Type == isNumber {
		return "right"
	}
	return "left"
}
