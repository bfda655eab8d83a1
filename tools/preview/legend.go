// SPDX-License-Identifier: Apache-2.0

package main

import "slices"

// legend draws the legend of a chart. It takes that much off the width or the height.
func (s *sheet) legend(v *view, paths []path, w, h float64) (legend raw, fromWidth, fromHeight float64) {
	o := v.Options.Legend
	if o.DisplayMode == "hidden" || (o.ShowLegend != nil && !*o.ShowLegend) {
		return "", 0, 0
	}
	if o.DisplayMode == "table" {
		return s.legendTable(v, paths, w, h)
	}
	room, most := w, max(int(h*0.35/20), 1)
	if o.Placement == "right" {
		room, most = w*0.3, max(int(h/20), 1)
	}
	var b buf
	lines, used := 1, 0.0
	drawn := 0
	for _, p := range paths {
		letters := len([]rune(p.title()))
		for _, calc := range o.Calcs {
			letters += len(calc) + len(s.calculated(p, calc)) + 4
		}
		wide := min(float64(letters)*letter*1.12+34, room)
		if used+wide > room || o.Placement == "right" && drawn > 0 {
			lines, used = lines+1, 0
		}
		if lines > most {
			break
		}
		used += wide
		drawn++
		b.f("<span><b style=\"background:%s\"></b>%s", p.color, p.title())
		for _, calc := range o.Calcs {
			b.f("<em>%s: %s</em>", calc, s.calculated(p, calc))
		}
		b.f("</span>")
	}
	var out buf
	if drawn < len(paths) {
		lines = most
		out.f("<div class=\"more\">+%d more</div>", len(paths)-drawn)
		v.note("the legend shows %d of %d series without scrolling", drawn, len(paths))
	}
	height := float64(lines * 20)
	if o.Placement == "right" {
		out.f("<div class=\"legend\" style=\"width:%.0fpx;height:%.0fpx\">%s</div>", room, h, b.raw())
		return out.raw(), room + 10, 0
	}
	out.f("<div class=\"legend\" style=\"height:%.0fpx\">%s</div>", height, b.raw())
	return out.raw(), 0, height + 2
}

func (s *sheet) legendTable(v *view, paths []path, w, h float64) (legend raw, fromWidth, fromHeight float64) {
	o := v.Options.Legend
	right := o.Placement == "right"
	wide, high := w, float64((len(paths)+1)*20)
	if right {
		wide = min(w*0.45, 160+float64(len(o.Calcs))*80)
	}
	limit := h
	if !right {
		limit = h * 0.45
	}
	shown := len(paths)
	if high > limit {
		shown = max(int(limit/20)-1, 0)
		high = limit
		v.note("the legend shows %d of %d series without scrolling", shown, len(paths))
	}
	var b buf
	b.f("<div class=\"legend\" style=\"width:%.0fpx;height:%.0fpx\"><table style=\"width:100%%\"><tr><th>Name</th>", wide, high)
	for _, calc := range o.Calcs {
		b.f("<th style=\"text-align:right;width:80px\">%s</th>", calc)
	}
	b.f("</tr>")
	for _, p := range slices.Clone(paths)[:shown] {
		b.f("<tr><td><b style=\"background:%s\"></b>%s</td>", p.color, p.title())
		for _, calc := range o.Calcs {
			b.f("<td style=\"text-align:right\">%s</td>", s.calculated(p, calc))
		}
		b.f("</tr>")
	}
	b.f("</table></div>")
	if shown < len(paths) {
		b.f("<div class=\"more\">+%d more</div>", len(paths)-shown)
	}
	if right {
		return b.raw(), wide + 10, 0
	}
	return b.raw(), 0, high + 2
}

func (s *sheet) calculated(p path, calc string) string {
	lowest, highest := p.limits()
	return p.Config.show(reducers[calc](p.Field), lowest, highest, s.to).text
}

// key is a legend of texts and colours, without series.
func key(names, colors []string) raw {
	var b buf
	b.f("<div class=\"legend\" style=\"height:20px\">")
	for i, n := range names {
		b.f("<span><b style=\"background:%s\"></b>%s</span>", colors[i], n)
	}
	b.f("</div>")
	return b.raw()
}

// cut shortens a text to about a width in pixels.
func cut(text string, width float64) string {
	letters := []rune(text)
	if n := int(width / letter); len(letters) > n {
		return string(letters[:max(n-1, 0)]) + "…"
	}
	return text
}
