// SPDX-License-Identifier: Apache-2.0

//go:build scale

package scale

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/test/prometheus"
)

// TestMemory prints what Prometheus keeps of each node: series that it scrapes, with all families, series
// that the rules record, and the memory of both. The memory is that after a few minutes: samples of two hours
// add about a tenth.
func TestMemory(t *testing.T) {
	nodes := 128
	if testing.Short() {
		nodes = 32
	}
	const lasts = 5 * time.Minute // rules that read ten minutes have results after two
	programs, dir := prometheus.Fetch(t), t.TempDir()
	source := serveAs(t, startExporter(t, dir), nil, ".+")
	config := filepath.Join(dir, "prometheus.yml")
	write(t, config, configuration(source, 0, cadence, nil))
	server := prometheus.Serve(t, programs, dir, config)
	empty := own(t, server)
	write(t, config, configuration(source, nodes, cadence, prometheus.Rules(t)))
	server.Reload(t)
	time.Sleep(lasts)

	full := own(t, server)
	scraped, recorded := count(t, server, "sum(scrape_samples_scraped)"), count(t, server, `count({__name__=~".+:.+"})`)
	memory, series := full["process_resident_memory_bytes"]-empty["process_resident_memory_bytes"], full["prometheus_tsdb_head_series"]
	if scraped == 0 || recorded == 0 || series < float64(scraped) {
		t.Fatalf("%d series scraped, %d recorded, %.0f kept", scraped, recorded, series)
	}
	fmt.Fprintf(os.Stdout, "\n%s, %d nodes, all families\nseries of a node: %d scraped, %d recorded\nmemory: %.0f MiB for %.0f series, %.1f KiB each\n",
		prometheus.Version(t, programs), nodes, scraped/nodes, recorded/nodes, memory/(1<<20), series, memory/series/1024)
}

// own are the metrics of Prometheus itself that have no labels.
func own(t *testing.T, server *prometheus.Server) map[string]float64 {
	t.Helper()
	answer, err := http.Get("http://" + server.Address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		var name string
		var value float64
		if n, _ := fmt.Sscan(line, &name, &value); n == 2 {
			all[name] = value
		}
	}
	return all
}
