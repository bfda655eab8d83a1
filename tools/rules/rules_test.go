// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template/parse"

	"github.com/prometheus/prometheus/promql/parser"

	"gpufabric_exporter/alerts"
	"gpufabric_exporter/collector"
	"gpufabric_exporter/dashboards"
)

func TestRulesAgainstCatalogue(t *testing.T) {
	groups, err := alerts.Groups()
	if err != nil {
		t.Fatal(err)
	}
	known, err := Known()
	if err != nil {
		t.Fatal(err)
	}
	used, panels := map[string]bool{}, shown(t)
	queries, err := os.ReadFile("../../docs/JOBS.md") // they are run by hand
	if err != nil {
		t.Fatal(err)
	}
	panels += string(queries)
	for name := range known {
		used[name] = strings.Contains(panels, name)
	}
	n := 0
	for _, g := range groups {
		for _, r := range g.Rules {
			n++
			wrong, err := Check(r.Expr, known)
			if err != nil {
				t.Errorf("%s%s: %v", r.Alert, r.Record, err)
			}
			for _, w := range wrong {
				t.Errorf("%s%s: %s", r.Alert, r.Record, w)
			}
			for name := range known {
				if strings.Contains(r.Expr, name) {
					used[name] = true
				}
			}
			checkTemplates(t, r, known)
		}
	}
	if n < 20 {
		t.Errorf("only %d rules", n)
	}
	for name := range known {
		if strings.Contains(name, ":") && !used[name] {
			t.Errorf("%s is recorded and not used", name)
		}
	}
}

// Each query that a document shows is one, and reads metrics and labels that exist. In METRICS.md, every
// collector has three or more, each with a metric of its own.
func TestQueriesOfDocuments(t *testing.T) {
	known, err := Known()
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"node_infiniband_port_data_received_bytes_total"} { // of node_exporter, in NEIGHBOURS.md
		known[other] = nil
	}
	of := map[string]int{}
	for _, document := range []string{"METRICS.md", "NEIGHBOURS.md", "SLO.md"} {
		text, err := os.ReadFile("../../docs/" + document)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?s)```promql\n(.*?)```").FindAllSubmatch(text, -1) {
			for query := range strings.SplitSeq(string(block[1]), "\n\n") {
				wrong, err := CheckPanel(query, known)
				if err != nil {
					t.Errorf("%s: %v", document, err)
				}
				for _, w := range wrong {
					t.Errorf("%s: %s: %s", document, query, w)
				}
				if document != "METRICS.md" {
					continue
				}
				own := map[string]bool{}
				for _, f := range collector.Catalogue() {
					if regexp.MustCompile(`\b` + f.FullName() + `\b`).MatchString(query) {
						own[f.Collector] = true
					}
				}
				for c := range own {
					of[c]++
				}
			}
		}
	}
	for _, f := range collector.Catalogue() {
		if of[f.Collector] < 3 {
			t.Errorf("METRICS.md: %d queries read metrics of the collector %q, expected three: add them in collector/document_queries.go", of[f.Collector], f.Collector)
			of[f.Collector] = 3
		}
	}
}

// A rule that pages must still work after an update: it reads no metric that may change at any time, not
// through recorded series either.
func TestPagesReadStableMetrics(t *testing.T) {
	groups, err := alerts.Groups()
	if err != nil {
		t.Fatal(err)
	}
	experimental, recorded := map[string]bool{}, map[string][]string{}
	for _, f := range collector.Catalogue() {
		experimental[f.FullName()] = f.Stability == collector.Experimental
	}
	var reads func(expr string, seen map[string]bool)
	reads = func(expr string, seen map[string]bool) {
		tree, err := parser.ParseExpr(expr)
		if err != nil {
			t.Fatal(err)
		}
		parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
			if v, ok := node.(*parser.VectorSelector); ok && !seen[v.Name] {
				seen[v.Name] = true
				for _, e := range recorded[v.Name] {
					reads(e, seen)
				}
			}
			return nil
		})
	}
	pages := 0
	for _, g := range groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				recorded[r.Record] = append(recorded[r.Record], r.Expr)
			}
		}
	}
	for _, g := range groups {
		for _, r := range g.Rules {
			if r.Labels["severity"] != "critical" {
				continue
			}
			pages++
			seen := map[string]bool{}
			reads(r.Expr, seen)
			for name := range seen {
				if experimental[name] {
					t.Errorf("%s is critical and reads %s, which is experimental", r.Alert, name)
				}
			}
		}
	}
	if pages < 10 {
		t.Errorf("only %d rules are critical", pages)
	}
}

