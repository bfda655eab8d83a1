// SPDX-License-Identifier: Apache-2.0

package alerts

import (
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestAlertmanagerExample wants the example to name alerts and receivers that exist, and to inhibit nothing.
func TestAlertmanagerExample(t *testing.T) {
	text, err := fs.ReadFile(Files(), "alertmanager.example.yml")
	if err != nil {
		t.Fatal(err)
	}
	type route struct {
		Receiver string   `yaml:"receiver"`
		Matchers []string `yaml:"matchers"`
	}
	var f struct {
		Route struct {
			Receiver string  `yaml:"receiver"`
			Routes   []route `yaml:"routes"`
		} `yaml:"route"`
		Receivers []struct {
			Name string `yaml:"name"`
		} `yaml:"receivers"`
	}
	if err := yaml.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	// Alertmanager forgets what it has sent after 120 hours, and says so when it starts.
	for _, m := range regexp.MustCompile(`repeat_interval: (\d+)h`).FindAllStringSubmatch(string(text), -1) {
		if hours, err := strconv.Atoi(m[1]); err != nil || hours > 120 {
			t.Errorf("%s: longer than Alertmanager remembers", m[0])
		}
	}
	receivers := map[string]bool{}
	for _, r := range f.Receivers {
		receivers[r.Name] = true
	}
	alerts, severity := map[string]bool{}, map[string]bool{}
	rules, _ := alertRules(t)
	for _, r := range rules {
		alerts[r.Alert], severity[r.Labels["severity"]] = true, true
	}
	routed := map[string]bool{}
	for _, r := range f.Route.Routes {
		if !receivers[r.Receiver] {
			t.Errorf("no receiver %q", r.Receiver)
		}
		for _, m := range r.Matchers {
			if s, ok := strings.CutPrefix(m, `severity="`); ok {
				routed[strings.TrimSuffix(s, `"`)] = true
			}
			name := regexp.MustCompile(`^alertname=~?"(.*)"$`).FindStringSubmatch(m)
			if name != nil && !strings.Contains(name[1], ".") && !alerts[name[1]] {
				t.Errorf("matcher %q: no such alert", m)
			}
		}
	}
	if !receivers[f.Route.Receiver] {
		t.Errorf("no receiver %q", f.Route.Receiver)
	}
	for s := range severity {
		if !strings.Contains(s, "{{") && !routed[s] {
			t.Errorf("severity %s has no route", s)
		}
	}
	if strings.Contains(string(text), "inhibit_rules") {
		t.Error("it inhibits: what follows from another alert must be silent at sites with an Alertmanager of their own, too")
	}
}
