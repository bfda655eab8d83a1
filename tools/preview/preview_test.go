// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// series of the fake Prometheus, by what a query has in it. A query of none of them has no data.
const hostile = `<script>alert("x")</script>'&`

func answer(query string, isRange bool) string {
	values := func(labels, a, b string) string {
		now := time.Now().Unix()
		if isRange {
			return fmt.Sprintf(`{"metric":%s,"values":[[%d,%q],[%d,%q]]}`, labels, now-60, a, now-30, b)
		}
		return fmt.Sprintf(`{"metric":%s,"value":[%d.25,%q]}`, labels, now, b)
	}
	var list []string
	name, err := json.Marshal(hostile)
	if err != nil {
		panic(err)
	}
	switch {
	case strings.Contains(query, "broken"):
		return `{"status":"error","errorType":"execution","error":"many-to-many <b>matching</b>"}`
	case strings.Contains(query, "hostile"):
		list = []string{values(`{"instance":`+string(name)+`}`, "1", "2")}
	case strings.Contains(query, "odd"):
		list = []string{values(`{"instance":"a"}`, "NaN", "+Inf"), values(`{"instance":"b"}`, "-Inf", "NaN"), values(`{"instance":"c"}`, "1", "2"), values(`{"instance":"d"}`, "2", "NaN")}
	case strings.Contains(query, "bandwidth"):
		list = []string{values(`{"instance":"a","device":"mlx5_0"}`, "1e9", "2e9"), values(`{"instance":"b","device":"mlx5_1"}`, "3e9", "4e9")}
	case strings.Contains(query, "state"):
		list = []string{values(`{"instance":"a"}`, "1", "0")}
	}
	return `{"status":"success","data":{"resultType":"` + map[bool]string{true: "matrix", false: "vector"}[isRange] + `","result":[` + strings.Join(list, ",") + `]}}`
}

