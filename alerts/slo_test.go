// SPDX-License-Identifier: Apache-2.0

package alerts

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/probes"
)

// serviceLevels are the values of the label slo.
var serviceLevels = []string{"bandwidth_quality", "conformance", "gpu_time", "job_transport", "losslessness", "port_availability", "probe_coverage", "probe_latency", "probe_success"}

// Each level is recorded for nodes, has an objective, and is documented with it.
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

// Checks and failures that rules leave out exist: a name that does not exist leaves out nothing, without an error.
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

// The numbers of the example in docs/SLO.md follow from the objective and the thresholds of the rules.
func TestExampleOfServiceLevels(t *testing.T) {
	text, err := os.ReadFile("../docs/SLO.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "## Example\n")
	example, _, _ = strings.Cut(example, "\n## ")
	var objective, fast float64
	for _, g := range groups(t) {
		for _, r := range g.Rules {
			if r.Record == "cluster:gpufabric_slo_objective:ratio" && r.Labels["slo"] == "port_availability" {
				_, err = fmt.Sscanf(r.Expr, "%f *", &objective)
			}
			if r.Alert == "GpuFabricErrorBudgetBurnFast" {
				_, err = fmt.Sscanf(regexp.MustCompile(`ratio_1h.*> ([0-9.]+)`).FindStringSubmatch(r.Expr)[1], "%f", &fast)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	const nodes, ports, month = 128., 8., 30 * 24. // hours
	allowed := 1 - objective
	failure := 1 / ports // each node has lost one port
	burn := failure / allowed
	switchShare := burn * 2 / month
	three := 3 / ports / nodes
	for _, want := range []string{
		fmt.Sprintf("objective of `port_availability` is %.1f %%, so %.1f %% of", 100*objective, 100*allowed),
		fmt.Sprintf("error ratio of the cluster is %.1f %%", 100*failure),
		fmt.Sprintf("That is %.0f times the %.1f %%", burn, 100*allowed),
		fmt.Sprintf("is spent in %.1f hours", month/burn),
		fmt.Sprintf("exceeds %.1f times %.1f %%, which is %.1f %%: %.0f minutes after", fast, 100*allowed, 100*fast*allowed, 60*fast*allowed/failure),
		fmt.Sprintf("These took %.1f %% of the budget", 100*switchShare),
		fmt.Sprintf("remaining:ratio` is %.3f if", 1-switchShare),
		fmt.Sprintf("error ratio is %.2f %%, and the burn rate %.2f:", 100*three, three/allowed),
		fmt.Sprintf("%.0f %% of the budget is left at the end. With the failure of the switch in the same month, %.0f %% would", 100*(1-three/allowed), 100*(1-three/allowed-switchShare)),
	} {
		if !strings.Contains(example, want) {
			t.Errorf("the example in docs/SLO.md lacks %q", want)
		}
	}
}
