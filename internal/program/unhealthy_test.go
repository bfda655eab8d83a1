// SPDX-License-Identifier: Apache-2.0

package program

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpufabric_exporter/internal/status"
)

// The condition is true while a critical check fails, and never for many nodes at once or without an answer.
func TestUnhealthyCondition(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash, which the image of node-problem-detector has")
	}
	answers := map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := answers[r.URL.Path]
		if text == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		if q := r.URL.Query().Get("query"); q != "" && q != `count(count by (cluster, instance) (gpufabric_check_failed{severity="critical"} == 1))` {
			t.Errorf("it asks %s", q)
		}
		_, _ = io.WriteString(w, text)
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	count := func(n string) string {
		return `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1700000000.1,"` + n + `"]}]}}`
	}
	document := func(verdict, severity string) string {
		d := status.Document{Findings: []status.Finding{{ID: "finding-0", Check: "port_active", Severity: severity, Evidence: `"severity":"critical"`}}}
		d.Verdict.Status = verdict
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, c := range map[string]struct {
		status, prometheus string
		code               int
		says               string
	}{
		"critical":      {document("failed", "critical"), count("2"), 1, "check port_active fails"},
		"warning":       {document("failed", "warning"), count("2"), 0, "no critical check fails"},
		"many nodes":    {document("failed", "critical"), count("3"), 2, "on 3 nodes: more than 2"},
		"no Prometheus": {document("failed", "critical"), "", 2, "does not say on how many nodes"},
		"not judged":    {document("unknown", "warning"), count("1"), 2, "could not judge"},
		"partly judged": {document("partly", "warning"), count("1"), 2, "could not judge"},
		"no exporter":   {"", count("1"), 2, "the exporter does not answer"},
		"another":       {"<html>", count("1"), 2, "could not judge"},
	} {
		answers["/status.json"], answers["/api/v1/query"] = c.status, c.prometheus
		code, out, errs := handOff(t, []string{"bash"}, "npd-unhealthy.sh", t.TempDir(), "EXPORTER="+address, "PROMETHEUS="+address)
		if code != c.code || !strings.Contains(out, c.says) || strings.Count(out, "\n") != 1 || errs != "" {
			t.Errorf("%s: exit code %d, want %d: %q %q", name, code, c.code, out, errs)
		}
	}
	var config struct {
		Rules []struct{ Condition, Path string }
	}
	text, err := os.ReadFile("../../docs/jobs/npd-unhealthy.json")
	if err != nil || json.Unmarshal(text, &config) != nil || len(config.Rules) != 1 || config.Rules[0].Condition != "GPUFabricUnhealthy" || filepath.Base(config.Rules[0].Path) != "npd-unhealthy.sh" {
		t.Errorf("npd-unhealthy.json: %v %+v", err, config)
	}
}
