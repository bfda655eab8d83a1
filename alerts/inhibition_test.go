// SPDX-License-Identifier: Apache-2.0

package alerts_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
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

// scene is a node with alerts, each a name without GpuFabric and its labels. All get the severity of their rule; labels
// may say another one. A receiver is that of the example; "muted": the alert is inhibited.
type scene struct {
	name   string // of the node
	alerts map[string]string
}

var scenes = []scene{
	{"port and its rail", map[string]string{
		"PortDown device=mlx5_0 port=1":                                     "page",
		"ProbeFailing kind=rail device=mlx5_0 port=1 reason=nccl":           "muted",
		"ProbeBandwidthCollapsed kind=rail device=mlx5_0 port=1 fault=slow": "muted",
		"ProbeBandwidthRegression kind=rail device=mlx5_0 port=1":           "muted",
		"ProbeGpuDirectLost kind=rail device=mlx5_0 port=1 fault=gpudirect": "muted",
		"ProbeWrongResult kind=rail device=mlx5_0 port=1 fault=wrong":       "page",
		"ProbeTransportSocket kind=transport fault=socket":                  "page",
		"ProbeFailing kind=transport reason=init":                           "muted",
		"ProbeBandwidthCollapsed kind=node fault=slow":                      "page",
		"ProbeFailing kind=rail device=mlx5_1 port=1 reason=hang":           "tickets",
		"ProbeBandwidthCollapsed kind=rail device=mlx5_1 port=1 fault=slow": "page",
		"CheckFailed check=roce_pfc severity=critical device=mlx5_0 port=1": "muted",
		"CheckFailed check=roce_pfc severity=critical device=mlx5_1 port=1": "page",
		"ComputePortsMissing": "muted",
	}},
	{"device gone", map[string]string{
		"DeviceGone device=mlx5_0":                                "page",
		"ProbeFailing kind=rail device=mlx5_0 port=1 reason=nccl": "muted",
		"ProbeFailing kind=node reason=init":                      "muted",
		"ProbeGpuDirectLost kind=transport fault=gpudirect":       "muted",
		"ProbeBandwidthRegression kind=node fault=regressed":      "tickets",
		"ProbeStale": "tickets",
	}},
	{"device stuck", map[string]string{
		"DeviceStuck device=mlx5_3":                               "page",
		"PortDown device=mlx5_3 port=1":                           "muted",
		"ProbeFailing kind=node reason=hang":                      "muted",
		"ProbeFailing kind=rail device=mlx5_3 port=1 reason=hang": "muted",
	}},
	{"only probes", map[string]string{
		"ProbeFailing kind=node reason=init":                      "tickets",
		"ProbeGpuDirectLost kind=transport fault=gpudirect":       "tickets",
		"ProbeBandwidthCollapsed kind=rail device=mlx5_0 port=1":  "page",
		"ProbeBandwidthRegression kind=rail device=mlx5_1 port=1": "tickets",
		"ProbeBaselineDrifted kind=rail device=mlx5_1 port=1":     "tickets",
		"ProbeNeverRun": "log",
	}},
	{"tcp", map[string]string{
		"ProbeTransportSocket kind=transport fault=socket":                  "page",
		"ProbeTransportSocket kind=rail device=mlx5_0 port=1 fault=socket":  "page",
		"ProbeGpuDirectLost kind=transport fault=gpudirect":                 "muted",
		"ProbeGpuDirectLost kind=rail device=mlx5_1 port=1 fault=gpudirect": "muted",
		"ProbeBandwidthCollapsed kind=rail device=mlx5_0 port=1 fault=slow": "muted",
		"ProbeBandwidthRegression kind=rail device=mlx5_0 port=1":           "muted",
		"ProbeBandwidthCollapsed kind=rail device=mlx5_1 port=1 fault=slow": "page",
		"ProbeBandwidthCollapsed kind=node fault=slow":                      "page",
		"ProbeFailing kind=rail device=mlx5_1 port=1 reason=hang":           "tickets",
	}},
	{"gpu lost", map[string]string{
		"GpuLost index=3 uuid=GPU-3":                              "page",
		"ProbeFailing kind=node reason=init":                      "muted",
		"ProbeFailing kind=rail device=mlx5_1 port=1 reason=hang": "muted",
		"ProbeStale":                             "muted",
		"ProbeWrongResult kind=node fault=wrong": "page",
		"NvlinkDown uuid=GPU-3":                  "muted",
		"NvlinkDown uuid=GPU-4":                  "page",
	}},
	{"gpu lost without uuid", map[string]string{
		"GpuLost index=3":                    "page",
		"ProbeFailing kind=node reason=init": "muted",
		"CheckFailed check=roce_pfc severity=critical device=mlx5_0 port=1": "page",
	}},
	{"exporter down", map[string]string{
		"ExporterDown":                                 "tickets",
		"ProbeFailing kind=node reason=init":           "muted",
		"ProbeBandwidthCollapsed kind=node fault=slow": "page",
	}},
	// Error budgets are of a cluster: they have no instance.
	{"", map[string]string{
		"ErrorBudgetBurnFast slo=conformance severity=warning":             "tickets",
		"ErrorBudgetBurnSlow slo=port_availability severity=warning":       "tickets",
		"ErrorBudgetSpent slo=probe_success severity=info":                 "tickets",
		"ErrorBudgetBurnFast slo=losslessness severity=critical cluster=a": "tickets",
	}},
}

// TestAlertmanagerInhibits asks a real Alertmanager with the example which alerts it mutes, and to which
// receivers it sends the others.
func TestAlertmanagerInhibits(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: Alertmanager may have to be fetched (make rules)")
	}
	address := alertmanager(t)
	severity := severities(t)
	sent := map[string]string{} // the receiver of an alert, by its labels
	var all []map[string]string
	for _, s := range scenes {
		for text, receiver := range s.alerts {
			labels := parse(text, severity)
			if labels["severity"] == "" {
				t.Errorf("no alert %s", labels["alertname"])
			}
			if s.name != "" {
				labels["instance"], labels["job"] = s.name, "gpufabric"
			}
			all = append(all, labels)
			sent[key(labels)] = receiver
		}
	}
	post(t, address, all)
	// Alertmanager looks at sources of inhibitions one after the other, and at this one last.
	last := []map[string]string{parse("PfcStorm device=d port=1", severity), parse("SlowReceiver device=d port=1", severity)}
	post(t, address, last)
	var states map[string]string
	for deadline := time.Now().Add(time.Minute); states[key(last[1])] != "muted"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("a storm does not mute a slow receiver: %v", states)
		}
		states = read(t, address)
	}
	states = read(t, address) // others were read before the last one
	for alert, want := range sent {
		if got := states[alert]; got != want {
			t.Errorf("%s: %s, want %s", alert, got, want)
		}
	}
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

func post(t *testing.T, address string, labels []map[string]string) {
	t.Helper()
	type alert struct {
		Labels map[string]string `json:"labels"`
		Ends   time.Time         `json:"endsAt"`
	}
	var all []alert
	for _, l := range labels {
		all = append(all, alert{l, time.Now().Add(time.Hour)})
	}
	body, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Post("http://"+address+"/api/v2/alerts", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("post of alerts: %s", answer.Status)
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
		Status    struct{ InhibitedBy []string }
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
		if len(a.Status.InhibitedBy) > 0 {
			states[key(a.Labels)] = "muted"
		}
	}
	return states
}
