// SPDX-License-Identifier: Apache-2.0

package alerts

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/probes"
)

// serviceLevels are the values of the label slo.
var serviceLevels = []string{"bandwidth_quality", "conformance", "losslessness", "port_availability", "probe_coverage", "probe_latency", "probe_success"}

// TestServiceLevels wants each level to be told of a node, to have an objective, and to be documented with it.
func TestServiceLevels(t *testing.T) {
	document, err := os.ReadFile("../docs/SLO.md")
	if err != nil {
		t.Fatal(err)
	}
	percent := map[string]string{"0.8": "80 %", "0.95": "95 %", "0.99": "99 %", "0.995": "99.5 %", "0.999": "99.9 %"}
	have := map[string][]string{}
	for _, g := range groups(t) {
		for _, r := range g.Rules {
			slo := r.Labels["slo"]
			if have[r.Record] = append(have[r.Record], slo); r.Record != "cluster:gpufabric_slo_objective:ratio" {
				continue
			}
			objective, _, _ := strings.Cut(r.Expr, " *")
			if row := "| `" + slo + "` | " + percent[objective] + " |"; percent[objective] == "" || !strings.Contains(string(document), row) {
				t.Errorf("docs/SLO.md lacks %q (objective %s)", row, objective)
			}
		}
	}
	for _, name := range []string{"instance:gpufabric_slo_good:ratio", "cluster:gpufabric_slo_objective:ratio"} {
		slices.Sort(have[name])
		if !slices.Equal(have[name], serviceLevels) {
			t.Errorf("%s is recorded for %v", name, have[name])
		}
	}
}

// TestWordsOfServiceLevels holds what rules leave out against what there is: a word that does not exist leaves out
// nothing, and nobody sees it.
func TestWordsOfServiceLevels(t *testing.T) {
	var checks []string
	for _, c := range diagnose.Catalogue() {
		checks = append(checks, c.ID)
	}
	var failures []string
	for _, f := range probes.Failures() {
		failures = append(failures, string(f))
	}
	for _, of := range []struct {
		pattern string
		known   []string
		want    int // how often it is in the rules
	}{
		{`check!~"([^"]*)"`, checks, 1},
		{`gpufabric_probe_failures_total\{reason!?=?~"([^"]*)"\}`, failures, 2},
	} {
		n := 0
		for _, g := range groups(t) {
			if g.File != "slo.rules.yml" {
				continue
			}
			for _, r := range g.Rules {
				for _, m := range regexp.MustCompile(of.pattern).FindAllStringSubmatch(r.Expr, -1) {
					n++
					for word := range strings.SplitSeq(m[1], "|") {
						if !slices.Contains(of.known, word) {
							t.Errorf("%s: there is no %q", r.Series(), word)
						}
					}
				}
			}
		}
		if n != of.want {
			t.Errorf("%s: %d times in the rules, want %d", of.pattern, n, of.want)
		}
	}
}
