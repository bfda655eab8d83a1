// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/document"
	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/internal/verdict"
	"gpufabric_exporter/probes"
)

// ParseFacts reads the facts of an earlier report. They are not trusted: what no report has is an error, and
// texts are only ever shown.
func ParseFacts(data []byte) (*Facts, error) {
	f := &Facts{}
	if err := json.Unmarshal(data, f); err != nil {
		return nil, fmt.Errorf("it is not the JSON of a report: %w", err)
	}
	if f.Report != kind {
		return nil, errors.New("it is not the JSON of a report")
	}
	if f.Version != Version {
		return nil, fmt.Errorf("it is a report of version %d: expected version %d, of a program like this one", f.Version,
			Version)
	}
	good := func(v *float64) bool { return v == nil || *v >= 0 && *v < 1e15 }
	for i := range f.Results {
		r := &f.Results[i]
		if !good(r.BusBW) || !good(r.Expected) || !good(r.Baseline) || !good(r.Ratio) || r.BusBW != nil && *r.BusBW == 0 {
			return nil, fmt.Errorf("result %d has a number that no probe measures", i+1)
		}
	}
	for i := range f.Ports {
		if p := &f.Ports[i]; !good(p.Rate) || !good(p.Expected) {
			return nil, fmt.Errorf("port %d has a rate that no port has", i+1)
		}
	}
	if i := f.Iteration; i != nil && (i.Before <= 0 || i.After <= 0) {
		return nil, errors.New("it has a time of an iteration that is not above 0")
	}
	return f, nil
}

// compared says what is other than in an earlier report.
func (f *Facts) compared(before *Facts) document.Section {
	s := document.Section{Title: "Compared with the earlier report"}
	s.Say("The earlier report is of ", stamp(before.At), ", by ", orUnknown(before.Program), ". ", f.identity(before))
	if before.At.After(f.At) {
		s.Say("It is newer than this one: the column Earlier has the newer values.")
	}
	t := document.Table{Head: []string{"What", "Earlier", "Now", "Change"}}
	t.Add("Issues", strconv.Itoa(len(before.Findings)), strconv.Itoa(len(f.Findings)),
		fmt.Sprintf("%+d", len(f.Findings)-len(before.Findings)))
	t.Add("Not judged", strconv.Itoa(len(before.Unknown)), strconv.Itoa(len(f.Unknown)),
		fmt.Sprintf("%+d", len(f.Unknown)-len(before.Unknown)))
	for _, link := range f.linksOf(before) {
		old, now, grown := bandwidths(before.over(link), f.over(link))
		t.Add("Bandwidth over "+link, old, now, grown)
	}
	if a, b := before.Iteration, f.Iteration; a != nil && b != nil {
		t.Add("Iteration, as given", milliseconds(a.After), milliseconds(b.After), change(float64(a.After), float64(b.After)))
	}
	for _, c := range f.changes(before) {
		t.Add(c[0], c[1], c[2], cmp.Or(map[string]string{c[1]: "new", c[2]: "gone"}[none], "changed"))
	}
	s.Table(t)
	gone := except(before.issueNames(), f.issueNames())
	for _, list := range []struct {
		title string
		of    []string
	}{
		{"No longer found:", gone},
		{"New:", except(f.issueNames(), before.issueNames())},
		{"Still found:", except(before.issueNames(), gone)},
		{"Measured only in the earlier report:", except(before.railNames(), f.railNames())},
		{"Measured only now:", except(f.railNames(), before.railNames())},
	} {
		if len(list.of) > 0 {
			s.Say(document.Strong(list.title), " ", document.Some(list.of), ".")
		}
	}
	return s
}

// railNames are the rails that were measured.
func (f *Facts) railNames() (names []string) {
	for _, r := range which(f.Results, func(r *Result) bool { return r.Kind == string(probes.Rail) && r.BusBW != nil }) {
		names = append(names, r.name())
	}
	return names
}

// since is f with what of an earlier report of the same node is gone, as its first issue.
func (f *Facts) since(before *Facts) *Facts {
	missing := len(except(before.Node.GUIDs, f.Node.GUIDs))
	other := f.Node.Simulated != before.Node.Simulated || missing == len(before.Node.GUIDs) &&
		(missing > 0 || f.Node.Name != before.Node.Name)
	renamed := missing == 0 && len(f.Ports) >= len(before.Ports)
	gone := which(before.Ports, func(p *Port) bool {
		return !slices.ContainsFunc(f.Ports, func(o Port) bool {
			return o.Device == p.Device &&
				(o.Port == p.Port || o.Port*p.Port == 0)
		})
	})
	if other || renamed || before.At.After(f.At) || len(gone) == 0 {
		return f
	}
	v := Finding{
		ID: "gone_since_report", From: fromReport, Severity: string(verdict.Warning),
		What:     "RDMA ports of the earlier report are gone",
		Causes:   []string{"The device has failed or was removed, its driver does not bind to it, or a container has it."},
		Evidence: "The earlier report of " + stamp(before.At) + ".", Impact: "Jobs have fewer ports than before.",
		Remedy: "Compare lspci -nn and rdma link with the earlier report, and look for the PCI addresses in dmesg -T",
	}
	for _, p := range gone {
		if p.training() || isUnknown(p.Role) {
			v.Severity = string(verdict.Critical)
		}
		v.Subjects, v.Seen = append(v.Subjects, p.name().Text),
			append(v.Seen, p.name().Text+": "+p.Role+", "+p.State+", "+rate(p.Rate)+", PCI address "+p.PCI)
	}
	with := *f
	with.Findings = append([]Finding{v}, f.Findings...)
	return &with
}

