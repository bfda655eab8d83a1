// SPDX-License-Identifier: Apache-2.0

package alerts

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/internal/diagnose"
)

// checkTopics are the topics of the checks. Each has a page.
func checkTopics() (topics []string) {
	for _, c := range diagnose.Catalogue() {
		if !slices.Contains(topics, c.Topic) {
			topics = append(topics, c.Topic)
		}
	}
	return topics
}

func groups(t *testing.T) []Group {
	t.Helper()
	g, err := Groups()
	if err != nil {
		t.Fatal(err)
	}
	if len(g) == 0 {
		t.Fatal("no rule groups")
	}
	return g
}

// alertRules returns all alerts with their groups.
func alertRules(t *testing.T) (rules []Rule, in []Group) {
	t.Helper()
	for _, g := range groups(t) {
		for _, r := range g.Rules {
			if r.Alert != "" {
				rules, in = append(rules, r), append(in, g)
			}
		}
	}
	return rules, in
}

// matchedOn are the labels that rules match on: of a node, of the whole cluster, of a job on all of its nodes, of a
// switch or a fabric, and of a node as its peers name it.
var matchedOn = regexp.MustCompile(`^cluster, (job, instance|board, role, setting|job, training_job|job, address|job, leaf|job, peer_leaf|job, window|job, peers)|` +
	`^cluster, (kind, what, detail|probed_node|partner|job)$`)

func TestRules(t *testing.T) {
	duration := regexp.MustCompile(`^[0-9]+[smh]$`)
	record := regexp.MustCompile(`^[a-z]+:[a-z0-9_]+:[a-z0-9_]+$`)
	matching := regexp.MustCompile(`\bon \(([^)]*)\)`)
	seen, hard := map[string]bool{}, 0
	for _, g := range groups(t) {
		if seen["group "+g.Name] || !strings.HasPrefix(g.Name, "gpufabric-") || !duration.MatchString(g.Interval) {
			t.Errorf("group %q of %s: there twice, not gpufabric-..., or no interval: %q", g.Name, g.File, g.Interval)
		}
		seen["group "+g.Name] = true
		for _, r := range g.Rules {
			name := r.Alert + r.Labels["severity"] + r.Series() // an alert may have a rule for each severity
			if seen[name] || r.Expr == "" || (r.Alert == "") == (r.Record == "") {
				t.Errorf("%s: there twice, without expression, or both alert and record", name)
			}
			seen[name] = true
			for _, m := range matching.FindAllStringSubmatch(r.Expr, -1) {
				if !matchedOn.MatchString(m[1]) {
					t.Errorf("%s: on (%s) takes nodes of different clusters, or targets of different jobs, for one", name, m[1])
				}
			}
			if r.Record != "" {
				if !record.MatchString(r.Record) {
					t.Errorf("%s: recorded names are level:metric:operations", r.Record)
				}
				continue
			}
			if hardFaults[r.Alert] {
				hard++
			}
			if (g.Name == "gpufabric-hard-faults") != hardFaults[r.Alert] {
				t.Errorf("alert %s is in group %s: what stops a job within seconds is in gpufabric-hard-faults and in hardFaults in alerts/alerts_test.go, and nothing else", r.Alert, g.Name)
			}
			if hardFaults[r.Alert] && (g.Interval != "15s" || (r.For != "" && r.For != "15s")) {
				t.Errorf("%s: hard faults are evaluated every 15 s and wait 15 s at most", r.Alert)
			}
			checkAlert(t, r)
		}
	}
	if hard != len(hardFaults) {
		t.Errorf("%d of %d hard faults have an alert", hard, len(hardFaults))
	}
}

// hardFaults stop a job within seconds.
var hardFaults = map[string]bool{
	"GpuFabricPortDown": true, "GpuFabricDeviceGone": true, "GpuFabricDeviceStuck": true, "GpuFabricGpuLost": true,
	"GpuFabricLinkFlapping": true, "GpuFabricGidLost": true, "GpuFabricPfcStorm": true, "GpuFabricQpDeath": true,
}

