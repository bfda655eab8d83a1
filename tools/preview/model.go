// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Dashboard is what is drawn of Grafana's JSON model.
type Dashboard struct {
	UID, Title, Description string
	SchemaVersion           int
	Time                    struct{ From, To string }
	Panels                  []Panel
	Templating              struct{ List []Variable }
	Annotations             struct{ List []Annotation }
	Links                   []struct{ Title string }
}

// ignored is a part of the model that does not change a picture.
type ignored = json.RawMessage

// Panel is a panel of any type. What a picture would have to show is a field; a key that is not here is an error, so that
// no picture quietly differs from what Grafana shows.
type Panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ H, W, X, Y int }
	Targets                  []Target
	FieldConfig              FieldConfig
	Options                  Options
	Transformations          []Transformation
	Panels                   []Panel
	Collapsed                bool
	Interval                 string
	MaxDataPoints            float64
	Transparent              bool

	Datasource, Links, PluginVersion, HideTimeOverride, CacheTimeout, RepeatDirection ignored
}

// Target is a query of a panel.
type Target struct {
	Expr, LegendFormat, Format, RefID, Interval string
	Instant, Range, Hide                        bool

	Datasource, EditorMode, Exemplar, IntervalFactor, QueryType ignored
}

// Variable is a variable of a dashboard.
type Variable struct {
	Name, Type, Label, AllValue, Regex string
	Query                              json.RawMessage
	Current                            struct{ Value json.RawMessage }
	Multi, IncludeAll                  bool
	Hide                               int
}

// Annotation marks moments in all timeseries of a dashboard.
type Annotation struct {
	Name, Expr, IconColor string
	Enable                bool
	BuiltIn               int
}

// Transformation changes the frames of a panel.
type Transformation struct {
	ID       string
	Options  json.RawMessage
	Disabled bool

	Filter, Topic ignored
}

// FieldConfig says how values are shown. Overrides are merged key by key, which is why it stays raw.
type FieldConfig struct {
	Defaults  map[string]json.RawMessage
	Overrides []struct {
		Matcher struct {
			ID      string
			Options json.RawMessage
		}
		Properties []struct {
			ID    string
			Value json.RawMessage
		}
	}
}

// Options are the options of all types of panels in one.
type Options struct {
	Legend        Legend
	ReduceOptions struct {
		Calcs  []string
		Fields string
		Values bool
		Limit  *float64
	}
	TextMode, ColorMode, GraphMode, Orientation string
	ShowHeader                                  *bool
	SortBy                                      []struct {
		DisplayName string
		Desc        bool
	}
	MergeValues *bool
	ShowValue   string
	Calculate   bool
	Color       HeatColor
	CellValues  struct{ Unit string }
	YAxis       struct {
		Reverse       bool
		Unit          string
		AxisPlacement ignored
	}
	Mode, Content                             string
	ShowThresholdLabels, ShowThresholdMarkers bool

	Tooltip, JustifyMode, Text, WideLayout, PercentChangeColorMode, ShowPercentChange     ignored
	CellHeight, FrameIndex, Footer, AlignValue, RowHeight, CellGap, CellRadius, RowsFrame ignored
	FilterValues, Exemplars, Code, Sizing, MinVizWidth, MinVizHeight, Calculation         ignored
}

// Legend is the legend of a chart.
type Legend struct {
	DisplayMode, Placement string
	ShowLegend, Show       *bool
	Calcs                  []string

	SortBy, SortDesc, Width, AsTable, IsVisible ignored
}

// HeatColor is how a heatmap finds its colours.
type HeatColor struct {
	Mode, Scheme, Fill, Scale string
	Min, Max                  *float64
	Exponent                  float64
	Reverse                   bool
	Steps                     ignored
}

