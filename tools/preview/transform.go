// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// transformations are those of Grafana that are known, by their ids.
var transformations = map[string]func(options json.RawMessage, frames []*Frame) ([]*Frame, error){
	"merge":              merge,
	"organize":           organize,
	"joinByField":        join,
	"seriesToColumns":    join, // its name before Grafana 9.4
	"labelsToFields":     labelsToFields,
	"filterFieldsByName": filterFields,
	"sortBy":             sortBy,
}

func transform(list []Transformation, frames []*Frame) ([]*Frame, error) {
	for _, t := range list {
		if t.Disabled {
			continue
		}
		var err error
		if frames, err = transformations[t.ID](t.Options, frames); err != nil {
			return nil, fmt.Errorf("transformation %s: %w", t.ID, err)
		}
	}
	return frames, nil
}

// merge makes one frame of all. Rows that agree in every column they share, and leave each other the rest, become one.
func merge(_ json.RawMessage, frames []*Frame) ([]*Frame, error) {
	if len(frames) < 2 {
		return frames, nil
	}
	out := &Frame{Ref: "merge"}
	in := map[string]int{} // how many frames have the column
	for _, f := range frames {
		for _, c := range f.Fields {
			if in[c.Name]++; in[c.Name] == 1 {
				fresh := *c
				fresh.Values = nil
				out.Fields = append(out.Fields, &fresh)
			}
		}
	}
	var keys []string // what all frames have
	for _, c := range out.Fields {
		if in[c.Name] == len(frames) {
			keys = append(keys, c.Name)
		}
	}
	type row map[string]any
	var rows []row
	at := map[string][]row{}
	for _, f := range frames {
		for i := range f.rows() {
			r := row{}
			for _, c := range f.Fields {
				r[c.Name] = c.Values[i]
			}
			var key strings.Builder
			for _, k := range keys {
				fmt.Fprintf(&key, "%q,", fmt.Sprint(r[k]))
			}
			merged := false
			for _, other := range at[key.String()] {
				if agree(r, other) {
					maps.Copy(other, r)
					merged = true
					break
				}
			}
			if !merged {
				rows = append(rows, r)
				at[key.String()] = append(at[key.String()], r)
			}
		}
	}
	for _, c := range out.Fields {
		for _, r := range rows {
			c.Values = append(c.Values, r[c.Name])
		}
	}
	return []*Frame{out}, nil
}

func agree(a, b map[string]any) bool {
	for k, v := range a {
		if other, both := b[k]; both && other != v {
			return false
		}
	}
	return true
}

func organize(options json.RawMessage, frames []*Frame) ([]*Frame, error) {
	var o struct {
		ExcludeByName map[string]bool
		IndexByName   map[string]int
		RenameByName  map[string]string
		IncludeByName map[string]bool
	}
	if err := strict(options, &o); err != nil {
		return nil, err
	}
	for _, f := range frames {
		f.Fields = slices.DeleteFunc(f.Fields, func(c *Field) bool {
			return o.ExcludeByName[c.display()] || (len(o.IncludeByName) > 0 && !o.IncludeByName[c.display()])
		})
		slices.SortStableFunc(f.Fields, func(a, b *Field) int {
			place := func(c *Field) int {
				if i, ok := o.IndexByName[c.display()]; ok {
					return i
				}
				return 1 << 30 // behind those that have a place
			}
			return cmp.Compare(place(a), place(b))
		})
		for _, c := range f.Fields {
			if name := o.RenameByName[c.display()]; name != "" {
				c.Name, c.Legend = name, name
			}
		}
	}
	return frames, nil
}