func checkAlert(t *testing.T, r Rule) {
	t.Helper()
	if !regexp.MustCompile(`^GpuFabric[A-Z][A-Za-z]+$`).MatchString(r.Alert) {
		t.Errorf("%s: alerts are named GpuFabric...", r.Alert)
	}
	severities := []string{"critical", "warning", "info"}
	if r.Alert == "GpuFabricCheckFailed" {
		severities = []string{"{{ $labels.severity }}"} // each check has its own
	}
	if !slices.Contains(severities, r.Labels["severity"]) {
		t.Errorf("%s: severity %q", r.Alert, r.Labels["severity"])
	}
	want := []string{"dashboard", "description", "runbook_url", "summary"}
	var have []string
	for k := range r.Annotations {
		have = append(have, k)
	}
	slices.Sort(have)
	if !slices.Equal(have, want) {
		t.Errorf("%s: annotations %v, want %v", r.Alert, have, want)
	}
	if s := r.Annotations["summary"]; !strings.HasSuffix(s, ".") || (strings.Contains(s, "{{") && r.Alert != "GpuFabricCheckFailed") {
		t.Errorf("%s: the summary is a sentence that is the same for all: %q", r.Alert, s)
	}
	d := r.Annotations["description"]
	const fleet = "/d/gpufabric-fleet/gpu-fabric-fleet{{ with $labels.cluster }}?var-cluster={{ . }}{{ end }}"
	const ofNode = "var-instance={{ $labels.instance }}{{ with $labels.cluster }}&var-cluster={{ . }}{{ end }}"
	subject, dashboard := "$labels.instance", "/d/gpufabric-node/gpu-fabric-node?"+ofNode
	if strings.Contains(d, "$labels.device") { // of its port, where there is one
		dashboard = "/d/gpufabric-{{ with $labels.device }}port/gpu-fabric-port?var-device={{ . }}&{{ else }}node/gpu-fabric-node?{{ end }}" + ofNode
	}
	if strings.HasPrefix(r.Alert, "GpuFabricJob") { // of the job, on all of its nodes
		dashboard = "/d/gpufabric-jobs/gpu-fabric-jobs?var-training_job={{ $labels.training_job }}{{ with $labels.cluster }}&var-cluster={{ . }}{{ end }}"
	}
	if strings.HasPrefix(r.Alert, "GpuFabricJob") && strings.Contains(r.Expr, "gpufabric_job_ras_") { // the node that asked is not the one that is wrong
		subject = "$labels.training_job"
	}
	if strings.HasPrefix(r.Alert, "GpuFabricErrorBudget") { // of a cluster
		subject, dashboard = "$labels.slo", fleet
	}
	if r.Alert == "GpuFabricConfigurationDrift" { // against the fleet
		dashboard = fleet
	}
	if strings.HasPrefix(r.Alert, "GpuFabricClusterProbe") { // of a run, which is no target
		subject = "$labels.probed_node"
		if r.Alert == "GpuFabricClusterProbeStale" {
			subject = "$labels.cluster"
		}
		dashboard = "/d/gpufabric-probes/gpu-fabric-nccl-probes{{ with $labels.cluster }}?var-cluster={{ . }}{{ end }}"
	}
	if of, ok := ofSwitches[r.Alert]; ok {
		subject, dashboard = of, "/d/gpufabric-ping/gpu-fabric-ping{{ with $labels.cluster }}?var-cluster={{ . }}{{ end }}"
	}
	for _, part := range []string{subject, "$value"} {
		if !strings.Contains(d, part) && (part != "$value" || !flag01[r.Alert]) {
			t.Errorf("alert %s: its description does not show %s; if its value says nothing, add it to flag01 in alerts/alerts_test.go", r.Alert, part)
		}
	}
	if url := r.Annotations["runbook_url"]; url != RunbookBase+r.Alert+".md" && r.Alert != "GpuFabricCheckFailed" { // which leads to the family of the check
		t.Errorf("%s: runbook %q", r.Alert, url)
	}
	if url := r.Annotations["dashboard"]; url != dashboard {
		t.Errorf("%s: dashboard %q, want %q", r.Alert, url, dashboard)
	}
}

