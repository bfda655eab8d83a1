// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fabric.yml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("expected: {compute_ports: 2}\n")
	ob := &fakeObserver{node: healthy}
	p := start(t, ob, "--config.file="+file)
	metrics := func(want ...string) {
		t.Helper()
		_, body, _ := p.Get("/metrics")
		contains(t, body, want...)
	}
	metrics("gpufabric_exporter_config_last_reload_successful 1\n", "gpufabric_exporter_config_last_reload_success_timestamp_seconds 1.")

	write("expected: {compute_ports: 3}\nnccl: {home: /root}\n")
	if status, body, _ := p.Do("POST", "/-/reload"); status != http.StatusOK {
		t.Fatalf("reload: %d %s", status, body)
	}
	metrics("gpufabric_exporter_config_last_reload_successful 1\n", "gpufabric_node_compute_ports_expected 3\n")
	if ob.nccl.Home != "/root" {
		t.Errorf("NCCL files: %+v", ob.nccl)
	}

	write("expected: {compute_ports: <b>}\nother: 1\n")
	status, body, _ := p.Do("POST", "/-/reload")
	if status != http.StatusInternalServerError {
		t.Errorf("bad reload: %d", status)
	}
	contains(t, body, "stays in force", file+`:1: compute_ports: "<b>"`, file+`:2: unknown key "other"`)
	metrics("gpufabric_exporter_config_last_reload_successful 0\n", "gpufabric_node_compute_ports_expected 3\n")
	_, page, _ := p.Get("/")
	contains(t, page, "The last reload failed", "fabric.yml:1: compute_ports: &#34;&lt;b&gt;&#34;", ">3<")
	lacks(t, page, "<b>")

	write("expected: {compute_ports: 4}\n")
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if strings.Count(p.Stderr.String(), `msg="configuration reloaded"`) == 2 {
			break
		}
	}
	metrics("gpufabric_exporter_config_last_reload_successful 1\n", "gpufabric_node_compute_ports_expected 4\n")
}

func TestReloadWithoutFile(t *testing.T) {
	p := start(t, &fakeObserver{node: healthy})
	if status, _, _ := p.Do("POST", "/-/reload"); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	_, page, _ := p.Get("/")
	contains(t, page, "Nothing is configured")
}
