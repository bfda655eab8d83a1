// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/prometheus/common/version"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/drawing"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/status"
)

// view is what the template shows. Everything in it but CSS and drawings comes from outside and is escaped.
type view struct {
	*status.Document
	CSS        template.CSS
	Facts      []string // of the node: kernel, GPUs, age
	Class      string   // of the verdict
	Found      []findingView
	Pattern    template.HTML
	Panels     []template.HTML
	Legend     []legendRow
	GDR        bool // the drawing says something of GPUDirect RDMA
	Parts      []partView
	RoCE       []*chainGroup
	Jobs       jobSection
	Probed     cell // what probes complain of; empty: nothing
	ProbeRows  []probeRow
	ProbeState string // why there are no results; empty: there are
	Wait       int    // seconds until traffic can be judged; 0: it was, or never is
	NCCLFiles  []fileRow
	Collectors []collectorRow
	Config     configView
	Links      []Link
	Version    string
}

// cell is one value of a table: how it is shown, what it means, and where it was read.
type cell struct {
	Text  string
	Note  string
	Class string // good, bad, unsure, quiet or nothing
	Title string
}

type fileRow struct {
	Path  string
	State cell
}

type collectorRow struct {
	Name, Help string
	State      cell
}

// Link leads to another page. Without Href it is text.
type Link struct{ Href, Text, Note string }

// namedValue is a value with its name.
type namedValue struct{ Name, Value string }

// findingView is a finding with what follows for the page.
type findingView struct {
	*status.Finding
	Class string // bad or unsure
	Seen  string
	Links []Link // runbook and dashboard; without Href: text
}

// Many says that the commands of all subjects would fill a screen.
func (f findingView) Many() bool { return f.Remedy == "" && len(f.Subjects) > 3 }

// probeRow is a probe with its history.
type probeRow struct {
	*status.Probe
	Label   string
	Class   string
	Facts   string
	Drawing template.HTML
}

// legendRow explains a mark.
type legendRow struct{ Class, Mark, Text string }

func (l *Landing) view(n *fabric.Node) view {
	r := l.read(n)
	d := r.doc
	v := view{
		Document: d, CSS: template.CSS(landingCSS), Facts: nodeFacts(n), Class: verdictClass(d), Pattern: drawing.Pattern(),
		Legend: legend(), RoCE: chainGroups(d), Jobs: r.jobs, Wait: r.wait, Collectors: l.collectorRows(n),
		Config: configViewOf(l.Config(), l.Devices), Links: l.Links, Version: version.Version, ProbeState: r.probes.Verdict.Text,
	}
	for i := range d.Findings {
		v.Found = append(v.Found, l.finding(&d.Findings[i]))
	}
	v.Panels = panels(d)
	v.GDR = slices.ContainsFunc(d.GPUs, func(g status.GPU) bool { return g.Path.Status != status.StatusOK })
	v.Parts = l.parts(d)
	if r.probes.Verdict.Class == "bad" {
		v.Probed = r.probes.Verdict
		const most = 200 // bytes: several probes have a section of their own
		if len(v.Probed.Note) > most {
			v.Probed.Note = "see below."
		}
	}
	for i := range d.Probes {
		v.ProbeRows = append(v.ProbeRows, probeRowOf(&d.Probes[i]))
	}
	for _, f := range n.NCCL.Files {
		v.NCCLFiles = append(v.NCCLFiles, fileRow{f.Path, show(f.Exists, func(bool) string { return "read" })})
	}
	return v
}

// panels draws the node. A machine without a bus to see has its devices in one panel.
func panels(d *status.Document) []template.HTML {
	var list []template.HTML
	for i := range d.NUMANodes {
		list = append(list, drawing.NUMA(d, &d.NUMANodes[i]))
	}
	off := slices.ContainsFunc(d.Devices, func(x status.Device) bool { return x.Group == "" }) || slices.ContainsFunc(d.GPUs, func(x status.GPU) bool { return x.Group == "" })
	if off {
		list = append(list, drawing.NUMA(d, nil))
	}
	if len(d.GPUs) > 0 && drawing.HasNVLink(d) {
		list = append(list, drawing.NVLink(d))
	}
	return list
}

