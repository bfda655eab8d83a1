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
	Legend     []*status.Part
	Switches   bool // the drawing has PCIe switches
	GDR        bool // and says something of GPUDirect RDMA
	Parts      []partView
	RoCE       []*chainGroup
	Jobs       jobSection
	Troubles   []status.Finding // of probes, that follow from no finding
	Probes     cell             // the verdict on probes; its Text is empty where it says no more than the rows
	ProbeRows  []probeRow
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

type collectorRow struct {
	Name, Help string
	State      cell
}

// Link leads to another page. Without Href it is text.
type Link struct{ Href, Text, Note string }

// namedValue is a value with its name.
type namedValue struct{ Name, Value string }

// findingView is a finding with its consequences.
type findingView struct {
	*status.Finding
	Follow []*status.Finding
	Probed []status.Finding
}

// words are what templates call.
var words = template.FuncMap{
	"class": severityClass, "state": statusCell, "mark": drawing.Mark, "shape": drawing.Class, "means": drawing.Words,
	"seen": seen, "links": findingLinks,
	"step": stepCell, "steptext": stepText, "stepmark": stepMark,
	"read": func(f fabric.Fact[bool]) cell { return show(f, func(bool) string { return "read" }) },
	// the commands of all would fill a screen
	"many":    func(f *status.Finding) bool { return f.Remedy == "" && len(f.Subjects) > 3 },
	"gidtype": func(g status.GID) string { return verdict.GIDTypeName(fabric.GIDType(g.Type)) },
}

func (l *Landing) view(n *fabric.Node) view {
	d, probed := l.read(n)
	v := view{
		Document: d, CSS: template.CSS(landingCSS), Facts: nodeFacts(n), Class: verdictClass(d), Pattern: drawing.Pattern(),
		Panels: panels(d),
		Legend: legend(d), Parts: parts(d), RoCE: chainGroups(d), Jobs: jobSectionOf(d, n, l.Collectors),
		Collectors: l.collectorRows(n),
		Config:     configViewOf(l.Config(), l.Devices), Links: l.Links, Version: version.Version,
		ProbeRows: probeRows(d.Probes),
	}
	for i := range v.Jobs.Rows {
		v.Jobs.Rows[i].Runbook = runbook(l.Config().Config.Links.AlertRunbook(v.Jobs.Rows[i].Event.Alert))
	}
	v.Found, v.Troubles = found(d)
	v.Switches = slices.ContainsFunc(d.Groups, func(g status.Group) bool { return g.Switch != "" })
	v.GDR = slices.ContainsFunc(d.GPUs, func(g status.GPU) bool { return g.Path.Status != status.StatusOK })
	said := slices.ContainsFunc(d.Probes, func(p status.Probe) bool { return p.Skipped != "" })
	if bad := probed.Verdict.Status == status.StatusFailed; !said && probed.Class() == "unsure" || bad &&
		len(d.Troubles) == 0 {
		v.Probes = cell{Text: probed.Verdict.Text, Note: probed.Note}
	}
	return v
}

// panels draws what is missing, and the node. A machine without a bus to see has its devices in one panel.
func panels(d *status.Document) []template.HTML {
	var list []template.HTML
	if len(d.Node.Missing) > 0 {
		list = append(list, drawing.Missing(d))
	}
	for i := range d.NUMANodes {
		list = append(list, drawing.NUMA(d, &d.NUMANodes[i]))
	}
	off := slices.ContainsFunc(d.Devices, func(x status.Device) bool { return x.Group == "" }) ||
		slices.ContainsFunc(d.GPUs, func(x status.GPU) bool { return x.Group == "" })
	if off {
		list = append(list, drawing.NUMA(d, nil))
	}
	if len(d.GPUs) > 0 && drawing.HasNVLink(d) {
		list = append(list, drawing.NVLink(d))
	}
	return list
}

// legend has a part for each mark that the drawing has.
func legend(d *status.Document) (marks []*status.Part) {
	used := map[string]bool{}
	for i := range d.GPUs {
		used[drawing.Class(&d.GPUs[i].Part)] = true
	}
	for i := range d.Devices {
		used[drawing.Class(&d.Devices[i].Part)] = true
	}
	for _, p := range []status.Part{
		{Status: status.StatusOK},
		{Status: status.StatusFailed, Severity: string(verdict.Critical)},
		{Status: status.StatusFailed, Severity: string(verdict.Warning)},
		{Status: status.StatusUnknown},
		{Status: status.StatusPartly},
		{Status: status.StatusNone},
	} {
		if used[drawing.Class(&p)] {
			marks = append(marks, &p)
		}
	}
	return marks
}

// verdictClass is the class of the verdict: only what is critical is bad.
func verdictClass(d *status.Document) string {
	if d.Verdict.Status == status.StatusOK {
		return "good"
	}
	return severityClass(string(d.Worst))
}

// found are the findings, each with its consequences, and what probes show beside them.
func found(d *status.Document) (found []findingView, rest []status.Finding) {
	at := map[string]int{}
	for i := range d.Findings {
		f := &d.Findings[i]
		if cause, follows := at[f.Cause]; follows {
			found[cause].Follow = append(found[cause].Follow, f)
			continue
		}
		at[f.ID], found = len(found), append(found, findingView{Finding: f})
	}
	for _, t := range d.Troubles {
		if k, follows := at[t.Cause]; follows {
			found[k].Probed = append(found[k].Probed, t)
		} else {
			rest = append(rest, t)
		}
	}
	return found, rest
}

// seen says since when a finding was seen; empty: it was not.
func seen(f *status.Finding) string {
	switch {
	case f.Since == nil:
		return ""
	case f.AtLeast:
		return "at least since " + stamp(*f.Since) + "; before that it was not checked"
	}
	return "since " + stamp(*f.Since)
}

// runbook leads to a page. A browser does not open files of the node: these are named.
func runbook(at string) Link {
	if address, _, _ := strings.Cut(at, "#"); config.IsAddress(address) {
		return Link{at, "Runbook", at}
	}
	return Link{Text: "Runbook: " + at}
}

// findingLinks are the runbook and the dashboard of a finding.
func findingLinks(f *status.Finding) []Link {
	links := []Link{runbook(f.Runbook)}
	if f.Dashboard != "" {
		links = append(links, Link{f.Dashboard, "Dashboard", f.Dashboard})
	}
	return links
}

// severityClass is the class of what failed: only what is critical is bad.
func severityClass(severity string) string { return classOf(status.StatusFailed, severity) }

// classOf is the class of a status, and of the severity of what failed, where there are several.
func classOf(state, severity string) string {
	switch {
	case state == status.StatusOK:
		return "good"
	case state == status.StatusNone:
		return "quiet"
	case state == status.StatusFailed && (severity == "" || severity == string(verdict.Critical)):
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
