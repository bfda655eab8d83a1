// SPDX-License-Identifier: Apache-2.0

//go:build scale

package scale

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	"gpufabric_exporter/test/prometheus"
)

const (
	settles  = 4 * time.Minute  // of scrapes before dashboards are looked at: rates of two minutes, recorded by the rules
	patience = 30 * time.Second // of Grafana with a query
	slowest  = 5                // queries that are printed
)

// TestDashboards asks every query of the dashboards about the largest number of nodes, and prints the slowest.
func TestDashboards(t *testing.T) {
	nodes := 512
	if testing.Short() {
		nodes = 32
	}
	programs, dir := prometheus.Fetch(t), t.TempDir()
	queries := prometheus.DashboardQueries(t)
	var asked []string
	for _, q := range queries {
		asked = append(asked, q.Expr)
	}
	source := serveAs(t, startExporter(t, dir), mentioned(t, asked...), ".+")
	config := filepath.Join(dir, "prometheus.yml")
	write(t, config, configuration(source, nodes, cadence, prometheus.Rules(t)))
	t.Setenv("GOMAXPROCS", "2")
	server := prometheus.Serve(t, programs, dir, config)
	begin := time.Now()
	for deadline := begin.Add(3 * settles); ; time.Sleep(cadence) {
		up := count(t, server, fmt.Sprintf("count(count_over_time(up[%s]) >= %d)", 2*settles, settles/cadence))
		if up == nodes {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d nodes have answered for %s", up, nodes, settles)
		}
	}

	var all []timed
	points := 0
	for _, q := range queries {
		about := ".*"
		if q.Dashboard == "node" { // it shows one
			about = "node0007"
		}
		end := time.Now()
		points = int(end.Sub(begin)/cadence) + 1
		question := func() (int, error) { return server.RowsOver(q.For(about), begin, end, cadence) }
		if q.Instant {
			question = func() (int, error) { return server.Rows(q.For(about), end) }
		}
		rows, err := question()
		r := timed{q, rows, time.Since(end)}
		if all = append(all, r); err != nil || r.took > patience {
			t.Errorf("%s: %v after %s", q.Name(), err, r.took)
		}
	}
	slices.SortFunc(all, func(a, b timed) int { return cmp.Compare(b.took, a.took) })
	table := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintf(table, "\nslowest of %d queries of dashboards, %d nodes, %d series\tseries\tpoints\ttime\n", len(all), nodes, count(t, server, `count({__name__=~"gpufabric_.+"})`))
	for _, r := range all[:min(slowest, len(all))] {
		n := points
		if r.query.Instant {
			n = 1
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\n", r.query.Name(), r.rows, n, r.took.Round(time.Millisecond))
	}
	table.Flush()
}

// timed is a query that was asked once.
type timed struct {
	query prometheus.DashboardQuery
	rows  int
	took  time.Duration
}
