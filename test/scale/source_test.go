// SPDX-License-Identifier: Apache-2.0

//go:build scale

package scale

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/test/prometheus"
)

// startExporter starts an exporter on a simulated node and returns where its metrics are.
func startExporter(t *testing.T, dir string) string {
	t.Helper()
	exporter := filepath.Join(dir, "gpufabric_exporter")
	if out, err := exec.Command("go", "build", "-o", exporter, "../..").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	env := []string{"GOMAXPROCS=2"}
	if _, err := os.Stat("/dev/shm"); err == nil {
		env = append(env, "TMPDIR=/dev/shm") // a simulated node is thousands of small files that change each second
	}
	address := prometheus.FreeAddress(t)
	p := prometheus.Start(t, filepath.Join(dir, "exporter.log"), env, exporter, "demo", "--scenario=healthy", "--web.listen-address="+address)
	p.Ready(t, address)
	return "http://" + address + "/metrics"
}

var familyName = regexp.MustCompile(`gpufabric_[a-z0-9_]+`)

// mentioned are the names of families in the rules, and in what else is asked.
func mentioned(t *testing.T, queries ...string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, f := range prometheus.Rules(t) {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		queries = append(queries, string(text))
	}
	for _, q := range queries {
		for _, name := range familyName.FindAllString(q, -1) {
			names[name] = true
		}
	}
	return names
}

// serveAs serves these families of the exporter, and of the HCAs those with these roles (a regular expression),
// below any path, and returns the address.
func serveAs(t *testing.T, exporter string, families map[string]bool, roles string) string {
	t.Helper()
	port := regexp.MustCompile(`(?m)^gpufabric_hca_port_info\{device="([^"]+)".*,role="` + roles + `"\}`)
	type answer struct {
		at   time.Time
		body []byte
	}
	last := make(chan answer, 1)
	last <- answer{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		a := <-last
		if time.Since(a.at) > 5*time.Second {
			body, err := ask(exporter, families, port)
			if err != nil {
				t.Error(err)
			}
			a = answer{time.Now(), body}
		}
		last <- a
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(a.body)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

var deviceLabel = regexp.MustCompile(`[{,]device="([^"]+)"`)

// ask scrapes the exporter for families, nil for all, and for HCAs that have such a port.
func ask(exporter string, families map[string]bool, port *regexp.Regexp) ([]byte, error) {
	answer, err := http.Get(exporter)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	hcas := map[string]bool{}
	for _, m := range port.FindAllSubmatch(all, -1) {
		hcas[string(m[1])] = true
	}
	var b bytes.Buffer
	keep := false
	for line := range strings.Lines(string(all)) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == "#" {
			keep = families == nil || families[f[2]]
		}
		if m := deviceLabel.FindStringSubmatch(line); keep && (m == nil || hcas[m[1]]) {
			b.WriteString(line)
		}
	}
	if b.Len() == 0 {
		return nil, fmt.Errorf("%s: no family that rules mention", exporter)
	}
	return b.Bytes(), nil
}
