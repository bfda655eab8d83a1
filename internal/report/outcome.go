// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
		case len(m.results) > 0:
			slowest := m.results[0]
			against := ""
			if link != linkTCP && len(tcp.results) > 0 {
				against = times(m.median() / tcp.median())
			} else if link != linkTCP {
				against = "TCP was not measured"
			}
			low := ""
			if len(m.results) > 1 {
				low = gigabytes(*slowest.BusBW) + " (" + slowest.name() + ")"
			}
			bandwidth := gigabytes(m.median())
			if share := m.middle().Expected; share != nil {
				bandwidth += ", " + percent(share) + " of the hardware limit"
			}
			t.Rows = append(t.Rows, []document.Text{text(link), text(bandwidth), text(low), text(against), f.source(slowest)})
		case f.lacks(link):
			t.Rows = append(t.Rows, []document.Text{text(link), text("not on this node"), nil, nil, nil})
		default:
			t.Rows = append(t.Rows, []document.Text{text(link), text("not measured"), nil, nil, text("measure it: ", code(command(link)))})
		}
	}
	if r := f.chosen(); r != nil && r.Link != "" && !slices.Contains(f.links(), r.Link) {
		t.Rows = append(t.Rows, []document.Text{text(r.Link), text("not measured; NCCL uses it"), nil, nil, f.source(r)})
	}
	s.Table(t)
	if f.ResultsNote != "" {
		s.Say(end(f.ResultsNote))
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
	var list []*Result
	for i := range f.Results {
		if r := &f.Results[i]; r.Kind == string(probes.Rail) && r.Label == "" {
			list = append(list, r)
		}
	}
	slices.SortStableFunc(list, func(a, b *Result) int {
		good := func(r *Result) int { return map[bool]int{true: 1}[len(r.Faults) == 0] }
		value := func(r *Result) float64 {
			if r.BusBW == nil {
				return 0
			}
			return *r.BusBW
		}
		return cmp.Or(good(a)-good(b), cmp.Compare(value(a), value(b)))
	})
	t := document.Table{Head: []string{"Port", "Over", "Bus bandwidth", "Baseline", "Of its baseline", "GPUDirect RDMA", "Result"}}
	for _, r := range list {
		bw, base := "none", "none"
		if r.BusBW != nil {
			bw = gigabytes(*r.BusBW)
		}
		if r.Baseline != nil {
			base = gigabytes(*r.Baseline)
		}
		result := "ok"
		if len(r.Faults) > 0 {
			var words []string
			for _, fault := range r.Faults {
				words = append(words, string(fault))
			}
			result = strings.Join(words, ", ")
		} else if r.Outcome != string(probes.OK) {
			result = r.Outcome
		}
		p := Port{Device: r.Device, Port: r.Port}
		t.Rows = append(t.Rows, []document.Text{text(p.name()), text(orUnknown(r.Link)), text(bw), text(base), text(percent(r.Ratio)), text(r.GPUDirect), text(result)})
	}
	return t
}

// training is what the iteration times that were given mean.
func (f *Facts) training() document.Section {
	s := document.Section{Title: "Training iteration"}
	i := f.Iteration
	if i == nil {
		s.Say("Not given. ", code("--iteration-ms=BEFORE,AFTER"), " takes the times of an iteration, as the training script logs them.")
		return s
	}
	day := func(d time.Duration) string { return fmt.Sprintf("%.0f", float64(24*time.Hour)/float64(d)) }
	s.Table(document.Table{
		Head: []string{"", "Before", "After", "Change"},
		Rows: [][]document.Text{
			{text("Time of an iteration"), text(milliseconds(i.Before)), text(milliseconds(i.After)), text(fmt.Sprintf("%+.1f %%", 100*(float64(i.After)/float64(i.Before)-1)))},
			{text("Iterations in a day"), text(day(i.Before)), text(day(i.After)), text(fmt.Sprintf("%+.1f %%", 100*(float64(i.Before)/float64(i.After)-1)))},
			{text("Speed-up"), text("1"), text(fmt.Sprintf("%.2f", float64(i.Before)/float64(i.After))), nil},
		},
		Note: "Source: --iteration-ms, given with the report; this program did not measure them. They compare only with the same model, batch, number of GPUs and data.",
	})
	return s
}

// logged is what the log of a job shows.
func (f *Facts) logged() document.Section {
	s := document.Section{Title: "Log evidence"}
	l := f.Log
	if l == nil {
		s.Say("No log was given. Run the job with ", code("NCCL_DEBUG=INFO"), " and ", code("NCCL_DEBUG_FILE=/tmp/nccl.%h.%p.log"), ", then ", code("gpufabric_exporter report --log=FILE"), ".")
		return s
	}
	s.Table(document.Table{Head: []string{"What", "In the log"}, Rows: [][]document.Text{
		{text("File"), text(code(l.File), fmt.Sprintf(", %d lines, %d of NCCL", l.Lines, l.NCCLLines))},
		{text("NCCL"), text(orUnknown(l.Versions))},
		{text("Processes"), text(strconv.Itoa(l.Processes))},
		{text("Network"), text(orUnknown(l.Network))},
		{text("Devices"), text(orUnknown(l.Devices))},
		{text("Connections"), text(l.Connections)},
		{text("GPUDirect RDMA on all rings"), text(l.GPUDirect)},
	}})
	if l.Undecided != "" {
		s.Say("What the log does not show: ", end(l.Undecided))
	}
	var lines []document.Text
	for i := range f.Findings {
		if v := &f.Findings[i]; v.From == fromLog && len(lines) < maxList {
			lines = append(lines, text(code(v.ID), ": ", end(v.Evidence), " ", codes(v.Seen)))
		}
	}
	s.List(lines...)
	return s
}
