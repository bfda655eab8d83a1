// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/nccl/lint"
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

// A small share that was measured over TCP on a node with active RDMA ports is what a silent fallback looks
// like, and findings of running jobs leave the question open: neither is an all-clear. One over RDMA holds
// for jobs that use RDMA.
func TestMeasuredShareIsNoAllClearForTCP(t *testing.T) {
	w := Workload{Nodes: 16, IterationBytes: 14e9, Iteration: time.Hour, NCCL: lint.Newest()}
	node := observed(t, "healthy")
	for h, p := range node.ComputePorts {
		w.Measured = append(w.Measured, Measured{Link: LinkRoCE, Port: portOf{h, p}.name(), Ranks: 2, Bytes: 64 << 20, Seconds: 1, BusBW: 46e9, From: "probe rail"})
	}
	w.Measured = append(w.Measured, Measured{Link: LinkTCP, Ranks: 2, Bytes: 64 << 20, Seconds: 1, BusBW: 2e9, From: "probe socket"})
	conclusions := func(w Workload) map[string]string {
		all := map[string]string{}
		for _, s := range For(node, w).Shares {
			all[s.From[:min(len(s.From), 21)]] = s.Text
		}
		return all
	}
	got := conclusions(w)
	if rail := got["measured by probe rai"]; !strings.Contains(rail, "does not limit this job if the job uses RDMA") {
		t.Errorf("rail: %q of %q", rail, got)
	}
	if tcp := got["measured by probe soc"]; strings.Contains(tcp, "does not limit") || !strings.Contains(tcp, "The transport of this measurement is TCP sockets") || !strings.Contains(tcp, "gpufabric_exporter jobs") {
		t.Errorf("socket: %q of %q", tcp, got)
	}
	w.Impaired = []string{"slurm/4242: setting_wrong_here"}
	for from, text := range conclusions(w) {
		if strings.Contains(text, "does not limit") || !strings.Contains(text, "(slurm/4242: setting_wrong_here)") {
			t.Errorf("%s: %q", from, text)
		}
	}
}

// What was measured over TCP on a node whose driver gives no state of its ports (EFA) is a silent fallback, too.
func TestMeasuredShareOfPortsWithoutState(t *testing.T) {
	node := observed(t, "healthy-efa")
	w := Workload{Nodes: 16, IterationBytes: 14e9, Iteration: time.Hour, NCCL: lint.Newest(), Measured: []Measured{
		{Link: LinkTCP, Ranks: 2, Bytes: 64 << 20, Seconds: 1, BusBW: 2e9, From: "probe socket"},
	}}
	for _, s := range For(node, w).Shares {
		if s.Link == LinkTCP && !strings.Contains(s.Text, "although RDMA ports of role compute are active on this node (32)") {
			t.Errorf("%q", s.Text)
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
