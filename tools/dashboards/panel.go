// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
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
	unknown = "#808080"
	// unneeded is what is known, and neither good nor bad: a spare port.
	unneeded = "#9a86c9"
)

// Units of what is counted. Grafana writes small values of its own units for packets with the prefix m, which reads as
// mega.
const (
	packets = "count: pkt/s"
	events  = "count: /s"
)

// about is what the reader sees of a panel before its data.
type about struct {
	title       string
	description string
	none        string // shown without data: what that means
	w, h        uint32 // of 24 columns; of rows of 30 pixels
}

// explained leads from a figure to where it is explained, and keeps what was chosen.
func explained(p *dashboard.PanelBuilder, at place, kept string) {
	p.DataLinks([]cog.Builder[dashboard.DashboardLink]{dashboard.NewDashboardLinkBuilder(at.panel).
		Type(dashboard.DashboardLinkTypeLink).
		Url(fmt.Sprintf("%s?viewPanel=%d%s&${__url_time_range}", at.board, id(at.panel), kept))})
}

// step is a colour from a value on.
type step struct {
	from  float64
	color string
}

// zero colours a count of which any is trouble.
func zero(color string) []step { return []step{{0, good}, {1, color}} }

// fill puts the choice of the reader into a query: @node for what a node exposes, @port for what a device
// does, @job for jobs.
func fill(expr string) string {
	const chosen = `cluster=~"$cluster",instance=~"$instance"`
	return strings.NewReplacer("@node", chosen, "@port", chosen+`,device=~"$device"`, "@job",
		chosen+`,training_job=~"$training_job"`, "@cluster", `cluster=~"$cluster"`).Replace(expr)
}

func base(kind string, a about) *dashboard.PanelBuilder {
	color := dashboard.FieldColorModeIdThresholds
	if kind == "timeseries" || kind == "state-timeline" { // merged states have the colours of words only with a palette
		color = dashboard.FieldColorModeIdPaletteClassic
	}
	p := dashboard.NewPanelBuilder().Type(kind).PluginVersion("9.3.0").Title(a.title).Description(a.description).
		Datasource(source()).Span(a.w).Height(a.h).ColorScheme(dashboard.NewFieldColorBuilder().Mode(color))
	if kind != "state-timeline" { // it would list the words in its legend, and not show them
		p.NoValue(a.none)
	}
	return p
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

// with are the words and one more.
func (w words) with(value string, to word) words {
	all := words{value: to}
	maps.Copy(all, w)
	return all
}

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
	return []dashboard.ValueMapping{{ValueMap: &dashboard.ValueMap{
		Type:    dashboard.MappingTypeValueToText,
		Options: options,
	}}}
}

// silence is -1 for exporters that do not answer, and -3 for those that never did, as far as the rules know.
const silence = `instance:gpufabric_exporter_up:silence{@node}`

// unchecked are nodes that answer and check nothing: the collector check is off there.
const unchecked = `(gpufabric_node_info{@node} unless on (cluster, job, instance) gpufabric_scrape_collector_success{collector="check",@node})`

// listedUnchecked are they, or without their names their number where they are more than five: their rows
// would hide findings.
const listedUnchecked = `(count by (cluster, instance) ` + unchecked + ` and on () count(` + unchecked +
	`) <= 5 or count(` + unchecked + `) > 5)`

// now is how many points panels ask for whose queries are instant. Grafana evaluates these at the end of the
// last step, and a narrow panel has steps of many minutes: an exporter that fell silent would be shown as up
// until the step ends. This many points are as many as Prometheus allows; the steps of six hours are then as
// short as the interval of scrapes.
const now = 11000

// number is one figure, coloured by steps. Without data because no exporter answers, or none is known, it says so.
func number(a about, unit, expr string, steps []step, w words) *dashboard.PanelBuilder {
	expr += "\nor on () (max(" + silence +
		") unless on () gpufabric_node_info{@node})\nor on () (vector(-2) unless on () gpufabric_node_info{@node})"
	w = w.with("-1", word{"exporter silent", bad}).with("-3", word{"never answered", bad}).with("-2",
		word{"no exporter known", unknown})
	return base("stat", a).Unit(unit).Mappings(w.mappings()).Thresholds(thresholdsBuilder(thresholds(plainly, steps))).
		Targets(targets(query("A", expr, "").Instant())).MaxDataPoints(now).
		Options(stat.Options{
			ColorMode: common.BigValueColorModeValue, GraphMode: common.BigValueGraphModeNone,
			JustifyMode: common.BigValueJustifyModeAuto,
			TextMode:    common.BigValueTextModeValue, Orientation: common.VizOrientationAuto,
			ReduceOptions: common.ReduceDataOptions{Values: new(false), Calcs: []string{"lastNotNull"}},
		})
}

// instead shows another figure where the first one has no data, in a colour of its own. ref is the letter of its query.
func instead(p *dashboard.PanelBuilder, ref, expr, unit, color string) *dashboard.PanelBuilder {
	return p.WithTarget(query(ref, expr, "").Instant()).OverrideByQuery(ref, []dashboard.DynamicConfigValue{
		{Id: "unit", Value: unit}, {Id: "color", Value: map[string]any{"mode": "fixed", "fixedColor": color}},
	})
}

// curve is a query over time and the name of its lines.
type curve struct{ expr, legend string }

