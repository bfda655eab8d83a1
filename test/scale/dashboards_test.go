// SPDX-License-Identifier: Apache-2.0

//go:build scale

package scale

import (
	"cmp"
	"fmt"
	"maps"
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
	patience = 10 * time.Second // of Grafana with a query, in processor time
	slowest  = 12               // queries that are printed
	tries    = 3                // of each query, of which the fastest counts: others may include garbage collection for earlier ones
)

// TestDashboards asks every query of the dashboards about the largest number of nodes, and prints the
// slowest. Nothing is scraped meanwhile, and what counts is the processor time of Prometheus: on an idle
// machine a query takes no longer.
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

	end := time.Now()
	series := count(t, server, "sum(scrape_samples_scraped)")
	write(t, config, "global: {}\n")
	server.Reload(t)
	idle(t, server)

	var all []timed
	points := int(end.Sub(begin)/cadence) + 1
	sum, number := map[string]time.Duration{}, map[string]int{} // by dashboard
	for _, q := range queries {
		about := ".*"
		if q.Dashboard == "node" || q.Dashboard == "port" { // they show one
			about = "node0007"
		}
		question := func() (int, error) { return server.RowsOver(q.For(about), begin, end, cadence) }
		if q.Instant {
			question = func() (int, error) { return server.Rows(q.For(about), end) }
		}
		r, err := timed{query: q, took: time.Hour}, error(nil)
		for range tries {
			had := server.CPU(t)
			r.rows, err = question()
			r.took = min(r.took, server.CPU(t)-had)
		}
		if all = append(all, r); err != nil || r.took > patience {
			t.Errorf("%s: %v after %s", q.Name(), err, r.took)
		}
		sum[q.Dashboard] += r.took
		number[q.Dashboard]++
	}
	slices.SortFunc(all, func(a, b timed) int { return cmp.Compare(b.took, a.took) })
	table := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintf(table, "\n%d queries of dashboards, %d nodes, %d series\tqueries\tprocessor time of all\n", len(all), nodes, series)
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		fmt.Fprintf(table, "%s\t%d\t%s\n", name, number[name], sum[name])
	}
	fmt.Fprintf(table, "\nslowest queries\tresult\tpoints\tprocessor time\n")
	for _, r := range all[:min(slowest, len(all))] {
		n := points
		if r.query.Instant {
			n = 1
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\n", r.query.Name(), r.rows, n, r.took)
	}
	table.Flush()
}

// idle waits until the server has nothing left to do.
func idle(t *testing.T, server *prometheus.Server) {
	t.Helper()
	const look, little = 2 * time.Second, 40 * time.Millisecond
	for deadline := time.Now().Add(5 * time.Minute); ; {
		had := server.CPU(t)
		time.Sleep(look)
		if server.CPU(t)-had <= little {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("Prometheus is busy though it scrapes nothing")
		}
	}
}

// timed is a query that was asked.
type timed struct {
	query prometheus.DashboardQuery
	rows  int
	took  time.Duration
}
