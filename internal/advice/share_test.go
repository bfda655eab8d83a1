// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/lint"
)

// The line rate is no measurement: a node with faults, or one that was not measured, gets no all-clear from it.
func TestSmallShareIsNoAllClear(t *testing.T) {
	w := Workload{Nodes: 16, IterationBytes: 14e9, Iteration: 900 * time.Millisecond, NCCL: lint.Newest()}
	for scenario, want := range map[string]string{
		"healthy": "the least that it can take. A network that reaches it does not limit", "pfc-off": "(roce_pfc", "nccl-rdma-off": "(nccl_rdma_off",
	} {
		list := For(observed(t, scenario), w).Shares
		if len(list) != 1 || !strings.Contains(list[0].Text, want) || strings.Contains(list[0].Text, "The network does not limit") {
			t.Errorf("%s: %+v, want %q", scenario, list, want)
		}
	}
}

func TestPercentKeepsTheBound(t *testing.T) {
	for share, want := range map[float64]string{0.0999: "9.9 %", 0.1: "10 %", 0.081: "8.1 %", 0.999: "99 %"} {
		if got := percent(share); got != want {
			t.Errorf("%g: %s, want %s", share, got, want)
		}
	}
}
