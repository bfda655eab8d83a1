// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	"gpufabric_exporter/alerts"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/jobs/progress"
	"gpufabric_exporter/internal/verdict"
)

// TestEventsAreAlerts: page, report and notification call what is wrong with a job the same.
func TestEventsAreAlerts(t *testing.T) {
	groups, err := alerts.Groups()
	if err != nil {
		t.Fatal(err)
	}
	summaries := map[string]string{}
	for _, g := range groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				summaries[r.Alert] = r.Annotations["summary"]
			}
		}
	}
	for _, e := range []Event{onTCP, onTCPSuspected, rankLost, hang, hangSuspected, straggler, misconfigured, nicsFar, fewerNICs} {
		if summaries[e.Alert] != e.Title+"." {
			t.Errorf("%s is %q, and its alert says %q", e.Alert, e.Title, summaries[e.Alert])
		}
	}
}

// TestJobEvent: what is certain comes before what is suspected, and a suspicion that RAS refutes is none.
func TestJobEvent(t *testing.T) {
	tcp := func(confirmed bool) job.Verdict { return job.Verdict{Transport: job.TCP, Confirmed: confirmed} }
	said := func(s progress.State, confirmed bool) *progress.Account {
		return &progress.Account{Answers: 3, Report: progress.Report{State: s, Confirmed: confirmed}}
	}
	found := func(rule job.Rule, s verdict.Severity) []job.Finding { return []job.Finding{{Rule: rule, Severity: s}} }
	for name, c := range map[string]struct {
		job  job.Job
		said *progress.Account
		want Event
	}{
		"TCP and a hang":           {job.Job{Verdict: tcp(true)}, said(progress.Hang, true), onTCP},
		"a hang and TCP suspected": {job.Job{Verdict: tcp(false)}, said(progress.Hang, true), hang},
		"hang suspected":           {job.Job{}, said(progress.Hang, false), hangSuspected},
		"RAS was not asked":        {job.Job{}, &progress.Account{}, hangSuspected},
		"a rank is dead":           {job.Job{}, said(progress.Dead, false), rankLost},
		"a rank is behind":         {job.Job{}, said(progress.Stalled, false), straggler},
		"TCP suspected":            {job.Job{Verdict: tcp(false)}, said(progress.Moving, false), onTCPSuspected},
		"far NICs":                 {job.Job{Findings: found(job.RuleAlignment, verdict.Warning)}, said(progress.Moving, false), nicsFar},
		"the worst finding":        {job.Job{Findings: append(found(job.RuleFewerNICs, verdict.Warning), found(job.RuleNoDevices, verdict.Critical)...)}, nil, misconfigured},
		"RAS refutes":              {job.Job{}, said(progress.Moving, false), Event{}},
	} {
		switch {
		case c.want == Event{}:
			if s := JobSeverity(&c.job, c.said); s != "" {
				t.Errorf("%s: %s", name, s)
			}
		case JobSeverity(&c.job, c.said) == "":
			t.Errorf("%s: nothing is wrong", name)
		case JobEvent(&c.job, c.said) != c.want:
			t.Errorf("%s: %v", name, JobEvent(&c.job, c.said))
		}
	}
}
