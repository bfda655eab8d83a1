// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/verdict"
)

// A report calls running jobs good only if their transport is known and good.
func TestRunningJobs(t *testing.T) {
	in := input(t, "healthy")
	one := func(v job.Verdict, findings ...job.Finding) job.Jobs {
		return job.Jobs{Known: true, List: []job.Job{{Name: "slurm/1", Ranks: make([]job.Rank, 8), Verdict: v, Findings: findings}}}
	}
	for name, tt := range map[string]struct {
		jobs  job.Jobs
		clear bool
		want  string
	}{
		"no job":     {job.Jobs{Known: true}, true, "| Transport of running jobs | no process was seen that uses a GPU | "},
		"RDMA":       {one(job.Verdict{Transport: job.RDMA, Confirmed: true}), true, "Transport of running jobs: `slurm/1`: rdma, confirmed."},
		"by design":  {one(job.Verdict{Transport: job.TCP, Way: job.WayTCPX}), true, "`slurm/1`: tcp, by design"},
		"info":       {one(job.Verdict{Transport: job.Local}, job.Finding{Rule: job.RuleAffinity, Severity: verdict.Info}), true, "local, suspected"},
		"not looked": {job.Jobs{}, false, "Transport of running jobs: unknown: not looked at."},
		"privilege":  {job.Jobs{Reason: job.Privilege}, false, "Transport of running jobs: unknown: the exporter lacks the privilege"},
		"dropped":    {job.Jobs{Known: true, Dropped: 1}, false, "1 process was left out"},
		"idle":       {one(job.Verdict{Transport: job.Unknown, Reason: job.Idle}), false, "the transport of 1 running job is unknown"},
		"TCP":        {one(job.Verdict{Transport: job.TCP, Confirmed: true, Cause: job.CauseDisabled}), false, "First step: Remove NCCL_IB_DISABLE where the job gets it"},
		"TCP, and its setting": {
			one(job.Verdict{Transport: job.TCP, Confirmed: true, Cause: job.CauseDisabled}, job.Finding{Rule: job.RuleSettingWrongHere, Severity: verdict.Critical, Variables: []string{"NCCL_IB_DISABLE"}, Text: "RDMA is disabled"}),
			false, "1 issue found (1 critical)",
		},
		"TCP, and another setting": {
			one(job.Verdict{Transport: job.TCP, Confirmed: true, Cause: job.CauseDisabled}, job.Finding{Rule: job.RuleSettingUnknown, Severity: verdict.Warning, Variables: []string{"NCCL_IB_HAC"}}),
			false, "2 issues found (1 critical, 1 warning)",
		},
		"mixed": {one(job.Verdict{Transport: job.Mixed}), false, "A job seems to use TCP instead of RDMA (warning)"},
		"misconfigured": {
			one(job.Verdict{Transport: job.RDMA}, job.Finding{Rule: job.RuleMemlock, Severity: verdict.Warning, Text: "The limit is 64 KiB"}), false,
			"The limit is 64 KiB",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in.Jobs = tt.jobs
			page := markdownOf(t, Collect(in).Document(nil))
			if got := strings.Contains(page, "No step is needed"); got != tt.clear {
				t.Errorf("all-clear is %t, expected %t", got, tt.clear)
			}
			if got := strings.Contains(page, "No issue was found: "); got != tt.clear {
				t.Errorf("nothing wrong is %t, expected %t", got, tt.clear)
			}
			if !strings.Contains(page, tt.want) {
				t.Errorf("lacks %q:\n%.3000s", tt.want, page)
			}
		})
	}
}

// Ports whose driver reports no state by design are not listed as unjudged, and what NCCL uses there has its row.
func TestWithoutState(t *testing.T) {
	page := markdownOf(t, Collect(input(t, "healthy-efa")).Document(nil))
	for _, want := range []string{
		"of which the driver gives no state.", "No issue was found: 20 checks passed; the driver gives no state of 32 ports.", "0 unknown; the driver gives no state of 32 ports |",
		"| network plugin AWS Libfabric | not measured; NCCL uses it |", "No step is needed",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("lacks %q:\n%.3000s", want, page)
		}
	}
}

// The cause is listed before what it explains, although that is worse.
func TestCauseFirst(t *testing.T) {
	f := Collect(input(t, "pcie-nic-gen3"))
	if len(f.Findings) != 2 || f.Findings[0].ID != "pcie_link" || f.Findings[1].Cause != "pcie_link" {
		t.Fatalf("findings: %+v", f.Findings)
	}
	page := markdownOf(t, f.Document(nil))
	for _, want := range []string{"the cause of the worst: `mlx5_5`", "First step: Compare LnkCap and LnkSta"} {
		if !strings.Contains(page, want) {
			t.Errorf("lacks %q:\n%.3000s", want, page)
		}
	}
}
