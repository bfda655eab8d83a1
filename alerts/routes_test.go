// SPDX-License-Identifier: Apache-2.0

package alerts_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/alerts"
	"gpufabric_exporter/test/prometheus"
)

// routes are alerts, each a name without GpuFabric and its labels, and the receiver that gets them. They get the severity of
// their rule; labels may say another one.
var routes = map[string]string{
	"PortDown instance=n1 device=mlx5_0 port=1":                              "page",
	"QpDeath instance=n1 device=mlx5_0 port=1":                               "page",
	"JobOnTcp instance=n1 training_job=slurm/1":                              "page",
	"JobHang training_job=slurm/1":                                           "page",
	"JobStraggler training_job=slurm/1":                                      "tickets",
	"CheckFailed instance=n1 check=roce_pfc severity=critical device=mlx5_1": "page",
	"CheckFailed instance=n1 check=pcie_link severity=warning device=mlx5_1": "tickets",
	"ProbeNeverRun instance=n1":                                              "log",
	"ErrorBudgetBurnFast slo=conformance":                                    "tickets",
	"ErrorBudgetSpent slo=probe_success":                                     "tickets",
	"ErrorBudgetBurnFast slo=losslessness severity=critical cluster=a":       "tickets",
	"PortDown instance=maintained device=mlx5_0 port=1":                      "muted",
	"ProbeWrongResult instance=maintained kind=node":                         "muted",
	"CheckFailed instance=maintained check=memlock severity=warning":         "muted",
	"JobOnTcp instance=maintained training_job=slurm/2":                      "muted",
	"PortDown instance=maintained-not device=mlx5_0 port=1":                  "page",
	"PortDown instance=maintained cluster=other device=mlx5_0 port=1":        "page",
}

// TestAlertmanagerRoutes asks a real Alertmanager with the example to which receivers it sends alerts, and what it mutes while
// a node is silenced for maintenance.
func TestAlertmanagerRoutes(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: Alertmanager may have to be fetched (make rules)")
	}
	address := alertmanager(t)
	silence(t, address, map[string]string{"cluster": "", "instance": "maintained"})
	severity := severities(t)
	want := map[string]string{} // the receiver of an alert, by its labels
	var all []map[string]string
	for text, receiver := range routes {
		labels := parse(text, severity)
		if labels["severity"] == "" {
			t.Errorf("no alert %s", labels["alertname"])
		}
		all = append(all, labels)
		want[key(labels)] = receiver
	}
	post(t, address, "alerts", posted(all))
	var states map[string]string
	for deadline := time.Now().Add(10 * time.Second); !maps.Equal(states, want) && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		states = read(t, address)
	}
	for alert := range want {
		if states[alert] != want[alert] {
			t.Errorf("%s: %s, want %s", alert, states[alert], want[alert])
		}
	}
}

// silence mutes all alerts with these labels for an hour.
func silence(t *testing.T, address string, labels map[string]string) {
	t.Helper()
	type matcher struct {
		Name    string `json:"name"`
		Value   string `json:"value"`
		IsRegex bool   `json:"isRegex"`
		IsEqual bool   `json:"isEqual"`
	}
	var matchers []matcher
	for name, value := range labels {
		matchers = append(matchers, matcher{Name: name, Value: value, IsEqual: true})
	}
	post(t, address, "silences", map[string]any{
		"matchers": matchers, "startsAt": time.Now(), "endsAt": time.Now().Add(time.Hour), "createdBy": "test", "comment": "maintenance",
	})
}

// alertmanager starts one with the example, whose receivers send nothing, and returns its address.
func alertmanager(t *testing.T) string {
	t.Helper()
	programs, dir := prometheus.Fetch(t), t.TempDir()
	example, err := fs.ReadFile(alerts.Files(), "alertmanager.example.yml")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "alertmanager.yml")
	text := bytes.ReplaceAll(example, []byte("127.0.0.1:9095"), []byte(prometheus.FreeAddress(t)))
	if err := os.WriteFile(config, text, 0o644); err != nil {
		t.Fatal(err)
	}
	address := prometheus.FreeAddress(t)
	prometheus.Start(t, filepath.Join(dir, "log"), nil, filepath.Join(programs, "alertmanager"), "--config.file="+config,
		"--storage.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--cluster.listen-address=").Ready(t, address)
	return address
}

// severities are those of the shipped alerts, by their names.
func severities(t *testing.T) map[string]string {
	t.Helper()
	groups, err := alerts.Groups()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, g := range groups {
		for _, r := range g.Rules {
			all[r.Alert] = r.Labels["severity"]
		}
	}
	return all
}

// parse makes labels of "Name label=value ...".
func parse(text string, severity map[string]string) map[string]string {
	words := strings.Fields(text)
	name := "GpuFabric" + words[0]
	labels := map[string]string{"alertname": name, "severity": severity[name]}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		labels[k] = v
	}
	return labels
}

// key is the text of labels.
func key(labels map[string]string) string {
	var all []string
	for k, v := range labels {
		if v != "" {
			all = append(all, k+"="+v)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// posted are alerts that last for an hour.
func posted(labels []map[string]string) any {
	type alert struct {
		Labels map[string]string `json:"labels"`
		Ends   time.Time         `json:"endsAt"`
	}
	var all []alert
	for _, l := range labels {
		all = append(all, alert{l, time.Now().Add(time.Hour)})
	}
	return all
}

func post(t *testing.T, address, what string, object any) {
	t.Helper()
	body, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Post("http://"+address+"/api/v2/"+what, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("post of %s: %s", what, answer.Status)
	}
}

// read returns the receiver of each alert, or that it is muted.
func read(t *testing.T, address string) map[string]string {
	t.Helper()
	answer, err := http.Get("http://" + address + "/api/v2/alerts")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var all []struct {
		Labels    map[string]string
		Receivers []struct{ Name string }
		Status    struct{ SilencedBy []string }
	}
	if err := json.NewDecoder(answer.Body).Decode(&all); err != nil {
		t.Fatal(err)
	}
	states := map[string]string{}
	for _, a := range all {
		var names []string
		for _, r := range a.Receivers {
			names = append(names, r.Name)
		}
		states[key(a.Labels)] = strings.Join(names, ",")
		if len(a.Status.SilencedBy) > 0 {
			states[key(a.Labels)] = "muted"
		}
	}
	return states
}
