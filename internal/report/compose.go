// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/document"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/probes"
)

// Document puts the facts into words. Before are those of an earlier report to compare with; nil: there is none.
func (f *Facts) Document(before *Facts) *document.Document {
	d := &document.Document{Title: "NCCL report: " + f.title()}
	d.Sections = append(d.Sections, f.summary(), f.baseline())
	if before != nil {
		d.Sections = append(d.Sections, f.compared(before))
	}
	d.Sections = slices.Concat(d.Sections, f.environment(), f.issues(), f.optimisations(), f.results())
	d.Sections = append(d.Sections, f.training(), f.logged(), f.learned(), f.references())
	return d
}

func (f *Facts) title() string {
	if f.Node.Simulated != "" {
		return f.Node.Name + " (simulated)"
	}
	return cmp.Or(f.Node.Name, "a node without a name")
}

// summary is six sentences: the node, the worst finding, the transport, that of running jobs, the bandwidth, and what to do first.
func (f *Facts) summary() document.Section {
	s := document.Section{Title: "Executive summary"}
	s.List(text(code(cmp.Or(f.Node.Name, "The node")), " has ", f.hardware(), "."), f.worst(), f.transport(), text("Transport of running jobs: ", f.runningNow(), "."), f.bandwidth(), f.first())
	about := "Observed " + stamp(f.At) + " by " + f.Program + "."
	if f.Node.Simulated != "" {
		about += " The node and its measurements are simulated: scenario " + f.Node.Simulated + "."
	}
	s.Say(about, " Configuration: ", end(f.Configuration))
	s.Say("Traffic was not checked: ", code("gpufabric_exporter check --interval=10s"), " reads the counters twice and compares them.")
	if f.Note != "" {
		s.Say(end(f.Note))
	}
	return s
}

// hardware is what the node has, as part of a sentence.
func (f *Facts) hardware() string {
	models, kinds, rates, count := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]int{}
	for i := range f.GPUs {
		models[f.GPUs[i].Model] = true
	}
	gpus := "no visible GPU"
	if len(f.GPUs) > 0 {
		gpus = spelling.Plural(len(f.GPUs), "GPU", "GPUs")
		if len(models) == 1 && !isUnknown(f.GPUs[0].Model) {
			gpus += " (" + f.GPUs[0].Model + ")"
		}
	}
	unclear := 0
	for i := range f.Ports {
		p := &f.Ports[i]
		if isUnknown(p.Role) {
			unclear++
		}
		if p.Role == string(fabric.RoleCompute) {
			kinds[p.Fabric] = true
			count[p.State]++
			count[p.Role]++
			if p.State == string(fabric.PortActive) {
				rates[rate(p.Rate)] = true
			}
		}
	}
	ports := "no visible RDMA port for training"
	if compute := count[string(fabric.RoleCompute)]; compute > 0 {
		ports = spelling.Plural(compute, "RDMA port", "RDMA ports") + " for training (" + strings.Join(keys(kinds), " and ") + "), "
		if count[notGiven] == compute {
			ports += "of which the driver gives no state"
		} else {
			ports += strconv.Itoa(count[string(fabric.PortActive)]) + " of them active"
		}
		if len(rates) > 0 {
			ports += " at " + strings.Join(keys(rates), " and ")
		}
	}
	if unclear > 0 {
		ports += ", and " + spelling.Plural(unclear, "port", "ports") + " of unknown use"
	}
	return gpus + " and " + ports
}

func keys(set map[string]bool) []string {
	var all []string
	for k := range set {
		all = append(all, k)
	}
	slices.SortFunc(all, fabric.NaturalOrder)
	return all[:min(len(all), 4)]
}