// fake is a Prometheus; asked are the queries that it was asked.
func fake(t *testing.T) (url string, asked *[]string) {
	asked = &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.FormValue("query")
		*asked = append(*asked, query+r.FormValue("match[]"))
		switch {
		case strings.HasPrefix(r.URL.Path, "/api/v1/label/"):
			fmt.Fprint(w, `{"status":"success","data":["b.1","a",""]}`)
		default:
			fmt.Fprint(w, answer(query, strings.HasSuffix(r.URL.Path, "query_range")))
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

// model is a dashboard with one panel.
func model(panel string) string {
	return `{"title":"T","schemaVersion":37,"panels":[` + panel + `],"templating":{"list":[
		{"name":"instance","type":"query","query":{"query":"label_values(up, instance)"},"includeAll":true,"multi":true,"allValue":".*"}]}}`
}

func panel(kind, more string) string {
	return fmt.Sprintf(`{"id":1,"type":%q,"title":"P","gridPos":{"x":0,"y":0,"w":12,"h":8}%s}`, kind, more)
}

// draw returns the page of a panel and what the report says.
func draw(t *testing.T, panelJSON string) (page, report string, err error) {
	t.Helper()
	url, _ := fake(t)
	d, err := parse([]byte(model(panelJSON)))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	s := &sheet{Dashboard: d, prometheus: client{url}, from: now.Add(-5 * time.Minute), to: now, scrape: 15 * time.Second}
	if err := s.load(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	page, _ = s.page()
	var b strings.Builder
	err = s.report(&b, "d")
	return page, b.String(), err
}

func targets(format string, exprs ...string) string {
	var list []string
	for i, e := range exprs {
		how := `"range":true`
		if format == "table" || format == "instant" {
			how = `"instant":true`
		}
		if format == "table" {
			how += `,"format":"table"`
		}
		list = append(list, fmt.Sprintf(`{"refId":%q,"expr":%q,%s,"legendFormat":"of {{instance}}"}`, string(rune('A'+i)), e, how))
	}
	return `,"targets":[` + strings.Join(list, ",") + `]`
}

func TestPanels(t *testing.T) {
	const config = `,"fieldConfig":{"defaults":{"unit":"Bps","noValue":"nothing measured","mappings":[{"type":"value","options":{"0":{"text":"down","color":"red"}}}],
		"thresholds":{"mode":"absolute","steps":[{"color":"green","value":null},{"color":"orange","value":1.5e9}]}},"overrides":[]}`
	ways := map[string]string{"timeseries": "range", "heatmap": "range", "state-timeline": "range", "stat": "instant", "gauge": "instant", "table": "table"}
	for kind, way := range ways {
		t.Run(kind, func(t *testing.T) {
			page, report, err := draw(t, panel(kind, targets(way, "bandwidth")+config))
			if err != nil || !strings.Contains(report, " 2\n") {
				t.Errorf("data: %v, report %q; want two series or rows", err, report)
			}
			if kind == "table" {
				contains(t, page, "mlx5_0", "mlx5_1", "2 GB/s", "4 GB/s")
			} else {
				contains(t, page, "of a", "of b")
			}
			page, report, err = draw(t, panel(kind, targets(way, "nowhere")+config))
			if err != nil {
				t.Errorf("no data is no error: %v", err)
			}
			contains(t, page, "nothing measured")
			contains(t, report, "no data: nothing measured")

			page, _, err = draw(t, panel(kind, targets(way, "broken")+config))
			if err == nil {
				t.Error("a query that fails is no failure")
			}
			contains(t, page, `class="error"`, "many-to-many &lt;b&gt;matching")

			page, _, _ = draw(t, panel(kind, targets(way, "hostile")+config))
			if strings.Contains(page, "<script") {
				t.Error("a label gets into the page as HTML")
			}
			if kind == "table" || kind == "timeseries" {
				contains(t, page, "&lt;script&gt;")
			}

			page, _, err = draw(t, panel(kind, targets(way, "odd")+config))
			if err != nil || strings.Contains(page, `="NaN"`) || strings.Contains(page, "NaN,") || strings.Contains(page, "Inf,") || strings.Contains(page, `="+Inf"`) {
				t.Errorf("NaN and Inf: %v, or places of the page that are no numbers", err)
			}
			contains(t, page, "drawn by tools/preview from real data")
		})
	}
	_, report, _ := draw(t, panel("timeseries", targets("range", "bandwidth")+strings.Replace(config, `"unit"`, `"max":3e9,"unit"`, 1)))
	contains(t, report, "1 series leave the axis")
	page, _, _ := draw(t, panel("stat", targets("instant", "state")+config))
	contains(t, page, "down", painted("red"))
	page, _, _ = draw(t, panel("text", `,"options":{"mode":"markdown","content":"# Head\n- **strong** [link](http://x)\n- <script>"}`))
	contains(t, page, "<h3>Head</h3>", "<li><strong>strong</strong> <a>link</a>", "&lt;script&gt;")
}

func contains(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, one := range all {
		if !strings.Contains(text, one) {
			t.Errorf("%q is missing in:\n%.3000s", one, text)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for what, json := range map[string]string{
		`"piechart"`:            panel("piechart", ""),
		`"repeat"`:              panel("stat", `,"repeat":"device"`),
		`"sparkle"`:             panel("stat", `,"options":{"sparkle":true}`),
		`"groupingToMatrix"`:    panel("table", `,"transformations":[{"id":"groupingToMatrix","options":{}}]`),
		`"furlongs"`:            panel("stat", `,"fieldConfig":{"defaults":{"unit":"furlongs"}}`),
		`"chartreuse"`:          panel("stat", `,"fieldConfig":{"defaults":{"thresholds":{"mode":"absolute","steps":[{"value":null,"color":"chartreuse"}]}}}`),
		`"lcd-gauge"`:           panel("table", `,"fieldConfig":{"defaults":{},"overrides":[{"matcher":{"id":"byName","options":"x"},"properties":[{"id":"custom.displayMode","value":"lcd-gauge"}]}]}`),
		`"bogus"`:               panel("table", `,"fieldConfig":{"defaults":{},"overrides":[{"matcher":{"id":"byName","options":"x"},"properties":[{"id":"bogus","value":1}]}]}`),
		`"byValue"`:             panel("table", `,"fieldConfig":{"defaults":{},"overrides":[{"matcher":{"id":"byValue","options":"x"},"properties":[]}]}`),
		`"p99"`:                 panel("stat", `,"options":{"reduceOptions":{"calcs":["p99"]}}`),
		"grid of 24 columns":    strings.Replace(panel("stat", ""), `"w":12`, `"w":25`, 1),
		"instant and range":     panel("stat", `,"targets":[{"refId":"A","expr":"up","instant":true,"range":true}]`),
		"buckets that Grafana":  panel("heatmap", `,"options":{"calculate":true}`),
		"within a panel":        panel("stat", `,"panels":[`+panel("stat", "")+`]`),
		`mapping "wish"`:        panel("stat", `,"fieldConfig":{"defaults":{"mappings":[{"type":"wish","options":{}}]}}`),
		`mode "html"`:           panel("text", `,"options":{"mode":"html"}`),
		`scheme "Beige"`:        panel("heatmap", `,"options":{"color":{"mode":"scheme","scheme":"Beige"}}`),
		`query format "logs"`:   panel("stat", `,"targets":[{"refId":"A","expr":"up","format":"logs"}]`),
		`within "thresholdsSty`: panel("timeseries", `,"fieldConfig":{"defaults":{"custom":{"thresholdsStyle":{"mode":"series"}}}}`),
	} {
		_, err := parse([]byte(model(json)))
		what = strings.TrimPrefix(what, `within "`)
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: error %v", what, err)
		}
	}
	if _, err := parse([]byte(strings.Replace(model(panel("stat", "")), "37", "42", 1))); err == nil {
		t.Error("schemaVersion 42 is drawn")
	}
}

// TestOwnDashboards: what is committed can be drawn.
func TestOwnDashboards(t *testing.T) {
	paths, err := filepath.Glob("../../dashboards/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no dashboards in dashboards/: %v", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parse(text); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestVariables(t *testing.T) {
	url, asked := fake(t)
	d, err := parse([]byte(`{"title":"T","schemaVersion":37,"panels":[
		{"id":1,"type":"stat","title":"Of $instance","gridPos":{"x":0,"y":0,"w":12,"h":8},
		 "targets":[{"refId":"A","expr":"bandwidth{instance=~\"$instance\",device=~\"${device}\"}[$__rate_interval]","instant":true}]}],
		"templating":{"list":[{"name":"datasource","type":"datasource"},
		{"name":"instance","type":"query","query":"label_values(up, instance)","includeAll":true,"multi":true},
		{"name":"device","type":"query","query":{"query":"label_values(hca{instance=~\"$instance\"}, device)"},"includeAll":true,"allValue":".*"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	s := &sheet{Dashboard: d, prometheus: client{url}, from: now.Add(-time.Hour), to: now, scrape: 15 * time.Second}
	if err := s.load(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	want := []string{"up", `hca{instance=~"(a|b\\.1)"}`, `bandwidth{instance=~"(a|b\\.1)",device=~".*"}[60s]`}
	if fmt.Sprint(*asked) != fmt.Sprint(want) {
		t.Errorf("asked %q, want %q", *asked, want)
	}
	page, _ := s.page()
	contains(t, page, "Of All")
	if err := s.load(t.Context(), map[string]string{"instance": "c"}); err == nil {
		t.Error("a value that the variable has not is taken")
	}
	if err := s.load(t.Context(), map[string]string{"instance": "b.1"}); err != nil {
		t.Fatal(err)
	}
	if last := (*asked)[len(*asked)-1]; !strings.Contains(last, `instance=~"b\\.1"`) {
		t.Errorf("asked %q", last)
	}
}

// TestTable joins two queries by the labels they share, gives columns names and an order, and sorts rows.
func TestTable(t *testing.T) {
	page, report, err := draw(t, panel("table", targets("table", "bandwidth", "state")+`,
		"transformations":[{"id":"merge","options":{}},{"id":"organize","options":{"excludeByName":{"Time":true},"indexByName":{"Value #B":0,"instance":1},"renameByName":{"Value #B":"State","Value #A":"Sent"}}}],
		"options":{"sortBy":[{"displayName":"Sent","desc":true}]},
		"fieldConfig":{"defaults":{},"overrides":[
		 {"matcher":{"id":"byName","options":"State"},"properties":[{"id":"noValue","value":"not known"},{"id":"mappings","value":[{"type":"value","options":{"0":{"text":"down"}}}]}]},
		 {"matcher":{"id":"byRegexp","options":"Se.*"},"properties":[{"id":"unit","value":"Bps"},{"id":"custom.width","value":90}]}]}`))
	if err != nil {
		t.Fatalf("%v %s", err, report)
	}
	var cells []string
	for _, part := range strings.Split(page, "<span class=\"\">")[1:] {
		cells = append(cells, part[:strings.Index(part, "<")])
	}
	if got := strings.Join(cells, ","); got != "not known,b,mlx5_1,4 GB/s,down,a,mlx5_0,2 GB/s" {
		t.Errorf("cells: %s", got)
	}
	var heads []string
	for _, part := range strings.Split(page, "<th ")[1:] {
		heads = append(heads, part[strings.Index(part, ">")+1:strings.Index(part, "<")])
	}
	if got := strings.Join(heads, ","); got != "State,instance,device,Sent" {
		t.Errorf("columns: %s", got)
	}
}

func TestFormat(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		v        float64
		unit     string
		decimals int
		want     string
	}{
		{0, "Bps", -1, "0 B/s"},
		{44.1e9, "Bps", -1, "44.1 GB/s"},
		{2048, "bytes", -1, "2 KiB"},
		{0.953, "percentunit", -1, "95.3%"},
		{0.953, "percentunit", 0, "95%"},
		{3e-5, "s", -1, "30 µs"},
		{90, "s", -1, "1.5 mins"},
		{1500, "short", -1, "1.5 K"},
		{1, "bool_yes_no", -1, "Yes"},
		{7, "suffix: GPUs", -1, "7 GPUs"},
		{940e3, "dateTimeFromNow", -1, "1 mins ago"},
		{math.NaN(), "Bps", -1, "NaN"},
		{math.Inf(-1), "s", 2, "-Inf"},
		{123456, "none", -1, "123456"},
	} {
		if got := format(c.v, c.unit, c.decimals, now); got != c.want {
			t.Errorf("%v in %q: %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}

// FuzzMarkdown looks for HTML that the text brought.
func FuzzMarkdown(f *testing.F) {
	f.Add("# a\n- **b** `c` [d](e)\n<i onclick=x>\n\n*f*")
	f.Add("[**](`<`)**`*")
	tags := regexp.MustCompile(`</?(div|p|ul|li|h3|code|strong|em|a)>|<div class="text">`)
	f.Fuzz(func(t *testing.T, text string) {
		if rest := tags.ReplaceAllString(string(markdown(text)), ""); strings.ContainsAny(rest, "<>") {
			t.Errorf("%q becomes %q", text, markdown(text))
		}
	})
}
