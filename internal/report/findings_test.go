// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"

	"gpufabric_exporter/probes"
)

// A fault and what follows from it are one issue, whose remedy is the first step, as on the page and in the output of check.
func TestConsequencesAreNoIssues(t *testing.T) {
	for scenario, want := range map[string][]string{
		"rate-mismatch":    {"1 issue found, and 2 more follow (2 critical, 1 warning)", "First step: Kernels report a rate"},
		"nvlink-down":      {"1 issue found, and 1 more follows (1 critical, 1 warning)"},
		"gid-index-pinned": {"1 issue found, and 1 more follows (1 critical, 1 info)"},
		"pcie-acs-on":      {"1 issue found, and 1 more follows (1 critical, 1 warning)", "slow (acs)"},
	} {
		t.Run(scenario, func(t *testing.T) {
			page := markdownOf(t, Collect(input(t, scenario)).Document(nil))
			for _, w := range want {
				if !strings.Contains(page, w) {
					t.Errorf("want %q in:\n%s", w, page)
				}
			}
			if strings.Contains(page, "no check explains it") {
				t.Error("the report has a probe that nothing explains")
			}
		})
	}
}

// A report reads no traffic, and does not pass it as good.
func TestTrafficIsOpen(t *testing.T) {
	for _, scenario := range []string{"healthy", "pfc-storm"} {
		if page := markdownOf(t, Collect(input(t, scenario)).Document(nil)); !strings.Contains(page, "Traffic was not checked") {
			t.Errorf("%s: the report does not say that traffic was not checked", scenario)
		}
	}
}

// NVLinks that are not connected carry nothing: GPUs of this node reach each other over PCIe.
func TestUnusedNVLinksAreNoTransport(t *testing.T) {
	f := Collect(input(t, "healthy-sriov-vf"))
	for i := range f.Results {
		if r := &f.Results[i]; r.Kind == string(probes.Node) && r.Link != "PCIe" {
			t.Errorf("the probe within the node went over %q", r.Link)
		}
	}
}

// What was learned has what a fault costs and what to watch, and does not call good what was not measured.
func TestLearned(t *testing.T) {
	for scenario, want := range map[string]string{
		"rate-degraded":    "1 probe is slower than the baseline. The slowest, `rail mlx5_6 port 1`, measured 2",
		"pcie-acs-on":      "8 probes are slower than the baseline.",
		"port-down":        "To watch after the repair: `GpuFabricPortDown`.",
		"healthy-cpu-node": "Nothing was measured: whether the node is as fast",
		"healthy-ib":       "InfiniBand: the median of 8 ports reached 9",
		"healthy":          "No difference between what was expected, what the node shows and what was measured.",
	} {
		_, learned, _ := strings.Cut(markdownOf(t, Collect(input(t, scenario)).Document(nil)), "## What was learned")
		if !strings.Contains(learned, want) {
			t.Errorf("%s: lacks %q: %.800s", scenario, want, learned)
		}
	}
}

// A probe that goes over TCP, and is therefore slow, is one issue.
func TestTCPIsOneIssue(t *testing.T) {
	f := Collect(input(t, "probe-tcp-fallback"))
	if len(f.Findings) != 1 || f.Findings[0].ID != "probe_socket" {
		t.Errorf("findings: %+v", f.Findings)
	}
}
