// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// sheet is a dashboard with its data at one moment.
type sheet struct {
	*Dashboard
	prometheus client
	from, to   time.Time
	scrape     time.Duration // how often targets are scraped
	open       bool          // rows that the dashboard closes are drawn open

	variables map[string]chosen
	order     []string // of the variables
	marks     []mark
	views     []*view
}

// view is a panel with its data, or with the error that a reader would see.
type view struct {
	*Panel
	row    string // that the panel is in; "" for those that are in none, or in an open one
	frames []*Frame
	step   time.Duration
	err    error
	notes  []string // what of the panel does not fit into it
}

// mark is a moment, or a time, that an annotation marks.
type mark struct {
	from, to time.Time
	color    string
}

// series that a panel shows at most.
const most = 200

// load asks all queries. An error is one of the dashboard's variables; errors of panels are in their views.
func (s *sheet) load(ctx context.Context, given map[string]string) error {
	if err := s.choose(ctx, given); err != nil {
		return err
	}
	for _, a := range s.Annotations.List {
		if a.BuiltIn == 0 && a.Enable {
			if err := s.annotate(ctx, a); err != nil {
				return fmt.Errorf("annotation %s: %w", a.Name, err)
			}
		}
	}
	for i := range s.Panels {
		p := &s.Panels[i]
		if p.Type == "row" {
			for k := range p.Panels {
				s.views = append(s.views, s.view(ctx, &p.Panels[k], p.Title))
			}
			continue
		}
		s.views = append(s.views, s.view(ctx, p, ""))
	}
	return nil
}

func (s *sheet) annotate(ctx context.Context, a Annotation) error {
	step := s.stepFor(1000, 0)
	all, err := s.prometheus.queryRange(ctx, s.fill(a.Expr, step), s.from, s.to, step)
	for _, one := range all {
		for i, p := range one.Points {
			if i > 0 && p.At.Sub(one.Points[i-1].At) <= step {
				s.marks[len(s.marks)-1].to = p.At
				continue
			}
			s.marks = append(s.marks, mark{from: p.At, to: p.At, color: painted(cmp.Or(a.IconColor, "red"))})
		}
	}
	return err
}

// stepFor is the time between points of a panel of a width: one a pixel, but none between two scrapes.
func (s *sheet) stepFor(width float64, atLeast time.Duration) time.Duration {
	step := time.Duration(math.Ceil(s.to.Sub(s.from).Seconds()/width)) * time.Second
	return max(step, atLeast, s.scrape)
}

func (s *sheet) view(ctx context.Context, p *Panel, row string) *view {
	v := &view{Panel: p, row: row}
	if p.Type == "text" {
		return v
	}
	atLeast, err := interval(p.Interval)
	width, _ := size(p)
	if p.MaxDataPoints > 0 {
		width = p.MaxDataPoints
	}
	v.step = s.stepFor(width, atLeast)
	tables := 0
	for _, t := range p.Targets {
		if t.Format == "table" && !t.Hide {
			tables++
		}
	}
	v.err = err
	for _, t := range p.Targets {
		if t.Hide {
			continue
		}
		frames, err := s.ask(ctx, t, v.step, tables)
		if err != nil {
			v.err = errors.Join(v.err, fmt.Errorf("query %s: %w", t.RefID, err))
		}
		v.frames = append(v.frames, frames...)
	}
	if frames, err := transform(p.Transformations, v.frames); err != nil {
		v.err = errors.Join(v.err, err)
	} else {
		v.frames = frames
	}
	for _, f := range v.frames {
		for _, c := range f.Fields {
			if c.Config, err = p.FieldConfig.config(c); err != nil {
				v.err = errors.Join(v.err, err)
			}
		}
	}
	return v
}

// ask asks one query. In a dashboard with one table query its values are in the column "Value", else in "Value #A".
func (s *sheet) ask(ctx context.Context, t Target, step time.Duration, tables int) ([]*Frame, error) {
	atLeast, err := interval(t.Interval)
	if err != nil {
		return nil, err
	}
	step = max(step, atLeast)
	expr := s.fill(t.Expr, step)
	var all []Series
	if t.Instant {
		all, err = s.prometheus.query(ctx, expr, s.to)
	} else {
		from := s.from.Truncate(step) // as Grafana does, so that points do not dance
		all, err = s.prometheus.queryRange(ctx, expr, from, s.to, step)
	}
	if err != nil {
		return nil, err
	}
	if t.Format != "table" {
		list := series(t, all)
		if t.Format == "heatmap" {
			return nil, errors.New("histograms are not drawn")
		}
		return list, nil
	}
	if len(all) == 0 {
		return nil, nil
	}
	name := "Value"
	if tables > 1 {
		name = "Value #" + t.RefID
	}
	return []*Frame{table(t, all, name)}, nil
}

// curves are the frames with a time and values, at most as many as a panel shows.
func (v *view) curves() []curve {
	var list []curve
	for _, f := range v.frames {
		i := slices.IndexFunc(f.Fields, func(c *Field) bool { return c.Type == isTime })
		if i < 0 {
			continue
		}
		for _, c := range f.Fields {
			if c.Type != isTime {
				list = append(list, curve{at: f.Fields[i], Field: c})
			}
		}
	}
	if len(list) > most {
		v.note("%d of %d series are drawn", most, len(list))
		list = list[:most]
	}
	return list
}

// curve is a column with the time of its values.
type curve struct {
	*Field
	at *Field
}

func (c curve) time(i int) time.Time {
	at, _ := c.at.Values[i].(time.Time)
	return at
}

// empty tells whether there is nothing to show.
func (v *view) empty() bool {
	for _, f := range v.frames {
		if f.rows() > 0 {
			return false
		}
	}
	return v.Type != "text"
}

// count is the number of series of charts and of rows of tables.
func (v *view) count() int {
	n := 0
	for _, f := range v.frames {
		if v.Type == "table" {
			n += f.rows()
		} else if f.rows() > 0 {
			n++
		}
	}
	return n
}

func (v *view) note(format string, args ...any) {
	v.notes = append(v.notes, fmt.Sprintf(format, args...))
}

// noValue is what the panel says without data.
func (v *view) noValue() string {
	c, err := decode(v.FieldConfig.Defaults)
	if err != nil || c.NoValue == "" {
		return "No data"
	}
	return c.NoValue
}

// interval reads Grafana's form of a duration; empty is none.
func interval(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("interval %q: want a duration like 1m", text)
	}
	return d, nil
}