// shown is the text of all dashboards.
func shown(t *testing.T) string {
	t.Helper()
	names, err := fs.Glob(dashboards.Files(), "*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d dashboards (%v)", len(names), err)
	}
	var all strings.Builder
	for _, name := range names {
		text, err := fs.ReadFile(dashboards.Files(), name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// checkTemplates requires that annotations parse, and that something in the expression can have the labels that they
// name.
func checkTemplates(t *testing.T, r alerts.Rule, known Metrics) {
	t.Helper()
	label := regexp.MustCompile(`\$labels\.(\w+)`)
	functions := map[string]any{"humanize": 1, "humanizeDuration": 1, "humanizePercentage": 1, "humanizeTimestamp": 1, "query": 1, "first": 1, "label": 1, "value": 1, "printf": 1, "sortByLabel": 1, "lt": 1}
	for name, text := range r.Annotations {
		if _, err := parse.Parse(name, "{{$labels := .}}{{$value := .}}"+text, "", "", functions); err != nil {
			t.Errorf("%s: annotation %s: %v", r.Alert, name, err)
		}
		for _, m := range label.FindAllStringSubmatch(text, -1) {
			if slices.Contains(targetLabels, m[1]) {
				continue
			}
			if has, err := canHave(r.Expr, m[1], known); err != nil || !has {
				t.Errorf("%s: annotation %s shows label %s, which nothing in the expression has (%v)", r.Alert, name, m[1], err)
			}
		}
	}
}

// canHave reports whether any series inside the expression can have the label.
func canHave(expr, label string, metrics Metrics) (bool, error) {
	tree, err := parser.ParseExpr(expr)
	if err != nil {
		return false, err
	}
	c := &checker{metrics: metrics}
	return c.may(tree, label), nil
}

func TestCheckFindsWhatIsWrong(t *testing.T) {
	known := Metrics{"a_total": {"device", "port"}, "b": {"device", "priority"}, "x:y:z": nil}
	for _, c := range []struct{ expr, wrong string }{
		{`rate(a_total[5m]) > 1`, ""},
		{`a_total - min_over_time(a_total[10m]) > 0`, ""},
		{`avg_over_time(x:y:z[12h]) > 1`, ""},
		{`a_total and on (cluster, job, instance, device) b == 1`, ""},
		{`c == 1`, `no metric "c"`},
		{`a_total{priority="3"} > 1`, "has no label priority"},
		{`rate(a_total[15m]) > 1`, "reads 15m0s back"},
		{`rate(a_total[5m] offset 6m) > 1`, "reads 11m0s back"},
		{`max_over_time(rate(a_total[5m])[1h:1m])`, "subquery"},
		{`sum by (device) (a_total)`, "by drops"},
		{`sum by (cluster, device) (a_total)`, ""},
		{`sum without (netdev) (a_total)`, "aggregated over netdev"},
		{`a_total / on (device) b`, "drops all other labels"},
		{`a_total and on (priority) b`, "only one side has"},
		{`a_total and on (netdev) b`, "nothing in it has"},
	} {
		got, err := Check(c.expr, known)
		if err != nil {
			t.Errorf("%s: %v", c.expr, err)
		}
		all := strings.Join(got, "; ")
		if (c.wrong == "") != (len(got) == 0) || !strings.Contains(all, c.wrong) {
			t.Errorf("%s: %q, want %q", c.expr, all, c.wrong)
		}
	}
	for _, c := range []struct{ expr, wrong string }{
		{`sum by (device) (rate(a_total[1h]))`, ""},
		{`b and on (device, priority) count_values by (device) ("priority", a_total)`, ""},
		{`sum by (netdev) (a_total)`, "aggregated over netdev"},
		{`c == 1`, `no metric "c"`},
		{`a_total{priority="3"}`, "has no label priority"},
	} {
		got, err := CheckPanel(c.expr, known)
		if all := strings.Join(got, "; "); err != nil || (c.wrong == "") != (len(got) == 0) || !strings.Contains(all, c.wrong) {
			t.Errorf("panel %s: %q, want %q (%v)", c.expr, all, c.wrong, err)
		}
	}
	if _, err := Check(`0.5 * on (x) group_left () b`, known); err == nil {
		t.Error("no error for what does not parse")
	}
}
