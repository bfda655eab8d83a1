// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/document"
)

// ParseFacts reads the facts of an earlier report. They are not trusted: what no report has is an error, and texts are only
// ever shown.
func ParseFacts(data []byte) (*Facts, error) {
	f := &Facts{}
	if err := json.Unmarshal(data, f); err != nil {
		return nil, fmt.Errorf("it is not the JSON of a report: %w", err)
	}
	if f.Report != kind {
		return nil, errors.New("it is not the JSON of a report")
	}
	if f.Version != Version {
		return nil, fmt.Errorf("it is a report of version %d: expected version %d, of a program like this one", f.Version, Version)
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
	t.Add("Issues", strconv.Itoa(len(before.Findings)), strconv.Itoa(len(f.Findings)), fmt.Sprintf("%+d", len(f.Findings)-len(before.Findings)))
	t.Add("Not judged", strconv.Itoa(len(before.Unknown)), strconv.Itoa(len(f.Unknown)), fmt.Sprintf("%+d", len(f.Unknown)-len(before.Unknown)))
	for _, link := range f.linksOf(before) {
		old, now, change := bandwidths(before.over(link), f.over(link))
		t.Add("Bandwidth over "+link, old, now, change)
	}
	if a, b := before.Iteration, f.Iteration; a != nil && b != nil {
		t.Add("Iteration, as given", milliseconds(a.After), milliseconds(b.After), fmt.Sprintf("%+.1f %%", 100*(float64(b.After)/float64(a.After)-1)))
	}
	for _, c := range f.changes(before) {
		t.Add(c[0], c[1], c[2], "changed")
	}
	s.Table(t)
	old, now := before.issueNames(), f.issueNames()
	gone, fresh := except(old, now), except(now, old)
	for _, list := range []struct {
		title string
		of    []string
	}{{"No longer found:", gone}, {"New:", fresh}, {"Still found:", except(old, gone)}} {
		if len(list.of) > 0 {
			s.Say(strong(list.title), " ", some(list.of), ".")
		}
	}
	return s
}

// issueNames are the findings with what they are about.
func (f *Facts) issueNames() (names []string) {
	for i := range f.Findings {
		names = append(names, f.Findings[i].ID+" ("+some(f.Findings[i].Subjects)+")")
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
		return text("One of them is of ", code(orHost(before.Node)), ", the other of ", code(orHost(f.Node)), ": differences are those of the scenarios.")
	case guids && shared == 0:
		return text(strong("It is of another node"), " (", code(orUnknown(before.Node.Name)), ", no RDMA device in common): differences are those of the nodes.")
	case guids && f.Node.Name != before.Node.Name:
		return text("It is of the same node under another name (", code(orUnknown(before.Node.Name)), ").")
	case guids && shared < max(len(f.Node.GUIDs), len(before.Node.GUIDs)):
		return text(fmt.Sprintf("It is of the same node with other RDMA devices: %d in common.", shared))
	case guids:
		return text("It is of the same node.")
	case f.Node.Name != before.Node.Name:
		return text(strong("It is of another node"), " (", code(orUnknown(before.Node.Name)), "), by the name: differences are those of the nodes.")
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
func bandwidths(before, after measured) (old, now, change string) {
	old, now, change = "not measured", "not measured", "-"
	if len(before) > 0 {
		old = gigabytes(before.median())
	}
	if len(after) > 0 {
		now = gigabytes(after.median())
	}
	if len(before) == 0 || len(after) == 0 {
		return old, now, change
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
	change = fmt.Sprintf("%+.1f %%", 100*(after.median()/before.median()-1))
	if math.Abs(*b.BusBW / *a.BusBW - 1) > 0.05 {
		change += fmt.Sprintf(" (slowest %+.1f %%)", 100*(*b.BusBW / *a.BusBW - 1))
	}
	return old, now, change
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
	each(before.Settings, f.Settings, func(s *Setting) (string, string) { return s.Name, s.Value }, add)
	each(before.Ports, f.Ports, func(p *Port) (string, string) {
		words := []string{p.State, rate(p.Rate), "firmware " + p.Firmware, "GID " + p.GID}
		if p.RoCE != nil {
			words = append(words, "RoCE "+p.RoCE.Verdict, "traffic class "+p.RoCE.Class, modeText(p.RoCE.Mode))
		}
		return fmt.Sprintf("%s port %d", p.Device, p.Port), strings.Join(words, ", ")
	}, add)
	each(before.GPUs, f.GPUs, func(g *GPU) (string, string) {
		return g.Name, g.Model + ", NVLinks " + g.NVLinks + ", GPUDirect RDMA " + g.GPUDirect
	}, add)
	return rows
}

// each compares two lists by name. What one of them lacks is "none" in it.
func each[T any](before, now []T, of func(*T) (name, value string), add func(what, old, now string)) {
	var names []string
	sides, known := [2]map[string]string{{}, {}}, map[string]bool{}
	for side, list := range [][]T{before, now} {
		for i := range list {
			name, value := of(&list[i])
			if !known[name] {
				known[name], names = true, append(names, name)
			}
			sides[side][name] = value
		}
	}
	for _, name := range names {
		var words [2]string
		for side, values := range sides {
			words[side] = "none"
			if v, has := values[name]; has {
				words[side] = v
			}
		}
		add(name, words[0], words[1])
	}
}
