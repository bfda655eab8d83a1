// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/table"
)

func targets(all ...*prometheus.DataqueryBuilder) []cog.Builder[variants.Dataquery] {
	var out []cog.Builder[variants.Dataquery]
	for _, q := range all {
		out = append(out, q)
	}
	return out
}

// column is a label of the queries, or with a capital letter the value of the query of that letter. A label without a
// title is not shown.
type column struct {
	field string
	title string
	unit  string // of a value
	words words
	steps []step // colours of a value
	link  map[string]any
	none  string // shown where the value is absent or replaced (orElse); empty: "unknown" for values, nothing for labels
	width int    // in pixels; 0: what is left
	least int    // pixels of a column that gets what is left; 0: 150

	number bool // a label that is sorted as a number
	hidden bool // there for the links of other columns
	all    bool // a label of which rows are made one, with all values that it has; of values the smallest is left
	one    bool // a label of which rows are made one, with the first value that it has
}

// ofCluster is the width of a column with names of clusters.
const ofCluster = 84

// order is a label that no column shows and rows are sorted by, where a table has it.
const order = "order"

// worstFirst has a row for each row of a table, sorted by rank (0 is the worst), then by label, then by
// device. rank has the labels by.
func worstFirst(by, label, rank string) string {
	// Names of devices that end in one digit or two, or have two where others have three, are sorted by number.
	key := `count_values by (` + by + `) ("rank", min by (` + by + `) (` + rank + `))`
	labels := `"rank"`
	if label != "device" {
		labels += `, "` + label + `"`
	}
	if strings.Contains(by, "device") {
		labels += `, "key"`
		key = `label_replace(` + key + `, "key", "$1", "device", "(.*)")`
		key = `label_replace(label_replace(label_replace(` + key +
			`, "key", "${1}00$2", "device", "(.*[^0-9])([0-9])"), "key", "${1}0$2", "device", "(.*[^0-9])([0-9]{2})"), "key", "${1}0$2", "device", "([a-z]+)([0-9]{2}s[0-9].*)")`
	}
	return `sum by (` + by + `, ` + order + `) (label_join(` + key + `, "` + order + `", " ", ` + labels + `))`
}

// why is a label that says why a table has no rows; grid gives it a column, which is there only then. Other
// columns are too narrow for it.
const why = "why"

// orSilent gives a table one row that says so where the exporter is silent, or no exporter is known.
func orSilent(expr string) string { return orSilentIn(expr, why) }

// orSilentIn says so in the column of that label.
func orSilentIn(expr, label string) string {
	said := func(expr, text string) string {
		return "\nor label_replace(" + expr + " unless on () gpufabric_node_info{@node}, \"" + label + "\", \"" + text +
			"\", \"\", \"\")"
	}
	return expr + said(absent(sortedFirst)+" + 0 * max("+silence+" == -1)", exporterIsSilent) +
		said(absent(sortedFirst)+" + 0 * max("+silence+" == -3)", neverAnswered) +
		said("vector("+absent(sortedFirst)+") unless on () "+silence, noExporter)
}

// What replaces an absent value in the column by which a table is sorted: Grafana puts absent values first.
const (
	sortedLast  = 1e9  // smallest first
	sortedFirst = -1e9 // largest first
)

// orElse gives rows that the expression lacks a value that the column shows as absent.
func orElse(expr, rows string, value float64) string {
	return expr + "\nor " + absent(value) + " + 0 * " + rows
}

func absent(value float64) string { return fmt.Sprintf("%.0f", value) }

// site is the title of a hidden column with the cluster of each row for links, or All where series have no
// label cluster: Grafana has no column of a label that no series has.
const site = "Site"

// withSites gives rows the column site if links need it.
func withSites(exprs []string, columns []column) ([]string, []column) {
	wanted := func(c column) bool { return c.link != nil && strings.Contains(c.link["url"].(string), keepRow) }
	if !slices.ContainsFunc(columns, wanted) {
		return exprs, columns
	}
	exprs = slices.Clone(exprs)
	exprs[0] = `label_replace(label_replace(` + exprs[0] + `, "site", "All", "", ""), "site", "$1", "cluster", "(.+)")`
	return exprs, append(slices.Clone(columns), column{field: "site", title: site, hidden: true})
}

func (c column) value() bool { return len(c.field) == 1 && c.field[0] >= 'A' && c.field[0] <= 'Z' }

