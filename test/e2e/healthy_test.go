// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/test/prometheus"
)

const (
	watched = 5 * time.Minute // how long healthy nodes are watched: rules of counters read the last five minutes
	// brief is how long an alert may be pending. One that is pending for longer would fire at some time, even if it has
	// to last for ten minutes.
	brief = 2 * time.Minute
)

// TestHealthyNodes watches all scenarios with which nothing is wrong, except those that TestAlerts watches:
// no alert fires, and none is pending for long. Alerts of severity info do not count: the example for
// Alertmanager only logs them.
func TestHealthyNodes(t *testing.T) {
	programs, dir := prometheus.Fetch(t), t.TempDir()
	exporter := build(t, dir)
	var nodes []*node
	for _, s := range simulator.Scenarios() {
		if !strings.HasPrefix(s.Summary, "healthy ") || slices.Contains(healthy(), s.Name) {
			continue
		}
		n := &node{instance: s.Name}
		n.Program = prometheus.Start(t, filepath.Join(dir, s.Name+".log"), demoEnv(), exporter, "demo", "--web.listen-address=127.0.0.1:0", "--scenario="+s.Name)
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		n.listening(t)
	}
	unused := prometheus.FreeAddress(t) // of a webhook that does not exist
	server := prometheus.Serve(t, programs, dir, configure(t, dir, unused, nodes))
	time.Sleep(watched)
	if up := server.Query(t, fmt.Sprintf("avg_over_time(up[%s]) > 0.9", watched)); len(up) != len(nodes) {
		t.Errorf("%d of %d nodes answered nine of ten scrapes: silence says nothing about the others", len(up), len(nodes))
	}
	server.Groups(t) // that no rule has an error
	for _, s := range server.Query(t, fmt.Sprintf(`count by (alertname, instance, device, check) (last_over_time(ALERTS{alertstate="firing",severity!="info"}[%s]))`, watched)) {
		t.Errorf("wrong alert: %v", s.Labels)
	}
	for _, s := range server.Query(t, fmt.Sprintf(`count by (alertname, instance, device, check) (count_over_time(ALERTS{alertstate="pending",severity!="info"}[%s]) >= %d)`, brief, brief/scrape)) {
		t.Errorf("pending for %s: %v", brief, s.Labels)
	}
	fmt.Fprintf(os.Stdout, "%d more nodes with which nothing is wrong, watched for %s\n", len(nodes), watched)
}
