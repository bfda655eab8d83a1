// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

const letter = 6.2 // pixels of a letter of 11, roughly

// plot is the rectangle that is drawn into, with time from left to right.
type plot struct {
	buf
	left, top, w, h float64
	from, to        time.Time
}

func (p *plot) x(at time.Time) float64 {
	share := float64(at.Sub(p.from)) / float64(p.to.Sub(p.from))
	return p.left + p.w*min(max(share, 0), 1)
}

// times draws the axis of time.
func (p *plot) times() {
	span := p.to.Sub(p.from)
	step := time.Duration(0)
	for _, step = range []time.Duration{15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour, 12 * time.Hour, 24 * time.Hour} {
		if float64(span/step)*75 <= p.w {
			break
		}
	}
	layout := "15:04"
	if step < time.Minute {
		layout = "15:04:05"
	}
	for t := p.from.Truncate(step).Add(step); t.Before(p.to); t = t.Add(step) {
		x := p.x(t)
		p.f("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>", x, x, p.top, p.top+p.h, colorGrid)
		p.f("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>", x, p.top+p.h+15, t.UTC().Format(layout))
	}
}

// scale is the axis of values.
type scale struct{ min, max, step float64 }

// nice makes round limits and steps: about as many as asked for.
func nice(lowest, highest float64, steps int, base float64) scale {
	if highest <= lowest {
		lowest, highest = lowest-math.Max(math.Abs(lowest)*0.1, 0.5), highest+math.Max(math.Abs(highest)*0.1, 0.5)
	}
	rough := (highest - lowest) / float64(max(steps, 1))
	unit := math.Pow(base, math.Floor(math.Log(rough)/math.Log(base)))
	factors := []float64{1, 2, 2.5, 5, 10}
	if base == 1024 {
		factors = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
	}
	step := unit
	for _, f := range factors {
		if step = unit * f; step >= rough {
			break
		}
	}
	return scale{math.Floor(lowest/step+1e-9) * step, math.Ceil(highest/step-1e-9) * step, step}
}

// labels are the texts of the steps, with as many decimals as tell them apart. width is that of the longest one.
func (sc scale) labels(c Config, now time.Time) (labels []string, width int) {
	for decimals := -1; decimals < 5; decimals++ {
		if decimals >= 0 {
			c.Decimals = &decimals
		}
		labels, width = nil, 0
		seen := map[string]bool{}
		for y := sc.min; y <= sc.max+sc.step/2; y += sc.step {
			if math.Abs(y) < sc.step/1e6 {
				y = 0
			}
			text := c.write(y, now)
			labels, seen[text] = append(labels, text), true
			width = max(width, len([]rune(text)))
		}
		if len(seen) == len(labels) {
			break
		}
	}
	return labels, width
}

// path is the line of a series, or what is under it down to its base.
type path struct {
	curve
	color  string
	values []float64 // stacked, if they are; NaN: a gap
	base   []float64
}