func legend() []legendRow {
	var rows []legendRow
	for _, p := range []status.Part{
		{Status: status.StatusOK},
		{Status: status.StatusFailed, Severity: string(diagnose.Critical)},
		{Status: status.StatusFailed, Severity: string(diagnose.Warning)},
		{Status: status.StatusUnknown},
		{Status: status.StatusPartly},
		{Status: status.StatusNone},
	} {
		rows = append(rows, legendRow{drawing.Class(&p), drawing.Mark(&p), drawing.Words(&p)})
	}
	return rows
}

// verdictClass is the class of the verdict: only what is critical is bad.
func verdictClass(d *status.Document) string {
	critical := slices.ContainsFunc(d.Findings, func(f status.Finding) bool { return f.Severity == string(diagnose.Critical) })
	switch {
	case d.Verdict.Status == status.StatusOK:
		return "good"
	case d.Verdict.Status == status.StatusFailed && (critical || len(d.Findings) == 0):
		return "bad"
	}
	return "unsure"
}

func (l *Landing) finding(f *status.Finding) findingView {
	v := findingView{Finding: f, Class: severityClass(f.Severity)}
	if f.Since != nil {
		v.Seen = sighting{first: *f.Since, before: f.AtLeast}.String()
	}
	if address, _, _ := strings.Cut(f.Runbook, "#"); config.IsAddress(address) {
		v.Links = append(v.Links, Link{f.Runbook, "Runbook", f.Runbook})
	} else {
		v.Links = append(v.Links, Link{Text: "Runbook: " + f.Runbook}) // a browser does not open files of the node
	}
	if f.Dashboard != "" {
		v.Links = append(v.Links, Link{f.Dashboard, "Dashboard", f.Dashboard})
	}
	return v
}

func severityClass(severity string) string {
	if severity == string(diagnose.Critical) {
		return "bad"
	}
	return "unsure"
}

func probeRowOf(p *status.Probe) probeRow {
	row := probeRow{Probe: p, Class: map[string]string{status.StatusOK: "good", status.StatusFailed: "bad", status.StatusNone: "quiet"}[p.Status], Drawing: drawing.History(p)}
	if row.Class == "" {
		row.Class = "unsure"
	}
	row.Label = strings.TrimSuffix(p.Name, " port 1") // most have no other
	var facts []string
	if p.BusBandwidth != nil {
		facts = append(facts, bandwidth(*p.BusBandwidth))
	}
	if p.Ratio != nil {
		facts = append(facts, fmt.Sprintf("%.0f %%", 100**p.Ratio))
	}
	if p.Transport != "" && (p.BusBandwidth == nil || p.Status == status.StatusFailed) {
		facts = append(facts, p.Transport)
	}
	row.Facts = strings.Join(facts, " · ")
	return row
}

// show makes a cell of a fact; what is absent or unknown says so.
func show[T any](f fabric.Fact[T], text func(T) string) cell {
	switch m := f.Meta(); m.State {
	case fabric.OK:
		return cell{Text: text(f.Value), Title: m.Source}
	case fabric.Absent:
		return cell{Text: "none", Class: "quiet", Title: m.Source}
	default:
		return unknownCell(m.Reason, m.Source)
	}
}

func unknownCell(why fabric.Reason, source string) cell {
	if why == fabric.ReasonMoved { // a pod has it, which is as it should be
		return cell{Text: "elsewhere", Note: diagnose.ReasonText(why), Class: "quiet", Title: source}
	}
	return cell{Text: "unknown", Note: diagnose.ReasonText(why), Class: "unsure", Title: source}
}

// shown makes a cell of a fact of the document.
func shown[T any](f status.Fact[T], text func(T) string) cell {
	switch v, known := f.Get(); {
	case known:
		return cell{Text: text(v), Title: f.Source}
	case f.Unknown():
		return unknownCell(fabric.Reason(f.Reason), f.Source)
	}
	return cell{Text: "none", Class: "quiet", Title: f.Source}
}
