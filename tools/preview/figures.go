// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"strings"
)

// figure is one value of a stat or a gauge.
type figure struct {
	field *Field
	at    curve
	name  string
	value any
}

// figures draws stats and gauges.
func (s *sheet) figures(v *view, w, h float64) raw {
	var list []figure
	for _, c := range v.curves() {
		if c.Type != isNumber && v.Options.ReduceOptions.Fields == "" {
			continue
		}
		if v.Options.ReduceOptions.Values {
			for i := range c.Values {
				list = append(list, figure{c.Field, c, c.title(), c.Values[i]})
			}
			continue
		}
		list = append(list, figure{c.Field, c, c.title(), reduce(v.Options.ReduceOptions.Calcs, c.Field)})
	}
	if len(list) == 0 {
		config, err := decode(v.FieldConfig.Defaults)
		if err != nil {
			v.err = err
			return s.draw(v)
		}
		list = []figure{{field: &Field{Config: config}}}
	}
	columns, rows := tiles(len(list), w, h, v.Options.Orientation)
	cw, ch := w/float64(columns), (h-4)/float64(rows)
	var b buf
	for i, f := range list {
		x, y := float64(i%columns)*cw, float64(i/columns)*ch
		if v.Type == "gauge" {
			s.gauge(&b, v, f, x, y, cw, ch, len(list) > 1)
		} else {
			s.stat(&b, v, f, x, y, cw, ch, len(list) > 1)
		}
	}
	return b.raw()
}

// tiles divides a panel so that its tiles are about twice as wide as high.
func tiles(n int, w, h float64, orientation string) (columns, rows int) {
	switch orientation {
	case "horizontal":
		return 1, n
	case "vertical":
		return n, 1
	}
	best := math.Inf(1)
	for c := 1; c <= n; c++ {
		r := (n + c - 1) / c
		tw, th := w/float64(c), h/float64(r)
		if off := math.Abs(math.Log(tw/th/2)) + 0.3*float64(c*r-n); off < best {
			best, columns, rows = off, c, r
		}
	}
	return columns, rows
}

func (s *sheet) shown(f figure) shown {
	lowest, highest := f.field.limits()
	is := f.field.Config.show(f.value, lowest, highest, s.to)
	if is.text == "" {
		is.text = "No data"
	}
	return is
}

func (s *sheet) stat(b *buf, v *view, f figure, x, y, w, h float64, several bool) {
	is := s.shown(f)
	mode := v.Options.TextMode
	name := f.name
	if mode == "value" || mode == "none" || ((mode == "" || mode == "auto") && !several) {
		name = ""
	}
	color, background := colorText, ""
	if is.color != "" && f.value != nil {
		color = is.color
	}
	if strings.HasPrefix(v.Options.ColorMode, "background") && f.value != nil && is.color != "" {
		background, color = "background:"+is.color, over(is.color)
	} else if v.Options.ColorMode == "none" {
		color = colorText
	}
	if f.value == nil {
		color = colorWeak
	}
	spark := v.Options.GraphMode == "area" && len(f.field.Values) > 1
	room := h
	if spark {
		room = h * 0.6
	}
	text := is.text
	if mode == "name" {
		text, name = f.name, ""
	}
	if mode == "none" {
		text = ""
	}
	nameSize := 0.0
	if name != "" {
		nameSize = min(max(room*0.2, 11), 20)
	}
	letters := max(float64(len([]rune(text))), 1)
	big := min(max(room-nameSize*1.4, 10)*0.62, w*0.9/(letters*0.78), 56)
	wrap := ""
	if big < 15 { // long texts, such as what no data means, get lines
		big, wrap = 14, ";white-space:normal"
	}
	b.f("<div class=\"cell\" style=\"left:%.1fpx;top:%.1fpx;width:%.1fpx;height:%.1fpx;%s\">", x+2+inset*boolFloat(!several)/2, y, w-4, h-4, background)
	if spark {
		s.spark(b, f, w-4, h-4, is.color)
	}
	if name != "" {
		b.f("<p style=\"font-size:%.0fpx\">%s</p>", nameSize, name)
	}
	b.f("<p style=\"font-size:%.0fpx;font-weight:500;color:%s%s\">%s</p></div>", big, color, raw(wrap), text)
}

