// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config is how the values of a field are shown.
type Config struct {
	DisplayName, Unit, NoValue string
	Decimals                   *int
	Min, Max                   *float64
	Mappings                   []Mapping
	Thresholds                 struct {
		Mode  string
		Steps []struct {
			Value *float64 // nil: from minus infinity on
			Color string
		}
	}
	Color  struct{ Mode, FixedColor, SeriesBy string }
	Links  []struct{ Title, URL string }
	Custom Custom

	Description, Filterable, Path, Writeable ignored
}

// Custom are the settings of a field that only some types of panels have.
type Custom struct {
	DrawStyle, AxisPlacement, AxisLabel string
	LineWidth, FillOpacity              *float64
	SpanNulls                           json.RawMessage
	Stacking                            struct{ Mode, Group string }
	AxisSoftMin, AxisSoftMax            *float64
	ThresholdsStyle                     struct{ Mode string }
	LineStyle                           struct {
		Fill string
		Dash []float64
	}
	ScaleDistribution struct {
		Type                 string
		Log, LinearThreshold ignored
	}

	Align, DisplayMode string // of tables, before Grafana 9.5
	CellOptions        struct {
		Type           string
		Mode, WrapText ignored
	}
	Width  float64
	Hidden bool

	LineInterpolation, GradientMode, ShowPoints, PointSize, AxisColorMode, AxisWidth, AxisCenteredZero ignored
	AxisGridShow, AxisBorderShow, HideFrom, BarAlignment, InsertNulls, Inspect, MinWidth, Filterable   ignored
}

// Mapping gives values texts and colours.
type Mapping struct {
	Type    string
	Options json.RawMessage
}

type result struct {
	Text  *string
	Color string

	Index, Icon ignored
}

// decode makes a Config of raw parts, the later ones over the earlier ones.
func decode(parts map[string]json.RawMessage) (Config, error) {
	var c Config
	text, err := json.Marshal(parts)
	if err != nil {
		return c, err
	}
	return c, strict(text, &c)
}

// put sets a property, like "unit" or "custom.width", without touching what parts shares with others.
func put(parts map[string]json.RawMessage, id string, value json.RawMessage) error {
	key, rest, deeper := strings.Cut(id, ".")
	if deeper {
		inner := map[string]json.RawMessage{}
		if parts[key] != nil {
			if err := json.Unmarshal(parts[key], &inner); err != nil {
				return fmt.Errorf("property %s: %w", id, err)
			}
		}
		if err := put(inner, rest, value); err != nil {
			return err
		}
		var err error
		if value, err = json.Marshal(inner); err != nil {
			return err
		}
	}
	parts[key] = value
	return nil
}

// config is the configuration of a field: the defaults and what overrides them.
func (c FieldConfig) config(f *Field) (Config, error) {
	parts := maps.Clone(c.Defaults)
	if parts == nil {
		parts = map[string]json.RawMessage{}
	}
	for _, o := range c.Overrides {
		hit, err := matches(o.Matcher.ID, o.Matcher.Options, f)
		if err != nil {
			return Config{}, err
		}
		if !hit {
			continue
		}
		for _, p := range o.Properties {
			if err := put(parts, p.ID, p.Value); err != nil {
				return Config{}, err
			}
		}
	}
	return decode(parts)
}

func matches(id string, options json.RawMessage, f *Field) (bool, error) {
	var what string
	if err := json.Unmarshal(options, &what); err != nil {
		return false, fmt.Errorf("override %s: %w", id, err)
	}
	switch id {
	case "byName":
		return f.display() == what || f.Name == what, nil
	case "byType":
		return f.Type == fieldType(what), nil
	case "byFrameRefID":
		return f.Ref == what, nil
	}
	pattern, err := regexp.Compile(strings.Trim(what, "/"))
	if err != nil {
		return false, fmt.Errorf("override %s: %w", id, err)
	}
	return pattern.MatchString(f.display()), nil
}

// check returns what of the configuration cannot be drawn, for any field.
func (c FieldConfig) check() error {
	list := []map[string]json.RawMessage{c.Defaults}
	for _, o := range c.Overrides {
		parts := map[string]json.RawMessage{}
		for _, p := range o.Properties {
			if err := put(parts, p.ID, p.Value); err != nil {
				return err
			}
		}
		list = append(list, parts)
	}
	var wrong []error
	for _, parts := range list {
		c, err := decode(parts)
		wrong = append(wrong, err, c.check())
	}
	return errors.Join(wrong...)
}

