// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"gpufabric_exporter/test/prometheus"
)

// column has the nodes that queries of dashboards are about: those of one scenario, or all.
type column struct {
	scenario string
	nodes    string    // pattern of instances
	one      string    // that of the node which dashboards of one node show; empty: nodes
	at       time.Time // when its fault has lasted longest
}

const everybody = "all nodes"

// columns returns those of all nodes, the healthy ones and each fault.
func columns(t *testing.T, nodes []*node, begin, end time.Time) []column {
	all := []column{{scenario: everybody, nodes: ".*", at: begin.Add(warmUp + 85*time.Second)}}
	fine := healthy()
	all = append(all, column{scenario: fine[0], nodes: fine[0], at: end}, column{scenario: "other healthy nodes", nodes: strings.Join(fine[1:], "|"), at: end})
	for _, f := range faults() {
		c := column{scenario: f.scenario, nodes: f.scenario + "-[0-9]+", one: f.scenario + "-1", at: end}
		for _, n := range nodes {
			if n.fault == nil || n.fault.scenario != f.scenario {
				continue
			}
			if mended, ok := n.said(t, "mended"); ok && mended.Before(c.at) {
				c.at = mended.Add(-time.Second)
			}
		}
		all = append(all, c)
	}
	return all
}

// dashboards runs every query of the shipped dashboards for the nodes of each scenario while it lasts, as an
// instant or a range query like its panel, and in both ways for all nodes. It prints how many series each
// returns. No query may fail, and each must return something for its scenario.
func dashboards(t *testing.T, server *prometheus.Server, nodes []*node, begin time.Time) {
	t.Helper()
	end := time.Now()
	about := columns(t, nodes, begin, end)
	table := tabwriter.NewWriter(os.Stdout, 0, 8, 1, ' ', 0)
	fmt.Fprintln(table, "\nseries that each query of a dashboard returns")
	for i, c := range about {
		fmt.Fprintf(table, "%d\t%s\n", i, c.scenario)
	}
	fmt.Fprint(table, "\nquery\tfor")
	for i := range about {
		fmt.Fprintf(table, "\t%d", i)
	}
	fmt.Fprintln(table)
	purpose := maps.Clone(purposes())
	queries := prometheus.DashboardQueries(t)
	asked := 0
	for _, q := range queries {
		found := map[string]int{}
		fmt.Fprintf(table, "%s\t%s", q.Name(), purposeOf(purpose, q))
		for _, c := range about {
			nodes := c.nodes
			if q.Dashboard == "node" || q.Dashboard == "port" { // what two nodes have together hides what one lacks
				nodes = cmp.Or(c.one, nodes)
			}
			for _, instant := range []bool{true, false} {
				if instant != q.Instant && c.scenario != everybody {
					continue
				}
				ask := func() (int, error) { return server.RowsOver(q.For(nodes), begin, c.at, scrape) }
				if instant {
					ask = func() (int, error) { return server.Rows(q.For(nodes), c.at) }
				}
				asked++
				rows, err := ask()
				if err != nil {
					t.Errorf("%s of %s: %v\n%s", q.Name(), c.scenario, err, q.For(nodes))
				}
				if instant == q.Instant {
					found[c.scenario] = rows
				}
			}
			fmt.Fprintf(table, "\t%d", found[c.scenario])
		}
		fmt.Fprintln(table)
		switch want := purposeOf(purpose, q); {
		case *only != "" && !chosen(want): // the scenario that it is for is left out
		case strings.HasPrefix(want, "-"): // what no scenario here shows
		case strings.HasPrefix(q.Expr, "vector(-1) unless on () ("): // it says that there is no data
		case want != "":
			if _, known := found[want]; !known {
				t.Errorf("%s is for %q, which is no scenario of this test", q.Name(), want)
			} else if found[want] == 0 {
				t.Errorf("%s returns nothing for %s", q.Name(), want)
			}
		case slices.Max(slices.Collect(maps.Values(found))) == 0:
			t.Errorf("%s returns nothing for any node", q.Name())
		}
	}
	firstHasAllRows(t, server, queries)
	table.Flush()
	fmt.Fprintf(os.Stdout, "%d queries of dashboards, asked %d times in %s\n", len(queries), asked, time.Since(end).Round(time.Second))
	for name := range purpose {
		if !slices.ContainsFunc(queries, func(q prometheus.DashboardQuery) bool {
			return q.Name() == name || q.Dashboard+"/"+q.Panel == name || q.Dashboard == name
		}) {
			t.Errorf("%s is no query of a dashboard", name)
		}
	}
}

