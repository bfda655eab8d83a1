// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"gpufabric_exporter/alerts"
	"gpufabric_exporter/tools/rules"
)

// chosen are a reader's choices. Their values must not matter.
var chosen = strings.NewReplacer("$cluster", "c1", "$site", "c1", "$instance", "node1", "$device", "mlx5_0", "$training_job", "slurm/7", "$__rate_interval", rateInterval, "$__range", timeShown, "${datasource}", "p")

const rateInterval, timeShown = "61s", "62s" // ranges that no query has

func TestQueries(t *testing.T) {
	known, err := rules.Known()
	if err != nil {
		t.Fatal(err)
	}
	all, _ := shipped(t)
	n := 0
	check := func(where, expr string, live bool) {
		n++
		expr = chosen.Replace(expr)
		wrong, err := rules.CheckPanel(expr, known)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			return
		}
		for _, w := range append(wrong, faults(expr, live)...) {
			t.Errorf("%s: %s", where, w)
		}
	}
	for _, m := range all {
		for _, p := range m.flat() {
			for _, q := range p.Targets {
				check(m.name+"/"+p.Title+" "+q.RefID, q.Expr, q.Range)
			}
		}
		for _, a := range m.Annotations.List {
			check(m.name+" annotation "+a.Name, a.Expr, false)
			if a.Datasource == nil || a.Datasource.UID != "${datasource}" {
				t.Errorf("%s annotation %s: data of %v", m.name, a.Name, a.Datasource)
			}
		}
		for _, v := range m.Templating.List {
			if inner, ok := strings.CutPrefix(v.Definition, "label_values("); ok {
				metric, label, _ := strings.Cut(strings.TrimSuffix(inner, ")"), ", ")
				if strings.Contains(metric, "},") {
					t.Errorf("%s: %s", m.name, v.Definition)
				}
				expr := chosen.Replace(metric)
				if wrong, err := rules.CheckPanel("count by ("+label+") ("+expr+")", known); err != nil || len(wrong) > 0 {
					t.Errorf("%s: %s: %q (%v)", m.name, v.Definition, wrong, err)
				}
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d queries", n)
	}
}

// faults are what makes a query of a panel err with some data, ignore the reader's choice or cost too much.
func faults(expr string, live bool) []string {
	var wrong []string
	tree, err := parser.ParseExpr(expr)
	if err != nil {
		return []string{err.Error()}
	}
	first := true
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		switch e := node.(type) {
		case *parser.VectorSelector:
			matchers := fmt.Sprint(e.LabelMatchers)
			if first && (!strings.Contains(matchers, `cluster=~"c1"`) || !strings.HasPrefix(e.Name, "cluster:") && !ofRuns(e.Name) && !strings.Contains(matchers, `instance=~"node1`)) {
				wrong = append(wrong, e.String()+" is not of the nodes that the reader chose")
			}
			first = false
		case *parser.MatrixSelector:
			if live && e.Range != 61*time.Second && e.Range != 62*time.Second {
				wrong = append(wrong, e.String()+": $__rate_interval, else it is wrong when the reader looks at more or less time")
			}
			if e.Range > rules.MaxRawRange {
				wrong = append(wrong, e.String()+" is read with each refresh")
			}
		case *parser.SubqueryExpr:
			wrong = append(wrong, e.String()+" is a subquery")
		case *parser.BinaryExpr:
			// Labels that change are there twice for a moment.
			m := e.VectorMatching
			if m != nil && m.Card == parser.CardManyToOne && !aggregated(e.RHS) || m != nil && m.Card == parser.CardOneToMany && !aggregated(e.LHS) {
				wrong = append(wrong, e.String()+": the one side of the match must be an aggregation")
			}
		}
		return nil
	})
	if first {
		wrong = append(wrong, "no metric")
	}
	return wrong
}

// ofRuns reports whether a metric is of runs of probe cluster, which are no exporters and name nodes in their own way.
func ofRuns(name string) bool { return strings.Contains(name, "gpufabric_cluster_probe") }

func aggregated(e parser.Expr) bool {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return aggregated(e.Expr)
	case *parser.AggregateExpr:
		return true
	}
	return false
}

