// SPDX-License-Identifier: Apache-2.0

package page

import (
	"html/template"
	"slices"
	"strings"

	"github.com/prometheus/common/version"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/drawing"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/internal/verdict"
)

// view is what the template shows. Everything in it but CSS and drawings is untrusted and escaped.
type view struct {
	*status.Document
	CSS        template.CSS
	Facts      []string // of the node: kernel, GPUs, age
	Class      string   // of the verdict
	Found      []findingView
	Pattern    template.HTML
	Panels     []template.HTML
	Legend     []legendRow
	Switches   bool // the drawing has PCIe switches
	GDR        bool // and says something of GPUDirect RDMA
	Parts      []partView
	RoCE       []*chainGroup
	Jobs       jobSection
	Troubles   []probeTrouble
	Probes     cell // the verdict on probes; its Text is empty where it says no more than the rows
	ProbeRows  []probeRow
	GPURows    []gpuRow
	DeviceRows []deviceRow
	Wait       int // seconds until traffic can be judged; 0: it was, or never is
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
	Class string // of its severity: bad or unsure
	Seen  string
	// Follow and Probed are its consequences.
	Follow []findingView
	Probed []probeTrouble
	Links  []Link // runbook and dashboard; without Href: text
}

// Many says that the commands of all subjects would fill a screen.
func (f findingView) Many() bool { return f.Remedy == "" && len(f.Subjects) > 3 }

// legendRow explains a mark.
type legendRow struct{ Class, Mark, Text string }

func (l *Landing) view(n *fabric.Node) view {
	r := l.read(n)
	d := r.doc
	v := view{
		Document: d, CSS: template.CSS(landingCSS), Facts: nodeFacts(n), Class: r.verdictClass(), Pattern: drawing.Pattern(),
		Legend: legend(d), RoCE: chainGroups(d), Jobs: r.jobs, Wait: r.wait, Collectors: l.collectorRows(n),
		Config: configViewOf(l.Config(), l.Devices), Links: l.Links, Version: version.Version,
		ProbeRows: probeRows(d.Probes), GPURows: gpuRows(d), DeviceRows: deviceRows(d),
	}
	v.Found, v.Troubles = l.found(r)
	v.Panels = panels(d)
	v.Switches = slices.ContainsFunc(d.Groups, func(g status.Group) bool { return g.Switch != "" })
	v.GDR = slices.ContainsFunc(d.GPUs, func(g status.GPU) bool { return g.Path.Status != status.StatusOK })
	v.Parts = l.parts(d)
	said := slices.ContainsFunc(d.Probes, func(p status.Probe) bool { return p.Skipped != "" })
	if r.probes.Class == "unsure" && !said || r.probes.Class == "bad" && len(r.troubles) == 0 {
		v.Probes = r.probes
	}
	for _, f := range d.Node.Files {
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

// legend explains the marks that the drawing has.
func legend(d *status.Document) []legendRow {
	var rows []legendRow
	for _, p := range []status.Part{
		{Status: status.StatusOK},
		{Status: status.StatusFailed, Severity: string(verdict.Critical)},
		{Status: status.StatusFailed, Severity: string(verdict.Warning)},
		{Status: status.StatusUnknown},
		{Status: status.StatusPartly},
		{Status: status.StatusNone},
	} {
		class := drawing.Class(&p)
		same := func(x *status.Part) bool { return drawing.Class(x) == class }
		if slices.ContainsFunc(d.GPUs, func(g status.GPU) bool { return same(&g.Part) }) || slices.ContainsFunc(d.Devices, func(x status.Device) bool { return same(&x.Part) }) {
			rows = append(rows, legendRow{class, drawing.Mark(&p), drawing.Words(&p)})
		}
	}
	return rows
}

// verdictClass is the class of the verdict: only what is critical is bad.
func (r *reading) verdictClass() string {
	critical := slices.ContainsFunc(r.doc.Findings, func(f status.Finding) bool { return f.Severity == string(verdict.Critical) }) ||
		slices.ContainsFunc(r.troubles, func(t probeTrouble) bool { return t.Severity == verdict.Critical }) || r.jobs.Bad > 0
	switch {
	case r.doc.Verdict.Status == status.StatusOK:
		return "good"
	case critical:
		return "bad"
	}
	return "unsure"
}

// found are the findings, each with its consequences, and what probes show beside them.
func (l *Landing) found(r reading) (found []findingView, rest []probeTrouble) {
	at := map[string]int{}
	for i := range r.doc.Findings {
		f := &r.doc.Findings[i]
		v := l.finding(f)
		if cause, follows := at[f.Cause]; follows {
			found[cause].Follow = append(found[cause].Follow, v)
			continue
		}
		at[f.ID], found = len(found), append(found, v)
	}
	for _, t := range r.troubles {
		k, follows := at[t.finding]
		if !follows {
			rest = append(rest, t)
			continue
		}
		found[k].Probed = append(found[k].Probed, t)
	}
	return found, rest
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
	if severity == string(verdict.Critical) {
		return "bad"
	}
	return "unsure"
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
		return cell{Text: "elsewhere", Note: verdict.ReasonText(why), Class: "quiet", Title: source}
	}
	return cell{Text: "unknown", Note: verdict.ReasonText(why), Class: "unsure", Title: source}
}