// purposeOf is the scenario that a query is for; empty: any will do.
func purposeOf(all map[string]string, q prometheus.DashboardQuery) string {
	return cmp.Or(all[q.Name()], all[q.Dashboard+"/"+q.Panel], all[q.Dashboard])
}

// firstHasAllRows requires that the first query of each table has every row of the others: if only one query has data,
// Grafana names its value Value, which tables treat as that of the first.
func firstHasAllRows(t *testing.T, server *prometheus.Server, queries []prometheus.DashboardQuery) {
	t.Helper()
	var first []prometheus.Sample
	for _, q := range queries {
		if q.Type != "table" {
			continue
		}
		rows := server.Query(t, q.For(".*"))
		if q.Ref == "A" {
			first = rows
			continue
		}
		labels := map[string]bool{}
		for _, row := range first {
			for name := range row.Labels {
				labels[name] = true
			}
		}
		for _, row := range rows {
			known := func(s prometheus.Sample) bool {
				for name, value := range row.Labels {
					if labels[name] && s.Labels[name] != value {
						return false
					}
				}
				return true
			}
			if !slices.ContainsFunc(first, known) {
				t.Errorf("%s has the row %v, which the first query of its table lacks", q.Name(), row.Labels)
			}
		}
	}
}

// TestDashboardsWithoutData: no query of a dashboard fails on a Prometheus without data, nor where collectors are
// disabled, or an exporter is so old that it lacks most families.
func TestDashboardsWithoutData(t *testing.T) {
	const interval = 2 * time.Second
	programs, dir := prometheus.Fetch(t), t.TempDir()
	exporter := build(t, dir)
	config := func(name, jobs string) string {
		var b strings.Builder
		fmt.Fprintf(&b, "global: {scrape_interval: %s, scrape_timeout: %s, evaluation_interval: %s}\nrule_files:\n", interval, interval, interval)
		for _, f := range prometheus.Rules(t) {
			fmt.Fprintf(&b, "  - %q\n", f)
		}
		return write(t, filepath.Join(dir, name), b.String()+jobs)
	}
	nodes := map[string][]string{
		"few":   {"--collector.disable-defaults", "--collector.hca"},
		"none":  {"--collector.disable-defaults", "--collector.gpu"},
		"old":   nil,
		"older": {"--scenario=healthy-cpu-node"},
	}
	var jobs strings.Builder
	jobs.WriteString("scrape_configs:\n")
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		n := &node{instance: name}
		n.Program = prometheus.Start(t, filepath.Join(dir, name+".log"), demoEnv(), exporter, append([]string{"demo", "--web.listen-address=127.0.0.1:0"}, nodes[name]...)...)
		n.listening(t)
		fmt.Fprintf(&jobs, "  - {job_name: %s, static_configs: [{targets: [%q], labels: {instance: %s}}]", name, n.address, name)
		if strings.HasPrefix(name, "old") {
			jobs.WriteString(`, metric_relabel_configs: [{source_labels: [__name__], regex: "gpufabric_(probe|check|roce|nvlink|gpudirect|ethernet|hca_port_rate).*", action: drop}]`)
		}
		jobs.WriteString("}\n")
	}
	for _, test := range []struct{ name, jobs string }{{"empty", ""}, {"partial", jobs.String()}} {
		if err := os.Mkdir(filepath.Join(dir, test.name), 0o755); err != nil {
			t.Fatal(err)
		}
		server := prometheus.Serve(t, programs, filepath.Join(dir, test.name), config(test.name+".yml", test.jobs))
		begin := time.Now()
		for deadline := begin.Add(time.Minute); test.jobs != ""; time.Sleep(time.Second) {
			if s := server.Query(t, "min(count_over_time(up[1m])) >= 8 and min(up) == 1"); len(s) > 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("not all nodes answer: %v", server.Query(t, "up"))
			}
		}
		queries, empty := prometheus.DashboardQueries(t), 0
		for _, q := range queries {
			once, err := server.Rows(q.For(".*"), time.Now())
			over, errOver := server.RowsOver(q.For(".*"), begin, time.Now(), interval)
			if err != nil || errOver != nil {
				t.Errorf("%s: %s: %v %v", test.name, q.Name(), err, errOver)
			}
			if once+over == 0 {
				empty++
			}
		}
		firstHasAllRows(t, server, queries)
		fmt.Fprintf(os.Stdout, "dashboards, %s: %d of %d queries return nothing, no errors\n", test.name, empty, len(queries))
		if test.jobs != "" && (empty == 0 || empty == len(queries)) {
			t.Errorf("%s: %d of %d queries return nothing: this is not what it is meant to be", test.name, empty, len(queries))
		}
		server.Stop(t)
	}
}
