// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// most is the size of a query: some proxies and ruler front ends take no more than 8 kB in an address.
const mostOfQuery = 8000

// each calls f for all queries of all dashboards.
func each(t *testing.T, f func(m model, p panelModel, q targetModel, tree parser.Expr)) {
	t.Helper()
	all, _ := shipped(t)
	for _, m := range all {
		for _, p := range m.flat() {
			for _, q := range p.Targets {
				tree, err := parser.ParseExpr(chosen.Replace(q.Expr))
				if err != nil {
					t.Fatalf("%s/%s %s: %v", m.name, p.Title, q.RefID, err)
				}
				f(m, p, q, tree)
			}
		}
	}
}

func TestQueriesAreSmall(t *testing.T) {
	each(t, func(m model, p panelModel, q targetModel, _ parser.Expr) {
		if len(q.Expr) > mostOfQuery {
			t.Errorf("%s/%s %s has %d bytes, want %d at most: record a part of it", m.name, p.Title, q.RefID, len(q.Expr), mostOfQuery)
		}
	})
}

// TestNodesAreOfClusters: two clusters have nodes of one name, which are not added up.
func TestNodesAreOfClusters(t *testing.T) {
	each(t, func(m model, p panelModel, q targetModel, tree parser.Expr) {
		parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
			var by []string
			switch n := node.(type) {
			case *parser.AggregateExpr:
				if !n.Without {
					by = n.Grouping
				}
			case *parser.BinaryExpr:
				if n.VectorMatching != nil && n.VectorMatching.On {
					by = n.VectorMatching.MatchingLabels
				}
			}
			named := slices.Contains(by, "instance") || slices.Contains(by, "training_job")
			device := slices.Contains(by, "device") && m.name != "node" && m.name != "port"
			if !slices.Contains(by, "cluster") && (slices.Contains(by, "leaf") || slices.Contains(by, "peer_leaf")) {
				t.Errorf("%s/%s %s: %v: two clusters may have leaves of one name", m.name, p.Title, q.RefID, by)
			}
			number := len(by) == 1 // of names that several clusters have
			if (named || device) && !number && !slices.Contains(by, "cluster") || device && !slices.Contains(by, "instance") {
				t.Errorf("%s/%s %s: %v without cluster and instance", m.name, p.Title, q.RefID, by)
			}
			return nil
		})
	})
	all, _ := shipped(t)
	for _, m := range all {
		for _, a := range m.Annotations.List {
			if !strings.Contains(a.Expr, "by (cluster, instance") || !strings.Contains(a.TextFormat, "{{cluster}} {{instance}}: ") {
				t.Errorf("%s: annotation %s does not name the node: %q", m.name, a.Name, a.TextFormat)
			}
		}
	}
}

// TestRoCEReadsRecordedRates: what counters of all priorities of a fleet count is too much to be read with each refresh.
func TestRoCEReadsRecordedRates(t *testing.T) {
	each(t, func(m model, p panelModel, q targetModel, tree parser.Expr) {
		if m.name != "roce" || !q.Range {
			return
		}
		parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
			if s, ok := node.(*parser.VectorSelector); ok && !strings.Contains(s.Name, ":") {
				t.Errorf("%s %s reads %s", p.Title, q.RefID, s.Name)
			}
			return nil
		})
	})
}

// TestOneWindow: the rate of a counter is over the same time in figures and graphs of a dashboard.
func TestOneWindow(t *testing.T) {
	windows := map[string]string{}
	each(t, func(m model, p panelModel, q targetModel, tree parser.Expr) {
		parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
			call, ok := node.(*parser.Call)
			if !ok || call.Func.Name != "rate" {
				return nil
			}
			s := call.Args[0].(*parser.MatrixSelector)
			key := m.name + " " + s.VectorSelector.(*parser.VectorSelector).Name
			if had := windows[key]; had != "" && had != s.Range.String() {
				t.Errorf("%s/%s %s: the rate of %s over %s, elsewhere over %s", m.name, p.Title, q.RefID, key, s.Range, had)
			}
			windows[key] = s.Range.String()
			if p.Type == "stat" {
				t.Errorf("%s/%s %s: a rate of its own: record it, so that graphs show the same", m.name, p.Title, q.RefID)
			}
			return nil
		})
	})
}