// issueNames are the findings with what they are about.
func (f *Facts) issueNames() (names []string) {
	for i := range f.Findings {
		names = append(names, f.Findings[i].ID+" ("+document.Some(f.Findings[i].Subjects)+")")
	}
	return names
}

// except are the names of a list that another list lacks.
func except(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(n string) bool { return slices.Contains(other, n) })
}

// identity says whether both reports are of one node.
func (f *Facts) identity(before *Facts) document.Text {
	shared := len(f.Node.GUIDs) - len(except(f.Node.GUIDs, before.Node.GUIDs))
	guids := len(f.Node.GUIDs) > 0 && len(before.Node.GUIDs) > 0
	switch {
	case f.Node.Simulated != before.Node.Simulated:
		return text("One of them is of ", document.Code(orHost(before.Node)), ", the other of ",
			document.Code(orHost(f.Node)), ": differences are those of the scenarios.")
	case guids && shared == 0:
		return text(document.Strong("It is of another node"), " (", document.Code(orUnknown(before.Node.Name)),
			", no RDMA device in common): differences are those of the nodes.")
	case guids && f.Node.Name != before.Node.Name:
		return text("It is of the same node under another name (", document.Code(orUnknown(before.Node.Name)), ").")
	case guids && shared < max(len(f.Node.GUIDs), len(before.Node.GUIDs)):
		return text(fmt.Sprintf("It is of the same node with other RDMA devices: %d in common.", shared))
	case guids:
		return text("It is of the same node.")
	case f.Node.Name != before.Node.Name:
		return text(document.Strong("It is of another node"), " (", document.Code(orUnknown(before.Node.Name)),
			"), by the name: differences are those of the nodes.")
	}
	return text("It is of the same node by its name; no RDMA device shows that it is.")
}

func orHost(n Node) string {
	if n.Simulated == "" {
		return "the host " + n.Name
	}
	return "the scenario " + n.Simulated
}

// linksOf are the links that either report measured.
func (f *Facts) linksOf(before *Facts) []string {
	var all []string
	for _, l := range slices.Concat(f.links(), before.links()) {
		if !slices.Contains(all, l) && len(f.over(l))+len(before.over(l)) > 0 {
			all = append(all, l)
		}
	}
	return all
}

// bandwidths compares what two reports measured over a link, if they measured the same.
func bandwidths(before, after measured) (old, now, grown string) {
	old, now, grown = "not measured", "not measured", "-"
	if len(before) > 0 {
		old = probes.Bandwidth(before.median())
	}
	if len(after) > 0 {
		now = probes.Bandwidth(after.median())
	}
	if len(before) == 0 || len(after) == 0 {
		return old, now, grown
	}
	a, b := before[0], after[0]
	newest := func(m measured) *Result {
		return slices.MaxFunc(m, func(a, b *Result) int { return a.At.Compare(b.At) })
	}
	switch {
	case a.Op != b.Op || a.Bytes != b.Bytes || a.Ranks != b.Ranks || a.Kind != b.Kind:
		return old, now, "not comparable: another operation, size or number of ranks"
	case newest(before).At.Equal(newest(after).At):
		return old, now, "the same run: it was not measured again"
	}
	grown = change(before.median(), after.median())
	if math.Abs(*b.BusBW / *a.BusBW - 1) > 0.05 {
		grown += " (slowest " + change(*a.BusBW, *b.BusBW) + ")"
	}
	return old, now, grown
}

// changes are what, earlier and now of settings, versions and ports.
func (f *Facts) changes(before *Facts) (rows [][3]string) {
	add := func(what, old, now string) {
		if old != now {
			rows = append(rows, [3]string{what, old, now})
		}
	}
	add("Kernel", before.Node.Kernel, f.Node.Kernel)
	add("GPU driver", before.Node.Driver, f.Node.Driver)
	add("NCCL library of the host", before.Node.Library, f.Node.Library)
	each(before.Settings, f.Settings, func(s *status.Variable) (string, []string) { return s.Name, []string{s.Value} },
		add)
	each(before.Ports, f.Ports, func(p *Port) (string, []string) {
		words := []string{p.State, rate(p.Rate), "firmware " + p.Firmware, "GID " + p.GID}
		if p.RoCE != nil {
			words = append(words, "RoCE "+p.RoCE.Verdict, "traffic class "+p.RoCE.Class, p.RoCE.modeText())
		}
		return fmt.Sprintf("%s port %d", p.Device, p.Port), words
	}, add)
	each(before.GPUs, f.GPUs, func(g *GPU) (string, []string) {
		return g.Name, []string{g.Model, "NVLinks " + g.NVLinks, "GPUDirect RDMA " + g.GPUDirect}
	}, add)
	return rows
}

// each compares two lists by name, which one of them may lack. Of what both have, only the words that differ are shown.
func each[T any](before, now []T, of func(*T) (name string, words []string), add func(what, old, now string)) {
	var names []string
	sides := [2]map[string][]string{{}, {}}
	for side, list := range [][]T{before, now} {
		for i := range list {
			name, words := of(&list[i])
			if sides[0][name] == nil && sides[1][name] == nil {
				names = append(names, name)
			}
			sides[side][name] = words
		}
	}
	for _, name := range names {
		old, fresh := sides[0][name], sides[1][name]
		if len(old) == len(fresh) {
			old, fresh = except(old, fresh), except(fresh, old)
		}
		add(name, cmp.Or(strings.Join(old, ", "), none), cmp.Or(strings.Join(fresh, ", "), none))
	}
}
