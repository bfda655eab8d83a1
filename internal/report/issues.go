// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/document"
	"gpufabric_exporter/probes"
)

// maxIssues is how many findings a document describes; it names the others.
const maxIssues = 24

// issues describes each finding, and lists what could not be judged.
func (f *Facts) issues() []document.Section {
	s := document.Section{Title: "Issues found"}
	if len(f.Findings) == 0 {
		s.Say("None.")
	} else {
		s.Say("The root cause is the kind of fault that the check detects. The evidence is what this node shows. Where the cause is outside the node, such as in a cable or a switch, the remedy says where to look.")
	}
	var all []document.Section
	for i := range f.Findings[:min(len(f.Findings), maxIssues)] {
		all = append(all, f.issue(i))
	}
	if more := len(f.Findings) - maxIssues; more > 0 {
		var names []string
		for i := range f.Findings[maxIssues:] {
			names = append(names, f.Findings[maxIssues+i].ID)
		}
		slices.Sort(names)
		s.Say(fmt.Sprintf("%d issues are described; there are %d more: ", maxIssues, more), codes(slices.Compact(names)), ".")
	}
	if len(f.Unknown) > 0 {
		u := document.Section{Title: "Could not be judged", Sub: true}
		t := document.Table{Head: []string{"What", "Of", "Why"}}
		for _, g := range f.Unknown {
			t.Add(g.What, codes(g.Subjects), end(g.Why))
		}
		u.Table(t)
		u.Say("What could not be judged does not count as ok. To read more, run ", code("gpufabric_exporter check"), " as root on the host, not in a container.")
		all = append(all, u)
	}
	return append([]document.Section{s}, all...)
}

func (f *Facts) issue(i int) document.Section {
	v := &f.Findings[i]
	s := document.Section{Title: strconv.Itoa(i+1) + ". " + v.What + " (" + v.Severity + ")", Sub: true}
	lines := []document.Text{text(strong("Where:"), " ", codes(v.Subjects))}
	if len(v.Causes) > 0 {
		label := "Root cause:"
		if len(v.Causes) > 1 {
			label = "Root cause, one of:"
		}
		lines = append(lines, text(strong(label), " ", document.Prose(strings.Join(v.Causes[:min(len(v.Causes), document.MaxList)], " "))))
	}
	if v.From == fromProbe { // the table of rails has all
		lines = append(lines, labelled("Evidence:", 3, v.Seen...)...)
	} else {
		lines = append(lines, labelled("Evidence:", document.MaxList, v.Seen...)...)
	}
	lines = append(lines, text(strong("Source:"), " ", document.Prose(end(v.Evidence))))
	lines = append(lines, labelled("Measured:", 1, f.effect(v))...)
	lines = append(lines, labelled("Impact:", 1, v.Impact)...)
	if v.Cause != "" {
		follows := text(strong("Follows from:"), " ", code(v.Cause), ": repair that.")
		if v.From == fromProbe {
			follows = text(follows, " The next run of the probe shows whether it helped.")
		}
		lines = append(lines, follows)
	}
	lines = append(lines, labelled("Remedy:", 1, v.Remedy)...)
	lines = append(lines, labelled("Remedy:", document.MaxList, v.Remedies...)...)
	if strings.HasPrefix(v.Runbook, "https://") && !strings.ContainsAny(v.Runbook, "() <>\"\\") {
		lines = append(lines, text(strong("Runbook:"), " ", document.Link(v.ID, v.Runbook)))
	} else if v.Runbook != "" {
		lines = append(lines, text(strong("Runbook:"), " ", code(v.Runbook)))
	}
	s.List(lines...)
	return s
}

// labelled are the first lines of a list, of which the first has a label. Of one empty line there is none.
func labelled(label string, most int, list ...string) (lines []document.Text) {
	for i, of := range list[:min(len(list), most)] {
		switch {
		case i > 0:
			lines = append(lines, document.Prose(end(of)))
		case of != "":
			lines = append(lines, text(strong(label), " ", document.Prose(end(of))))
		}
	}
	if more := len(list) - most; more > 0 {
		lines = append(lines, text(fmt.Sprintf("And %d more of the same.", more)))
	}
	return lines
}

// effect is what measurements show of a finding; empty if it is about no device.
func (f *Facts) effect(v *Finding) string {
	if v.From != fromCheck || len(v.Devices) == 0 {
		return ""
	}
	rails := which(f.Results, func(r *Result) bool { return r.Kind == string(probes.Rail) && slices.Contains(v.Devices, r.Device) })
	var slow []string
	good, faulty := false, false
	for _, r := range rails {
		if f.follows(v, r) {
			slow = append(slow, r.name()+": "+r.seen())
		}
		faulty = faulty || len(r.Faults) > 0
		good = good || r.BusBW != nil
	}
	switch {
	case len(slow) > 0:
		return slow[0] + map[bool]string{true: fmt.Sprintf(" and %d more", len(slow)-1)}[len(slow) > 1]
	case faulty: // what it shows has a cause of its own
		return ""
	case good:
		return "no loss of bandwidth in probes over these ports. They test NIC, PCIe and GPUDirect RDMA without congestion, not the network."
	}
	if slices.ContainsFunc(f.Ports, func(p Port) bool { return slices.Contains(v.Devices, p.Device) && !p.active() }) {
		return "" // no probe runs over it
	}
	return "not yet: gpufabric_exporter probe rail shows the effect."
}

// follows reports whether what a result shows follows from a finding.
func (f *Facts) follows(v *Finding, r *Result) bool {
	return slices.ContainsFunc(f.Findings, func(p Finding) bool {
		return p.From == fromProbe && p.Cause == v.ID && slices.Contains(p.Subjects, r.name())
	})
}
