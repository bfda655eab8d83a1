// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"os"
	"slices"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/simulator"
)

// TestCorpus measures all scenarios and some compositions; with FULL=1, as make corpus does, 500 of them.
func TestCorpus(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: too slow under the race detector; make test and make corpus run it without")
	}
	count := 40
	if os.Getenv("FULL") != "" {
		count = 500
	}
	generated, err := compositions(count)
	if err != nil {
		t.Fatal(err)
	}
	both, scenarios, composed := newReport(), newReport(), newReport()
	t.Run("nodes", func(t *testing.T) {
		for _, source := range []struct {
			groups map[string][]sample
			report *report
		}{{scenarioSamples(), scenarios}, {generated, composed}} {
			for key, group := range source.groups {
				t.Run(key, func(t *testing.T) {
					t.Parallel()
					s := newStage(t)
					for _, one := range group {
						failed, unknown := judge(s.observe(t, one, 0, later))
						source.report.add(one, failed, unknown)
						both.add(one, failed, unknown)
					}
				})
			}
		}
	})
	t.Logf("scenarios\n%s", scenarios)
	t.Logf("compositions of two or three mutations, seed %d\n%s", seed, composed)
	t.Logf("all: precision %.4f, recall %.4f, %d criticals on %d healthy nodes of %d", both.precision(), both.recall(), len(both.criticals), both.healthy, both.samples)
	for _, r := range []*report{scenarios, composed} {
		if r.precision() < reach || r.recall() < reach || len(r.criticals) > 0 {
			t.Errorf("precision %.4f, recall %.4f, %d criticals on healthy nodes; want %.2f, %.2f and none", r.precision(), r.recall(), len(r.criticals), reach, reach)
		}
	}
}

// TestLabels: every label is known, and nodes that people may take for broken are among the healthy ones.
func TestLabels(t *testing.T) {
	known, used := conditions(), map[string]bool{}
	healthy, broken := 0, 0
	for _, s := range simulator.Scenarios() {
		labels := labelled(s)
		if len(labels) == 0 {
			healthy++
		} else {
			broken++
		}
		for _, f := range labels {
			used[f.what] = true
			if _, ok := known[f.what]; !ok {
				t.Errorf("scenario %s: %s is no mode of a check: list the check that finds it in internal/diagnose/<room>/<file>.go, or say how it shows in rows() in test/corpus/labels_test.go", s.Name, f.what)
			}
		}
	}
	for _, m := range mutations() {
		used[m.what] = true
		if _, ok := known[m.what]; !ok {
			t.Errorf("mutation %s: %s is no mode of a check: say how it shows in rows() in test/corpus/labels_test.go", m.name, m.what)
		}
		for _, hidden := range m.hides {
			if _, ok := known[hidden]; !ok {
				t.Errorf("%s hides %s, which nothing is labelled with", m.name, hidden)
			}
		}
	}
	for what := range rows() {
		if !used[what] {
			t.Errorf("nothing is labelled with %s: add a scenario to internal/simulator or a mutation to test/corpus, or remove it from rows() in test/corpus/labels_test.go", what)
		}
	}
	for kind, names := range map[string][]string{
		"platforms": {
			"healthy", "healthy-ib", "healthy-dgx-b200", "healthy-gb200", "healthy-l40s", "healthy-cpu-node", "healthy-bnxt-roce", "healthy-irdma-roce",
			"healthy-ionic-roce", "healthy-efa", "healthy-mana", "healthy-two-port",
		},
		"virtual machine": {"healthy-vm-flat", "healthy-mana"}, "SR-IOV": {"healthy-sriov-vf", "healthy-128-ports", "vf-qos-unknown"}, "storage NICs": {"healthy", "healthy-mixed-vendors"},
		"NICs beside the rails": {"healthy-mixed-nics-roce", "healthy-mixed-nics-ib", "healthy-oci-h100"},
		"uncabled ports":        {"healthy-uncabled-ports", "healthy-half-cabled", "healthy-single-card"}, "IPv6 only": {"ipv6-only"}, "adaptive routing": {"adaptive-routing"}, "no PFC by design": {"lossy-design", "lossy-unstated"},
		"MIG": {"mig-meant"}, "idle GPUs": {"pcie-gpus-idle"}, "fresh boot": {"fresh-boot"}, "mixed vendors": {"healthy-mixed-vendors"}, "bond": {"healthy-roce-bond"},
		"RoCE v2 over VLAN": {"healthy-roce-vlan"}, "InfiniBand": {"healthy-ib", "healthy-dgx-b200"},
	} {
		for _, name := range names {
			if s, err := simulator.Find(name); err != nil || len(labelled(s)) > 0 {
				t.Errorf("%s: %s is no healthy node: %v", kind, name, err)
			}
		}
	}
	t.Logf("%d scenarios, %d of them healthy; %d mutations", healthy+broken, healthy, len(mutations()))
}

// TestMutations requires that each mutation applies to a scenario.
func TestMutations(t *testing.T) {
	possible := map[string][]string{}
	for _, b := range bases() {
		m, err := b.machine()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range slices.Concat(b.others, b.storage) {
			if m.HCA(name) == nil {
				t.Errorf("%s has no %s", b.scenario, name)
			}
		}
		for _, mu := range mutations() {
			if places := mu.places(m); len(places) > 0 {
				possible[mu.name] = append(possible[mu.name], b.scenario)
			}
		}
	}
	for _, mu := range mutations() {
		if len(possible[mu.name]) == 0 {
			t.Errorf("%s is possible nowhere", mu.name)
		}
		t.Logf("%-22s %s: %d bases", mu.name, mu.what, len(possible[mu.name]))
	}
}

// TestConditionsNameChecks: a condition of the corpus calls for each check. That a read does not return takes a kernel:
// the lab and the file system that hangs have it. The number of GPUs and the release of NCCL are compared
// with what the site expects, or with a memory, which no base has: internal/diagnose and exporter test that.
func TestConditionsNameChecks(t *testing.T) {
	called := map[string]bool{}
	call := func(what string) {
		for _, id := range conditions()[what].shows {
			called[id] = true
		}
	}
	for _, s := range simulator.Scenarios() {
		for _, f := range labelled(s) {
			call(f.what)
		}
	}
	for _, m := range mutations() {
		call(m.what)
	}
	for _, c := range diagnose.Catalogue() {
		if !called[c.ID] && !slices.Contains([]string{"reads_return", "hardware", "gpus", "gpus_surplus", "nccl_version"}, c.ID) {
			t.Errorf("no scenario has what the check %s finds: add one that is labelled with one of its modes, %v, to internal/simulator/scenarios_<subject>.go", c.ID, c.ModeIDs())
		}
	}
}
