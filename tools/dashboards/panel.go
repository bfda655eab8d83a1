// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/gauge"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/text"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// Few colours, always with the same meaning. What is not known has none of them.
const (
	good    = "green"
	warning = "orange"
	bad     = "red"
	plainly = "text"
	note    = "blue"
)

// about is what the reader sees of a panel before its data.
type about struct {
	title       string
	description string
	none        string // shown without data: what that means
	w, h        uint32 // of 24 columns; of rows of 30 pixels
}

// step is a colour from a value on.
type step struct {
	from  float64
	color string
}

// zero colours a count of which any is trouble.
func zero(color string) []step { return []step{{0, good}, {1, color}} }

// fill puts the choice of the reader into a query: @node for what a node exposes, @port for what a device does.
func fill(expr string) string {
	const chosen = `cluster=~"$cluster",instance=~"$instance"`
	return strings.NewReplacer("@node", chosen, "@port", chosen+`,device=~"$device"`, "@cluster", `cluster=~"$cluster"`).Replace(expr)
}

func base(kind string, a about) *dashboard.PanelBuilder {
	color := dashboard.FieldColorModeIdThresholds
	if kind == "timeseries" {
		color = dashboard.FieldColorModeIdPaletteClassic
	}
	return dashboard.NewPanelBuilder().Type(kind).PluginVersion("9.3.0").Title(a.title).Description(a.description).
		Datasource(source()).Span(a.w).Height(a.h).NoValue(a.none).ColorScheme(dashboard.NewFieldColorBuilder().Mode(color))
}

func query(ref, expr, legend string) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().RefId(ref).Datasource(source()).Expr(fill(expr)).LegendFormat(legend)
}

func ref(i int) string { return string(rune('A' + i)) }

// thresholds start with a colour for everything below the first step.
func thresholds(below string, steps []step) dashboard.ThresholdsConfig {
	c := dashboard.ThresholdsConfig{Mode: dashboard.ThresholdsModeAbsolute, Steps: []dashboard.Threshold{{Color: below}}}
	for _, s := range steps {
		c.Steps = append(c.Steps, dashboard.Threshold{Value: new(s.from), Color: s.color})
	}
	return c
}

type thresholdsBuilder dashboard.ThresholdsConfig

// Build makes it a builder of the SDK.
func (t thresholdsBuilder) Build() (dashboard.ThresholdsConfig, error) {
	return dashboard.ThresholdsConfig(t), nil
}

// words map values to what they mean.
type words map[string]word

type word struct{ text, color string }

func (w words) mappings() []dashboard.ValueMapping {
	if len(w) == 0 {
		return nil
	}
	options := map[string]dashboard.ValueMappingResult{}
	for value, to := range w {
		r := dashboard.ValueMappingResult{Text: new(to.text)}
		if to.color != "" {
			r.Color = new(to.color)
		}
		options[value] = r
	}
	return []dashboard.ValueMapping{{ValueMap: &dashboard.ValueMap{Type: dashboard.MappingTypeValueToText, Options: options}}}
}

// number is one figure, coloured by steps.
func number(a about, unit, expr string, steps []step, w words) *dashboard.PanelBuilder {
	return base("stat", a).Unit(unit).Mappings(w.mappings()).Thresholds(thresholdsBuilder(thresholds(plainly, steps))).
		Targets(targets(query("A", expr, "").Instant())).
		Options(stat.Options{
			ColorMode: common.BigValueColorModeValue, GraphMode: common.BigValueGraphModeNone, JustifyMode: common.BigValueJustifyModeAuto,
			TextMode: common.BigValueTextModeValue, Orientation: common.VizOrientationAuto,
			ReduceOptions: common.ReduceDataOptions{Values: new(false), Calcs: []string{"lastNotNull"}},
		})
}

// share is a gauge from 0 to max.
func share(a about, unit, expr string, limit float64, steps []step) *dashboard.PanelBuilder {
	return base("gauge", a).Unit(unit).Min(0).Max(limit).Thresholds(thresholdsBuilder(thresholds(plainly, steps))).
		Targets(targets(query("A", expr, "").Instant())).
		Options(gauge.Options{
			ShowThresholdMarkers: true, Orientation: common.VizOrientationAuto,
			ReduceOptions: common.ReduceDataOptions{Values: new(false), Calcs: []string{"lastNotNull"}},
		})
}

// curve is a query over time and the name of its lines.
type curve struct{ expr, legend string }

// extreme are the lines of an expression that are the highest (topk) or lowest (bottomk) at the end of the time shown, so
// that a line does not come and go, and what was the highest or lowest of all at each time.
func extreme(op string, n int, expr, legend string) []curve {
	name, of := "highest of all", "max"
	if op == "bottomk" {
		name, of = "lowest of all", "min"
	}
	return []curve{
		{expr + fmt.Sprintf("\nand %s(%d, ", op, n) + atEnd.Replace(expr) + ")", legend},
		{of + "(" + expr + ")", name},
	}
}

