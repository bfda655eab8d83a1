// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/gpu"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
	"gpufabric_exporter/probes"
)

// Probed is a probe, and what its last result says on this node.
type Probed struct {
	*probes.ProbeStatus
	TCP         bool   // although a source states that the node has rails, or should have
	NoGPUDirect bool   // although it could use it
	Far         bool   // by design it goes without: the GPUs are too far from the NICs
	Complaint   string // a short text of what is wrong; empty: nothing

	severity verdict.Severity
	cause    *verdict.Verdict // of what is wrong; nil: none is known
	finding  string           // ID of the one that has the cause
}

// ProbesOf judges the last results of probes by the verdicts on the node.
func ProbesOf(list []probes.ProbeStatus, n *fabric.Node, verdicts []verdict.Verdict) []Probed {
	rails, far := n.TrainingStated(), gpu.FarByDesign(n)
	all := make([]Probed, len(list))
	for i := range list {
		p := &all[i]
		p.ProbeStatus = &list[i]
		r := p.Last
		if r == nil {
			continue
		}
		without, shown := slices.Contains(r.Faults(), probes.FaultGPUDirect), r.Symptom()
		p.TCP, p.Far, p.NoGPUDirect = r.FellBack() && rails, without && far, without && !far
		p.severity = severityOf(r.Faults())
		var parts []string
		if p.TCP {
			parts = append(parts, "uses "+pathText(r))
		}
		if p.NoGPUDirect {
			parts = append(parts, withoutGPUDirect)
		}
		explained := r.Outcome == probes.OK && (p.TCP || diagnose.SlowWithoutGPUDirect(n, &shown)) // over TCP it is slow, too
		if result, _, status := Ended(r); status == StatusFailed && !explained {
			parts = append(parts, result)
		}
		if p.Complaint = strings.Join(parts, ", "); p.Complaint != "" {
			p.cause = diagnose.Explains(n, verdicts, &shown)
		}
	}
	return all
}

// withoutGPUDirect is what is wrong with a run whose network did not use GPUDirect RDMA.
const withoutGPUDirect = "without GPUDirect RDMA"

func pathText(r *probes.Result) string {
	return probes.Word(r.Path, func(p probes.Path) string { return string(p) })
}

// severityOf is that of the worst alert about a result.
func severityOf(faults []probes.Fault) verdict.Severity {
	for _, f := range []probes.Fault{probes.FaultSocket, probes.FaultWrong, probes.FaultSlow} {
		if slices.Contains(faults, f) {
			return verdict.Critical
		}
	}
	return verdict.Warning
}

// Ended says how a run ended, with a note on it: ok, failed, or none where it says nothing.
func Ended(r *probes.Result) (text, note, status string) {
	switch {
	case r.Outcome == probes.Aborted:
		return "aborted", r.Error, StatusNone
	case r.Outcome != probes.OK:
		return "failed: " + verdict.Spaced(string(r.Failure)), r.Error, StatusFailed
	case r.Comparison.Collapsed >= 3:
		return "far slower than before", fmt.Sprintf("below 80 %% of its baseline %d times in a row",
			r.Comparison.Collapsed), StatusFailed
	case r.Comparison.Regressed:
		return "slower than before", "confirmed by a second run", StatusFailed
	case r.Comparison.Drifted:
		return "baseline drifted down", "", StatusFailed
	}
	return "ok", "", StatusOK
}

// Result is how the last run ended, in a few words. One that ended well is not ok where it took the wrong way.
func (p *Probed) Result() (text, status string) {
	if p.Last == nil {
		return "none yet", StatusNone
	}
	text, _, status = Ended(p.Last)
	if status == StatusOK && (p.TCP || p.NoGPUDirect) {
		return "completed", StatusUnknown
	}
	return text, status
}

// Portless is the name of a probe without the port that most have.
func Portless(name string) string { return strings.TrimSuffix(name, " port 1") }

// Troubles are what is wrong with the last results, each once, the critical first. A remedy is given once.
func Troubles(list []Probed) []Finding {
	var troubles []Finding
	var causes []*verdict.Verdict
	for i := range list {
		p := &list[i]
		if p.Complaint == "" {
			continue
		}
		k := 0
		for k < len(troubles) && (troubles[k].What != p.Complaint || !alike(causes[k], p.cause)) {
			k++
		}
		name := Portless(p.Key.Name())
		if k == len(troubles) {
			troubles = append(troubles, Finding{
				What: p.Complaint, Remedy: p.remedy(), Severity: string(p.severity),
				Cause: p.finding,
			})
			causes = append(causes, p.cause)
		} else if slices.ContainsFunc(troubles[k].Subjects,
			func(s Subject) bool { return strings.HasPrefix(s.Name, string(p.Key.Kind)+" ") }) {
			name = strings.TrimPrefix(name, string(p.Key.Kind)+" ")
		}
		t := &troubles[k]
		t.Subjects = append(t.Subjects, Subject{Name: name})
		if p.severity.AtLeast(verdict.Severity(t.Severity)) {
			t.Severity = string(p.severity)
		}
	}
	rank := func(f *Finding) int { return verdict.Severity(f.Severity).Rank() }
	slices.SortStableFunc(troubles, func(a, b Finding) int { return rank(&a) - rank(&b) })
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

// remedy says what to check when a result is bad.
func (p *Probed) remedy() string {
	if advice := p.Last.Failure.Advice(); p.cause == nil && p.Last.Outcome != probes.OK && advice != "" {
		return verdict.Sentence(advice)
	}
	return diagnose.RemedyOfProbe(p.cause, &fabric.Symptom{TCP: p.TCP, NoGPUDirect: p.NoGPUDirect})
}

func probeOf(p *Probed) Probe {
	result, _ := p.Result()
	to := Probe{
		Name: p.Key.Name(), Kind: string(p.Key.Kind), Device: p.Key.Device, Port: p.Key.Port, Status: StatusNone,
		Result: result, LastRun: Moment(p.LastRun), Cause: p.finding,
	}
	switch {
	case p.Last == nil && p.LastSkip != nil:
		to.Skipped = cmp.Or(p.LastSkip.Detail, verdict.Spaced(string(p.LastSkip.Why)))
	case p.Last == nil:
	case p.Complaint != "":
		to.Status, to.Severity, to.Result = StatusFailed, string(p.severity), p.Complaint
	case p.Last.Outcome == probes.OK:
		to.Status = StatusOK
	default:
		to.Status = StatusUnknown
	}
	if p.Last != nil {
		to.Transport = pathText(p.Last)
	}
	if p.Far {
		to.Transport += ", " + withoutGPUDirect
	}
	for _, h := range p.History {
		to.History = append(to.History, sampleOf(h.At, h.BusBW))
	}
	r := p.LastGood
	if r == nil || len(r.Measurements) == 0 {
		return to
	}
	value := r.Measurements[len(r.Measurements)-1].BusBW
	to.BusBandwidth = &value
	if ratio, known := r.Comparison.Ratio.Get(); known {
		to.Ratio = &ratio
	}
	// what has regressed is no part of the baseline
	if n := len(to.History); r.Comparison.Regressed || n > 0 && to.History[n-1].Value != value {
		to.History = append(to.History, sampleOf(r.At, value))
	}
	return to
}

func sampleOf(at time.Time, value float64) Sample {
	return Sample{at.UTC().Truncate(time.Millisecond), value}
}

// Moment is a time as JSON has it; nil: the zero time.
func Moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Millisecond)
	return &t
}
