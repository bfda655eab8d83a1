// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestLooks requires of each panel what Grafana needs to show it as intended. Each rule is for a defect that
// has occurred.
func TestLooks(t *testing.T) {
	all, _ := shipped(t)
	for _, m := range all {
		for _, p := range m.flat() {
			for _, wrong := range looks(p) {
				t.Errorf("%s/%s: %s", m.name, p.Title, wrong)
			}
		}
	}
}

func looks(p panelModel) []string {
	if p.MaxDataPoints < 10_000 && slices.ContainsFunc(p.Targets, func(q targetModel) bool { return q.Instant }) {
		return []string{"an instant query of a narrow panel is old by up to a step of many minutes"}
	}
	switch p.Type {
	case "state-timeline":
		return timelineLooks(p)
	case "timeseries":
		return graphLooks(p)
	case "table":
		return tableLooks(p)
	case "stat":
		return statLooks(p)
	}
	return nil
}

// timelineLooks: with thresholds for colours, merged states are grey whatever their words; words for no data become an
// entry of the legend and are not shown.
func timelineLooks(p panelModel) (wrong []string) {
	if mode := p.FieldConfig.Defaults.Color.Mode; mode != "palette-classic" {
		wrong = append(wrong, "color mode "+mode+" makes all states grey")
	}
	if p.FieldConfig.Defaults.NoValue != "" {
		wrong = append(wrong, "noValue would be an entry of the legend")
	}
	fallback := p.Targets[len(p.Targets)-1]
	if !strings.HasPrefix(fallback.Expr, "vector(-1) unless on () (") || shown(p, "-1") == "" {
		wrong = append(wrong, "nothing says that there is no data")
	}
	return wrong
}

// shown is what a panel shows instead of a value.
func shown(p panelModel, value string) string {
	for _, m := range p.FieldConfig.Defaults.Mappings {
		if to, ok := m.Options[value]; ok {
			return to.Text
		}
	}
	return ""
}

func graphLooks(p panelModel) (wrong []string) {
	if p.FieldConfig.Defaults.Custom.AxisSoftMax <= 0 {
		wrong = append(wrong, "no soft maximum: zero is drawn below 100 or 10000 %")
	}
	if p.FieldConfig.Defaults.Unit == "pps" {
		wrong = append(wrong, "pps writes small values with the prefix m")
	}
	if l := p.Options.Legend; l.DisplayMode != "table" || !slices.Contains(l.Calcs, "lastNotNull") || len(l.Calcs) < 2 {
		wrong = append(wrong, "the legend has no table of values")
	}
	return wrong
}

// tableLooks: Grafana calls the value of the first query Value where no other has data, and puts absent values first.
func tableLooks(p panelModel) (wrong []string) {
	for _, x := range p.Transformations {
		if x.ID != "organize" {
			continue
		}
		wrong = append(wrong, cut(p)...)
		for _, made := range []string{"", " (min)"} { // of rows that are made one
			if x.Options.ExcludeByName["Value"+made] != x.Options.ExcludeByName["Value #A"+made] || x.Options.RenameByName["Value"+made] != x.Options.RenameByName["Value #A"+made] {
				wrong = append(wrong, "Value and Value #A are the same column")
			}
		}
		for _, by := range p.Options.SortBy {
			for field, title := range x.Options.RenameByName {
				ref, value := strings.CutPrefix(field, "Value #")
				if title != by.DisplayName || !value || ref == "A" {
					continue
				}
				for _, q := range p.Targets {
					if q.RefID == ref && !strings.Contains(q.Expr, "\nor "+absent(sortedLast)) && !strings.Contains(q.Expr, "\nor "+absent(sortedFirst)) {
						wrong = append(wrong, "sorted by "+title+", which not every row has: absent values come first")
					}
				}
			}
		}
	}
	return wrong
}

// A screen of 1280 pixels, on which all of a table can be read.
const (
	screen   = 1190 // what panels have of it, beside the menu
	ofTitle  = 18   // beside the title of a column
	ofText   = 22   // beside the text of a cell
	ofColour = 16   // more beside it on a coloured ground
	ofOrder  = 16   // more beside the title of a column that orders the table: an arrow
)

