// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"
	"time"
)

// The page: 24 columns, a line of the grid has 30 pixels, between panels are 8.
const (
	pageWidth = 1600
	margin    = 16
	gap       = 8
	line      = 30
	top       = 104 // title, variables and links
	bottom    = 44
	titleBar  = 34 // of a panel
	inset     = 10
)

const footer = "drawn by tools/preview from real data; Grafana looks a little different"

// buf collects HTML. Strings that come from elsewhere are escaped, whatever they are: only raw is not.
type buf struct{ strings.Builder }

type raw string

func (b *buf) f(format string, args ...any) {
	for i, a := range args {
		switch v := a.(type) {
		case string:
			args[i] = html.EscapeString(v)
		case raw:
			args[i] = string(v)
		case float64, int:
		default:
			args[i] = html.EscapeString(fmt.Sprint(v))
		}
	}
	fmt.Fprintf(b, format, args...)
}

func (b *buf) raw() raw { return raw(b.String()) }

// size is the place that a panel has inside, in pixels.
func size(p *Panel) (w, h float64) {
	w, h = outer(p)
	w, h = w-2*inset, h-inset
	if p.Title != "" {
		h -= titleBar
	} else {
		h -= inset
	}
	return w, h
}

func outer(p *Panel) (w, h float64) {
	return float64(p.GridPos.W)*column() - gap, float64(p.GridPos.H)*(line+gap) - gap
}

// column is the width of a column with the gap behind it.
func column() float64 { return float64(pageWidth-2*margin+gap) / 24 }

// placed is a panel or a row at its line of the grid.
type placed struct {
	panel *Panel
	view  *view // nil: a row
	y     int
}

// layout gives panels their lines. As in Grafana they move up as far as there is nothing above them, and a row that is
// opened is followed by what is in it.
func (s *sheet) layout() (list []placed, lines int) {
	views := map[*Panel]*view{}
	for _, v := range s.views {
		views[v.Panel] = v
	}
	var order []*Panel
	for i := range s.Panels {
		order = append(order, &s.Panels[i])
	}
	slices.SortStableFunc(order, reading)
	var taken [24]int // lines of each column
	put := func(list []placed, panels []*Panel) []placed {
		slices.SortStableFunc(panels, reading)
		for _, p := range panels {
			columns := taken[p.GridPos.X : p.GridPos.X+p.GridPos.W]
			y := slices.Max(columns)
			for i := range columns {
				columns[i] = y + p.GridPos.H
			}
			list = append(list, placed{p, views[p], y})
		}
		return list
	}
	before := 0
	for i := range order {
		if p := order[i]; p.Type == "row" && s.open && len(p.Panels) > 0 {
			var inner []*Panel
			for k := range p.Panels {
				inner = append(inner, &p.Panels[k])
			}
			list = put(put(list, order[before:i+1]), inner)
			before = i + 1
		}
	}
	list = put(list, order[before:])
	return list, slices.Max(taken[:])
}

// reading is the order of panels: from the top, and from the left.
func reading(a, b *Panel) int {
	return cmp.Or(cmp.Compare(a.GridPos.Y, b.GridPos.Y), cmp.Compare(a.GridPos.X, b.GridPos.X))
}

// page draws the dashboard. height is that of the page in pixels.
func (s *sheet) page() (page string, height int) {
	list, lines := s.layout()
	height = top + lines*(line+gap) + bottom
	var b buf
	b.f("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%s</title><style>%s</style></head><body style=\"height:%dpx\">\n",
		s.Title, raw(style()), height)
	s.head(&b)
	for _, p := range list {
		x, y := margin+float64(p.panel.GridPos.X)*column(), float64(top+p.y*(line+gap))
		w, h := outer(p.panel)
		if p.view == nil {
			s.row(&b, p.panel, x, y, w)
			continue
		}
		b.f("<section style=\"left:%.1fpx;top:%.1fpx;width:%.1fpx;height:%.1fpx\">", x, y, w, h)
		if t := p.panel.Title; t != "" {
			b.f("<h2 title=\"%s\">%s", s.told(p.panel.Description), s.told(t))
			if p.panel.Description != "" {
				b.f("<i>i</i>")
			}
			b.f("</h2>")
		}
		b.f("<div class=\"body\">%s</div></section>\n", s.draw(p.view))
	}
	b.f("<footer style=\"top:%dpx\">%s · %s to %s UTC</footer></body></html>\n", height-bottom+8, footer,
		s.from.UTC().Format(time.DateTime), s.to.UTC().Format("15:04:05"))
	return b.String(), height
}

func (s *sheet) row(b *buf, p *Panel, x, y, w float64) {
	arrow, more := "▾", ""
	if len(p.Panels) > 0 {
		more = fmt.Sprintf("(%d panels)", len(p.Panels))
		if len(p.Panels) == 1 {
			more = "(1 panel)"
		}
		if !s.open {
			arrow = "▸"
		}
	}
	b.f("<div class=\"row\" style=\"left:%.1fpx;top:%.1fpx;width:%.1fpx\">%s %s <small>%s</small></div>\n", x, y, w, arrow, s.told(p.Title), more)
}