func (f *Facts) worst() document.Text {
	count, causes := map[string]int{}, 0
	for i := range f.Findings {
		count[f.Findings[i].Severity]++
		if f.Findings[i].Cause == "" {
			causes++
		}
	}
	open := ""
	if n := len(f.Unknown); n > 0 {
		open += fmt.Sprintf("; %d could not be judged", n)
	}
	if n := f.unread(); n > 0 {
		open += "; " + spelling.Plural(n, "port", "ports") + " could not be read"
	}
	if f.JobsUnknown != "" {
		open += "; running jobs are unknown (" + f.JobsUnknown + ")"
	} else if n := f.undecided(); n > 0 {
		open += "; the transport of " + spelling.Plural(n, "running job", "running jobs") + " is unknown"
	}
	switch passed := spelling.Plural(f.Passed, "check", "checks") + " passed"; {
	case len(f.Findings) > 0:
	case open != "":
		return text("No issue was found in what could be read, but this is no all-clear: " + passed + open + f.silent() + ".")
	case f.Passed == 0:
		return text("No check applies to this node.")
	default:
		return text("No issue was found: " + passed + f.silent() + ".")
	}
	var parts []string
	for _, s := range diagnose.Severities() {
		if n := count[string(s)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	w, which := &f.Findings[0], "the worst"
	if slices.ContainsFunc(f.Findings, func(v Finding) bool { return v.Cause == w.ID && v.Severity != w.Severity }) {
		which = "the cause of the worst"
	}
	more := ""
	if n := len(f.Findings) - causes; n > 0 {
		more = fmt.Sprintf(", and %d more %s", n, map[bool]string{true: "follows", false: "follow"}[n == 1])
	}
	return text(spelling.Plural(causes, "issue", "issues")+" found"+more+" ("+strings.Join(parts, ", ")+")"+open+f.silent()+"; "+which+": ", codes(w.Subjects), ": ", end(lower(w.What)))
}

// silent says for how many ports the driver reports no state; empty: for none.
func (f *Facts) silent() string {
	n := 0
	for i := range f.Ports {
		if f.Ports[i].State == notGiven {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return "; the driver gives no state of " + spelling.Plural(n, "port", "ports")
}

// unread is how many ports there are of which use or state are not known.
func (f *Facts) unread() (n int) {
	for i := range f.Ports {
		if isUnknown(f.Ports[i].Role) || isUnknown(f.Ports[i].State) {
			n++
		}
	}
	return n
}

// transport says which network NCCL chose in the newest run that shows it.
func (f *Facts) transport() document.Text {
	r := f.chosen()
	if r == nil {
		return text("Which transport NCCL uses was not measured (", code("gpufabric_exporter probe transport"), ").")
	}
	return text("In a probe, NCCL used " + cmp.Or(r.Link, "a transport that its log does not show") + r.direct() + ".")
}

// direct is how a run used GPUDirect RDMA, as part of a sentence; empty: it is not known.
func (r *Result) direct() string {
	return map[string]string{"yes": " with GPUDirect RDMA", "no": " without GPUDirect RDMA"}[r.GPUDirect]
}

// chosen is the newest run that shows which network NCCL chooses by itself; nil: there is none.
func (f *Facts) chosen() *Result {
	var newest *Result
	for _, kind := range []probes.Kind{probes.Transport, probes.Rail} {
		for i := range f.Results {
			r := &f.Results[i]
			if r.Kind == string(kind) && r.Outcome == string(probes.OK) && r.Label == "" && (newest == nil || r.At.After(newest.At)) {
				newest = r
			}
		}
		if newest != nil {
			return newest
		}
	}
	return nil
}

// bandwidth says what was measured of each link, in a sentence.
func (f *Facts) bandwidth() document.Text {
	tcp := f.over(linkTCP)
	var parts []string
	for _, link := range f.links() {
		m := f.over(link)
		if len(m.results) == 0 {
			continue
		}
		part := link + " " + gigabytes(m.median())
		if link != linkTCP && len(tcp.results) > 0 {
			part += ", " + times(m.median()/tcp.median()) + " TCP"
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return text("No bandwidth was measured.")
	}
	return text("Measured bus bandwidth: " + strings.Join(parts, "; ") + ".")
}

// first is what to do first.
func (f *Facts) first() document.Text {
	switch {
	case len(f.Findings) > 0 && f.Findings[0].Remedy != "":
		return text("First step: ", document.Prose(end(f.Findings[0].Remedy)))
	case len(f.Findings) > 0 && len(f.Findings[0].Remedies) > 0:
		return text("First step: ", document.Prose(end(f.Findings[0].Remedies[0])), " The first issue has the commands for the others.")
	case len(f.Unknown)+f.unread() > 0:
		return text("First step: find out why parts of the node could not be read or judged (sections Environment and Issues found).")
	case f.JobsUnknown != "" || f.undecided() > 0:
		return text("First step: look at the running jobs: ", code("gpufabric_exporter jobs"), ".")
	}
	return text("No step is needed.")
}

// baseline is how the node is now, in a table.
func (f *Facts) baseline() document.Section {
	s := document.Section{Title: "Baseline"}
	t := document.Table{Head: []string{"What", "Now", "Source"}}
	row := func(what string, now, source document.Text) {
		t.Rows = append(t.Rows, []document.Text{text(what), now, source})
	}
	if r := f.chosen(); r != nil {
		row("Transport between nodes", text(orUnknown(r.Link)+" (NCCL's network: "+orUnknown(r.Network)+")"+r.direct()), f.source(r))
	} else {
		row("Transport between nodes", text("not measured"), text(code("gpufabric_exporter probe transport")))
	}
	for _, link := range f.links() {
		m := f.over(link)
		what := "Bandwidth over " + link
		switch {
		case len(m.results) > 0:
			now := gigabytes(m.median())
			if len(m.results) > 1 {
				now = fmt.Sprintf("median %s of %d, slowest %s (%s)", now, len(m.results), gigabytes(*m.results[0].BusBW), m.results[0].name())
			}
			row(what, text(now), f.source(m.results[0]))
		case !f.lacks(link):
			row(what, text("not measured"), text(code(command(link))))
		}
	}
	row("Transport of running jobs", f.runningNow(), text(code("gpufabric_exporter jobs")))
	if f.Log != nil {
		row("Connections of the job", text(f.Log.Connections), text("log ", code(f.Log.File)))
	}
	problems := text("none found")
	if len(f.Findings) > 0 {
		problems = nil
		for i := range f.Findings[:min(len(f.Findings), 5)] {
			w := &f.Findings[i]
			if i > 0 {
				problems = append(problems, document.Span{Text: "; "})
			}
			problems = append(problems, text(w.Severity+": ", codes(w.Subjects), ": "+lower(w.What))...)
		}
		if more := len(f.Findings) - 5; more > 0 {
			problems = append(problems, document.Span{Text: fmt.Sprintf("; and %d more", more)})
		}
	}
	row("Key problems", problems, text(fmt.Sprintf("%s passed, %d unknown", spelling.Plural(f.Passed, "check", "checks"), len(f.Unknown))+f.silent()))
	s.Table(t)
	return s
}

func orUnknown(s string) string { return cmp.Or(s, unknown) }

// source is where a result is from.
func (f *Facts) source(r *Result) document.Text {
	what := r.Kind + " probe"
	if r.Op != "" {
		what += fmt.Sprintf(", %s of %s over %d ranks", r.Op, probes.SizeText(r.Bytes), r.Ranks)
	}
	return text(what + ", NCCL " + orUnknown(r.NCCL) + ", " + stamp(r.At) + " (" + r.Source + ")")
}
