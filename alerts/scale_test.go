// SPDX-License-Identifier: Apache-2.0

package alerts

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// scaleConfigurations are the configurations of Prometheus in docs/SCALE.md.
func scaleConfigurations(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/SCALE.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		all = append(all, m[1])
	}
	if len(all) != 3 {
		t.Fatalf("docs/SCALE.md has %d blocks of YAML, expected 3", len(all))
	}
	return all
}

// What docs/SCALE.md sends to a central storage has all that its dashboards read there.
func TestScaleSendsWhatFleetReads(t *testing.T) {
	var config struct {
		RemoteWrite []struct {
			Relabel []struct {
				SourceLabels []string `yaml:"source_labels"`
				Action       string
				Regex        string
			} `yaml:"write_relabel_configs"`
		} `yaml:"remote_write"`
	}
	if err := yaml.Unmarshal([]byte(scaleConfigurations(t)[2]), &config); err != nil {
		t.Fatal(err)
	}
	if len(config.RemoteWrite) != 1 || len(config.RemoteWrite[0].Relabel) != 1 || config.RemoteWrite[0].Relabel[0].Action != "keep" {
		t.Fatalf("%+v: expected one rule that keeps", config)
	}
	kept := regexp.MustCompile("^(?:" + config.RemoteWrite[0].Relabel[0].Regex + ")$")
	series := regexp.MustCompile(`\b(?:[a-z]+:)?gpufabric_[a-z0-9_]+(?::[a-z0-9_]+)?|\b(?:ALERTS\w*|up)\b`)
	queries := regexp.MustCompile(`"(?:expr|query)": "(.*)"`)
	read := 0
	for _, dashboard := range []string{"fleet", "jobs"} {
		text, err := os.ReadFile("../dashboards/" + dashboard + ".json")
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range queries.FindAllStringSubmatch(string(text), -1) {
			for _, name := range series.FindAllString(q[1], -1) {
				if read++; !kept.MatchString(name) {
					t.Errorf("the dashboard %s reads %s, which is not sent", dashboard, name)
				}
			}
		}
	}
	if read < 50 {
		t.Errorf("dashboards read %d series", read)
	}
	for _, name := range []string{"gpufabric_hca_port_transmitted_data_bytes_total", "gpufabric_hca_hw_counters_total", "go_goroutines", "scrape_duration_seconds"} {
		if kept.MatchString(name) {
			t.Errorf("%s is sent, and no dashboard of the fleet reads it", name)
		}
	}
}

// Rulers refuse larger groups by default.
func TestGroupsFitRulers(t *testing.T) {
	groups, err := Groups()
	if err != nil {
		t.Fatal(err)
	}
	if len(groups) > 70 {
		t.Errorf("%d groups: Mimir takes 70 by default", len(groups))
	}
	for _, g := range groups {
		if len(g.Rules) > 20 {
			t.Errorf("%s has %d rules: Mimir takes 20 in a group by default", g.Name, len(g.Rules))
		}
	}
}

func TestPromtoolScale(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: promtool is fetched (make rules)")
	}
	for _, config := range scaleConfigurations(t) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "targets.yml"), []byte("- targets: [gpu-001]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		rules, err := filepath.Abs("*.rules.yml")
		if err != nil {
			t.Fatal(err)
		}
		local := regexp.MustCompile(`/etc/prometheus/gpufabric/\S*\*\.yml`).ReplaceAllString(strings.ReplaceAll(config, "/etc/prometheus/gpufabric/rules/*.rules.yml", rules), dir+"/targets.yml")
		file := filepath.Join(dir, "prometheus.yml")
		if err := os.WriteFile(file, []byte(local), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), promtool(t), "check", "config", file).CombinedOutput(); err != nil {
			t.Errorf("promtool check config: %v\n%s\n%s", err, out, config)
		}
	}
}
