// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// DashboardQuery is a query of a shipped dashboard.
type DashboardQuery struct {
	Dashboard string // name of its file without .json
	Panel     string // title; "annotation: NAME" and "variable: NAME" for those
	Ref       string // which of the panel; empty for annotations and variables
	Type      string // of the panel, "timeseries"
	Instant   bool   // it is asked for one moment
	Expr      string // with Grafana's variables
}

// Name identifies the query.
func (q DashboardQuery) Name() string {
	return strings.TrimSuffix(q.Dashboard+"/"+q.Panel+"/"+q.Ref, "/")
}

// For returns what Grafana would ask for nodes and devices of these names, which are patterns.
func (q DashboardQuery) For(instance string) string {
	values := map[string]string{
		"cluster": ".*", "site": ".*", "instance": instance, "device": ".*", "training_job": ".*",
		"__rate_interval": "1m", "__interval": "15s", "__range": "10m",
	}
	return variable.ReplaceAllStringFunc(q.Expr, func(name string) string {
		value, ok := values[strings.Trim(name, "${}")]
		if !ok {
			return `"` + name // an error of the query, also within a string
		}
		return value
	})
}

var (
	variable    = regexp.MustCompile(`\$([a-zA-Z_]\w*|\{[a-zA-Z_]\w*\})`) // not $1 of label_replace
	labelValues = regexp.MustCompile(`^label_values\((\w+)(?:\{(.*)\})?, *(\w+)\)$`)
)

// DashboardQueries returns all queries of the shipped dashboards: of panels, annotations and variables.
func DashboardQueries(t *testing.T) []DashboardQuery {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	files, err := filepath.Glob(filepath.Join(filepath.Dir(here), "../../dashboards/*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards (%v)", err)
	}
	var all []DashboardQuery
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		found, err := d.queries(strings.TrimSuffix(filepath.Base(f), ".json"))
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		all = append(all, found...)
	}
	return all
}

// dashboard is what is read of Grafana's JSON.
type dashboard struct {
	Panels      []panel
	Annotations struct {
		List []struct {
			Name, Expr string
			BuiltIn    int
		}
	}
	Templating struct {
		List []struct {
			Name, Type string
			Query      json.RawMessage
		}
	}
}

type panel struct {
	Title, Type string
	Targets     []struct {
		RefID   string
		Expr    string
		Instant bool
	}
	Panels []panel // of a row that is folded
}

func (d dashboard) queries(name string) ([]DashboardQuery, error) {
	var all []DashboardQuery
	var walk func(panels []panel)
	walk = func(panels []panel) {
		for _, p := range panels {
			for _, q := range p.Targets {
				all = append(all, DashboardQuery{
					Dashboard: name, Panel: p.Title, Ref: q.RefID, Type: p.Type, Instant: q.Instant,
					Expr: q.Expr,
				})
			}
			walk(p.Panels)
		}
	}
	walk(d.Panels)
	for _, a := range d.Annotations.List {
		if a.BuiltIn == 0 {
			all = append(all, DashboardQuery{Dashboard: name, Panel: "annotation: " + a.Name, Type: "annotation", Expr: a.Expr})
		}
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		var query struct{ Query string }
		if err := json.Unmarshal(v.Query, &query); err != nil {
			return nil, fmt.Errorf("variable %s: %w", v.Name, err)
		}
		m := labelValues.FindStringSubmatch(query.Query)
		if m == nil {
			return nil, fmt.Errorf("variable %s: query %q, expected label_values(SELECTOR, LABEL)", v.Name, query.Query)
		}
		all = append(all, DashboardQuery{
			Dashboard: name, Panel: "variable: " + v.Name, Type: "variable", Instant: true,
			Expr: fmt.Sprintf(`group by (%[3]s) (%[1]s{%[3]s!="",%[2]s})`, m[1], m[2], m[3]),
		})
	}
	return all, nil
}

// Rows asks for one moment and returns how many series there are.
func (s *Server) Rows(expr string, at time.Time) (int, error) {
	return s.rows("query", url.Values{"query": {expr}, "time": {unix(at)}})
}

// RowsOver asks for a range and returns how many series there are.
func (s *Server) RowsOver(expr string, from, to time.Time, step time.Duration) (int, error) {
	return s.rows("query_range", url.Values{
		"query": {expr}, "start": {unix(from)}, "end": {unix(to)},
		"step": {fmt.Sprint(step.Seconds())},
	})
}

func unix(t time.Time) string { return fmt.Sprintf("%.3f", float64(t.UnixMilli())/1000) }

func (s *Server) rows(api string, form url.Values) (int, error) {
	answer, err := http.PostForm("http://"+s.Address+"/api/v1/"+api, form)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	var got struct {
		Error string
		Data  struct {
			ResultType string
			Result     []json.RawMessage
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
		return 0, err
	}
	if got.Error != "" {
		return 0, errors.New(got.Error)
	}
	if got.Data.ResultType == "scalar" { // a value and its time
		return 1, nil
	}
	return len(got.Data.Result), nil
}
