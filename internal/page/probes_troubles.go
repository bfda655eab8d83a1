// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"slices"
	"strings"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/gpu"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
	"gpufabric_exporter/probes"
)

// probeHardware is what a result is compared with.
type probeHardware struct {
	rails bool // a source states that the node has rails, or should have
	far   bool // by design, its GPUs are too far from their NICs for GPUDirect RDMA
	cause func(*fabric.Symptom) *verdict.Verdict
	slow  func(*fabric.Symptom) bool // because it lost GPUDirect RDMA
}

func hardwareOf(n *fabric.Node, verdicts []verdict.Verdict) probeHardware {
	return probeHardware{
		rails: n.TrainingStated(),
		far:   gpu.FarByDesign(n),
		cause: func(s *fabric.Symptom) *verdict.Verdict { return diagnose.Explains(n, verdicts, s) },
		slow:  func(s *fabric.Symptom) bool { return diagnose.SlowWithoutGPUDirect(n, s) },
	}
}

// withoutGPUDirect is what is wrong with a run whose network did not use GPUDirect RDMA.
const withoutGPUDirect = "without GPUDirect RDMA"

// complaint is a short text of what is wrong with the last result; empty: nothing.
func (v *probeView) complaint() string {
	var parts []string
	add := func(c cell, text string) {
		if c.Class == "bad" {
			parts = append(parts, text)
		}
	}
	add(v.Path, "uses "+v.Path.Text)
	add(v.GPUDirect, withoutGPUDirect)
	if v.Path.Class != "bad" && !v.slowed || v.status.Last.Outcome != probes.OK { // over TCP it is slow, too
		add(v.Result, v.Result.Text)
	}
	if len(parts) == 0 {
		add(v.Ratio, v.Ratio.Text+" of its baseline")
	}
	return strings.Join(parts, ", ")
}

// probeTrouble is what is wrong with the last results of some probes.
type probeTrouble struct {
	Names, What, Remedy string
	Severity            verdict.Severity // of the alert
	cause               *verdict.Verdict // nil: none is known
	first               int              // index of the first of the probes
	finding             string           // ID of the finding from which it follows; empty: none, or not looked up
}

// Several reports whether it is about more than one probe.
func (t probeTrouble) Several() bool { return strings.Contains(t.Names, ", ") }

// Class is that of the severity.
func (t probeTrouble) Class() string { return severityClass(string(t.Severity)) }

// probeTroubles are what is wrong with the last results, each once, the critical first. A remedy is given once.
func probeTroubles(list []probeView) []probeTrouble {
	var troubles []probeTrouble
	for i := range list {
		v := &list[i]
		what := v.complaint()
		if what == "" {
			continue
		}
		k := slices.IndexFunc(troubles, func(t probeTrouble) bool { return t.What == what && alike(t.cause, v.cause) })
		if k < 0 {
			troubles = append(troubles, probeTrouble{portless(v.Name), what, v.remedy(), v.severity, v.cause, i, ""})
			continue
		}
		kind, device, _ := strings.Cut(portless(v.Name), " ")
		if device != "" && strings.Contains(troubles[k].Names, kind+" ") {
			troubles[k].Names += ", " + device
		} else {
			troubles[k].Names += ", " + portless(v.Name)
		}
		if v.severity.AtLeast(troubles[k].Severity) {
			troubles[k].Severity = v.severity
		}
	}
	slices.SortStableFunc(troubles, func(a, b probeTrouble) int { return cmp.Compare(a.Severity.Rank(), b.Severity.Rank()) })
	said := map[string]bool{}
	for i := range troubles {
		if said[troubles[i].Remedy] {
			troubles[i].Remedy = ""
		}
		said[troubles[i].Remedy] = true
	}
	return troubles
}

// alike reports whether two causes are one finding, or both not known.
func alike(a, b *verdict.Verdict) bool {
	return a == b || a != nil && b != nil && a.Check == b.Check && a.What == b.What
}

// severityOf is that of the worst alert about a result.
func severityOf(faults []probes.Fault) verdict.Severity {
	critical := []probes.Fault{probes.FaultSocket, probes.FaultWrong, probes.FaultSlow}
	if slices.ContainsFunc(faults, func(f probes.Fault) bool { return slices.Contains(critical, f) }) {
		return verdict.Critical
	}
	return verdict.Warning
}

// remedy says what to check when a result is bad.
func (v *probeView) remedy() string {
	if v.cause == nil && v.Last != nil && v.Last.Advice != "" {
		return v.Last.Advice
	}
	return diagnose.RemedyOfProbe(v.cause, &fabric.Symptom{TCP: v.Path.Class == "bad", NoGPUDirect: v.GPUDirect.Class == "bad"})
}
