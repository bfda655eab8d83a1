// SPDX-License-Identifier: Apache-2.0

package job

import (
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/verdict"
)

// A job with a fault has a remedy, which is given once; a good one has none.
func TestRemedies(t *testing.T) {
	tcp := func(c Cause) Verdict { return Verdict{Transport: TCP, Way: WaySocket, Confirmed: true, Cause: c} }
	wrong := Finding{Rule: RuleSettingWrongHere, Severity: verdict.Critical, Variables: []string{"NCCL_IB_DISABLE"}}
	besides := wrong
	besides.Variables = []string{"NCCL_IB_DISABLE", "NCCL_IB_HCA"}
	for name, c := range map[string]struct {
		job  Job
		want []string // the beginnings
	}{
		"good":                             {Job{Verdict: Verdict{Transport: RDMA}}, nil},
		"disabled":                         {Job{Verdict: tcp(CauseDisabled), Findings: []Finding{wrong}}, []string{"Remove NCCL_IB_DISABLE"}},
		"disabled, and more":               {Job{Verdict: tcp(CauseDisabled), Findings: []Finding{besides}}, []string{"Remove NCCL_IB_DISABLE", "Correct the variables"}},
		"disabled, and the other variable": {Job{Verdict: tcp(CauseSocketSelected), Findings: []Finding{wrong}}, []string{"Remove NCCL_NET", "Correct the variables"}},
		"no devices":                       {Job{Verdict: tcp(CauseNoDevices), Findings: []Finding{{Rule: RuleNoDevices, Severity: verdict.Warning}, wrong}}, []string{"Give the container", "Correct the variables"}},
		"cause not seen":                   {Job{Verdict: tcp(CauseNone)}, []string{"Start the job with NCCL_DEBUG=INFO"}},
		"by design":                        {Job{Verdict: Verdict{Transport: TCP, Way: WayTCPX}}, nil},
		"settings of RDMA":                 {Job{Verdict: Verdict{Transport: RDMA}, Findings: []Finding{wrong, wrong}}, []string{"Correct the variables"}},
		"worth knowing":                    {Job{Verdict: Verdict{Transport: RDMA}, Findings: []Finding{{Rule: RuleAffinity, Severity: verdict.Info}}}, nil},
	} {
		got := c.job.Remedies()
		if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
	}
}

// Rules that warn have a remedy.
func TestRemediesOfRules(t *testing.T) {
	for _, r := range Rules() {
		if none := r == RuleNoCommunicator || r == RuleAffinity; (r.Remedy() == "") != none {
			t.Errorf("%s: %q", r, r.Remedy())
		}
	}
}
