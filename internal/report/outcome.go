// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gpufabric_exporter/internal/document"
	"gpufabric_exporter/probes"
)

// results compares what was measured over each link with TCP.
func (f *Facts) results() []document.Section {
	s := document.Section{Title: "Results"}
	tcp := f.over(linkTCP)
	t := document.Table{
		Head: []string{"Over", "Bus bandwidth", "Slowest", "Against TCP", "Source"},
		Note: "Bus bandwidth as nccl-tests counts it, in 10⁹ bytes per second; the median where several ports were measured. A rail probe measures NIC, PCIe and GPUDirect RDMA of one port, not the network behind it. It uses few channels and 64 MiB by default: compare it only with the same probe. Both ranks of the TCP probe run on this node, so that their data may not leave it.",
	}
	for _, link := range f.links() {
		m := f.over(link)
		switch {
		case len(m) > 0:
			bandwidth, low, against := probes.Bandwidth(m.median()), "", ""
			if share := m.middle().Expected; share != nil {
				bandwidth += ", " + percent(share) + " of the hardware limit"
			}
			if len(m) > 1 {
				low = probes.Bandwidth(*m[0].BusBW) + " (" + m[0].name() + ")"
			}
			if link != linkTCP && len(tcp) > 0 {
				against = times(m.median() / tcp.median())
			} else if link != linkTCP {
				against = "TCP was not measured"
			}
			t.Add(link, bandwidth, low, against, m[0].source())
		case f.lacks(link):
			t.Add(link, "not on this node", "", "", "")
		default:
			t.Add(link, "not measured", "", "", f.unmeasured(link))
		}
	}
	if r := f.chosen(); r != nil && r.Link != "" && !slices.Contains(f.links(), r.Link) {
		t.Add(r.Link, "not measured; NCCL uses it", "", "", r.source())
	}
	s.Table(t)
	if f.ResultsNote != "" {
		s.Say(document.End(f.ResultsNote))
	}
	all := []document.Section{s}
	if rails := f.rails(); len(rails.Rows) > 1 {
		r := document.Section{Title: "Each rail", Sub: true}
		r.Table(rails)
		all = append(all, r)
	}
	return all
}

// rails has each rail that was probed, those at fault and the slowest first.
func (f *Facts) rails() document.Table {
	list := which(f.Results, func(r *Result) bool { return r.Kind == string(probes.Rail) && r.Label == "" })
	slices.SortStableFunc(list, func(a, b *Result) int {
		good := func(r *Result) int { return map[bool]int{true: 1}[len(r.Faults) == 0] }
		value := func(r *Result) float64 { return *cmp.Or(r.BusBW, new(0.0)) }
		return cmp.Or(good(a)-good(b), cmp.Compare(value(a), value(b)))
	})
	bandwidth := func(v *float64) string {
		if v == nil {
			return "none"
		}
		return probes.Bandwidth(*v)
	}
	t := document.Table{Head: []string{
		"Port", "Result", "Bus bandwidth", "Baseline", "Of its baseline", "Over",
		"GPUDirect RDMA",
	}}
	for _, r := range list {
		result := document.Span{Text: r.Outcome}
		if len(r.Faults) > 0 {
			result = f.marked(document.Join(r.Faults, ", ", func(f probes.Fault) any { return f }).Plain(), r.name())
		}
		p := Port{Device: r.Device, Port: r.Port}
		t.Add(p.name(), result, bandwidth(r.BusBW), bandwidth(r.Baseline), percent(r.Ratio), orUnknown(r.Link), r.GPUDirect)
	}
	return t
}

// training is what the iteration times that were given mean.
func (f *Facts) training() document.Section {
	s := document.Section{Title: "Training iteration"}
	i := f.Iteration
	if i == nil {
		s.Say("Not given. ", document.Code("--iteration-ms=BEFORE,AFTER"),
			" takes the times of an iteration, as the training script logs them.")
		return s
	}
	day := func(d time.Duration) string { return fmt.Sprintf("%.0f", float64(24*time.Hour)/float64(d)) }
	faster := float64(i.Before) / float64(i.After)
	t := document.Table{
		Head: []string{"", "Before", "After", "Change"},
		Note: "Source: --iteration-ms, given with the report; this program did not measure them. They compare only with the same model, batch, number of GPUs and data.",
	}
	t.Add("Time of an iteration", milliseconds(i.Before), milliseconds(i.After),
		change(float64(i.Before), float64(i.After)))
	t.Add("Iterations in a day", day(i.Before), day(i.After), change(1, faster))
	t.Add("Speed-up", "1", fmt.Sprintf("%.2f", faster), "")
	s.Table(t)
	return s
}

// logged is what the log of a job shows.
func (f *Facts) logged() document.Section {
	s := document.Section{Title: "Log evidence"}
	l := f.Log
	if l == nil {
		s.Say("No log was given. Run the job with ", document.Code("NCCL_DEBUG=INFO"), " and ",
			document.Code("NCCL_DEBUG_FILE=/tmp/nccl.%h.%p.log"), ", then ",
			document.Code("gpufabric_exporter report --log=FILE"), ".")
		return s
	}
	t := document.Table{Head: []string{"What", "In the log"}}
	t.Add("File", text(document.Code(l.File), fmt.Sprintf(", %d lines, %d of NCCL", l.Lines, l.NCCLLines)))
	t.Add("NCCL", orUnknown(l.Versions))
	t.Add("Processes", l.Processes)
	t.Add("Network", orUnknown(l.Network))
	t.Add("Devices", orUnknown(l.Devices))
	t.Add("Connections", l.Connections)
	t.Add("GPUDirect RDMA on all rings", l.GPUDirect)
	s.Table(t)
	if l.Undecided != "" {
		s.Say("What the log does not show: ", document.End(l.Undecided))
	}
	var lines []document.Text
	for _, v := range which(f.Findings, func(v *Finding) bool { return v.From == fromLog }) {
		lines = append(lines, text(document.Code(v.ID), ": ", document.End(v.Evidence), " ", document.Codes(v.Seen)))
	}
	s.List(lines[:min(len(lines), document.MaxList)]...)
	return s
}
