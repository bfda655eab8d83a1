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

// TestScrapeConfiguration: what docs/INSTALL.md has Prometheus scrape with is a configuration that it takes,
// and a job whose end GpuFabricExporterDown notices.
func TestScrapeConfiguration(t *testing.T) {
	text, err := os.ReadFile("../docs/INSTALL.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of YAML, expected the scrape and its targets", len(blocks))
	}
	var scrape struct {
		Configs []struct {
			Job      string `yaml:"job_name"`
			Interval string `yaml:"scrape_interval"`
		} `yaml:"scrape_configs"`
	}
	var targets []struct{ Labels map[string]string }
	if err := yaml.Unmarshal([]byte(blocks[0][1]), &scrape); err != nil || len(scrape.Configs) != 1 {
		t.Fatalf("%+v, %v", scrape, err)
	}
	if err := yaml.Unmarshal([]byte(blocks[1][1]), &targets); err != nil || len(targets) != 1 || targets[0].Labels["cluster"] == "" {
		t.Errorf("targets %+v, %v", targets, err)
	}
	rules, err := os.ReadFile("exporter.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	_, down, _ := strings.Cut(string(rules), "- alert: GpuFabricExporterDown\n")
	m := regexp.MustCompile(`up\{job=~"([^"]+)"\}`).FindStringSubmatch(down)
	if m == nil {
		t.Fatal("GpuFabricExporterDown names no job")
	}
	if !regexp.MustCompile("^(?:" + m[1] + ")$").MatchString(scrape.Configs[0].Job) {
		t.Errorf("GpuFabricExporterDown watches %q, and the job is %q", m[1], scrape.Configs[0].Job)
	}
	if got := scrape.Configs[0].Interval; got != "15s" {
		t.Errorf("scraped every %s, rules for hard faults are evaluated every 15s", got)
	}
	if testing.Short() {
		t.Skip("skipped: promtool is fetched (make rules)")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	list := filepath.Join(dir, "targets.yml")
	config := strings.ReplaceAll(blocks[0][1], "/etc/prometheus/gpufabric/*.yml", list)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(list, []byte(blocks[1][1]), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool(t), "check", "config", file).CombinedOutput(); err != nil {
		t.Errorf("promtool check config: %v\n%s", err, out)
	}
}