// advances are the widths of " " to "~" in Roboto of 14 pixels with the letter spacing of Grafana, as a
// browser measures them.
var advances = [...]float64{
	3.62, 3.75, 3.90, 8.77, 8.01, 10.40, 8.85, 1.87, 4.94, 5.02, 6.18, 8.09, 2.90, 4.01, 3.83, 4.40,
	8.01, 8.01, 8.01, 8.01, 8.01, 8.01, 8.01, 8.01, 8.01, 8.01, 3.54, 3.11, 7.27, 7.83, 7.46, 6.76,
	12.72, 9.28, 8.87, 9.26, 9.33, 8.11, 7.89, 9.69, 10.13, 3.96, 7.87, 8.93, 7.68, 12.37, 10.13, 9.78,
	8.98, 9.78, 8.77, 8.46, 8.61, 9.23, 9.06, 12.57, 8.93, 8.68, 8.53, 3.86, 5.89, 3.86, 6.00, 6.47,
	4.48, 7.77, 8.00, 7.48, 8.05, 7.57, 5.01, 8.00, 7.86, 3.55, 3.49, 7.25, 3.55, 12.42, 7.87, 8.13,
	8.00, 8.11, 4.89, 7.37, 4.72, 7.87, 6.93, 10.67, 7.09, 6.77, 7.09, 4.89, 3.56, 4.89, 9.67,
}

// pixels is how wide Grafana draws a text.
func pixels(text string) (wide float64) {
	for _, c := range text {
		if i := int(c - ' '); i >= 0 && i < len(advances) {
			wide += advances[i]
		} else {
			wide += 13 // no letter is wider
		}
	}
	return wide
}

// labels are long values of labels that sites have, by the title of their column.
var labels = map[string][]string{
	"Job": {"kubernetes/training/llama-70b-0"}, "Board": {"MT_0000000838", "LNV0000000049"}, "Firmware": {"28.39.1002", "0.0.4096.29"}, "PCI address": {"0000:1b:00.0"},
	"Device": {"rdmap113s0", "mlx5_bond_0"}, "Interface": {"enp170s0f0np0"},
}

// cut are texts that a column is too narrow for.
func cut(p panelModel) (wrong []string) {
	left, flexible := screen*p.GridPos.W/24, []string{}
	texts := map[string][]string{}
	var unmapped []string // of the rail grid, whose cells are coloured
	for _, m := range p.FieldConfig.Defaults.Mappings {
		for _, to := range m.Options {
			unmapped = append(unmapped, to.Text)
		}
	}
	for _, o := range p.FieldConfig.Overrides {
		texts[o.Matcher.Options] = append(texts[o.Matcher.Options], labels[o.Matcher.Options]...)
		width, hidden := 0, false
		for _, prop := range o.Properties {
			switch prop.ID {
			case "custom.width":
				width, _ = strconv.Atoi(string(prop.Value))
			case "custom.hidden":
				hidden = true
			case "noValue":
				none := ""
				if err := json.Unmarshal(prop.Value, &none); err != nil {
					wrong = append(wrong, err.Error())
				}
				texts[o.Matcher.Options] = append(texts[o.Matcher.Options], none)
			case "mappings":
				mapped, err := mappedTexts(prop.Value)
				if err != nil {
					wrong = append(wrong, err.Error())
				}
				texts[o.Matcher.Options] = append(texts[o.Matcher.Options], mapped...)
			}
		}
		switch {
		case hidden:
			continue
		case width > 0:
			left -= width
			if slices.ContainsFunc(p.Options.SortBy, func(by sorting) bool { return by.DisplayName == o.Matcher.Options }) {
				wrong = append(wrong, tooLong(o.Matcher.Options, width-ofOrder, nil)...)
			}
			wrong = append(wrong, tooLong(o.Matcher.Options, width, texts[o.Matcher.Options])...)
			if unmapped != nil {
				wrong = append(wrong, tooLong(o.Matcher.Options, width-ofColour, unmapped)...)
			}
		case !slices.Contains([]string{"Nothing to show", "Why it is spare"}, o.Matcher.Options): // there is nothing else then
			flexible = append(flexible, o.Matcher.Options)
		}
	}
	if left < 0 {
		wrong = append(wrong, fmt.Sprintf("columns are %d pixels wider than the panel", -left))
	}
	for _, column := range flexible {
		wrong = append(wrong, tooLong(column, left/len(flexible), texts[column])...)
	}
	return wrong
}