func TestFaultsAreFound(t *testing.T) {
	for expr, want := range map[string]string{
		`rate(a{cluster=~"c1",instance=~"node1"}[61s])`:                                               "",
		`rate(a{cluster=~"c1"}[61s])`:                                                                 "chose",
		`rate(a{cluster=~"c1",instance=~"node1"}[5m])`:                                                "$__rate_interval",
		`avg_over_time(a{cluster=~"c1",instance=~"node1"}[1h])`:                                       "refresh",
		`max_over_time(rate(a{cluster=~"c1",instance=~"node1"}[61s])[1h:1m])`:                         "subquery",
		`a{cluster=~"c1",instance=~"node1"} * on (device) group_left (x) b`:                           "aggregation",
		`a{cluster=~"c1",instance=~"node1"} * on (device) group_left (x) (max by (device, x) (b))`:    "",
		`(max by (device, x) (a{cluster=~"c1",instance=~"node1"})) * on (device) group_right (x) (b)`: "",
	} {
		if got := strings.Join(faults(expr, true), "; "); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}

// TestLinks: every link of dashboards and alerts leads to a dashboard or a runbook that exists.
func TestLinks(t *testing.T) {
	all, _ := shipped(t)
	addresses := map[string]bool{}
	for _, m := range all {
		addresses["/d/"+m.UID+"/"+slug(m.Title)] = true
	}
	check := func(where, link string, shown []string) {
		if runbook, ok := strings.CutPrefix(link, alerts.RunbookBase); ok {
			if runbook != "${__value.text}.md" && runbook != "${__data.fields.Runbook}.md#${__value.raw}" || len(shown) == 0 {
				t.Errorf("%s: runbook %q of %d names", where, runbook, len(shown))
			}
			for _, name := range shown {
				if _, err := alerts.Runbook(name); err != nil {
					t.Errorf("%s: %v", where, err)
				}
			}
			return
		}
		path, query, _ := strings.Cut(link, "?")
		pages := []string{path}
		if before, ok := strings.CutSuffix(path, "${__data.fields."+page+"}"); ok {
			pages = []string{before + pageOfPort, before + pageOfNode}
		}
		for _, page := range pages {
			if !addresses[page] {
				t.Errorf("%s: no dashboard at %s", where, page)
			}
		}
		for _, v := range regexp.MustCompile(`\bvar-(\w+)=`).FindAllStringSubmatch(query, -1) {
			if !slices.Contains([]string{"datasource", "cluster", "instance", "device", "training_job"}, v[1]) {
				t.Errorf("%s: no variable %s", where, v[1])
			}
		}
	}
	n := 0
	for _, m := range all {
		for _, l := range m.Links {
			check(m.name, l.URL, nil)
		}
		for _, p := range m.flat() {
			n += linksOf(t, m.name+"/"+p.Title, p, check)
		}
	}
	if n < 10 {
		t.Errorf("only %d links of cells", n)
	}
	groups, err := alerts.Groups()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				check("alert "+r.Alert, regexp.MustCompile(`{{.*?}}`).ReplaceAllString(r.Annotations["dashboard"], ""), nil)
			}
		}
	}
}

// linksOf checks the links of the cells of a panel, and returns how many there are. The names that a column can
// show are the texts of its mapping and, unmapped, those of alerts.
func linksOf(t *testing.T, where string, p panelModel, check func(where, link string, shown []string)) int {
	t.Helper()
	n := 0
	shownIn := map[any][]string{}
	for _, o := range p.FieldConfig.Overrides {
		for _, prop := range o.Properties {
			if prop.ID == "mappings" {
				texts, err := mappedTexts(prop.Value)
				if err != nil {
					t.Fatal(err)
				}
				shownIn[o.Matcher.Options] = texts
			}
		}
	}
	for _, o := range p.FieldConfig.Overrides {
		var links []dataLink
		shown := shownIn[o.Matcher.Options]
		for _, prop := range o.Properties {
			switch prop.ID {
			case "links":
				if err := json.Unmarshal(prop.Value, &links); err != nil {
					t.Fatal(err)
				}
			}
		}
		if o.Matcher.Options == "Alert" || o.Matcher.Options == "Runbook" {
			shown = append(shown, alertNames(t)...)
		}
		for _, l := range links {
			n++
			if strings.Contains(l.URL, "${__data.fields.Runbook}") {
				shown = append(shownIn["Runbook"], alertNames(t)...)
			}
			check(where, l.URL, shown)
		}
	}
	return n
}

// mappedTexts are what a mapping makes of values.
func mappedTexts(mappings json.RawMessage) (all []string, err error) {
	var list []mappingModel
	if err := json.Unmarshal(mappings, &list); err != nil {
		return nil, fmt.Errorf("mappings: %w", err)
	}
	for _, m := range list {
		for _, to := range m.Options {
			all = append(all, to.Text)
		}
	}
	return all, nil
}

func alertNames(t *testing.T) []string {
	t.Helper()
	groups, err := alerts.Groups()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, g := range groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				names = append(names, r.Alert)
			}
		}
	}
	return names
}

// slug is what Grafana makes of a title for the end of an address.
func slug(title string) string {
	return strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(title), "-"), "-")
}
