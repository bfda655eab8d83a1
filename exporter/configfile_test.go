// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/site"
)

// The exporter uses the same configuration: it reads the default file at start or, if the file is created later, at a
// reload. It does not start with an invalid file. If the file is removed, its configuration stays in force.
func TestServeFindsConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yml")
	ob := &fakeObserver{node: healthy}
	o := options{site: site.Site{
		Config: site.Config{Default: file}, NewObserver: func(observer.Options) (site.Observer, error) { return ob, nil },
	}}
	p := startWith(t, o)
	contains(t, p.Stderr.String(), "does not exist, so the node is not compared")
	lacksMetric := func(want bool) {
		t.Helper()
		if _, body, _ := p.Get("/metrics"); strings.Contains(body, "gpufabric_node_compute_ports_expected 3\n") == want {
			t.Errorf("node_compute_ports_expected is there: %v", !want)
		}
	}
	lacksMetric(true)
	if err := os.WriteFile(file, []byte("expected: {compute_ports: 3}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, body, _ := p.Do("POST", "/-/reload"); status != http.StatusOK {
		t.Errorf("reload: %d %s", status, body)
	}
	lacksMetric(false)
	_, page, _ := p.Get("/")
	contains(t, page, "From "+file)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if status, body, _ := p.Do("POST", "/-/reload"); status != http.StatusInternalServerError || !strings.Contains(body, "no longer exists") {
		t.Errorf("reload of what is gone: %d %s", status, body)
	}
	lacksMetric(false)
	p.Stop()

	if err := os.WriteFile(file, []byte("expected: {compute_ports: many}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr output
	o.Stdout, o.Stderr = io.Discard, &stderr
	if code := run(t.Context(), []string{"--web.listen-address=127.0.0.1:0"}, o); code != command.Usage {
		t.Errorf("a broken one: exit code %d", code)
	}
	contains(t, stderr.String(), "config.yml:1: compute_ports")
}