func (s *sheet) timeseries(v *view, w, h float64) raw {
	curves := v.curves()
	curves = slices.DeleteFunc(curves, func(c curve) bool { return c.Type != isNumber })
	if len(curves) == 0 {
		v.err = fmt.Errorf("no numbers among the %d frames", len(v.frames))
		return s.draw(v)
	}
	paths := s.paths(curves)
	legend, lw, lh := s.legend(v, paths, w, h)

	first := curves[0].Config
	sc := limits(paths, v, h-lh)
	labels, width := sc.labels(first, s.to)
	p := &plot{left: float64(width)*letter + 12, top: 6, from: s.from, to: s.to}
	p.w, p.h = w-lw-p.left-10, h-lh-32
	if p.w < 40 || p.h < 20 {
		v.note("no place for the chart")
		p.w, p.h = max(p.w, 40), max(p.h, 20)
	}
	y := func(value float64) float64 {
		share := (value - sc.min) / (sc.max - sc.min)
		return p.top + p.h*(1-min(max(share, -10), 10)) // what is far away is cut off
	}
	p.f("<svg width=\"%.0f\" height=\"%.0f\">", w-lw, h-lh)
	if first.Custom.AxisPlacement != "hidden" {
		for i, text := range labels {
			at := y(sc.min + float64(i)*sc.step)
			p.f("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>", p.left, p.left+p.w, at, at, colorGrid)
			p.f("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>", p.left-6, at+4, text)
		}
	}
	p.times()
	for _, m := range s.marks {
		x := p.x(m.from)
		p.f("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" opacity=\"0.12\"/>", x, p.top, max(p.x(m.to)-x, 0), p.h, m.color)
		p.f("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-dasharray=\"3 3\"/>", x, x, p.top, p.top+p.h, m.color)
	}
	p.f("<clipPath id=\"in%d\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/></clipPath><g clip-path=\"url(#in%d)\">", v.ID, p.left-3, p.top-2, p.w+6, p.h+4, v.ID)
	p.thresholds(first, y, sc)
	outside := 0
	for _, c := range paths {
		p.curve(c, y, v.step, y(max(sc.min, 0)))
		if c.beyond(sc) {
			outside++
		}
	}
	if outside > 0 {
		v.note("%d series leave the axis", outside)
	}
	p.f("</g></svg>")
	var b buf
	if lw > 0 {
		b.f("<div style=\"position:absolute;right:10px;top:0\">%s</div>%s", legend, p.raw())
	} else {
		b.f("%s%s", p.raw(), legend)
	}
	return b.raw()
}

// paths gives the series their colours and stacks them where they ask for it.
func (s *sheet) paths(curves []curve) []path {
	stacks := map[string]map[time.Time]float64{}
	var list []path
	for i, c := range curves {
		p := path{curve: c, color: classic[i%len(classic)]}
		lowest, highest := c.limits()
		if mode := c.Config.Color.Mode; mode != "" {
			v, _ := last(c.Field).(float64)
			p.color = cmp.Or(c.Config.colorOf(v, lowest, highest), p.color)
		}
		stacked := c.Config.Custom.Stacking.Mode == "normal"
		group := c.Config.Custom.Stacking.Group
		if stacked && stacks[group] == nil {
			stacks[group] = map[time.Time]float64{}
		}
		for k, v := range c.Values {
			n, ok := v.(float64)
			if !ok || math.IsInf(n, 0) {
				n = math.NaN()
			}
			base := math.NaN()
			if stacked {
				base = stacks[group][c.time(k)]
				if !math.IsNaN(n) {
					n += base
					stacks[group][c.time(k)] = n
				}
			}
			p.values, p.base = append(p.values, n), append(p.base, base)
		}
		list = append(list, p)
	}
	return list
}

// limits are those of the values, and of what the configuration asks for.
func limits(paths []path, v *view, h float64) scale {
	lowest, highest := math.Inf(1), math.Inf(-1)
	for _, p := range paths {
		for _, n := range p.values {
			if !math.IsNaN(n) {
				lowest, highest = min(lowest, n), max(highest, n)
			}
		}
	}
	if lowest > highest {
		lowest, highest = 0, 1
		v.note("no finite value")
	}
	c := paths[0].Config
	base := 10.0
	if u, ok := scaled[c.Unit]; ok && u.factor == 1024 {
		base = 1024
	}
	if c.Custom.AxisSoftMin != nil {
		lowest = min(lowest, *c.Custom.AxisSoftMin)
	}
	if c.Custom.AxisSoftMax != nil {
		highest = max(highest, *c.Custom.AxisSoftMax)
	}
	if c.Min != nil {
		lowest = *c.Min
		highest = max(highest, lowest)
	}
	if c.Max != nil {
		highest = *c.Max
	}
	sc := nice(lowest, highest, int(max(h, 0)/45), base)
	if c.Min != nil && sc.min < *c.Min {
		sc.min = *c.Min
	}
	if c.Max != nil && sc.max > *c.Max && sc.min < *c.Max {
		sc.max = *c.Max
	}
	return sc
}