// TestUnitsAgree: networks are in bits per second, and what NCCL measures in bytes per second.
func TestUnitsAgree(t *testing.T) {
	all, _ := shipped(t)
	for _, m := range all {
		for _, p := range m.flat() {
			units := map[string]bool{p.FieldConfig.Defaults.Unit: true}
			for _, o := range p.FieldConfig.Overrides {
				for _, prop := range o.Properties {
					var unit string
					if prop.ID == "unit" && json.Unmarshal(prop.Value, &unit) == nil {
						units[unit] = true
					}
				}
			}
			text := ""
			for _, q := range p.Targets {
				text += q.Expr + "\n"
			}
			if units["Bps"] && !strings.Contains(text, "bandwidth") {
				t.Errorf("%s/%s is in bytes per second, and no bandwidth of NCCL", m.name, p.Title)
			}
			if units["bps"] && !strings.Contains(text, "8 * ") {
				t.Errorf("%s/%s is in bits per second, and shows bytes", m.name, p.Title)
			}
		}
	}
}

// TestOneNodeIsOfOneCluster: what a board of one node reads is of one cluster, which it names.
func TestOneNodeIsOfOneCluster(t *testing.T) {
	all, _ := shipped(t)
	for _, m := range all {
		var read []string
		for _, p := range m.flat() {
			for _, q := range p.Targets {
				read = append(read, q.Expr)
			}
		}
		for _, a := range m.Annotations.List {
			read = append(read, a.Expr)
		}
		one := m.name == "node" || m.name == "port"
		for _, expr := range read {
			if strings.Contains(expr, "$site") != one && strings.Contains(expr, "{") || one && strings.Contains(expr, "$cluster") {
				t.Errorf("%s: %s is not of one cluster", m.name, expr)
			}
		}
	}
}

// TestFiguresLead: each figure links to the panel that explains it.
func TestFiguresLead(t *testing.T) {
	all, _ := shipped(t)
	places := map[string]bool{} // a row of that id would be shown instead, and is empty
	for _, m := range all {
		for _, p := range m.flatWithRows() {
			places[fmt.Sprintf("/d/%s/%s?viewPanel=%d&", m.UID, slug(m.Title), p.ID)] = p.Type != "row"
		}
	}
	for _, m := range all {
		for _, p := range m.flat() {
			if p.Type != "stat" {
				continue
			}
			links := p.FieldConfig.Defaults.Links
			keeps := "&${__all_variables}&${__url_time_range}"
			if (m.name == "node" || m.name == "port") && len(links) == 1 && !strings.HasPrefix(links[0].URL, "/d/"+m.UID+"/") {
				keeps = "&var-datasource=${datasource}&var-cluster=${site}&${instance:queryparam}&${__url_time_range}"
			}
			if len(links) != 1 || !places[strings.SplitAfter(links[0].URL, "&")[0]] || !strings.HasSuffix(links[0].URL, keeps) {
				t.Errorf("%s/%s leads to %+v", m.name, p.Title, links)
			}
		}
	}
}

// TestImportable: what Grafana wants to know of a file before it imports it.
func TestImportable(t *testing.T) {
	_, texts := shipped(t)
	for name, text := range texts {
		var of struct {
			Inputs   []any                                      `json:"__inputs"`
			Requires []struct{ Type, ID, Name, Version string } `json:"__requires"`
		}
		if err := json.Unmarshal(text, &of); err != nil {
			t.Fatal(err)
		}
		if of.Inputs == nil || len(of.Requires) < 4 || of.Requires[0].ID != "grafana" || of.Requires[0].Version == "" {
			t.Errorf("%s: inputs %v, requires %v", name, of.Inputs, of.Requires)
		}
	}
}
