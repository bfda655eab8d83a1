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

// TestAlertmanagerExample wants the example to name alerts and receivers that exist, and no alert to inhibit itself.
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
		Inhibit []struct {
			Source []string `yaml:"source_matchers"`
			Target []string `yaml:"target_matchers"`
			Equal  []string `yaml:"equal"`
		} `yaml:"inhibit_rules"`
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
	var alerts []string
	severity := map[string]bool{}
	rules, _ := alertRules(t)
	for _, r := range rules {
		alerts = append(alerts, r.Alert)
		severity[r.Labels["severity"]] = true
	}
	// match returns the alerts that matchers select by name.
	match := func(matchers []string) map[string]bool {
		got := map[string]bool{}
		for _, a := range alerts {
			got[a] = true
		}
		for _, m := range matchers {
			p := regexp.MustCompile(`^(\w+)(=~|!=|=)"(.*)"$`).FindStringSubmatch(m)
			if p == nil {
				t.Fatalf("matcher %q", m)
			}
			if p[1] != "alertname" {
				continue
			}
			pattern := p[3]
			if p[2] != "=~" {
				pattern = regexp.QuoteMeta(pattern)
			}
			for _, name := range alternatives(p[3]) {
				if !got[name] && !strings.Contains(name, ".") {
					t.Errorf("matcher %q: no alert %s", m, name)
				}
			}
			re := regexp.MustCompile("^(?:" + pattern + ")$")
			for a := range got {
				if re.MatchString(a) == (p[2] == "!=") {
					delete(got, a)
				}
			}
		}
		return got
	}
	routed := map[string]bool{}
	for _, r := range f.Route.Routes {
		if !receivers[r.Receiver] {
			t.Errorf("no receiver %q", r.Receiver)
		}
		match(r.Matchers)
		for _, m := range r.Matchers {
			if s, ok := strings.CutPrefix(m, `severity="`); ok {
				routed[strings.TrimSuffix(s, `"`)] = true
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
	if len(f.Inhibit) == 0 {
		t.Error("nothing is inhibited")
	}
	for _, r := range f.Inhibit {
		target := match(r.Target)
		for a := range match(r.Source) {
			if target[a] {
				t.Errorf("%s inhibits itself", a)
			}
		}
		if len(r.Equal) < 2 || r.Equal[0] != "cluster" || r.Equal[1] != "instance" {
			t.Errorf("inhibition over %v reaches other nodes", r.Equal)
		}
	}
}

// alternatives takes GpuFabric(A|B) apart.
func alternatives(pattern string) []string {
	before, rest, ok := strings.Cut(pattern, "(")
	if !ok {
		return []string{pattern}
	}
	inside, after, _ := strings.Cut(rest, ")")
	var all []string
	for a := range strings.SplitSeq(inside, "|") {
		all = append(all, before+a+after)
	}
	return all
}
