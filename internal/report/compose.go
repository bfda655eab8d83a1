// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/document"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/internal/verdict"
	"gpufabric_exporter/probes"
)

// Document puts the facts into words. Before are those of an earlier report to compare with; nil: there is none.
func (f *Facts) Document(before *Facts) *document.Document {
	if before != nil {
		f = f.since(before)
	}
	d := &document.Document{Title: "NCCL report: " + f.title()}
	d.Sections = slices.Concat([]document.Section{f.summary()}, f.issues(), []document.Section{f.baseline()})
	if before != nil {
		d.Sections = append(d.Sections, f.compared(before))
	}
	d.Sections = slices.Concat(d.Sections, f.environment(), f.optimisations(), f.results())
	d.Sections = append(d.Sections, f.training(), f.logged(), f.learned(), f.references())
	return d
}

func (f *Facts) title() string {
	if f.Node.Simulated != "" {
		return f.Node.Name + " (simulated)"
	}
	return cmp.Or(f.Node.Name, "a node without a name")
}

// summary is six sentences: the node, the worst finding, the transport, that of running jobs, the bandwidth,
// and what to do first.
func (f *Facts) summary() document.Section {
	s := document.Section{Title: "Executive summary"}
	s.List(text(document.Code(cmp.Or(f.Node.Name, "The node")), " has ", f.hardware(), "."), f.worst(), f.transport(),
		text("Transport of running jobs: ", f.runningNow(), "."), f.bandwidth(), f.first())
	about := "Observed " + stamp(f.At) + " by " + f.Program + "."
	if f.Node.Simulated != "" {
		about += " The node and its measurements are simulated: scenario " + f.Node.Simulated + "."
	}
	s.Say(about, " Configuration: ", document.End(f.Configuration), " ", document.End(verdict.Sentence(f.JudgedBy)))
	if !f.traffic {
		s.Say("Traffic was not checked: ", document.Code("gpufabric_exporter check --interval=10s"),
			" reads the counters twice and compares them.")
	}
	if f.Note != "" {
		s.Say(document.End(f.Note))
	}
	return s
}

// hardware is what the node has, as part of a sentence.
func (f *Facts) hardware() string {
	gpus, ports := "no visible GPU", "no visible RDMA port for training"
	if n := len(f.GPUs); n > 0 {
		gpus = spelling.Plural(n, "GPU", "GPUs")
		all := which(f.GPUs, func(*GPU) bool { return true })
		if models := distinct(all, func(g *GPU) string { return g.Model }); len(models) == 1 && !isUnknown(models[0]) {
			gpus += " (" + models[0] + ")"
		}
	}
	if training := which(f.Ports, (*Port).training); len(training) > 0 {
		fabrics := distinct(training, func(p *Port) string { return p.Fabric })
		ports = spelling.Plural(len(training), "RDMA port", "RDMA ports") + " for training (" +
			strings.Join(fabrics, " and ") + "), "
		active := which(f.Ports, func(p *Port) bool { return p.training() && p.active() })
		if len(which(f.Ports, func(p *Port) bool { return p.training() && p.State == notGiven })) == len(training) {
			ports += "of which the driver gives no state"
		} else {
			ports += map[bool]string{true: "all", false: strconv.Itoa(len(active)) +
				" of them"}[len(active) == len(training)] + " active"
		}
		if len(active) > 0 {
			ports += " at " + strings.Join(distinct(active, func(p *Port) string { return rate(p.Rate) }), " and ")
			if n := physical(active); n < len(active) {
				ports += " through " + spelling.Plural(n, "physical port", "physical ports")
			}
		}
	}
	if unclear := which(f.Ports, func(p *Port) bool { return isUnknown(p.Role) }); len(unclear) > 0 {
		ports += ", and " + spelling.Plural(len(unclear), "port", "ports") + " of unknown use"
	}
	return gpus + " and " + ports
}

// physical counts the physical ports behind ports.
func physical(ports []*Port) int {
	all := map[string]bool{}
	for _, p := range ports {
		all[cmp.Or(p.Shared, fmt.Sprint(p.Device, ":", p.Port))] = true
	}
	return len(all)
}