// beyond tells whether a value has no place on the axis.
func (p path) beyond(sc scale) bool {
	return slices.ContainsFunc(p.values, func(v float64) bool { return v < sc.min-sc.step/1e6 || v > sc.max+sc.step/1e6 })
}

func (p *plot) thresholds(c Config, y func(float64) float64, sc scale) {
	mode := c.Custom.ThresholdsStyle.Mode
	if mode == "" || mode == "off" {
		return
	}
	steps := c.Thresholds.Steps
	for i, s := range steps {
		from, to := sc.min, sc.max
		if s.Value != nil {
			from = *s.Value
		}
		if i+1 < len(steps) && steps[i+1].Value != nil {
			to = *steps[i+1].Value
		}
		color := painted(s.Color)
		if strings.Contains(mode, "area") && s.Color != "transparent" && to > sc.min && from < sc.max {
			p.f("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" opacity=\"0.1\"/>", p.left, y(to), p.w, y(from)-y(to), color)
		}
		if mode != "area" && s.Value != nil && from >= sc.min && from <= sc.max {
			dash := ""
			if strings.Contains(mode, "dashed") {
				dash = "10 10"
			}
			p.f("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"2\" opacity=\"0.6\" stroke-dasharray=\"%s\"/>", p.left, p.left+p.w, y(from), y(from), color, dash)
		}
	}
}

// curve draws a line, with gaps where values are missing, its area, or bars.
func (p *plot) curve(c path, y func(float64) float64, step time.Duration, floor float64) {
	custom := c.Config.Custom
	width, fill := 1.5, 0.0
	if custom.LineWidth != nil {
		width = max(*custom.LineWidth, 0.01) * 1.3
	}
	if custom.FillOpacity != nil {
		fill = *custom.FillOpacity / 100
	}
	bridge := string(custom.SpanNulls) == "true"
	under := func(i int) float64 {
		if math.IsNaN(c.base[i]) {
			return floor
		}
		return y(c.base[i])
	}
	var run []int
	flush := func() {
		if len(run) == 0 {
			return
		}
		var line, area strings.Builder
		for _, i := range run {
			fmt.Fprintf(&line, "%.1f,%.1f ", p.x(c.time(i)), y(c.values[i]))
		}
		for _, i := range slices.Backward(run) {
			fmt.Fprintf(&area, "%.1f,%.1f ", p.x(c.time(i)), under(i))
		}
		switch {
		case custom.DrawStyle == "bars":
			for _, i := range run {
				wide := max(p.w*float64(step)/float64(p.to.Sub(p.from))*0.8, 1)
				p.f("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" opacity=\"%.2f\"/>", p.x(c.time(i))-wide/2, min(y(c.values[i]), under(i)), wide, math.Abs(under(i)-y(c.values[i])), c.color, max(fill, 0.3))
			}
		case custom.DrawStyle == "points" || len(run) == 1:
			for _, i := range run {
				p.f("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\"/>", p.x(c.time(i)), y(c.values[i]), c.color)
			}
		default:
			dash := ""
			if custom.LineStyle.Fill == "dash" {
				dash = "8 6"
			}
			if fill > 0 {
				p.f("<polygon points=\"%s%s\" fill=\"%s\" opacity=\"%.2f\"/>", line.String(), area.String(), c.color, fill)
			}
			p.f("<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\" stroke-dasharray=\"%s\"/>", line.String(), c.color, width, dash)
		}
		run = run[:0]
	}
	for i, v := range c.values {
		if math.IsNaN(v) {
			if !bridge {
				flush()
			}
			continue
		}
		if len(run) > 0 && !bridge && c.time(i).Sub(c.time(run[len(run)-1])) > step*3/2 {
			flush()
		}
		run = append(run, i)
	}
	flush()
}