// spark draws the past of a value behind it.
func (s *sheet) spark(b *buf, f figure, w, h float64, color string) {
	if color == "" {
		color = classic[5]
	}
	lowest, highest := f.field.limits()
	b.f("<svg width=\"%.0f\" height=\"%.0f\" style=\"position:absolute;left:0;bottom:0\"><polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" opacity=\"0.7\" points=\"", w, h, color)
	for i, v := range f.field.Values {
		if n, ok := v.(float64); ok && !math.IsNaN(n) && !math.IsInf(n, 0) {
			share := 0.5
			if highest > lowest {
				share = (n - lowest) / (highest - lowest)
			}
			x := w * float64(f.at.time(i).Sub(s.from)) / float64(s.to.Sub(s.from))
			b.f("%.1f,%.1f ", min(max(x, 0), w), h-3-share*h*0.3)
		}
	}
	b.f("\"/></svg>")
}

func (s *sheet) gauge(b *buf, v *view, f figure, x, y, w, h float64, several bool) {
	is := s.shown(f)
	c := f.field.Config
	name := ""
	if several {
		name = f.name
	}
	size := min(w, (h-18*boolFloat(several))*1.35) * 0.9
	r := size / 2 * 0.86
	cx, cy := w/2, size*0.52
	least, most := 0.0, 100.0
	if c.Min != nil {
		least = *c.Min
	}
	if c.Max != nil {
		most = *c.Max
	}
	share := func(value float64) float64 { return min(max((value-least)/(most-least), 0), 1) }
	b.f("<div class=\"cell\" style=\"left:%.1fpx;top:%.1fpx;width:%.1fpx;height:%.1fpx\"><svg width=\"%.0f\" height=\"%.0f\">", x, y, w, h, w, min(size*0.78, h))
	arc(b, cx, cy, r, r*0.24, 0, 1, "#2c3037")
	if n, ok := f.value.(float64); ok && !math.IsNaN(n) {
		color := is.color
		if color == "" {
			color = colorText
		}
		arc(b, cx, cy, r, r*0.24, 0, share(n), color)
	}
	if v.Options.ShowThresholdMarkers {
		for i, step := range c.Thresholds.Steps {
			from, to := 0.0, 1.0
			if step.Value != nil {
				from = share(*step.Value)
			}
			if i+1 < len(c.Thresholds.Steps) && c.Thresholds.Steps[i+1].Value != nil {
				to = share(*c.Thresholds.Steps[i+1].Value)
			}
			arc(b, cx, cy, r*1.1, r*0.05, from, to, painted(step.Color))
		}
	}
	font := min(r*0.42, r*1.25/(max(float64(len([]rune(is.text))), 1)*0.55))
	color := is.color
	if color == "" || f.value == nil {
		color = colorWeak
	}
	if font >= 11 {
		b.f("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" style=\"font-size:%.0fpx;fill:%s;font-weight:500\">%s</text></svg>", cx, cy+font*0.3, font, color, is.text)
	} else {
		b.f("</svg><p style=\"white-space:normal;color:%s\">%s</p>", color, is.text)
	}
	if name != "" {
		b.f("<p>%s</p>", name)
	}
	b.f("</div>")
}

// arc draws a part of a gauge, from 0 at its left end to 1 at its right one.
func arc(b *buf, cx, cy, r, width, from, to float64, color string) {
	if to <= from {
		return
	}
	point := func(share float64) (float64, float64) {
		angle := math.Pi * (1.1 - 1.2*share)
		return cx + r*math.Cos(angle), cy - r*math.Sin(angle)
	}
	x1, y1 := point(from)
	x2, y2 := point(to)
	large := 0
	if (to-from)*1.2 > 1 {
		large = 1
	}
	b.f("<path d=\"M %.1f %.1f A %.1f %.1f 0 %d 1 %.1f %.1f\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\"/>", x1, y1, r, r, large, x2, y2, color, width)
}

func boolFloat(b bool) float64 { return float64(boolInt(b)) }