func (f *Facts) worst() document.Text {
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
	for _, s := range verdict.Severities() {
		if n := len(which(f.Findings, func(v *Finding) bool { return v.Severity == string(s) })); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	w, role := &f.Findings[0], "the worst"
	if slices.ContainsFunc(f.Findings, func(v Finding) bool { return v.Cause == w.ID && v.Severity != w.Severity }) {
		role = "the cause of the worst"
	}
	more, follow := "", len(which(f.Findings, func(v *Finding) bool { return v.Cause != "" }))
	if follow > 0 {
		more = ", and " + spelling.Plural(follow, "more follows", "more follow")
	}
	return text(spelling.Plural(len(f.Findings)-follow, "issue", "issues")+" found"+more+" ("+strings.Join(parts,
		", ")+")"+open+f.silent()+"; "+role+": ", document.Few(w.Subjects), ": ",
		document.To(strings.TrimSuffix(document.Lower(w.What), "."), anchor(0)), ".")
}

// silent says for how many ports the driver reports no state; empty: for none.
func (f *Facts) silent() string {
	n := len(which(f.Ports, func(p *Port) bool { return p.State == notGiven }))
	if n == 0 {
		return ""
	}
	return "; the driver gives no state of " + spelling.Plural(n, "port", "ports")
}

// unread is how many ports there are of which use or state are not known.
func (f *Facts) unread() int {
	return len(which(f.Ports, func(p *Port) bool { return isUnknown(p.Role) || isUnknown(p.State) }))
}

// transport says which network NCCL chose in the newest run that shows it.
func (f *Facts) transport() document.Text {
	r := f.chosen()
	switch {
	case r == nil && f.withoutNCCL() != "":
		return text("NCCL does not run on this node: " + f.withoutNCCL() + ".")
	case r == nil:
		return text("Which transport NCCL uses was not measured (", document.Code("gpufabric_exporter probe transport"), ").")
	case strings.HasPrefix(r.Link, linkPlugin):
		return text("In a probe, NCCL used the " + r.Link + r.direct() + ".")
	}
	return text("In a probe, NCCL used " + cmp.Or(r.Link, "a transport that its log does not show") + r.direct() + ".")
}

// direct is how a run used GPUDirect RDMA, as part of a sentence; empty: it is not known.
func (r *Result) direct() string {
	return map[string]string{"yes": " with GPUDirect RDMA", "no": " without GPUDirect RDMA"}[r.GPUDirect]
}

// chosen is the newest run that shows which network NCCL chooses by itself; nil: there is none.
func (f *Facts) chosen() *Result {
	for _, kind := range []probes.Kind{probes.Transport, probes.Rail} {
		runs := which(f.Results, func(r *Result) bool {
			return r.Kind == string(kind) && r.Outcome == string(probes.OK) && r.Label == ""
		})
		if len(runs) > 0 {
			return slices.MaxFunc(runs, func(a, b *Result) int { return a.At.Compare(b.At) })
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
		if len(m) == 0 {
			continue
		}
		part := link + " " + probes.Bandwidth(m.median())
		if link != linkTCP && len(tcp) > 0 {
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
		return text("First step: ", document.Prose(document.End(f.Findings[0].Remedy)))
	case len(f.Findings) > 0 && len(f.Findings[0].Remedies) > 0:
		return text("First step: ", document.Prose(document.End(f.Findings[0].Remedies[0])),
			" The first issue has the commands for the others.")
	case len(f.Unknown) == 1 && f.unread() == 0:
		return text("First step: find out what could not be judged. ",
			document.Prose(document.End(f.Unknown[0].What)+" "+document.End(f.Unknown[0].Why)))
	case len(f.Unknown)+f.unread() > 0:
		return text("First step: find out why parts of the node could not be read or judged (sections Environment and Issues found).")
	case f.JobsUnknown != "" || f.undecided() > 0:
		return text("First step: look at the running jobs: ", document.Code("gpufabric_exporter jobs"), ".")
	}
	return text("No step is needed.")
}

// baseline is how the node is now, in a table.
func (f *Facts) baseline() document.Section {
	s := document.Section{Title: "Baseline"}
	t := document.Table{Head: []string{"What", "Now", "Source"}}
	if r := f.chosen(); r == nil {
		t.Add("Transport between nodes", "not measured", f.remains("gpufabric_exporter probe transport"))
	} else if strings.HasPrefix(r.Link, linkPlugin) {
		t.Add("Transport between nodes", r.Link+r.direct(), r.source())
	} else {
		t.Add("Transport between nodes", orUnknown(r.Link)+" (NCCL's network: "+orUnknown(r.Network)+")"+r.direct(),
			r.source())
	}
	for _, link := range f.links() {
		m := f.over(link)
		what := "Bandwidth over " + link
		switch {
		case len(m) > 0:
			now := probes.Bandwidth(m.median())
			if len(m) > 1 {
				now = fmt.Sprintf("median %s of %d, slowest %s (%s)", now, len(m), probes.Bandwidth(*m[0].BusBW), m[0].name())
			}
			t.Add(what, now, m[0].source())
		case !f.lacks(link):
			t.Add(what, "not measured", f.unmeasured(link))
		}
	}
	t.Add("Transport of running jobs", f.runningNow(), document.Code("gpufabric_exporter jobs"))
	if f.Log != nil {
		t.Add("Connections of the job", f.Log.Connections, text("log ", document.Code(f.Log.File)))
	}
	problems := text("none found")
	if worst := f.Findings[:min(len(f.Findings), 5)]; len(worst) > 0 {
		problems = nil
		for i := range worst {
			v := &worst[i]
			problems = text(problems, map[bool]string{true: "; "}[i > 0], v.mark(v.Severity+":"), " ",
				document.Few(v.Subjects), ": ", document.To(document.Lower(v.What), anchor(i)))
		}
		if more := len(f.Findings) - len(worst); more > 0 {
			problems = text(problems, fmt.Sprintf("; and %d more", more))
		}
	}
	t.Add("Key problems", problems, "section Issues found")
	t.Add("Checks", fmt.Sprintf("%d passed, %d unknown", f.Passed, len(f.Unknown))+f.silent(),
		document.Code("gpufabric_exporter check"))
	s.Table(t)
	return s
}

func orUnknown(s string) string { return cmp.Or(s, unknown) }

// source is where a result is from.
func (r *Result) source() string {
	what := r.Kind + " probe"
	if r.Op != "" {
		what += fmt.Sprintf(", %s of %s over %d ranks", r.Op, probes.SizeText(r.Bytes), r.Ranks)
	}
	return what + ", NCCL " + orUnknown(r.NCCL) + ", " + stamp(r.At) + " (" + r.Source + ")"
}
