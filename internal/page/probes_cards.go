// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"gpufabric_exporter/internal/drawing"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/internal/status"
)

// probeRow is a probe on the page of the node, or probes of one kind whose results are alike.
type probeRow struct {
	Label   string
	Result  string
	Class   string
	Facts   string
	Title   string
	Drawing template.HTML // of one probe
	Members []probeMember // of several
}

// probeMember is one of several probes.
type probeMember struct {
	Name    string
	Drawing template.HTML
}

// probeRows are the probes, those of a kind with the same result together.
func probeRows(list []status.Probe) []probeRow {
	var rows []probeRow
	for left := slices.Clone(list); len(left) > 0; {
		first := left[0]
		alike := func(p status.Probe) bool {
			return p.Kind == first.Kind && p.Status == first.Status && p.Result == first.Result &&
				p.Skipped == first.Skipped && p.Transport == first.Transport
		}
		var group []status.Probe
		for _, p := range left {
			if alike(p) {
				group = append(group, p)
			}
		}
		left = slices.DeleteFunc(left, alike)
		rows = append(rows, probeRowOf(group))
	}
	return rows
}

// probeRowOf shows probes that are alike.
func probeRowOf(group []status.Probe) probeRow {
	p := &group[0]
	row := probeRow{
		Label: status.Portless(p.Name), Result: p.Result, Title: p.Transport,
		Class: classOf(p.Status, p.Severity),
	}
	if len(group) == 1 {
		row.Drawing = drawing.History(p)
	} else {
		row.Label = spelling.Plural(len(group), p.Kind, p.Kind+"s")
		for i := range group {
			row.Members = append(row.Members, probeMember{
				strings.TrimPrefix(status.Portless(group[i].Name), p.Kind+" "),
				drawing.History(&group[i]),
			})
		}
	}
	var facts []string
	add := func(f string) {
		if f != "" {
			facts = append(facts, f)
		}
	}
	if p.Skipped != "" {
		row.Result = "not run"
		add(p.Skipped)
	}
	add(ranged(group, func(p *status.Probe) *float64 { return p.BusBandwidth },
		func(v float64) string { return fmt.Sprintf("%.2f", v/1e9) }, " GB/s"))
	add(ranged(group, func(p *status.Probe) *float64 { return p.Ratio },
		func(v float64) string { return fmt.Sprintf("%.0f", 100*v) }, " %"))
	if p.BusBandwidth == nil || p.Status == status.StatusFailed {
		add(p.Transport)
	}
	row.Facts = strings.Join(facts, " · ")
	return row
}

// ranged is a value of probes: "44.02 GB/s", "43.92 to 44.05 GB/s"; empty: no probe has it.
func ranged(group []status.Probe, of func(*status.Probe) *float64, text func(float64) string, unit string) string {
	var values []float64
	for i := range group {
		if v := of(&group[i]); v != nil {
			values = append(values, *v)
		}
	}
	if len(values) == 0 {
		return ""
	}
	least, most := text(slices.Min(values)), text(slices.Max(values))
	if least == most {
		return least + unit
	}
	return least + " to " + most + unit
}
