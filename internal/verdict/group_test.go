// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"slices"
	"testing"

	"gpufabric_exporter/internal/verdict"
)

// Ports of which the same follows from the same are one finding.
func TestTogetherWithCauses(t *testing.T) {
	address, pfc := &verdict.Check{ID: "gid_usable"}, &verdict.Check{ID: "roce_pfc"}
	var causes, all []verdict.Verdict
	for _, device := range []string{"mlx5_0", "mlx5_1", "mlx5_2"} {
		causes = append(causes, verdict.Verdict{Check: address, Status: verdict.Failed, Subject: verdict.Subject{Device: device}, Remedy: "Give it an address."})
	}
	causes[2].Remedy = "Remove NCCL_IB_GID_INDEX."
	for i := range causes {
		all = append(all, verdict.Verdict{Check: pfc, Status: verdict.Failed, Subject: causes[i].Subject, Cause: &causes[i]})
	}
	groups := verdict.Together(all)
	if len(groups) != 2 || !slices.Equal(groups[0].Subjects, []string{"mlx5_0", "mlx5_1"}) || groups[1].Cause != &causes[2] {
		t.Errorf("%+v", groups)
	}
}

// Findings name mlx5_3 before mlx5_10.
func TestOrderOfSubjects(t *testing.T) {
	c := &verdict.Check{ID: verdict.CheckPortActive}
	var list []verdict.Verdict
	for _, device := range []string{"mlx5_0", "mlx5_10", "mlx5_3"} {
		list = append(list, verdict.Verdict{Check: c, Status: verdict.Failed, Subject: verdict.Subject{Device: device, Port: 1}})
	}
	if got := verdict.Together(list)[0].Subjects; !slices.Equal(got, []string{"mlx5_0", "mlx5_3", "mlx5_10"}) {
		t.Errorf("%v", got)
	}
}
