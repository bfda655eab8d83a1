// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/progress"
)

const (
	rasSource    = "NCCL RAS (STATUS as JSON)"
	rasPrivilege = "nccl.ask_ras in the configuration; CAP_SYS_PTRACE, host PID namespace"
	rasAbsent    = " Absent unless the job was suspected to hang, and RAS was asked (docs/JOBS.md)."
)

// The rows about jobs that may hang, from NCCL's RAS subsystem. They are about the job on all of its nodes;
// only the node that asked RAS exports them.
var (
	jobSuspicion = &Family{
		Name: "job_ras_suspicion", Type: Gauge, Labels: []string{trainingJob, "reason"},
		Help: "1 for each reason to suspect that the job hangs, seen on this node: traffic_stopped (its GPUs are busy and it no longer moves data to other nodes), ranks_apart (the GPUs of some ranks are busy, " +
			"those of others idle), verdict_turned (it used RDMA before, and uses TCP now). Absent otherwise, and without nccl.ask_ras.",
		Source: "internal/jobs/progress", Cadence: Fast, Privilege: rasPrivilege, Stability: Experimental,
	}
	jobNotAsked = &Family{
		Name: "job_ras_not_asked", Type: Gauge, Labels: []string{trainingJob, "reason"},
		Help: "1 while the job may hang, but this node does not ask its RAS subsystem. reason: rank_0_elsewhere (another node asks), waiting (it was asked not long ago), young_process, young_communicator (10 minutes), " +
			"version_refused, version_unknown, no_listener, listeners_unknown, other_job, other_namespace (a pod), namespace_unknown, age_unknown, processes_unknown, no_rank, stopped_after_reset (its process ended the connection), " +
			"release_stopped, node_stopped (docs/JOBS.md). Absent otherwise.",
		Source: "internal/jobs/progress", Cadence: Fast, Privilege: rasPrivilege, Stability: Experimental,
	}
	jobRASState = &Family{
		Name: "job_ras_state", Type: StateSet, Labels: []string{trainingJob, "state"},
		Help:   "State of the job, from three answers of its RAS subsystem within a minute: failed, dead, missing, hang, stalled, straggler (docs/JOBS.md), unknown, starting, ending, idle, moving; 1 for the current one." + rasAbsent,
		Source: rasSource, Cadence: Fast, Privilege: rasPrivilege, Stability: Stable,
	}
	jobRASConfirmed = &Family{
		Name: "job_ras_state_confirmed", Type: Gauge, Labels: []string{trainingJob},
		Help:   "0 if the state hang is only suspected: the GPUs are busy, and all ranks have started the same number of collectives; 1 otherwise." + rasAbsent,
		Source: rasSource, Cadence: Fast, Privilege: rasPrivilege, Stability: Stable,
	}
	jobRASRanks = &Family{
		Name: "job_ras_ranks", Type: Gauge, Labels: []string{trainingJob, "problem"},
		Help: "Number of ranks of the job with a problem, from the last answer of RAS. problem: missing (no data for a communicator); of these, unresponsive (the process did not answer) and dead (RAS gave up on the process after 60 s); " +
			"failed (an error during initialization, or an asynchronous error)." + rasAbsent,
		Source: rasSource, Cadence: Fast, Privilege: rasPrivilege, Stability: Experimental,
	}
	jobRASApart = &Family{
		Name: "job_ras_operations_apart", Type: Gauge, Labels: []string{trainingJob},
		Help:   "Number of collectives by which the slowest rank of a communicator is behind the fastest, for the communicator with the largest difference, from the last answer of RAS." + rasAbsent,
		Source: rasSource, Cadence: Fast, Privilege: rasPrivilege, Stability: Experimental,
	}
	jobRASAnswered = &Family{
		Name: "job_ras_last_answer_timestamp_seconds", Type: Gauge, Unit: "seconds", Labels: []string{trainingJob},
		Help:   "Time of the last answer of RAS, in seconds since the epoch." + rasAbsent,
		Source: rasSource, Cadence: Fast, Privilege: rasPrivilege, Stability: Experimental,
	}
	jobRASQuestions = &Family{
		Name: "job_ras_questions_total", Type: Counter, Labels: []string{"outcome"},
		Help:   "Number of RAS queries to jobs since the exporter started. outcome: answered, failed (the answer was incomplete or invalid), ended (the process ended the connection: its job is not asked again). Absent without nccl.ask_ras.",
		Source: rasSource, Cadence: Fast, Privilege: rasPrivilege, Stability: Experimental,
	}
	jobRASStopped = &Family{
		Name: "job_ras_stopped", Type: Gauge,
		Help:   "1 if the exporter queries no job on the node until it restarts, because processes of jobs of three owners ended the connection. Absent without nccl.ask_ras.",
		Source: "internal/jobs/inquiry", Cadence: Fast, Privilege: rasPrivilege, Stability: Experimental,
	}
)

func rasFamilies() []*Family {
	return []*Family{
		jobSuspicion, jobNotAsked, jobRASState, jobRASConfirmed, jobRASRanks, jobRASApart, jobRASAnswered,
		jobRASQuestions, jobRASStopped,
	}
}

// WithRAS returns the set with the rows from NCCL's RAS subsystem. status is called in every Gather, by any
// number of goroutines at once, and must not wait for anything.
func (s *Set) WithRAS(status func() progress.Status) *Set {
	with := &Set{collectors: slices.Clone(s.collectors)}
	for i := range with.collectors {
		if c := &with.collectors[i]; c.jobs != nil {
			c.ras = status
			jobs := c.collect
			c.collect = func(n *fabric.Node, emit emit) {
				jobs(n, emit)
				collectRAS(status(), emit)
			}
		}
	}
	return with
}

// RAS returns the rows from NCCL's RAS subsystem. It is off without the collector job.
func (s *Set) RAS() progress.Status {
	for i := range s.collectors {
		if c := &s.collectors[i]; c.ras != nil {
			return c.ras()
		}
	}
	return progress.Status{}
}

func collectRAS(s progress.Status, emit emit) {
	if !s.Enabled {
		return
	}
	for _, outcome := range progress.Outcomes() {
		emit(jobRASQuestions, float64(s.Asked[outcome]), string(outcome))
	}
	emit(jobRASStopped, bit(s.Stopped))
	for i := range s.Jobs {
		collectAccount(&s.Jobs[i], emit)
	}
}

func collectAccount(a *progress.Account, emit emit) {
	for _, why := range a.Suspicions {
		emit(jobSuspicion, 1, a.Job, string(why))
	}
	if why := a.Reason(); why != "" {
		emit(jobNotAsked, 1, a.Job, string(why))
	}
	if !a.Known() {
		return
	}
	state(emit, jobRASState, a.Report.State, progress.States(), a.Job)
	emit(jobRASConfirmed, bit(a.Report.Confirmed), a.Job)
	for _, of := range []struct {
		problem string
		ranks   int
	}{
		{"missing", a.Ranks.Missing},
		{"unresponsive", a.Ranks.Unresponsive},
		{"dead", a.Ranks.Dead},
		{"failed", a.Ranks.Failed},
	} {
		emit(jobRASRanks, float64(of.ranks), a.Job, of.problem)
	}
	if s := a.Ranks.Spread; s.Known {
		emit(jobRASApart, float64(s.Most-s.Least), a.Job)
	}
	emit(jobRASAnswered, float64(a.Answered.UnixMilli())/1000, a.Job)
}
