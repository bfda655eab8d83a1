// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"encoding/json"
	"net/http"
	"testing"

	"gpufabric_exporter/internal/command"
)

// The pages are where the others are, and say so when nothing is probed.
func TestProbesPageIsServed(t *testing.T) {
	p := start(t, &fakeObserver{node: healthy}, "--web.route-prefix=/fabric")
	status, page, header := p.Get("/fabric/probes")
	if status != http.StatusOK || header.Get("Content-Type") != "text/html; charset=utf-8" || header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", status, header)
	}
	contains(t, page, "Probes are disabled", `href="./"`, `href="probes.json"`)
	status, body, header := p.Get("/fabric/probes.json")
	var j struct {
		Enabled bool
		Probes  []any
	}
	if err := json.Unmarshal([]byte(body), &j); err != nil || status != http.StatusOK || header.Get("Content-Type") != "application/json" || j.Enabled || j.Probes == nil {
		t.Errorf("%d %v %s: %v", status, header, body, err)
	}
	_, landing, _ := p.Get("/fabric/")
	contains(t, landing, `href="probes"`)
	if status, _, _ := p.Do(http.MethodPost, "/fabric/probes"); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", status)
	}
	for _, path := range []string{"/probes", "/probes.json", "/jobs.json", "/status.json"} {
		var stderr output
		if code := run(t.Context(), []string{"--web.telemetry-path=" + path}, options{Stdout: &stderr, Stderr: &stderr}); code != command.Usage {
			t.Errorf("%s for metrics: exit code %d, %s", path, code, stderr.String())
		}
	}
}

// The status document is served like the page that it is the source of.
func TestStatusIsServed(t *testing.T) {
	p := start(t, &fakeObserver{node: healthy}, "--web.route-prefix=/fabric")
	status, body, header := p.Get("/fabric/status.json")
	var d struct {
		Version int
		Verdict struct{ Status, Text string }
		Devices []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(body), &d); err != nil || status != http.StatusOK || header.Get("Content-Type") != "application/json" || header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v: %v", status, header, err)
	}
	if d.Version != 1 || d.Verdict.Status != "ok" || len(d.Devices) != 2 {
		t.Errorf("%+v", d)
	}
	if status, _, _ := p.Do(http.MethodPost, "/fabric/status.json"); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", status)
	}
}