// grid is a table of what queries say now. Rows of several queries that agree in all labels they share become one.
// The first query has all rows: where it alone has data Grafana calls its value Value, otherwise Value #A.
// What no column shows is left out. sort is the title of a column, or of several with commas; largest first
// with a minus before it.
func grid(a about, exprs []string, sort string, columns ...column) *dashboard.PanelBuilder {
	exprs, columns = withSites(exprs, columns)
	if strings.Contains(exprs[0], `"`+why+`", "`) {
		columns = append(slices.Clip(columns), column{field: why, title: "Nothing to show", words: silences()})
	}
	p := base("table", a).Unit("none").
		Custom(common.TableFieldOptions{
			Align:       common.FieldTextAlignmentAuto,
			DisplayMode: new(common.TableCellDisplayModeAuto), Filterable: new(false),
		}).
		Thresholds(thresholdsBuilder(thresholds(plainly, nil)))
	var all []*prometheus.DataqueryBuilder
	for i, e := range exprs {
		all = append(all, query(ref(i), e, "").Instant().Format(prometheus.PromQueryFormatTable))
	}
	p.Targets(targets(all...)).MaxDataPoints(now)

	excluded, place, names := map[string]bool{"Time": true, "Value": true, order: true}, map[string]int{},
		map[string]string{}
	for i := range exprs {
		excluded["Value #"+ref(i)] = true
	}
	sorted := strings.Contains(strings.Join(exprs, ""), `, "`+order+`", `)
	var numbers []map[string]any
	var grouped grouping
	if slices.ContainsFunc(columns, func(c column) bool { return c.all }) {
		grouped = grouping{}
	}
	for i, c := range columns {
		if c.title == "" {
			excluded[c.field] = true
			continue
		}
		for _, field := range c.fields() {
			delete(excluded, field)
			if grouped != nil {
				field = grouped.add(c, field)
			}
			place[field], names[field] = i, c.title
		}
		if c.number {
			numbers = append(numbers, map[string]any{"targetField": c.field, "destinationType": "number"})
		}
		for _, value := range []float64{sortedLast, sortedFirst} {
			if c.value() && strings.Contains(exprs[c.field[0]-'A'], absent(value)) {
				c.words = c.words.with(absent(value), word{c.none, plainly})
			}
		}
		p.OverrideByName(c.title, c.properties())
	}
	if grouped != nil {
		if sorted {
			grouped[order] = map[string]any{"operation": "groupby", "aggregations": []string{}}
		}
		p.WithTransformation(dashboard.DataTransformerConfig{Id: "groupBy", Options: map[string]any{"fields": grouped}})
	}
	if len(exprs) > 1 {
		p.WithTransformation(dashboard.DataTransformerConfig{Id: "merge", Options: map[string]any{}})
	}
	if len(numbers) > 0 {
		p.WithTransformation(dashboard.DataTransformerConfig{
			Id:      "convertFieldType",
			Options: map[string]any{"conversions": numbers},
		})
	}
	if sorted {
		p.WithTransformation(dashboard.DataTransformerConfig{Id: "sortBy", Options: map[string]any{
			"fields": map[string]any{}, "sort": []map[string]any{{"field": order, "desc": false}},
		}})
	}
	p.WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
		"excludeByName": excluded, "indexByName": place, "renameByName": names,
	}})
	return p.Options(sortedBy(sort))
}

// sortedBy returns the options of a table that is sorted by the columns with those titles.
func sortedBy(titles string) table.Options {
	o := table.Options{ShowHeader: true}
	for title := range strings.SplitSeq(titles, ",") {
		if title, desc := strings.CutPrefix(title, "-"); title != "" {
			o.SortBy = append(o.SortBy, common.TableSortByFieldState{DisplayName: title, Desc: new(desc)})
		}
	}
	return o
}

// grouping says how each field of rows is combined when they become one row.
type grouping map[string]any

// add returns the name of the field in Grafana afterwards.
func (g grouping) add(c column, field string) string {
	calc := ""
	switch {
	case c.all:
		calc = "uniqueValues"
	case c.one:
		calc = "firstNotNull"
	case c.value():
		calc = "min"
	default:
		g[field] = map[string]any{"operation": "groupby", "aggregations": []string{}}
		return field
	}
	g[field] = map[string]any{"operation": "aggregate", "aggregations": []string{calc}}
	return field + " (" + calc + ")"
}

// fields are the names that Grafana may have for what the column shows.
func (c column) fields() []string {
	switch {
	case c.field == "A":
		return []string{"Value #A", "Value"}
	case c.value():
		return []string{"Value #" + c.field}
	default:
		return []string{c.field}
	}
}

func (c column) properties() []dashboard.DynamicConfigValue {
	var all []dashboard.DynamicConfigValue
	set := func(id string, value any) { all = append(all, dashboard.DynamicConfigValue{Id: id, Value: value}) }
	switch {
	case c.none != "":
		set("noValue", c.none)
	case c.value():
		set("noValue", "unknown")
	default:
		set("noValue", "")
	}
	if c.unit != "" {
		set("unit", c.unit)
	}
	if m := c.words.mappings(); m != nil {
		set("mappings", m)
	}
	if c.steps != nil {
		set("thresholds", thresholds(plainly, c.steps))
	}
	if c.steps != nil || c.words.coloured() || c.all { // several values in a cell are shown as JSON otherwise
		set("custom.displayMode", string(common.TableCellDisplayModeColorText))
	}
	if c.link != nil {
		set("links", []map[string]any{c.link})
	}
	if c.width > 0 {
		set("custom.width", c.width)
	}
	if c.least > 0 {
		set("custom.minWidth", c.least)
	}
	if c.hidden {
		set("custom.hidden", true)
	}
	return all
}

func (w words) coloured() bool {
	for _, v := range w {
		if v.color != "" {
			return true
		}
	}
	return false
}