func (c Config) check() error {
	var wrong []error
	one := func(what, is string, known ...string) {
		if is != "" && !slices.Contains(known, is) {
			wrong = append(wrong, fmt.Errorf("%s %q is not drawn", what, is))
		}
	}
	if !knownUnit(c.Unit) {
		wrong = append(wrong, fmt.Errorf("unit %q is not known", c.Unit))
	}
	colors := []string{c.Color.FixedColor}
	for _, s := range c.Thresholds.Steps {
		colors = append(colors, s.Color)
	}
	for _, m := range c.Mappings {
		list, err := m.results()
		wrong = append(wrong, err)
		for _, r := range list {
			colors = append(colors, r.Color)
		}
	}
	for _, name := range colors {
		if _, err := paint(name); name != "" && err != nil {
			wrong = append(wrong, err)
		}
	}
	one("thresholds mode", c.Thresholds.Mode, "absolute", "percentage")
	if _, known := continuous[c.Color.Mode]; !known {
		one("color mode", c.Color.Mode, "thresholds", "fixed", "palette-classic", "palette-classic-by-name")
	}
	one("drawStyle", c.Custom.DrawStyle, "line", "bars", "points")
	one("stacking", c.Custom.Stacking.Mode, "none", "normal")
	one("axisPlacement", c.Custom.AxisPlacement, "auto", "left", "hidden")
	one("thresholdsStyle", c.Custom.ThresholdsStyle.Mode, "off", "line", "dashed", "area", "line+area", "dashed+area")
	one("scale", c.Custom.ScaleDistribution.Type, "linear")
	cells := []string{"auto", "basic", "color-text", "color-background", "color-background-solid"}
	one("displayMode", c.Custom.DisplayMode, cells...)
	one("cell type", c.Custom.CellOptions.Type, cells...)
	one("align", c.Custom.Align, "auto", "left", "center", "right")
	return errors.Join(wrong...)
}

// results are all texts and colours that a mapping has.
func (m Mapping) results() ([]result, error) {
	var list []result
	var err error
	switch m.Type {
	case "value":
		all := map[string]result{}
		err = json.Unmarshal(m.Options, &all)
		list = slices.Collect(maps.Values(all))
	case "range", "regex", "special":
		var o struct{ Result result }
		err = json.Unmarshal(m.Options, &o)
		list = []result{o.Result}
	default:
		err = errors.New("not known")
	}
	if err != nil {
		return nil, fmt.Errorf("mapping %q: %w", m.Type, err)
	}
	return list, nil
}

// hit returns what the mapping makes of a value: nil, a string or a number.
func (m Mapping) hit(v any) (result, bool) {
	n, isNumber := v.(float64)
	text, isText := v.(string)
	switch m.Type {
	case "value":
		all := map[string]result{}
		_ = json.Unmarshal(m.Options, &all) // check has seen it
		if isNumber {
			text = strconv.FormatFloat(n, 'f', -1, 64)
		}
		r, ok := all[text]
		return r, ok && v != nil
	case "range":
		var o struct {
			From, To *float64
			Result   result
		}
		_ = json.Unmarshal(m.Options, &o)
		return o.Result, isNumber && (o.From == nil || n >= *o.From) && (o.To == nil || n <= *o.To)
	case "regex":
		var o struct {
			Pattern string
			Result  result
		}
		_ = json.Unmarshal(m.Options, &o)
		pattern, err := regexp.Compile(strings.Trim(o.Pattern, "/"))
		return o.Result, isText && err == nil && pattern.MatchString(text)
	}
	var o struct {
		Match  string
		Result result
	}
	_ = json.Unmarshal(m.Options, &o)
	nan := isNumber && math.IsNaN(n)
	return o.Result, map[string]bool{
		"null": v == nil, "nan": nan, "null+nan": v == nil || nan, "empty": isText && text == "", "true": text == "true", "false": text == "false",
	}[o.Match]
}

// shown is a value as the reader sees it.
type shown struct {
	text   string
	color  string // of the mapping, threshold or field; "" where nothing says one
	mapped bool   // a mapping gave the text
}

// show writes a value. lowest and highest are those of the field, for colours that go from one to the other.
func (c Config) show(v any, lowest, highest float64, now time.Time) shown {
	var s shown
	for _, m := range c.Mappings {
		if r, ok := m.hit(v); ok {
			if r.Text != nil {
				s.text, s.mapped = *r.Text, true
			}
			if r.Color != "" {
				s.color = painted(r.Color)
			}
			break
		}
	}
	n, isNumber := v.(float64)
	if isNumber && s.color == "" {
		s.color = c.colorOf(n, lowest, highest)
	}
	if !s.mapped {
		s.text = c.write(v, now)
	}
	return s
}

func (c Config) write(v any, now time.Time) string {
	decimals := -1
	if c.Decimals != nil {
		decimals = *c.Decimals
	}
	var text string
	switch v := v.(type) {
	case float64:
		text = format(v, c.Unit, decimals, now)
	case string:
		text = v
	case time.Time:
		text = v.UTC().Format(time.DateTime)
	}
	if text == "" {
		return c.NoValue
	}
	return text
}

// colorOf is the colour of a number. Thresholds are what Grafana takes where nothing else is said.
func (c Config) colorOf(v, lowest, highest float64) string {
	if c.Min != nil {
		lowest = *c.Min
	}
	if c.Max != nil {
		highest = *c.Max
	}
	share := 0.0
	if highest > lowest {
		share = (v - lowest) / (highest - lowest)
	}
	if scale, ok := continuous[c.Color.Mode]; ok {
		return between(scale, share)
	}
	switch c.Color.Mode {
	case "fixed":
		return painted(c.Color.FixedColor)
	case "", "thresholds":
		if c.Thresholds.Mode == "percentage" {
			v = 100 * share
		}
		color := ""
		for _, s := range c.Thresholds.Steps {
			if s.Value == nil || v >= *s.Value {
				color = painted(s.Color)
			}
		}
		return color
	}
	return ""
}
