// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/alerts"
	"gpufabric_exporter/dashboards"
)

// mixed runs the command and returns the folder it wrote.
func mixed(t *testing.T, args ...string) string {
	t.Helper()
	out := t.TempDir()
	if err := run(append([]string{"--rules=../../alerts", "--dashboards=../../dashboards", "--out=" + out}, args...)); err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%d files %s (%v)", len(names), pattern, err)
	}
	return names
}

func TestWithoutOptionsNothingChanges(t *testing.T) {
	out := mixed(t)
	for _, source := range []struct {
		files fs.FS
		name  string
	}{{alerts.Files(), "*.rules.yml"}, {dashboards.Files(), "*.json"}} {
		names, err := fs.Glob(source.files, source.name)
		if err != nil || len(names) == 0 {
			t.Fatalf("%d files (%v)", len(names), err)
		}
		for _, name := range names {
			want, err := fs.ReadFile(source.files, name)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(want, read(t, filepath.Join(out, name))) {
				t.Errorf("%s is another file", name)
			}
		}
	}
	for _, name := range glob(t, filepath.Join(out, "operator", "*.yaml")) {
		if !bytes.Equal(read(t, name), read(t, "../../deploy/operator/"+filepath.Base(name))) {
			t.Errorf("%s is another object", filepath.Base(name))
		}
	}
	// What is decoded and encoded again, too.
	o := options{labels: map[string]string{"no_such_label": "other"}}
	for _, name := range glob(t, "../../dashboards/*.json") {
		if got, err := o.dashboard(read(t, name)); err != nil || !bytes.Equal(got, read(t, name)) {
			t.Errorf("%s changes though it does not have the label (%v)", name, err)
		}
	}
}

// expressions returns all PromQL of a folder that was written.
func expressions(t *testing.T, out string) []string {
	t.Helper()
	var all []string
	for _, name := range glob(t, filepath.Join(out, "*.rules.yml")) {
		var file struct {
			Groups []struct {
				Rules []struct {
					Expr string `yaml:"expr"`
				} `yaml:"rules"`
			} `yaml:"groups"`
		}
		if err := yaml.Unmarshal(read(t, name), &file); err != nil {
			t.Fatal(err)
		}
		for _, g := range file.Groups {
			for _, r := range g.Rules {
				all = append(all, r.Expr)
			}
		}
	}
	quoted := regexp.MustCompile(`"(?:expr|definition)": ("(?:[^"\\]|\\.)*")`)
	for _, name := range glob(t, filepath.Join(out, "*.json")) {
		for _, m := range quoted.FindAllSubmatch(read(t, name), -1) {
			var s string
			if err := json.Unmarshal(m[1], &s); err != nil {
				t.Fatal(err)
			}
			if v := values.FindStringSubmatch(s); v != nil {
				s = "count by (" + v[2] + ") (" + v[1] + ")"
			}
			all = append(all, strings.NewReplacer(intervalName, interval, spanName, span).Replace(s))
		}
	}
	return all
}

func TestNoLabelKeepsItsOldName(t *testing.T) {
	out := mixed(t, "--cluster-label=k8s_cluster", "--instance-label=node", "--job-label=scrape_job", `--selector=team="ml"`)
	renamed, scraped := 0, 0
	for _, text := range expressions(t, out) {
		tree, err := parser.ParseExpr(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var names []string
		parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
			switch n := node.(type) {
			case *parser.VectorSelector:
				for _, m := range n.LabelMatchers {
					names = append(names, m.Name)
				}
				if n.Name == "up" || strings.HasPrefix(n.Name, "gpufabric_") {
					if scraped++; !strings.Contains(n.String(), `team="ml"`) {
						t.Errorf("%s is not selected", n)
					}
				}
			case *parser.AggregateExpr:
				names = append(names, n.Grouping...)
			case *parser.BinaryExpr:
				if m := n.VectorMatching; m != nil {
					names = append(append(names, m.MatchingLabels...), m.Include...)
				}
			}
			return nil
		})
		for _, old := range []string{"cluster", "instance", "job"} {
			if slices.Contains(names, old) {
				t.Errorf("label %s is left in %s", old, text)
			}
		}
		if slices.Contains(names, "k8s_cluster") {
			renamed++
		}
	}
	if renamed < 100 || scraped < 100 {
		t.Errorf("%d expressions have the new label, and %d selectors read what is scraped: too few to prove anything", renamed, scraped)
	}
	shown := regexp.MustCompile(`\$labels\.(cluster|instance|job)\b|{{(cluster|instance|job)}}|"tagKeys": "(cluster|instance)"`)
	for _, name := range append(glob(t, filepath.Join(out, "*.rules.yml")), glob(t, filepath.Join(out, "*.json"))...) {
		if m := shown.Find(read(t, name)); m != nil {
			t.Errorf("%s shows %s", name, m)
		}
	}
}