// join makes one frame of all, with a row for each value of one column.
func join(options json.RawMessage, frames []*Frame) ([]*Frame, error) {
	var o struct{ ByField, Mode string }
	if err := strict(options, &o); err != nil {
		return nil, err
	}
	if o.Mode != "" && o.Mode != "outer" {
		return nil, fmt.Errorf("mode %q is not known", o.Mode)
	}
	if len(frames) < 2 {
		return frames, nil
	}
	by := cmp.Or(o.ByField, "Time")
	key := &Field{Name: by}
	out := &Frame{Ref: "join", Fields: []*Field{key}}
	row := map[any]int{}
	for _, f := range frames {
		k := f.field(by)
		if k == nil {
			continue
		}
		key.Type = k.Type
		for _, v := range k.Values {
			if _, ok := row[v]; !ok {
				row[v] = len(key.Values)
				key.Values = append(key.Values, v)
			}
		}
	}
	seen := map[string]int{}
	for _, f := range frames {
		k := f.field(by)
		if k == nil {
			continue
		}
		for _, c := range f.Fields {
			if c == k {
				continue
			}
			fresh := *c
			if seen[c.Name]++; seen[c.Name] > 1 && c.Legend == "" {
				fresh.Name = fmt.Sprintf("%s %d", c.Name, seen[c.Name])
			}
			fresh.Values = make([]any, len(key.Values))
			for i, v := range c.Values {
				fresh.Values[row[k.Values[i]]] = v
			}
			out.Fields = append(out.Fields, &fresh)
		}
	}
	return []*Frame{out}, nil
}

// labelsToFields makes a column of each label.
func labelsToFields(options json.RawMessage, frames []*Frame) ([]*Frame, error) {
	var o struct{ Mode, ValueLabel string }
	if err := strict(options, &o); err != nil {
		return nil, err
	}
	if o.ValueLabel != "" || (o.Mode != "" && o.Mode != "columns") {
		return nil, fmt.Errorf("options %s are not known", options)
	}
	var list []*Frame
	for _, f := range frames {
		for _, c := range f.Fields {
			if c.Type != isNumber {
				continue
			}
			s := Series{Labels: c.Labels}
			for i, v := range c.Values {
				n, _ := v.(float64)
				at, _ := f.Fields[0].Values[i].(time.Time)
				s.Points = append(s.Points, Point{At: at, Value: n})
			}
			list = append(list, table(Target{RefID: f.Ref}, []Series{s}, c.Name))
		}
	}
	return merge(nil, list)
}

func filterFields(options json.RawMessage, frames []*Frame) ([]*Frame, error) {
	var o struct {
		Include struct{ Names []string }
		Exclude struct{ Names []string }
	}
	if err := strict(options, &o); err != nil {
		return nil, err
	}
	for _, f := range frames {
		f.Fields = slices.DeleteFunc(f.Fields, func(c *Field) bool {
			return slices.Contains(o.Exclude.Names, c.display()) || (o.Include.Names != nil && !slices.Contains(o.Include.Names, c.display()))
		})
	}
	return frames, nil
}

func sortBy(options json.RawMessage, frames []*Frame) ([]*Frame, error) {
	var o struct {
		Sort []struct {
			Field string
			Desc  bool
		}
		Fields ignored
	}
	if err := strict(options, &o); err != nil {
		return nil, err
	}
	for _, f := range frames {
		for _, s := range slices.Backward(o.Sort) {
			f.sort(s.Field, s.Desc)
		}
	}
	return frames, nil
}

// sort orders the rows by a column, what is absent last. A column that is not there orders nothing.
func (f *Frame) sort(name string, desc bool) {
	by := f.field(name)
	if by == nil {
		return
	}
	order := make([]int, f.rows())
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := by.Values[a], by.Values[b]
		if x == nil || y == nil {
			return cmp.Compare(boolInt(x == nil), boolInt(y == nil))
		}
		c := compare(x, y)
		if desc {
			return -c
		}
		return c
	})
	for _, c := range f.Fields {
		sorted := make([]any, len(order))
		for i, from := range order {
			sorted[i] = c.Values[from]
		}
		c.Values = sorted
	}
}

func compare(x, y any) int {
	switch a := x.(type) {
	case float64:
		if b, ok := y.(float64); ok {
			return cmp.Compare(a, b)
		}
	case time.Time:
		if b, ok := y.(time.Time); ok {
			return a.Compare(b)
		}
	}
	return strings.Compare(fmt.Sprint(x), fmt.Sprint(y))
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
