// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"slices"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/document"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/internal/verdict"
)

// Job is a job that runs on the node, as the command jobs judges it.
type Job struct {
	Name      string   `json:"name"`
	Ranks     int      `json:"ranks"`
	Transport string   `json:"transport"` // with confirmed, suspected or by design; unknown: REASON
	Evidence  []string `json:"evidence"`
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
	v := jobFinding(j, at, "on_tcp", status.FallbackEvent(&j.Verdict), verdict.Critical,
		cmp.Or(j.Verdict.Cause.Text(), "not known"), j.Verdict.Evidence...)
	v.Impact, v.Remedy = "The job moves its data several times slower than over RDMA.", j.Verdict.Cause.Remedy()
	if !j.Verdict.Confirmed {
		v.Severity = string(verdict.Warning)
		v.Impact = "If it does, it moves its data several times slower than over RDMA."
	}
	for i := range j.Findings {
		if j.Verdict.Names(&j.Findings[i]) {
			v.Seen = append(v.Seen, j.Findings[i].Text)
		}
	}
	return v
}

func misconfigured(j *job.Job, bad *job.Finding, at config.Links) Finding {
	v := jobFinding(j, at, string(bad.Rule), status.FindingEvent(*bad), bad.Severity, bad.Text, bad.Ranks())
	v.Impact, v.Remedy = "The job is slower than it could be, or is about to fail.", bad.Rule.Remedy()
	return v
}

// jobFinding has what all findings about jobs have.
func jobFinding(j *job.Job, at config.Links, id string, e status.Event, s verdict.Severity, cause string,
	seen ...string,
) Finding {
	return Finding{
		ID: "job_" + id, From: fromJob, Severity: string(s), Subjects: []string{j.Name}, What: e.Title,
		Causes: []string{verdict.Sentence(cause)}, Seen: slices.Clone(seen),
		Evidence: "The processes of the job, their sockets and RDMA devices, read twice (gpufabric_exporter jobs).",
		Runbook:  at.AlertRunbook(e.Alert),
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
