// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/gpu"
	"gpufabric_exporter/internal/document"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/explain"
	"gpufabric_exporter/internal/nccl/signature"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/internal/verdict"
	"gpufabric_exporter/probes"
)

// judge adds the findings of checks, jobs, probes and logs, the worst first, and what could not be judged.
func (f *Facts) judge(in *Input) {
	bad := map[*verdict.Check]bool{}
	for i := range in.Verdicts {
		v := &in.Verdicts[i]
		bad[v.Check] = bad[v.Check] || v.Status != verdict.OK
	}
	for _, isBad := range bad {
		if !isBad {
			f.Passed++
		}
	}
	for _, found := range verdict.Findings(in.Verdicts) {
		f.Findings = append(f.Findings, checkFinding(in, &found.Group))
		for i := range found.Consequences {
			f.Findings = append(f.Findings, checkFinding(in, &found.Consequences[i]))
		}
	}
	f.addJobs(in.Jobs, in.Config.Links)
	f.addProbes(in)
	if in.Log != nil {
		f.addLogFindings(in.Log, in.Config.Links)
	}
	f.order()
	if f.Log != nil && f.Log.Undecided != "" {
		f.Unknown = append(f.Unknown, verdict.Gap{
			Subjects: []string{"job"}, What: "The log of the job",
			Why: f.Log.Undecided + openOf(in.Log),
		})
	}
}

// order has the worst first, and the cause of a finding before it.
func (f *Facts) order() {
	rank := func(v *Finding) int { return verdict.Severity(v.Severity).Rank() }
	worst := map[string]int{} // by id, of the finding and of what it explains
	for i := range f.Findings {
		v := &f.Findings[i]
		for _, id := range []string{v.ID, v.Cause} {
			if r, has := worst[id]; !has || rank(v) < r {
				worst[id] = rank(v)
			}
		}
	}
	// What is added later explains nothing that was added earlier: the order of the same rank stays.
	slices.SortStableFunc(f.Findings, func(a, b Finding) int { return cmp.Compare(worst[a.ID], worst[b.ID]) })
}

func checkFinding(in *Input, g *verdict.Group) Finding {
	c := g.Check
	v := Finding{
		ID: c.ID, From: fromCheck, Severity: string(c.Severity), Subjects: g.Subjects, What: g.What, Causes: causesOf(g),
		Seen:     g.Seen(),
		Evidence: "The check " + c.ID + " reads " + c.Reads + ".", Impact: g.Consequence,
		Runbook: in.Config.Links.Runbook(c),
	}
	if g.Cause != nil {
		v.Cause = g.Cause.Check.ID
	}
	if v.Remedies = g.Remedies(in.Node); len(v.Remedies) == 1 {
		v.Remedy, v.Remedies = v.Remedies[0], nil
	}
	for i := range g.Members {
		if d := g.Members[i].Subject.Device; d != "" && !slices.Contains(v.Devices, d) {
			v.Devices = append(v.Devices, d)
		}
	}
	return v
}

// causesOf is the kind of fault that all verdicts of a group have, else the kinds that the check finds.
func causesOf(g *verdict.Group) []string {
	one := g.Mode != "" && !slices.ContainsFunc(g.Members, func(v verdict.Verdict) bool { return v.Mode != g.Mode })
	var texts []string
	for _, m := range g.Check.Modes {
		if !one || m.ID == g.Mode {
			texts = append(texts, m.Text)
		}
	}
	return texts
}

// faultTexts says of faults of probes what the alert rules say, with their severity and runbook.
var faultTexts = map[probes.Fault]struct {
	severity verdict.Severity
	what     string
	impact   string
	runbook  string
}{
	probes.FaultSocket: {
		verdict.Critical, "The NCCL probe goes over TCP",
		"Jobs in the same environment move their data over TCP, several times slower than over RDMA.",
		"GpuFabricProbeTransportSocket",
	},
	probes.FaultGPUDirect: {
		verdict.Warning, "NCCL does not use GPUDirect RDMA",
		"Data between GPU and NIC goes through host memory.", "GpuFabricProbeGpuDirectLost",
	},
	probes.FaultWrong: {
		verdict.Critical, "A collective has wrong results",
		"Training on this node may compute wrong results.", "GpuFabricProbeWrongResult",
	},
	probes.FaultFailing: {
		verdict.Warning, "The NCCL probe fails", "Jobs may fail in the same way.",
		"GpuFabricProbeFailing",
	},
	probes.FaultSlow: {
		verdict.Critical, "The bandwidth has collapsed",
		"Every collective waits for its slowest link.", "GpuFabricProbeBandwidthCollapsed",
	},
	probes.FaultRegressed: {
		verdict.Warning, "The bandwidth is below its baseline",
		"Every collective waits for its slowest link.", "GpuFabricProbeBandwidthRegression",
	},
	probes.FaultDrifted: {
		verdict.Warning, "The baseline of the bandwidth has drifted down",
		"The node has become slower in small steps.", "GpuFabricProbeBaselineDrifted",
	},
}