// ofSwitches are alerts on switches, and the label that names which.
var ofSwitches = map[string]string{
	"GpuFabricPingLeaf": "$labels.leaf", "GpuFabricPingPath": "$labels.leaf", "GpuFabricPingLeafSlow": "$labels.leaf",
	"GpuFabricPingSpine": "$labels.cluster", "GpuFabricPingUnlocated": "$labels.cluster",
	"GpuFabricPingMtu": "$labels.cluster", "GpuFabricPingUncovered": "$labels.cluster", "GpuFabricPingTargets": "$labels.cluster",
}

// flag01 are alerts on something that is or is not: their value says nothing.
var flag01 = map[string]bool{"GpuFabricCheckFailed": true, "GpuFabricDeviceStuck": true, "GpuFabricGpuLost": true, "GpuFabricSourceUnknown": true, "GpuFabricJobMisconfigured": true, "GpuFabricJobNicsFar": true, "GpuFabricJobFewerNics": true, "GpuFabricJobRankLost": true, "GpuFabricJobHang": true, "GpuFabricJobHangSuspected": true, "GpuFabricJobStraggler": true, "GpuFabricJudgedByGuesses": true}

// TestChecksThatRulesName: a check with another name would be reported twice, by an alert of its own and as a check.
func TestChecksThatRulesName(t *testing.T) {
	named := regexp.MustCompile(`"check", "(\w+)"`)
	n := 0
	for _, g := range groups(t) {
		for _, r := range g.Rules {
			for _, m := range named.FindAllStringSubmatch(r.Expr, -1) {
				if n++; diagnose.Find(m[1]) == nil {
					t.Errorf("%s%s: no check %s", r.Alert, r.Record, m[1])
				}
			}
		}
	}
	if n == 0 {
		t.Error("no rule names a check")
	}
}

// TestRunbooks wants a complete page for each alert and each family of checks, and no page without either.
func TestRunbooks(t *testing.T) {
	want := map[string]bool{}
	rules, _ := alertRules(t)
	for _, r := range rules {
		want[r.Alert] = true
	}
	for _, f := range checkTopics() {
		want["check-"+f] = true
	}
	for _, c := range diagnose.Inside() { // which are no metrics, so no alert leads to their page
		want["check-"+c.Topic] = true
	}
	pages, err := fs.Glob(Files(), "runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		if name := strings.TrimSuffix(path.Base(p), ".md"); name != "README" && !want[name] {
			t.Errorf("alerts/%s: no alert and no topic of checks has that name: add the rule to alerts/*.rules.yml, or the check to internal/diagnose", p)
		}
	}
	for name := range want {
		text, err := Runbook(name)
		if err != nil {
			t.Errorf("%s has no page: add alerts/runbooks/%s.md", name, name)
			continue
		}
		if !strings.HasPrefix(text, "# "+name+"\n") {
			t.Errorf("%s: the title is not its name", name)
		}
		rest := text
		for _, section := range []string{"Symptom", "Impact", "Confirm", "Causes", "Fix", "Escalate"} {
			_, after, ok := strings.Cut(rest, "\n## "+section+"\n")
			if !ok {
				t.Errorf("%s: section %s is missing or out of order", name, section)
				break
			}
			body, _, _ := strings.Cut(after, "\n## ")
			if len(strings.TrimSpace(body)) < 20 {
				t.Errorf("%s: section %s is empty", name, section)
			}
			if section == "Confirm" && !strings.Contains(body, "```") {
				t.Errorf("%s: no commands to confirm it with", name)
			}
			rest = after
		}
	}
	checkFailed, err := Runbook("GpuFabricCheckFailed")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range checkTopics() {
		if !strings.Contains(checkFailed, "(check-"+f+".md)") {
			t.Errorf("alerts/runbooks/GpuFabricCheckFailed.md does not lead to check-%s.md: add the link", f)
		}
	}
}