func (s *sheet) head(b *buf) {
	b.f("<header><h1>%s</h1><p class=\"time\">%s to %s UTC</p><p class=\"vars\">", s.Title, s.from.UTC().Format("2006-01-02 15:04:05"), s.to.UTC().Format("15:04:05"))
	for _, name := range s.order {
		if v := s.variables[name]; !v.hidden {
			b.f("<span class=\"name\">%s</span><span class=\"value\">%s ⌄</span>", v.label, v.text)
		}
	}
	b.f("</p><p class=\"links\">")
	for _, l := range s.Links {
		b.f("<span class=\"value\">↗ %s</span>", l.Title)
	}
	b.f("</p></header>\n")
}

// draw is what is inside a panel.
func (s *sheet) draw(v *view) raw {
	w, h := size(v.Panel)
	var b buf
	switch {
	case v.err != nil:
		b.f("<p class=\"error\">⚠ %s</p>", v.err.Error())
		return b.raw()
	case v.Type == "stat", v.Type == "gauge":
		return s.figures(v, w, h)
	case v.Type == "text":
		return markdown(s.told(v.Options.Content))
	case v.empty():
		b.f("<p class=\"none\" style=\"height:%.0fpx\">%s</p>", h, v.noValue())
		return b.raw()
	case v.Type == "table":
		return s.table(v, w, h)
	case v.Type == "timeseries":
		return s.timeseries(v, w, h)
	case v.Type == "heatmap":
		return s.heatmap(v, w, h)
	}
	return s.timeline(v, w, h)
}

func style() string {
	return strings.NewReplacer("PAGE", colorPage, "PANEL", colorPanel, "BORDER", colorBorder, "TEXT", colorText, "WEAK", colorWeak, "LINK", colorLink,
		"RED", shades["red"][2]).Replace(`
*{box-sizing:border-box;margin:0;padding:0}
body{background:PAGE;color:TEXT;width:1600px;position:relative;overflow:hidden;font:13px/1.35 Inter,Roboto,"Liberation Sans","DejaVu Sans",Arial,sans-serif}
header{position:absolute;left:16px;right:16px;top:12px;height:88px}
h1{font-size:20px;font-weight:500}
.time{position:absolute;right:0;top:2px;color:WEAK}
.vars{position:absolute;left:0;top:42px}.links{position:absolute;right:0;top:42px}
.vars span,.links span{display:inline-block;border:1px solid #34383f;background:PANEL;padding:5px 10px;height:30px}
.vars .name{background:#22252b;border-right:0;font-weight:500}.vars .value{margin-right:10px}.links .value{margin-left:8px}
section{position:absolute;background:PANEL;border:1px solid BORDER;border-radius:2px;overflow:hidden}
h2{font-size:14px;font-weight:500;height:34px;padding:8px 10px 0;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
h2 i{display:inline-block;font:italic 10px serif;width:14px;height:14px;line-height:13px;text-align:center;border:1px solid WEAK;border-radius:7px;color:WEAK;margin-left:7px}
.body{position:relative;padding:10px 10px 0;height:100%;overflow:hidden}h2+.body{height:calc(100% - 34px);padding-top:0}
.row{position:absolute;height:30px;padding:6px 4px;font-size:15px;font-weight:500;white-space:nowrap;overflow:hidden}.row small{color:WEAK;font-weight:400}
.none{display:flex;align-items:center;justify-content:center;text-align:center;color:WEAK;font-size:15px;padding:0 6%}
.error{color:RED;border:1px solid RED;padding:8px;margin-top:4px;white-space:pre-wrap;overflow-wrap:anywhere}
.more{position:absolute;right:8px;bottom:2px;color:WEAK;background:PANEL;padding:0 6px;font-size:12px}
table{border-collapse:collapse;table-layout:fixed}
th{height:32px;text-align:left;font-weight:500;color:LINK}td{height:34px;border-top:1px solid BORDER}
th,td{padding:0 7px;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
.link{text-decoration:underline;text-decoration-color:#5b6478;text-underline-offset:3px}
.legend{line-height:20px;font-size:12px;overflow:hidden}
.legend span{display:inline-block;margin-right:14px;white-space:nowrap;max-width:100%;overflow:hidden;text-overflow:ellipsis;vertical-align:top}
.legend b{display:inline-block;width:13px;height:4px;border-radius:2px;margin:0 6px 3px 0}.legend em{font-style:normal;color:WEAK;margin-left:8px}
.legend td{height:20px;border:0;padding:0 6px}.legend th{height:20px;padding:0 6px;font-size:12px}
svg{display:block}svg text{font-size:11px;fill:WEAK}
.cell{position:absolute;overflow:hidden;display:flex;flex-direction:column;align-items:center;justify-content:center;text-align:center;border-radius:3px}
.cell p{white-space:nowrap;max-width:100%;overflow:hidden;text-overflow:ellipsis}
.text{font-size:14px}.text p,.text ul,.text h3{margin-bottom:6px}.text ul{padding-left:20px}.text h3{font-size:17px;font-weight:500}.text a{color:LINK}
.text code{background:#22252b;padding:1px 4px;font-size:13px}
footer{position:absolute;left:0;width:100%;text-align:center;color:WEAK;font-size:12px}`)
}