// saidBy are faults of a result that say the same, and more.
var saidBy = map[probes.Fault][]probes.Fault{
	probes.FaultRegressed: {probes.FaultSlow, probes.FaultSocket}, // over TCP it is slow
	probes.FaultSlow:      {probes.FaultSocket},
	probes.FaultFailing:   {probes.FaultWrong},
}

// addProbes has a finding for each fault and each cause, of all probes that have both.
func (f *Facts) addProbes(in *Input) {
	far := gpu.FarByDesign(in.Node)
	for _, fault := range probes.Faults() {
		from := len(f.Findings)
		for i := range f.Results {
			r, shown := &f.Results[i], in.Results[i].Symptom()
			has := func(o probes.Fault) bool { return slices.Contains(r.Faults, o) }
			if !has(fault) || slices.ContainsFunc(saidBy[fault], has) || fault == probes.FaultGPUDirect && far {
				continue
			}
			v, told := probeFinding(in, fault, r, &shown)
			if !told {
				continue
			}
			k := slices.IndexFunc(f.Findings[from:], func(o Finding) bool {
				return o.Remedy == v.Remedy && slices.Equal(o.Causes, v.Causes)
			})
			if k < 0 {
				k, f.Findings = len(f.Findings)-from, append(f.Findings, v)
			}
			if verdict.Severity(v.Severity).AtLeast(verdict.Severity(f.Findings[from+k].Severity)) {
				f.Findings[from+k].Severity = v.Severity
			}
			f.Findings[from+k].add(r)
		}
	}
}

// probeFinding is a fault of one result, without the result; false: another fault is why, or none is told of it.
func probeFinding(in *Input, fault probes.Fault, r *Result, shown *fabric.Symptom) (v Finding, told bool) {
	words, known := faultTexts[fault]
	slowed, severity := diagnose.SlowWithoutGPUDirect(in.Node, shown), words.severity
	switch {
	case !known, slowed && (fault == probes.FaultSlow || fault == probes.FaultRegressed):
		return v, false
	case fault == probes.FaultSocket && !in.Node.Binding().TrainingStated(): // it may be by design
		severity = verdict.Warning
	case slowed && fault == probes.FaultGPUDirect && slices.Contains(r.Faults, probes.FaultSlow):
		severity = faultTexts[probes.FaultSlow].severity
	}
	v = Finding{
		ID: "probe_" + string(fault), From: fromProbe, Severity: string(severity), What: words.what, Impact: words.impact,
		Evidence: "Measured by the probe, with what NCCL's log says (" + r.Source + ").",
		Runbook:  in.Config.Links.Runbooks + "/" + words.runbook + ".md",
	}
	cause := diagnose.Explains(in.Node, in.Verdicts, shown)
	switch {
	case cause != nil:
		v.Cause, v.Causes = cause.Check.ID, []string{cause.What + " (" + cause.Check.ID + ")."}
		return v, true
	case r.NoDevices:
		v.Causes = []string{"NCCL's log says that it found no RDMA device that it can open."}
	case fault == probes.FaultGPUDirect:
		v.Causes = []string{"Not known: no check of the node explains it."}
	default:
		v.Causes = []string{"Not known: no check explains it. Traffic is not checked here: gpufabric_exporter check --interval=10s does that."}
	}
	v.Remedy = cmp.Or(verdict.Sentence(probes.Failure(r.Failure).Advice()), diagnose.RemedyOfProbe(nil, shown))
	return v, true
}

// add adds a result that has the fault.
func (v *Finding) add(r *Result) {
	v.Subjects, v.Seen = append(v.Subjects, r.name()), append(v.Seen, r.name()+": "+r.seen())
	if r.Device != "" {
		v.Devices = append(v.Devices, r.Device)
	}
}

// name is the probe of a result in words.
func (r *Result) name() string {
	name := probes.Key{Kind: probes.Kind(r.Kind), Device: r.Device, Port: r.Port}.Name()
	if r.Label != "" {
		name += " (" + r.Label + ")"
	}
	return name
}

