// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/document"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/probes"
)

// learned is what follows from comparing what was expected with what was found and measured. Each line is
// derived; without a difference or a measurement there is none.
func (f *Facts) learned() document.Section {
	s := document.Section{Title: "What was learned"}
	lines := slices.Concat(f.reached(), f.costs(), f.unexplained(), f.gpuDirectApart(), f.logApart(), f.watch())
	if n := len(f.Unknown); n > 0 {
		lines = append(lines, text(spelling.Plural(n, "fact",
			"facts")+" could not be judged: the report is no all-clear for what is missing."))
	}
	if len(f.Results) == 0 {
		lines = append(lines, text("Nothing was measured: whether the node is as fast as its hardware allows is not known."))
	}
	switch {
	case len(lines) > 0:
	case len(f.Findings) > 0:
		s.Say("Nothing beyond the issues found.")
	default:
		s.Say("No difference between what was expected, what the node shows and what was measured.")
	}
	if more := len(lines) - document.MaxList; more > 0 {
		lines = append(lines[:document.MaxList], text(fmt.Sprintf("And %d more.", more)))
	}
	s.List(lines...)
	return s
}

// reached compares what each link carried with what the hardware allows.
func (f *Facts) reached() (lines []document.Text) {
	for _, link := range f.links() {
		m := f.over(link)
		if len(m) == 0 || m.middle().Expected == nil {
			continue
		}
		of := "it"
		if n := len(m); n > 1 {
			of = fmt.Sprintf("the median of %d ports", n)
		}
		lines = append(lines, text(link+": "+of+" reached "+percent(m.middle().Expected)+" of the hardware limit."))
	}
	return lines
}

// costs compares the slowest result with its baseline.
func (f *Facts) costs() []document.Text {
	slow := which(f.Results, func(r *Result) bool {
		slow := slices.Contains(r.Faults, probes.FaultSlow) || slices.Contains(r.Faults, probes.FaultRegressed)
		return slow && r.BusBW != nil && r.Baseline != nil && r.Ratio != nil && *r.Ratio > 0
	})
	if len(slow) == 0 {
		return nil
	}
	worst := slices.MinFunc(slow, func(a, b *Result) int { return cmp.Compare(*a.Ratio, *b.Ratio) })
	return []document.Text{text(spelling.Plural(len(slow), "probe is",
		"probes are")+" slower than the baseline. The slowest, ", document.Code(worst.name()),
		", measured "+probes.Bandwidth(*worst.BusBW)+
			" where "+probes.Bandwidth(*worst.Baseline)+" were expected: a collective that waits for it takes "+times(1 / *worst.Ratio)+" as long.")}
}

// watch names the alerts that fire when the faults return.
func (f *Facts) watch() []document.Text {
	var names []string
	for i := range f.Findings {
		name, isAlert := strings.CutSuffix(path.Base(f.Findings[i].Runbook), ".md")
		if isAlert && strings.HasPrefix(name, "GpuFabric") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, m := range diagnose.Modes() {
		found := func(v Finding) bool { return slices.Contains(v.Causes, m.Text) }
		if m.Alert != "" && slices.ContainsFunc(f.Findings, found) && !slices.Contains(names, m.Alert) {
			names = append(names, m.Alert)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []document.Text{text("To watch after the repair: ", document.Codes(names), ".")}
}

// unexplained are faults of probes on devices where no check failed.
func (f *Facts) unexplained() (lines []document.Text) {
	for _, v := range which(f.Findings, func(v *Finding) bool { return v.From == fromProbe && v.Cause == "" }) {
		lines = append(lines, text(document.Code(v.ID), " was measured on ", document.Few(v.Subjects),
			", and no check explains it: the cause is not in the settings that the node shows. The traffic was not checked."))
	}
	return lines
}

// gpuDirectApart says which probes ran without GPUDirect RDMA although nothing on the node blocks it.
func (f *Facts) gpuDirectApart() (lines []document.Text) {
	blocked := func(g GPU) bool { return !strings.HasPrefix(g.GPUDirect, "usable") }
	if len(f.GPUs) == 0 || slices.ContainsFunc(f.GPUs, blocked) {
		return nil
	}
	without := which(f.Results, func(r *Result) bool {
		return (r.Kind == string(probes.Rail) || r.Kind == string(probes.Transport)) && r.GPUDirect == "no"
	})
	if len(without) > 0 {
		names := document.Join(without, ", ", func(r *Result) any { return r.name() })
		lines = append(lines, text("Nothing on the node blocks GPUDirect RDMA, but NCCL did not use it: ", names, "."))
	}
	if f.Log != nil && len(f.Log.Disabled) > 0 {
		lines = append(lines,
			text("Nothing on the node blocks GPUDirect RDMA, but NCCL reported it in the log of the job as disabled for "+document.Some(f.Log.Disabled)+": compare the container of the job and its NCCL_DMABUF_ENABLE, and since when nvidia_peermem is loaded."))
	}
	return lines
}

// logApart says where the log of a job differs from what probes found.
func (f *Facts) logApart() []document.Text {
	r := f.chosen()
	if f.Log == nil || r == nil || !f.Log.TCP || r.Link == linkTCP || r.Link == "" {
		return nil
	}
	return []document.Text{text("The job of the log used TCP, and the probe of this node went over " + r.Link +
		": look at the environment and the container of the job.")}
}