// atEnd makes what a query reads that of the end of the time shown.
var atEnd = strings.NewReplacer("@port}[$__rate_interval]", "@port}[$__rate_interval] @ end()", "@port}", "@port} @ end()")

// over draws lines over time. Gaps stay gaps. A step is drawn as a dashed line.
func over(a about, unit string, steps []step, curves ...curve) *dashboard.PanelBuilder {
	custom := common.GraphFieldConfig{
		DrawStyle: new(common.GraphDrawStyleLine), LineWidth: new(1.0), FillOpacity: new(0.0), ShowPoints: new(common.VisibilityModeAuto),
		LineInterpolation: new(common.LineInterpolationLinear), SpanNulls: &common.BoolOrFloat64{Bool: new(false)},
	}
	p := base("timeseries", a).Unit(unit)
	if len(steps) > 0 {
		custom.ThresholdsStyle = &common.GraphThresholdsStyleConfig{Mode: common.GraphThresholdsStyleModeDashed}
		p.Thresholds(thresholdsBuilder(thresholds("transparent", steps)))
	}
	var all []*prometheus.DataqueryBuilder
	for i, c := range curves {
		all = append(all, query(ref(i), c.expr, c.legend).Range())
	}
	if slices.Contains([]string{"Bps", "pps", "cps"}, unit) || unit == "percentunit" && len(steps) == 0 {
		p.Min(0)
	}
	return p.Custom(custom).Targets(targets(all...)).Options(timeseries.Options{
		Legend:  common.VizLegendOptions{DisplayMode: common.LegendDisplayModeList, Placement: common.LegendPlacementBottom, ShowLegend: true, Calcs: []string{}},
		Tooltip: common.VizTooltipOptions{Mode: common.TooltipDisplayModeMulti, Sort: common.SortOrderDescending},
	})
}

// named gives lines names that people understand.
func named(p *dashboard.PanelBuilder, names words) *dashboard.PanelBuilder {
	for _, from := range slices.Sorted(maps.Keys(names)) {
		p.OverrideByName(from, []dashboard.DynamicConfigValue{{Id: "displayName", Value: names[from].text}})
	}
	return p
}

// history shows which state each line was in, over time.
func history(a about, w words, curves ...curve) *dashboard.PanelBuilder {
	var all []*prometheus.DataqueryBuilder
	for i, c := range curves {
		all = append(all, query(ref(i), c.expr, c.legend).Range())
	}
	return base("state-timeline", a).Unit("none").Mappings(w.mappings()).Targets(targets(all...)).
		Thresholds(thresholdsBuilder(thresholds(plainly, nil))).
		Custom(statetimeline.FieldConfig{LineWidth: new(uint32(0)), FillOpacity: new(uint32(70)), SpanNulls: &statetimeline.BoolOrUint32{Bool: new(false)}}).
		Options(statetimeline.Options{
			ShowValue: common.VisibilityModeNever, RowHeight: 0.8, MergeValues: new(true), AlignValue: new(common.TimelineValueAlignmentLeft),
			Legend:  common.VizLegendOptions{DisplayMode: common.LegendDisplayModeList, Placement: common.LegendPlacementBottom, ShowLegend: true, Calcs: []string{}},
			Tooltip: common.VizTooltipOptions{Mode: common.TooltipDisplayModeSingle, Sort: common.SortOrderNone},
		})
}

// heat has a line of cells for each series: the brighter, the more.
func heat(a about, unit string, c curve) *dashboard.PanelBuilder {
	return base("heatmap", a).Unit(unit).Targets(targets(query("A", c.expr, c.legend).Range())).
		Options(heatmap.Options{
			Calculate: new(false), CellGap: new(uint8(1)), ShowValue: common.VisibilityModeNever,
			Color: heatmap.HeatmapColorOptions{
				Mode: new(heatmap.HeatmapColorModeOpacity), Scheme: "Blues", Fill: "blue", Exponent: 1, Steps: 64,
				Scale: new(heatmap.HeatmapColorScaleExponential), Min: new(float32(0)),
			},
			CellValues: &heatmap.CellValues{Unit: new(unit)},
			YAxis:      heatmap.YAxisConfig{AxisPlacement: new(common.AxisPlacementLeft)},
			Legend:     heatmap.HeatmapLegend{Show: true}, Tooltip: heatmap.HeatmapTooltip{Mode: common.TooltipDisplayModeSingle},
			Exemplars: heatmap.ExemplarConfig{Color: "rgba(255,0,255,0.7)"},
		})
}

// prose is text. It has no data.
func prose(title string, w, h uint32, content string) *dashboard.PanelBuilder {
	return dashboard.NewPanelBuilder().Type("text").PluginVersion("9.3.0").Title(title).Description("How to read this dashboard.").
		Span(w).Height(h).Options(text.Options{Mode: text.TextModeMarkdown, Content: content})
}