// parse reads a dashboard and refuses what cannot be drawn.
func parse(text []byte) (*Dashboard, error) {
	var loose struct {
		Dashboard
		Panels []json.RawMessage
	}
	if err := json.Unmarshal(text, &loose); err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	d := loose.Dashboard
	var wrong []error
	if d.SchemaVersion < 37 || d.SchemaVersion > 39 {
		wrong = append(wrong, fmt.Errorf("schemaVersion %d: only 37 to 39 are drawn", d.SchemaVersion))
	}
	for _, raw := range loose.Panels {
		var p Panel
		if err := strict(raw, &p); err != nil {
			var named struct{ Title string }
			_ = json.Unmarshal(raw, &named) // it has just been read
			wrong = append(wrong, fmt.Errorf("panel %q: %w", named.Title, err))
			continue
		}
		d.Panels = append(d.Panels, p)
	}
	for _, p := range d.all() {
		if err := p.check(); err != nil {
			wrong = append(wrong, fmt.Errorf("panel %q: %w", p.Title, err))
		}
	}
	return &d, errors.Join(wrong...)
}

// all returns the panels, those in rows too.
func (d *Dashboard) all() []*Panel {
	var list []*Panel
	for i := range d.Panels {
		list = append(list, &d.Panels[i])
		for k := range d.Panels[i].Panels {
			list = append(list, &d.Panels[i].Panels[k])
		}
	}
	return list
}

// check returns what of a panel cannot be drawn.
func (p *Panel) check() error {
	var wrong []error
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	one := func(what, is string, known ...string) {
		if is != "" && !slices.Contains(known, is) {
			bad("%s %q is not drawn", what, is)
		}
	}
	if !slices.Contains([]string{"timeseries", "stat", "table", "heatmap", "state-timeline", "gauge", "text", "row"}, p.Type) {
		bad("type %q is not drawn", p.Type)
	}
	if len(p.Panels) > 0 && p.Type != "row" {
		bad("panels within a panel that is no row")
	}
	if p.GridPos.W < 1 || p.GridPos.H < 1 || p.GridPos.X < 0 || p.GridPos.Y < 0 || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.H > 200 || p.GridPos.Y > 2000 {
		bad("gridPos %+v is not on the grid of 24 columns", p.GridPos)
	}
	for _, t := range p.Targets {
		one("query format", t.Format, "time_series", "table", "heatmap")
		if t.Instant && t.Range {
			bad("query %s is instant and range", t.RefID)
		}
	}
	for _, t := range p.Transformations {
		if _, known := transformations[t.ID]; !known {
			bad("transformation %q is not known", t.ID)
		}
	}
	for _, o := range p.FieldConfig.Overrides {
		one("override matcher", o.Matcher.ID, "byName", "byRegexp", "byType", "byFrameRefID")
	}
	o := p.Options
	one("textMode", o.TextMode, "auto", "value", "value_and_name", "name", "none")
	one("colorMode", o.ColorMode, "none", "value", "background", "background_solid")
	one("legend placement", o.Legend.Placement, "bottom", "right")
	one("legend displayMode", o.Legend.DisplayMode, "list", "table", "hidden")
	one("showValue", o.ShowValue, "auto", "always", "never")
	for _, calc := range append(slices.Clone(o.ReduceOptions.Calcs), o.Legend.Calcs...) {
		if _, known := reducers[calc]; !known {
			bad("calculation %q is not known", calc)
		}
	}
	if p.Type == "text" {
		one("mode", o.Mode, "markdown")
	}
	if p.Type == "heatmap" {
		one("color mode", o.Color.Mode, "scheme", "opacity")
		one("color scale", o.Color.Scale, "linear", "exponential")
		if _, err := paint(o.Color.Fill); err != nil && o.Color.Fill != "" {
			wrong = append(wrong, err)
		}
		if _, known := schemes[o.Color.Scheme]; !known && o.Color.Scheme != "" {
			bad("color scheme %q is not known", o.Color.Scheme)
		}
		if o.Calculate {
			bad("buckets that Grafana calculates are not drawn")
		}
	}
	if err := p.FieldConfig.check(); err != nil {
		wrong = append(wrong, err)
	}
	return errors.Join(wrong...)
}

// strict decodes JSON and refuses keys that the value has no field for.
func strict(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something behind the value")
	}
	return nil
}