// What tables do with the columns of labels must also work with the new names.
func TestTablesFindTheirColumns(t *testing.T) {
	out := mixed(t, "--instance-label=site_node")
	for _, name := range glob(t, filepath.Join(out, "*.json")) {
		before, after := transformations(t, "../../dashboards/"+filepath.Base(name)), transformations(t, name)
		if strings.Contains(after, `"instance`) {
			t.Errorf("%s: a transformation names a column that is not there", filepath.Base(name))
		}
		if n, m := strings.Count(before, `"instance`), strings.Count(after, `"site_node`); n != m {
			t.Errorf("%s: %d columns before, %d after", filepath.Base(name), n, m)
		}
	}
}

func transformations(t *testing.T, name string) string {
	t.Helper()
	var tree any
	if err := json.Unmarshal(read(t, name), &tree); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	var find func(any)
	find = func(tree any) {
		switch tree := tree.(type) {
		case []any:
			for _, v := range tree {
				find(v)
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(tree)) {
				if key == "transformations" {
					text, err := json.Marshal(tree[key])
					if err != nil {
						t.Fatal(err)
					}
					all.Write(text)
					continue
				}
				find(tree[key])
			}
		}
	}
	find(tree)
	return all.String()
}

func TestSettings(t *testing.T) {
	out := mixed(t, "--set=GpuFabricConfigurationDrift.for=10m", "--set=GpuFabricConfigurationDrift.severity=info", "--set=GpuFabricRateDegraded.keep_firing_for=1h",
		"--set=gpufabric-drift.interval=5m", "--set=GpuFabricTcpOnRdmaNic.12.5e6=25e6")
	drift := string(read(t, filepath.Join(out, "drift.rules.yml")))
	for _, want := range []string{"for: 10m\n", "severity: info", "interval: 5m\n", "# Settings that differ from those of most nodes"} {
		if !strings.Contains(drift, want) {
			t.Errorf("drift.rules.yml has no %q", want)
		}
	}
	if text := string(read(t, filepath.Join(out, "fabric.rules.yml"))); strings.Count(text, "> 25000000") != 2 || strings.Contains(text, "12.5e6") {
		t.Error("the threshold is not what was set")
	}
	if !bytes.Equal(read(t, filepath.Join(out, "checks.rules.yml")), read(t, "../../alerts/checks.rules.yml")) {
		t.Error("a file changed that nothing was set in")
	}
}

func TestOptionsThatAreWrong(t *testing.T) {
	for _, c := range []struct{ arg, want string }{
		{"--set=GpuFabricNoSuch.for=1m", "no alert, recording rule or group"},
		{"--set=GpuFabricPortDown.4711=1", "no alert, recording rule or group"},
		{"--set=GpuFabricPortDown.fro=1m", "no such field"},
		{"--set=GpuFabricPortDown", "want NAME.FIELD=VALUE"},
		{"--selector=team=ml", "matchers of PromQL"},
		{"--cluster-label=k8s-cluster", "not a label name"},
		{"--cluster-label=instance", "there twice"},
		{"--instance-label=device", "has a label of that name"},
		{"--rules=/nonexistent", "*.rules.yml"},
	} {
		out := t.TempDir()
		err := run([]string{"--rules=../../alerts", "--dashboards=../../dashboards", "--out=" + out, c.arg})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.arg, err, c.want)
		}
		if left, _ := os.ReadDir(out); len(left) > 0 {
			t.Errorf("%s: files are written nevertheless", c.arg)
		}
	}
}

// TestRulesStillFire runs the tests of the shipped rules with the rewritten ones: alerts fire, or do not, as before.
func TestRulesStillFire(t *testing.T) {
	promtool := promtool(t)
	out := mixed(t, "--cluster-label=k8s_cluster", "--instance-label=node", `--selector=job="gpufabric"`)
	rules := glob(t, filepath.Join(out, "*.rules.yml"))
	if text, err := exec.Command(promtool, append([]string{"check", "rules", "--lint=all", "--lint-fatal"}, rules...)...).CombinedOutput(); err != nil {
		t.Fatalf("promtool check rules: %v\n%s", err, text)
	}
	names := strings.NewReplacer(`cluster="`, `k8s_cluster="`, `cluster: `, `k8s_cluster: `, `instance="`, `node="`, `instance: `, `node: `)
	for _, name := range []string{"drift_test.yml", "hard_test.yml", "links_test.yml", "checks_test.yml"} {
		test := filepath.Join(out, name)
		if err := os.WriteFile(test, []byte(names.Replace(string(read(t, "../../alerts/"+name)))), 0o600); err != nil {
			t.Fatal(err)
		}
		if text, err := exec.Command(promtool, "test", "rules", test).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

func promtool(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: promtool takes half a minute (make rules)")
	}
	out, err := exec.Command("../../alerts/promtool.sh").Output()
	text := strings.TrimSpace(string(out))
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 77 {
		t.Skip(text)
	}
	if err != nil {
		t.Fatalf("promtool.sh: %v: %s", err, text)
	}
	return text
}