// extreme are the ten lines of series that are the highest (topk) or lowest (bottomk) at any time of the time shown, so
// that a line does not come and go. by are labels that lines differ in. Where all are 0 one line says so.
func extreme(op, by, series, legend string) []curve {
	peak, of := "max", "max_over_time"
	if op == "bottomk" {
		peak, of = "min", "min_over_time"
	}
	lines := peak + " by (" + by + ") (" + series + ")"
	chosen := op + "(10, " + peak + " by (" + by + ") (" + of + "(" + series + "[$__range] @ end()))"
	if op == "bottomk" {
		return []curve{{lines + "\nand " + chosen + ")", legend}}
	}
	return []curve{
		{lines + "\nand " + chosen + " > 0)", legend},
		{"0 * max(" + series + ")\nunless on () (" + chosen + " > 0))", "none of them"},
	}
}

// highestAtEnd are the ten lines of an expression that are the highest at the end of the time shown.
func highestAtEnd(expr, legend string) curve {
	return curve{expr + "\nand topk(10, " + atEnd.Replace(expr) + ")", legend}
}

// atEnd makes what a query reads that of the end of the time shown.
var atEnd = strings.NewReplacer("@port}", "@port} @ end()", "@job}", "@job} @ end()")

// axis is the width in pixels of axes whose labels Grafana would cut.
var axis = map[string]float64{packets: 75, events: 60}

// room is how far the axis reaches where all values are smaller: without it zero is drawn below 100, or 10000 %.
var room = map[string]float64{"percentunit": 0.1, "Bps": 1e3, "bps": 1e3, "s": 0.001}

// over draws lines over time. Gaps stay gaps. A step is drawn as a dashed line. The legend has the last value
// of each line and the highest, or the lowest where that is what matters.
func over(a about, unit string, steps []step, curves ...curve) *dashboard.PanelBuilder {
	top := 1.0
	if r, ok := room[unit]; ok {
		top = r
	}
	custom := common.GraphFieldConfig{
		DrawStyle: new(common.GraphDrawStyleLine), LineWidth: new(1.0), FillOpacity: new(0.0),
		ShowPoints:        new(common.VisibilityModeAuto),
		LineInterpolation: new(common.LineInterpolationLinear), SpanNulls: &common.BoolOrFloat64{Bool: new(false)},
		AxisSoftMax: new(top),
	}
	if w, ok := axis[unit]; ok {
		custom.AxisWidth = new(w)
	}
	p := base("timeseries", a).Unit(unit)
	if len(steps) > 0 {
		custom.ThresholdsStyle = &common.GraphThresholdsStyleConfig{Mode: common.GraphThresholdsStyleModeDashed}
		p.Thresholds(thresholdsBuilder(thresholds("transparent", steps)))
	}
	calc, desc := "max", true
	var all []*prometheus.DataqueryBuilder
	for i, c := range curves {
		all = append(all, query(ref(i), c.expr, c.legend).Range())
		if strings.Contains(c.expr, "bottomk") {
			calc, desc = "min", false
		}
	}
	if slices.Contains([]string{"Bps", "bps", packets, events}, unit) || unit == "percentunit" && len(steps) == 0 {
		p.Min(0)
	}
	placement := common.LegendPlacementBottom
	if a.w >= 12 { // below the lines there is room for three of its rows
		placement = common.LegendPlacementRight
	}
	return p.Custom(custom).Targets(targets(all...)).Options(timeseries.Options{
		Legend: common.VizLegendOptions{
			DisplayMode: common.LegendDisplayModeTable, Placement: placement, ShowLegend: true,
			Calcs: []string{"lastNotNull", calc}, SortBy: new("Last *"), SortDesc: new(desc),
		},
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

// history shows which state each line was in, over time. Without data it has one line that says what that means: the
// panel itself has no words for it.
func history(a about, w words, curves ...curve) *dashboard.PanelBuilder {
	var known []string
	var queries []*prometheus.DataqueryBuilder
	for i, c := range curves {
		queries = append(queries, query(ref(i), c.expr, c.legend).Range())
		known = append(known, c.expr)
	}
	queries = append(queries, query(ref(len(curves)), "vector(-1) unless on () ("+strings.Join(known, " or ")+")",
		"no data").Range())
	return base("state-timeline", a).Unit("none").Mappings(w.with("-1",
		word{a.none, unknown}).mappings()).Targets(targets(queries...)).
		Thresholds(thresholdsBuilder(thresholds(plainly, nil))).
		Custom(statetimeline.FieldConfig{
			LineWidth: new(uint32(0)), FillOpacity: new(uint32(70)),
			SpanNulls: &statetimeline.BoolOrUint32{Bool: new(false)},
		}).
		Options(statetimeline.Options{
			ShowValue: common.VisibilityModeNever, RowHeight: 0.8, MergeValues: new(true),
			AlignValue: new(common.TimelineValueAlignmentLeft),
			Legend: common.VizLegendOptions{
				DisplayMode: common.LegendDisplayModeList,
				Placement:   common.LegendPlacementBottom, ShowLegend: true, Calcs: []string{},
			},
			Tooltip: common.VizTooltipOptions{Mode: common.TooltipDisplayModeSingle, Sort: common.SortOrderNone},
		})
}

// prose is text. It has no data.
func prose(title string, w, h uint32, content string) *dashboard.PanelBuilder {
	return dashboard.NewPanelBuilder().Type("text").PluginVersion("9.3.0").Title(title).Description("How to read this dashboard.").
		Span(w).Height(h).Options(text.Options{Mode: text.TextModeMarkdown, Content: content})
}
