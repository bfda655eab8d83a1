// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/progress"
)

// What RAS reports about jobs has the labels of fixed lists; a job that was not asked has a reason and no
// state; nothing is there while it is off.
func TestRAS(t *testing.T) {
	asked := progress.Account{Job: "slurm/7", Suspicions: []progress.Suspicion{progress.TrafficStopped}, Refused: &progress.Refusal{Why: progress.Waiting, Text: "later"}}
	answer := fabric.RASAnswer{Version: "2.30.7", Communicators: []fabric.RASCommunicator{{
		ID: "1-2-3", Size: 4, Complete: true, MissingCount: 1, Missing: []fabric.RASMissing{{RASPlace: fabric.RASPlace{Rank: 3}, Unresponsive: true, Dead: true}},
		Spread: fabric.RASSpread{Least: 7, Most: 9, Known: true},
	}}}
	asked.Take([]fabric.RASAnswer{answer, answer, answer}, time.Unix(1_700_000_000, 0), progress.GPUsBusy)
	status := progress.Status{Enabled: true, Asked: map[progress.Outcome]uint64{progress.Answered: 3}, Jobs: []progress.Account{
		asked, {Job: "slurm/8", Suspicions: []progress.Suspicion{progress.RanksApart}, Refused: &progress.Refusal{Why: progress.OtherNamespace}}, {Job: "slurm/9", Refused: errors.New("the job has ended")},
	}}
	lines := func(s progress.Status) string {
		set := (&Set{collectors: []collector{jobCollector()}}).WithRAS(func() progress.Status { return s })
		var b strings.Builder
		for line := range strings.Lines(withoutHelp(text(t, set.Gather(&fabric.Node{Policy: &fabric.Policy{}}, ConfigState{})))) {
			if strings.HasPrefix(line, "gpufabric_job_ras_") {
				b.WriteString(line)
			}
		}
		return b.String()
	}
	got := lines(status)
	for _, want := range []string{
		`job_ras_suspicion{reason="traffic_stopped",training_job="slurm/7"} 1`, `job_ras_not_asked{reason="waiting",training_job="slurm/7"} 1`,
		`job_ras_state{state="dead",training_job="slurm/7"} 1`, `job_ras_state{state="hang",training_job="slurm/7"} 0`, `job_ras_state_confirmed{training_job="slurm/7"} 1`,
		`job_ras_ranks{problem="missing",training_job="slurm/7"} 1`, `job_ras_ranks{problem="unresponsive",training_job="slurm/7"} 1`,
		`job_ras_ranks{problem="dead",training_job="slurm/7"} 1`, `job_ras_ranks{problem="failed",training_job="slurm/7"} 0`,
		`job_ras_operations_apart{training_job="slurm/7"} 2`, `job_ras_last_answer_timestamp_seconds{training_job="slurm/7"} 1.7e+09`,
		`job_ras_not_asked{reason="other_namespace",training_job="slurm/8"} 1`,
		`job_ras_questions_total{outcome="answered"} 3`, `job_ras_questions_total{outcome="ended"} 0`, `job_ras_stopped 0`,
	} {
		if !strings.Contains(got, "gpufabric_"+want+"\n") {
			t.Errorf("lacks %s", want)
		}
	}
	if strings.Contains(got, `state="hang",training_job="slurm/8"`) || strings.Contains(got, "slurm/9") {
		t.Error("a job that was not asked has a state")
	}
	if t.Failed() {
		t.Log(got)
	}
	status.Enabled = false
	if off := lines(status); off != "" {
		t.Errorf("switched off, and yet\n%s", off)
	}
}

// Every reason is in the documentation of its metric.
func TestRASWords(t *testing.T) {
	for _, r := range progress.Reasons() {
		if !strings.Contains(jobNotAsked.Help, string(r)) {
			t.Errorf("the help of %s lacks %s", jobNotAsked.Name, r)
		}
	}
	for _, s := range progress.Suspicions() {
		if !strings.Contains(jobSuspicion.Help, string(s)) || s.Text() == string(s) {
			t.Errorf("%s is not explained", s)
		}
	}
	for _, s := range progress.States() {
		if !strings.Contains(jobRASState.Help, string(s)) {
			t.Errorf("the help of %s lacks %s", jobRASState.Name, s)
		}
	}
	for _, o := range progress.Outcomes() {
		if !strings.Contains(jobRASQuestions.Help, string(o)) {
			t.Errorf("the help of %s lacks %s", jobRASQuestions.Name, o)
		}
	}
}
