// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/document"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
)

// learned is what follows from comparing what was expected with what was found and measured. Each line is derived; without a
// difference or a measurement there is none.
func (f *Facts) learned() document.Section {
	s := document.Section{Title: "What was learned"}
	lines := slices.Concat(f.confirmed(), f.unexplained(), f.ratesApart(), f.gpuDirectApart(), f.logApart())
	if n := len(f.Unknown); n > 0 {
		lines = append(lines, text(fmt.Sprintf("%d facts could not be judged: the report is no all-clear for them.", n)))
	}
	if len(lines) == 0 {
		s.Say("No difference between what was expected, what the node shows and what was measured.")
	}
	if more := len(lines) - maxList; more > 0 {
		lines = append(lines[:maxList], text(fmt.Sprintf("And %d more.", more)))
	}
	s.List(lines...)
	return s
}

// confirmed are the findings that probes show, and those that they do not.
func (f *Facts) confirmed() (lines []document.Text) {
	for i := range f.Findings {
		v := &f.Findings[i]
		if v.From != fromCheck || len(v.Devices) == 0 {
			continue
		}
		slow, good := f.measuredOf(v)
		switch {
		case len(slow) > 0:
			lines = append(lines, text(code(v.ID), " is confirmed by measurement: ", some(slow), "."))
		case len(good) > 0:
			lines = append(lines, text(code(v.ID), " has no effect on a probe without congestion ("+some(good)+"). This does not rule the fault out."))
		default:
			lines = append(lines, text(code(v.ID), " was not measured: ", code("gpufabric_exporter probe rail --device="+first(v.Devices)), " shows its effect."))
		}
	}
	return lines
}

// first is a name for a command, a placeholder where it could be more than a name.
func first(names []string) string {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
	if len(names) == 0 || strings.Trim(names[0], allowed) != "" {
		return "DEVICE"
	}
	return names[0]
}

// unexplained are faults of probes on devices where no check failed.
func (f *Facts) unexplained() (lines []document.Text) {
	for i := range f.Findings {
		v := &f.Findings[i]
		if v.From != fromProbe {
			continue
		}
		explained := slices.ContainsFunc(f.Findings, func(c Finding) bool {
			return c.From == fromCheck && overlap(c.Devices, v.Devices)
		})
		if !explained && f.blocks(v) == nil {
			lines = append(lines, text(code(v.ID), " was measured on ", codes(v.Subjects), ", and no check explains it: the cause is not in the settings that the node shows."))
		}
	}
	return lines
}

// ratesApart are ports for training whose rate differs from the expected one.
func (f *Facts) ratesApart() (lines []document.Text) {
	for _, p := range f.ports() {
		if p.Role == string(fabric.RoleCompute) && p.Rate != nil && p.Expected != nil && *p.Rate < *p.Expected {
			lines = append(lines, text(p.name(), " was expected to run at "+rate(p.Expected)+", and runs at "+rate(p.Rate)+"."))
		}
	}
	return lines
}

// gpuDirectApart says where measurements of GPUDirect RDMA differ from what is expected of the node.
func (f *Facts) gpuDirectApart() (lines []document.Text) {
	usable, blocked := 0, 0
	for i := range f.GPUs {
		switch {
		case strings.HasPrefix(f.GPUs[i].GPUDirect, "usable"):
			usable++
		case strings.HasPrefix(f.GPUs[i].GPUDirect, "blocked"):
			blocked++
		}
	}
	var with, without []string
	for i := range f.Results {
		r := &f.Results[i]
		if r.Kind != string(probes.Rail) && r.Kind != string(probes.Transport) {
			continue
		}
		switch r.GPUDirect {
		case "yes":
			with = append(with, r.name())
		case "no":
			without = append(without, r.name())
		}
	}
	switch {
	case usable > 0 && usable == len(f.GPUs) && len(without) > 0:
		lines = append(lines, text("Nothing on the node blocks GPUDirect RDMA, but NCCL did not use it: "+some(without)+"."))
	case usable > 0 && blocked == 0 && len(with) > 0:
		lines = append(lines, text("GPUDirect RDMA is usable on this node, and probes used it: "+some(with)+"."))
	case blocked > 0 && len(without) > 0:
		lines = append(lines, text("GPUDirect RDMA is blocked on this node, and probes did not use it: "+some(without)+"."))
	}
	return lines
}

// logApart says where the log of a job differs from what probes found.
func (f *Facts) logApart() []document.Text {
	r := f.chosen()
	if f.Log == nil || r == nil || !f.Log.TCP || r.Link == linkTCP || r.Link == "" {
		return nil
	}
	return []document.Text{text("The job of the log had connections over TCP, and the probe of this node went over " + r.Link + ": look at the environment and the container of the job.")}
}