// seen is the result of a run, as part of a sentence.
func (r *Result) seen() string {
	var parts []string
	if r.Outcome != string(probes.OK) {
		parts = append(parts, strings.TrimSpace(r.Outcome+" "+r.Error))
	}
	if r.BusBW != nil {
		parts = append(parts, probes.Bandwidth(*r.BusBW))
	}
	if r.Ratio != nil {
		parts = append(parts, fmt.Sprintf("%.0f %% of its baseline", 100**r.Ratio))
	}
	if r.Network != "" {
		parts = append(parts, "network "+r.Network)
	}
	if r.GPUDirect == "no" {
		parts = append(parts, "without GPUDirect RDMA")
	}
	return strings.Join(parts, ", ") + ", " + stamp(r.At)
}

func (f *Facts) addLogFindings(r *explain.Result, at config.Links) {
	first := r.First()
	for i := range r.Findings {
		l := &r.Findings[i]
		if r.Kind(l) == signature.Note || l.Open {
			continue
		}
		severity, seen := verdict.Warning, []string{fabric.MaskTokens(l.Text)}
		switch ports, possible := f.trainingPorts(); {
		case l.Signature == &signature.TCP && ports > 0:
			severity, seen = verdict.Critical, append(seen,
				"This node has "+spelling.Plural(ports, "RDMA port", "RDMA ports")+" for training that it could use")
		case l.Signature == &signature.TCP && !possible:
			severity = verdict.Info
		case l == first && l.Line > 0:
			severity = verdict.Critical
		}
		v := Finding{
			ID: l.Signature.ID, From: fromLog, Severity: string(severity), Subjects: slices.Clone(l.Hosts),
			What:   "The log of the job shows " + l.Signature.ID,
			Causes: logCauses(l), Seen: seen, Impact: "The job failed, or is slower than it could be.",
			Remedy:   stepsOf(l),
			Evidence: f.Log.File + ", " + fabric.MaskTokens(l.Seen()) + ".",
		}
		if l.Line == 0 {
			v.Evidence = "Network and connections in " + f.Log.File + "."
		}
		if r.Kind(l) == signature.Consequence {
			v.Impact = "It follows from an earlier failure, often on another rank or host."
		}
		if l.Signature.Runbook != "" {
			v.Runbook = at.Runbooks + "/" + l.Signature.Runbook
		}
		if len(v.Subjects) == 0 {
			v.Subjects = []string{"job"}
		}
		f.Findings = append(f.Findings, v)
	}
}

// logCauses are what may be behind a failure in a log. A user wrote the log: nothing in it is certain.
func logCauses(l *explain.Finding) []string {
	causes := []string{l.Signature.Cause}
	for _, r := range l.Reasons {
		sure := r.Certainty
		if sure == explain.Certain {
			sure = explain.Likely
		}
		if r.Cause != l.Signature.Cause {
			causes = append(causes, string(sure)+", as the log has it: "+r.Cause)
		}
	}
	return causes
}

// stepsOf are the next steps, as sentences.
func stepsOf(l *explain.Finding) string {
	steps := l.Steps()
	for i := range steps {
		steps[i] = verdict.Sentence(steps[i])
	}
	return strings.Join(steps, " ")
}

// openOf is what may be behind what the log leaves open; empty: it leaves nothing.
func openOf(r *explain.Result) string {
	open := r.Open()
	if open == nil || r.Failed() {
		return ""
	}
	return "; possible: " + open.Signature.ID + ", " + open.Reasons[0].Cause + " " + stepsOf(open)
}

// trainingPorts is how many RDMA ports for training carry, and whether there may be any.
func (f *Facts) trainingPorts() (active int, possible bool) {
	possible = slices.ContainsFunc(f.Ports, func(p Port) bool { return p.training() || isUnknown(p.Role) })
	return len(which(f.Ports, func(p *Port) bool { return p.training() && (p.active() || p.State == notGiven) })), possible
}

func logOf(file string, r *explain.Result) *Log {
	l := &Log{
		File: file, Lines: r.Lines, NCCLLines: r.NCCLLines, Versions: document.Some(r.Versions), Processes: r.Processes,
		Connections: r.Transports().String(),
		GPUDirect:   unknown, Undecided: r.Undecided(), Network: r.Network(), Devices: r.Devices(),
		Disabled: r.WithoutGPUDirect(),
		TCP:      r.Has(&signature.TCP),
	}
	if all, known := r.RingsGPUDirect(); known {
		l.GPUDirect = probes.YesNo(all)
	}
	return l
}
