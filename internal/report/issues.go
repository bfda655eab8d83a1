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
		s.Say(fmt.Sprintf("%d issues are described; there are %d more: ", maxIssues, more),
			document.Codes(slices.Compact(names)), ".")
	}
	if len(f.Unknown) > 0 {
		u := document.Section{Title: "Could not be judged", Sub: true}
		t := document.Table{Head: []string{"What", "Of", "Why"}}
		for _, g := range f.Unknown {
			t.Add(g.What, document.Codes(g.Subjects), document.End(g.Why))
		}
		u.Table(t)
		u.Say("What could not be judged does not count as ok. To read more, run ",
			document.Code("gpufabric_exporter check"), " as root on the host, not in a container.")
		all = append(all, u)
	}
	return append([]document.Section{s}, all...)
}

func (f *Facts) issue(i int) document.Section {
	v := &f.Findings[i]
	s := document.Section{Title: strconv.Itoa(i+1) + ". " + v.What + " (" + v.Severity + ")", Sub: true, Anchor: anchor(i)}
	lines := []document.Text{text(document.Strong("Where:"), " ", document.Codes(v.Subjects))}
	if len(v.Causes) > 0 {
		label := "Root cause:"
		if len(v.Causes) > 1 {
			label = "Root cause, one of:"
		}
		lines = append(lines, text(document.Strong(label), " ",
			document.Prose(strings.Join(v.Causes[:min(len(v.Causes), document.MaxList)], " "))))
	}
	if v.From == fromProbe { // the table of rails has all
		lines = append(lines, document.Labelled("Evidence:", 3, v.Seen...)...)
	} else {
		lines = append(lines, document.Labelled("Evidence:", document.MaxList, v.Seen...)...)
	}
	lines = append(lines, text(document.Strong("Source:"), " ", document.Prose(document.End(v.Evidence))))
	lines = append(lines, document.Labelled("Measured:", 1, f.effect(v))...)
	lines = append(lines, document.Labelled("Impact:", 1, v.Impact)...)
	if v.Cause != "" {
		follows := text(document.Strong("Follows from:"), " ", document.Code(v.Cause), ": repair that.")
		if v.From == fromProbe {
			follows = text(follows, " The next run of the probe shows whether it helped.")
		}
		lines = append(lines, follows)
	}
	lines = append(lines, document.Labelled("Remedy:", 1, v.Remedy)...)
	lines = append(lines, document.Labelled("Remedy:", document.MaxList, v.Remedies...)...)
	if strings.HasPrefix(v.Runbook, "https://") && !strings.ContainsAny(v.Runbook, "() <>\"\\") {
		lines = append(lines, text(document.Strong("Runbook:"), " ", document.Link(v.ID, v.Runbook)))
	} else if v.Runbook != "" {
		lines = append(lines, text(document.Strong("Runbook:"), " ", document.Code(v.Runbook)))
	}
	s.List(lines...)
	return s
}

// anchor is that of an issue by its place in the list.
func anchor(i int) string { return "issue-" + strconv.Itoa(i+1) }

// effect is what measurements show of a finding; empty if it is about no device.
func (f *Facts) effect(v *Finding) string {
	if v.From != fromCheck || len(v.Devices) == 0 {
		return ""
	}
	rails := which(f.Results, func(r *Result) bool {
		return r.Kind == string(probes.Rail) &&
			slices.Contains(v.Devices, r.Device)
	})
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