// testCase is an assertion about an alert in a *_test.yml.
type testCase struct {
	file, test, alert, at string
	firing                int
}

func testCases(t *testing.T) []testCase {
	t.Helper()
	names, err := filepath.Glob("*_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	var all []testCase
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var f struct {
			Tests []struct {
				Name  string `yaml:"name"`
				Cases []struct {
					At     string      `yaml:"eval_time"`
					Alert  string      `yaml:"alertname"`
					Expect []yaml.Node `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			} `yaml:"tests"`
		}
		if err := yaml.Unmarshal(text, &f); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, test := range f.Tests {
			for _, c := range test.Cases {
				all = append(all, testCase{name, test.Name, c.Alert, c.At, len(c.Expect)})
			}
		}
	}
	return all
}

// TestEachAlertFiresAndStaysSilent wants a case of each kind for every alert, and no case for an alert that is gone.
func TestEachAlertFiresAndStaysSilent(t *testing.T) {
	fires, silent := map[string]int{}, map[string]int{}
	for _, c := range testCases(t) {
		if c.test == "" {
			t.Errorf("%s: a test without a name", c.file)
		}
		if c.firing > 0 {
			fires[c.alert]++
		} else {
			silent[c.alert]++
		}
	}
	rules, _ := alertRules(t)
	known := map[string]bool{}
	for _, r := range rules {
		known[r.Alert] = true
		if fires[r.Alert] == 0 {
			t.Errorf("alert %s: no case in alerts/*_test.yml in which it fires: add one", r.Alert)
		}
		if silent[r.Alert] == 0 {
			t.Errorf("alert %s: no case in alerts/*_test.yml in which it stays silent: add one", r.Alert)
		}
	}
	for _, m := range []map[string]int{fires, silent} {
		for alert := range m {
			if !known[alert] {
				t.Errorf("alerts/*_test.yml have cases of %s, which is no alert: add its rule to alerts/*.rules.yml", alert)
			}
		}
	}
}

// TestPromtool runs Prometheus' own judgement over rules and tests.
func TestPromtool(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: promtool takes half a minute (make rules)")
	}
	promtool := promtool(t)
	rules, err := filepath.Glob("*.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(promtool, append([]string{"check", "rules", "--lint=all", "--lint-fatal"}, rules...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool check rules: %v\n%s", err, out)
	}
	t.Logf("%s", out)
	tests, err := filepath.Glob("*_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := exec.Command(promtool, "test", "rules", name).CombinedOutput()
			if err != nil || !bytes.Contains(out, []byte("SUCCESS")) {
				t.Fatalf("promtool test rules: %v\n%s", err, out)
			}
		})
	}
}

// TestRunbookQueries: the queries on the pages are some that Prometheus takes.
func TestRunbookQueries(t *testing.T) {
	pages, err := fs.Glob(Files(), "runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	rules := "groups:\n  - name: runbooks\n    rules:\n"
	n := 0
	for _, p := range pages {
		text, err := fs.ReadFile(Files(), p)
		if err != nil {
			t.Fatal(err)
		}
		query := false
		for line := range strings.Lines(string(text)) {
			switch {
			case strings.HasPrefix(line, "```"):
				query = line == "```promql\n"
			case query:
				n++
				rules += fmt.Sprintf("      - {record: 'page:query:%d', expr: '%s'}\n", n, strings.ReplaceAll(strings.TrimSpace(line), "'", "''"))
			}
		}
	}
	file := filepath.Join(t.TempDir(), "pages.yml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool(t), "check", "rules", file).CombinedOutput(); err != nil || n == 0 {
		t.Errorf("%d queries: %v\n%s", n, err, out)
	}
}

func promtool(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("./promtool.sh").Output()
	text := strings.TrimSpace(string(out))
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 77 {
		t.Skip(text)
	}
	if err != nil {
		t.Fatalf("promtool.sh: %v: %s", err, text)
	}
	return text
}