func tooLong(column string, width int, texts []string) (wrong []string) {
	judge := func(text string, beside int) {
		if needed := beside + int(pixels(text)); needed > width {
			wrong = append(wrong, fmt.Sprintf("%q is cut in column %s: %d pixels, needs %d", text, column, width, needed))
		}
	}
	judge(column, ofTitle)
	for _, text := range texts {
		judge(text, ofText)
	}
	return wrong
}

func statLooks(p panelModel) (wrong []string) {
	if shown(p, "-1") == "" {
		wrong = append(wrong, "it does not say that the exporter is silent")
	}
	if none := p.FieldConfig.Defaults.NoValue; len(none) > 8*p.GridPos.W {
		wrong = append(wrong, none+" is too long to be read")
	}
	return wrong
}

// TestPixels compares with what a browser measured.
func TestPixels(t *testing.T) {
	for text, measured := range map[string]float64{"Bandwidth": 67.4, "GPUDirect": 65.3, "Transport": 61.7, "Probe and what it uses": 145.1} {
		if got := pixels(text); math.Abs(got/measured-1) > 0.03 {
			t.Errorf("%q: %.1f pixels, measured %.1f", text, got, measured)
		}
	}
}

func TestLooksFindsDefects(t *testing.T) {
	all, _ := shipped(t)
	find := func(kind string, more func(panelModel) bool) panelModel {
		for _, m := range all {
			for _, p := range m.flat() {
				if p.Type == kind && more(p) {
					return p
				}
			}
		}
		t.Fatalf("no panel of type %s to break", kind)
		return panelModel{}
	}
	anyOne := func(panelModel) bool { return true }
	merged := func(p panelModel) bool { return len(p.Targets) > 1 }
	for _, c := range []struct {
		want   string
		p      panelModel
		spoilt func(*panelModel)
	}{
		{"grey", find("state-timeline", anyOne), func(p *panelModel) { p.FieldConfig.Defaults.Color.Mode = "thresholds" }},
		{"legend", find("state-timeline", anyOne), func(p *panelModel) { p.FieldConfig.Defaults.NoValue = "nothing" }},
		{"no data", find("state-timeline", anyOne), func(p *panelModel) { p.Targets = p.Targets[:1] }},
		{"soft", find("timeseries", anyOne), func(p *panelModel) { p.FieldConfig.Defaults.Custom.AxisSoftMax = 0 }},
		{"prefix m", find("timeseries", anyOne), func(p *panelModel) { p.FieldConfig.Defaults.Unit = "pps" }},
		{"legend", find("timeseries", anyOne), func(p *panelModel) { p.Options.Legend.DisplayMode = "list" }},
		{"same column", find("table", merged), func(p *panelModel) {
			for i := range p.Transformations {
				for _, name := range []string{"Value", "Value (min)"} {
					delete(p.Transformations[i].Options.RenameByName, name)
					delete(p.Transformations[i].Options.ExcludeByName, name)
				}
			}
		}},
		{"is cut", find("table", func(p panelModel) bool { return p.Title == "Open findings" }), func(p *panelModel) { p.GridPos.W = 20 }},
		{"wider than", find("table", func(p panelModel) bool { return p.Title == "Open findings" }), func(p *panelModel) { p.GridPos.W = 12 }},
		{"is old", find("stat", anyOne), func(p *panelModel) { p.MaxDataPoints = 0 }},
		{"is old", find("table", anyOne), func(p *panelModel) { p.MaxDataPoints = 0 }},
		{"too long", find("stat", anyOne), func(p *panelModel) { p.FieldConfig.Defaults.NoValue = strings.Repeat("no ", 30) }},
		{"silent", find("stat", anyOne), func(p *panelModel) { p.FieldConfig.Defaults.Mappings = nil }},
	} {
		if wrong := looks(c.p); len(wrong) > 0 {
			continue // TestLooks says so
		}
		if c.spoilt(&c.p); !strings.Contains(strings.Join(looks(c.p), "; "), c.want) {
			t.Errorf("%s, spoilt: %q, want %q", c.p.Title, looks(c.p), c.want)
		}
	}
}
