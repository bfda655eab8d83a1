// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/verdict"
)

// The verdict is ok only if traffic was judged, and probes and jobs have no problem.
func TestVerdictConcludes(t *testing.T) {
	trouble := []Finding{{Subjects: []Subject{{Name: "rail mlx5_0"}}, What: withoutGPUDirect, Severity: string(verdict.Warning)}}
	bad := []job.Job{{Verdict: job.Verdict{Transport: job.TCP, Way: job.WaySocket, Confirmed: true}}}
	unsure := []job.Job{{Verdict: job.Verdict{Transport: job.TCP, Way: job.WaySocket}}}
	for _, c := range []struct {
		wait           int
		found          int
		probed         []Finding
		jobs           []job.Job
		want, wantText string
		worst          verdict.Severity
	}{
		{0, 0, nil, nil, StatusOK, "No problems found", verdict.Info},
		{11, 0, nil, nil, StatusUnknown, "No problems found so far; traffic has not been checked yet", verdict.Info},
		{0, 0, trouble, nil, StatusFailed, "1 problem found", verdict.Warning},
		{11, 0, trouble, nil, StatusFailed, "1 problem found", verdict.Warning},
		{0, 0, trouble, bad, StatusFailed, "2 problems found", verdict.Critical},
		{0, 0, nil, bad, StatusFailed, "1 problem found", verdict.Critical},
		{0, 0, nil, unsure, StatusUnknown, "Possible problem in 1 job", verdict.Warning},
		{0, 0, trouble, unsure, StatusFailed, "1 problem found, and a possible problem in 1 job", verdict.Warning},
		{11, 2, trouble, bad, StatusFailed, "4 problems found", verdict.Critical},
	} {
		b := builder{in: &Inputs{Node: new(fabric.Node), Jobs: &job.Jobs{List: c.jobs}}, Document: &Document{Findings: make([]Finding, c.found), Troubles: c.probed, RetryAfter: c.wait}}
		b.conclude()
		if b.Verdict.Status != c.want || b.Verdict.Text != c.wantText || b.Worst != c.worst {
			t.Errorf("%+v: %+v, %s", c, b.Verdict, b.Worst)
		}
	}
	const unsaved = "The probe history is not saved"
	b := builder{in: &Inputs{Node: new(fabric.Node), Probing: Verdict{StatusFailed, unsaved}}, Document: new(Document)}
	if b.conclude(); b.Verdict != (Verdict{StatusFailed, unsaved}) {
		t.Errorf("%+v", b.Verdict)
	}
}
