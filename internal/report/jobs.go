// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/document"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/internal/verdict"
)

// Job is a job that runs on the node, as the command jobs judges it.
type Job struct {
	Name      string   `json:"name"`
	Ranks     int      `json:"ranks"`
	Transport string   `json:"transport"` // with confirmed, suspected or by design; unknown: REASON
	Evidence  []string `json:"evidence"`
}

// jobFinding is an alert of a job: its severity and its words.
type jobFinding struct {
	id, what, impact, runbook string
	severity                  verdict.Severity
}

// addJobs has the running jobs, and a finding for each that uses TCP or is misconfigured.
func (f *Facts) addJobs(jobs job.Jobs, at config.Links) {
	switch {
	case jobs.Known:
	case jobs.Reason == "":
		f.JobsUnknown = "not looked at"
	default:
		f.JobsUnknown = jobs.Reason.Text()
	}
	if jobs.Dropped > 0 {
		f.JobsUnknown = spelling.Plural(jobs.Dropped, "process was", "processes were") + " left out: there are too many"
	}
	for i := range jobs.List {
		j := &jobs.List[i]
		state := j.State()
		if j.Verdict.Transport == job.Unknown {
			state = unknown + ": " + j.Verdict.Reason.Text()
		}
		f.Jobs = append(f.Jobs, Job{j.Name, len(j.Ranks), state, slices.Clone(j.Verdict.Evidence)})
		if j.Verdict.Fallback() {
			f.Findings = append(f.Findings, fallbackOf(j, at))
		}
		for _, bad := range j.Problems() {
			f.Findings = append(f.Findings, misconfigured(j, &bad, at))
		}
	}
}

func fallbackOf(j *job.Job, at config.Links) Finding {
	k := jobFinding{"job_on_tcp", "A job uses TCP instead of RDMA", "The job moves its data several times slower than over RDMA.", "GpuFabricJobOnTcp", verdict.Critical}
	if !j.Verdict.Confirmed {
		k.what, k.runbook, k.severity = "A job is suspected to use TCP instead of RDMA", "GpuFabricJobOnTcpSuspected", verdict.Warning
		k.impact = "If it does, it moves its data several times slower than over RDMA."
	}
	v := k.of(j, cmp.Or(j.Verdict.Cause.Text(), "not known"), j.Verdict.Evidence, at)
	for i := range j.Findings {
		if j.Verdict.Names(&j.Findings[i]) {
			v.Seen = append(v.Seen, j.Findings[i].Text)
		}
	}
	v.Remedy = j.Verdict.Cause.Remedy()
	return v
}

func misconfigured(j *job.Job, bad *job.Finding, at config.Links) Finding {
	k := jobFinding{"job_" + string(bad.Rule), "A job is misconfigured", "The job is slower than it could be, or is about to fail.", "GpuFabricJobMisconfigured", bad.Severity}
	if bad.Rule == job.RuleAlignment {
		k.what, k.runbook = "A job has GPUs without their nearest NICs", "GpuFabricJobNicsFar"
	}
	seen := spelling.Plural(len(bad.PIDs), "rank", "ranks")
	if len(bad.PIDs) > 0 {
		seen += fmt.Sprintf(", first PID %d", bad.PIDs[0])
	}
	v := k.of(j, bad.Text, []string{seen}, at)
	v.Remedy = bad.Rule.Remedy()
	return v
}

func (k *jobFinding) of(j *job.Job, cause string, seen []string, at config.Links) Finding {
	return Finding{
		ID: k.id, From: fromJob, Severity: string(k.severity), Subjects: []string{j.Name}, What: k.what, Causes: []string{verdict.Sentence(cause)}, Seen: slices.Clone(seen),
		Evidence: "The processes of the job, their sockets and RDMA devices, read twice (gpufabric_exporter jobs).", Impact: k.impact,
		Runbook: at.Runbooks + "/" + k.runbook + ".md",
	}
}

// runningNow is the transport of each running job.
func (f *Facts) runningNow() document.Text {
	list := document.Join(f.Jobs, "; ", func(j Job) any { return text(document.Code(j.Name), ": "+j.Transport) })
	switch {
	case f.JobsUnknown == "" && len(f.Jobs) == 0:
		return text("no process was seen that uses a GPU")
	case f.JobsUnknown == "":
		return list
	case len(f.Jobs) == 0:
		return text("unknown: " + f.JobsUnknown)
	}
	return text("unknown: "+f.JobsUnknown+"; ", list)
}

// undecided is how many running jobs have an unknown transport.
func (f *Facts) undecided() int {
	return len(which(f.Jobs, func(j *Job) bool { return isUnknown(j.Transport) }))
}
