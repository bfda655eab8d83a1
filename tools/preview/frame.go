// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

type fieldType string

const (
	isTime   fieldType = "time"
	isNumber fieldType = "number"
	isText   fieldType = "string"
)

// Field is a column of a frame. A value is a float64, a string, a time.Time or nil.
type Field struct {
	Name   string
	Legend string // what the query calls the series; before Name for display
	Labels map[string]string
	Ref    string
	Type   fieldType
	Values []any
	Config Config
}

// Frame are columns of one length.
type Frame struct {
	Ref    string
	Fields []*Field
}

func (f *Frame) rows() int {
	if len(f.Fields) == 0 {
		return 0
	}
	return len(f.Fields[0].Values)
}

func (f *Frame) field(name string) *Field {
	for _, c := range f.Fields {
		if c.display() == name || c.Name == name {
			return c
		}
	}
	return nil
}

// display is the name of a field before its configuration has a say.
func (f *Field) display() string {
	if f.Legend != "" {
		return f.Legend
	}
	return f.Name
}

// title is the name that the reader sees.
func (f *Field) title() string {
	if f.Config.DisplayName != "" {
		return f.Config.DisplayName
	}
	return f.display()
}

// numbers are the finite values.
func (f *Field) numbers() []float64 {
	var list []float64
	for _, v := range f.Values {
		if n, ok := v.(float64); ok && !math.IsNaN(n) && !math.IsInf(n, 0) {
			list = append(list, n)
		}
	}
	return list
}

// limits are the least and the greatest value.
func (f *Field) limits() (lowest, highest float64) {
	if n := f.numbers(); len(n) > 0 {
		return slices.Min(n), slices.Max(n)
	}
	return 0, 0
}

var inLegend = regexp.MustCompile(`\{\{\s*([^}]*?)\s*\}\}`)

// legend is the name of a series: of its query's legend, or as Prometheus writes it.
func legend(pattern string, labels map[string]string) string {
	if pattern != "" && pattern != "__auto" {
		return inLegend.ReplaceAllStringFunc(pattern, func(m string) string { return labels[inLegend.FindStringSubmatch(m)[1]] })
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if k != "__name__" {
			parts = append(parts, k+`="`+labels[k]+`"`)
		}
	}
	if len(parts) == 0 {
		return labels["__name__"]
	}
	return labels["__name__"] + "{" + strings.Join(parts, ", ") + "}"
}

// series makes a frame of each series.
func series(t Target, all []Series) []*Frame {
	var list []*Frame
	for _, s := range all {
		at := &Field{Name: "Time", Ref: t.RefID, Type: isTime}
		value := &Field{Name: "Value", Legend: legend(t.LegendFormat, s.Labels), Labels: s.Labels, Ref: t.RefID, Type: isNumber}
		for _, p := range s.Points {
			at.Values, value.Values = append(at.Values, p.At), append(value.Values, p.Value)
		}
		list = append(list, &Frame{Ref: t.RefID, Fields: []*Field{at, value}})
	}
	return list
}

// table makes one frame of all series of a query, with a column for each label.
func table(t Target, all []Series, valueName string) *Frame {
	at := &Field{Name: "Time", Ref: t.RefID, Type: isTime}
	value := &Field{Name: valueName, Ref: t.RefID, Type: isNumber}
	columns := map[string]*Field{}
	for _, s := range all {
		for k := range s.Labels {
			columns[k] = &Field{Name: k, Ref: t.RefID, Type: isText}
		}
	}
	for _, s := range all {
		for _, p := range s.Points {
			at.Values, value.Values = append(at.Values, p.At), append(value.Values, p.Value)
			for k, c := range columns {
				c.Values = append(c.Values, s.Labels[k])
			}
		}
	}
	f := &Frame{Ref: t.RefID, Fields: []*Field{at}}
	for _, k := range slices.Sorted(maps.Keys(columns)) {
		f.Fields = append(f.Fields, columns[k])
	}
	f.Fields = append(f.Fields, value)
	return f
}

// reducers make one value of a field.
var reducers = map[string]func(*Field) any{
	"lastNotNull":  last,
	"last":         last,
	"firstNotNull": first,
	"min":          ofNumbers(slices.Min[[]float64]),
	"max":          ofNumbers(slices.Max[[]float64]),
	"sum":          ofNumbers(sum),
	"mean":         ofNumbers(func(n []float64) float64 { return sum(n) / float64(len(n)) }),
	"count":        func(f *Field) any { return float64(len(f.Values)) },
}

func last(f *Field) any {
	for _, v := range slices.Backward(f.Values) {
		if v != nil {
			return v
		}
	}
	return nil
}

func first(f *Field) any {
	for _, v := range f.Values {
		if v != nil {
			return v
		}
	}
	return nil
}

func sum(n []float64) float64 {
	total := 0.0
	for _, v := range n {
		total += v
	}
	return total
}

func ofNumbers(reduce func([]float64) float64) func(*Field) any {
	return func(f *Field) any {
		n := f.numbers()
		if len(n) == 0 {
			return nil
		}
		return reduce(n)
	}
}

// reduce applies the first calculation of a panel; the last value where it has none.
func reduce(calcs []string, f *Field) any {
	if len(calcs) == 0 {
		return last(f)
	}
	return reducers[calcs[0]](f)
}

// Point is a sample.
type Point struct {
	At    time.Time
	Value float64
}

// Series is a series of Prometheus.
type Series struct {
	Labels map[string]string
	Points []Point
}
