// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// bands are charts with a band for each series: names at the left, time below.
func (s *sheet) bands(v *view, curves []curve, w, h float64) (p *plot, shown []curve, each float64) {
	width := 0
	for _, c := range curves {
		width = max(width, len([]rune(c.title())))
	}
	p = &plot{left: min(float64(width)*letter+14, w*0.35), top: 4, from: s.from, to: s.to}
	p.w, p.h = w-p.left-10, h-28
	fit := max(int(p.h/9), 1)
	if len(curves) > fit {
		v.note("%d of %d series have a place", fit, len(curves))
		curves = curves[:fit]
	}
	p.f("<svg width=\"%.0f\" height=\"%.0f\">", w, h)
	p.times()
	return p, curves, p.h / float64(len(curves))
}

// name writes the name of a band; where bands are narrow, not of each one, as Grafana does.
func (p *plot) name(i int, each float64, text string) {
	if every := int(math.Ceil(13 / each)); i%every != 0 {
		return
	}
	p.f("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>", p.left-6, p.top+(float64(i)+0.5)*each+4, cut(text, p.left-8))
}

// timeline shows which state each series is in.
func (s *sheet) timeline(v *view, w, h float64) raw {
	var names, colors []string
	curves := v.curves()
	p, drawn, each := s.bands(v, curves, w, h-22)
	for i, c := range drawn {
		p.name(i, each, c.title())
		if c.Config.Color.Mode == "" {
			c.Config.Color.Mode = "continuous-GrYlRd" // what Grafana takes in this type of panel
		}
		lowest, highest := c.limits()
		opacity := 0.7
		if o := c.Config.Custom.FillOpacity; o != nil {
			opacity = *o / 100
		}
		for _, r := range c.runs(v.step) {
			is := c.Config.show(r.value, lowest, highest, s.to)
			if r.value == nil && !is.mapped {
				continue
			}
			color := is.color
			if color == "" {
				color = "#808080"
			}
			if !slices.Contains(names, is.text) && len(names) < 12 {
				names, colors = append(names, is.text), append(colors, color)
			}
			x, y := p.x(r.from), p.top+float64(i)*each
			wide := max(p.x(r.to)-x, 1)
			p.f("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" opacity=\"%.2f\"/>", x, y+each*0.08, wide, each*0.84, color, opacity)
			if v.Options.ShowValue != "never" && each > 14 && wide > letter*float64(len(is.text)) {
				p.f("<text x=\"%.1f\" y=\"%.1f\" style=\"fill:%s\">%s</text>", x+5, y+each/2+4, over(mix(colorPanel, color, opacity)), is.text)
			}
		}
	}
	p.f("</svg>")
	var b buf
	b.f("%s%s%s", p.raw(), key(names, colors), hidden(len(curves)-len(drawn)))
	return b.raw()
}

// stretch is a time during which a series has one value.
type stretch struct {
	value    any
	from, to time.Time
}

// runs are the stretches of a series. A value lasts for a step, or until the next one.
func (c curve) runs(step time.Duration) []stretch {
	var list []stretch
	for i, v := range c.Values {
		at := c.time(i)
		if n := len(list); n > 0 && list[n-1].value == v && at.Sub(list[n-1].to) <= step/2 {
			list[n-1].to = at.Add(step)
			continue
		}
		list = append(list, stretch{v, at, at.Add(step)})
	}
	return list
}

// heatmap shows the values of each series as colours.
func (s *sheet) heatmap(v *view, w, h float64) raw {
	o := v.Options.Color
	curves := v.curves()
	if v.Options.YAxis.Reverse == (len(curves) > 0) {
		slices.Reverse(curves)
	}
	slices.Reverse(curves) // the first series is the lowest
	lowest, highest := math.Inf(1), math.Inf(-1)
	for _, c := range curves {
		if n := c.numbers(); len(n) > 0 {
			lowest, highest = min(lowest, slices.Min(n)), max(highest, slices.Max(n))
		}
	}
	if lowest > highest {
		lowest, highest = 0, 0
	}
	if o.Min != nil {
		lowest = *o.Min
	}
	if o.Max != nil {
		highest = *o.Max
	}
	scale, exponent := o.colors()
	share := func(n float64) float64 {
		if highest <= lowest {
			return 0
		}
		return math.Pow(min(max((n-lowest)/(highest-lowest), 0), 1), exponent)
	}
	p, drawn, each := s.bands(v, curves, w, h-24)
	for i, c := range drawn {
		p.name(i, each, c.title())
		for k, value := range c.Values {
			n, ok := value.(float64)
			if !ok || math.IsNaN(n) {
				continue
			}
			x := p.x(c.time(k).Add(-v.step / 2))
			wide := max(p.x(c.time(k).Add(v.step/2))-x-1, 1)
			p.f("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>", x, p.top+float64(i)*each, wide, max(each-1, 1), between(scale, share(n)))
			if v.Options.ShowValue == "always" {
				p.f("<text x=\"%.1f\" y=\"%.1f\">%s</text>", x+3, p.top+(float64(i)+0.5)*each+4, c.Config.write(n, s.to))
			}
		}
	}
	p.f("</svg>")
	var b buf
	b.f("%s", p.raw())
	if show := v.Options.Legend.Show; (show == nil || *show) && len(drawn) > 0 {
		unit := drawn[0].Config
		if u := v.Options.CellValues.Unit; u != "" {
			unit.Unit = u
		}
		b.f("<div class=\"legend\" style=\"height:20px;text-align:right\">%s <svg width=\"180\" height=\"9\" style=\"display:inline-block\">", unit.write(lowest, s.to))
		for i := range 60 {
			b.f("<rect x=\"%d\" y=\"0\" width=\"3.2\" height=\"9\" fill=\"%s\"/>", 3*i, between(scale, share(lowest+(highest-lowest)*float64(i)/59)))
		}
		b.f("</svg> %s</div>", unit.write(highest, s.to))
	}
	b.f("%s", hidden(len(curves)-len(drawn)))
	return b.raw()
}

// colors are the colours from the least to the greatest value, and the power that the share of a value is raised to.
func (o HeatColor) colors() (scale []string, exponent float64) {
	if o.Mode == "opacity" {
		exponent = 1
		if o.Scale != "linear" {
			exponent = cmp.Or(o.Exponent, 0.5)
		}
		return []string{colorPanel, painted(cmp.Or(o.Fill, "dark-orange"))}, exponent
	}
	name := cmp.Or(o.Scheme, "Oranges")
	scale = slices.Clone(schemes[name])
	// Over a dark background Grafana turns those of one colour, and those of two over any.
	if many := name == "Viridis" || name == "Turbo"; many == o.Reverse {
		slices.Reverse(scale)
	}
	return scale, 1
}

// hidden says how many there are that the panel has no place for.
func hidden(n int) raw {
	if n <= 0 {
		return ""
	}
	var b buf
	b.f("<div class=\"more\">+%d more</div>", n)
	return b.raw()
}
