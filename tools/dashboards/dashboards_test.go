// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/dashboards"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/verdict"
	"gpufabric_exporter/probes"
)

var update = flag.Bool("update", false, "write the dashboards instead of comparing them")

// model is what the tests read of a dashboard: the JSON as Grafana gets it, not the types that wrote it.
type model struct {
	name          string
	UID           string `json:"uid"`
	Title         string
	Description   string
	Tags          []string
	Editable      *bool
	SchemaVersion int
	Refresh       string
	Time          struct{ From, To string }
	Links         []dataLink
	Panels        []panelModel
	Templating    struct{ List []variableModel }
	Annotations   struct {
		List []struct {
			Name, Expr, TextFormat string
			Datasource             *sourceModel
		}
	}
}

type sourceModel struct{ Type, UID string }

type variableModel struct {
	Name, Type, Label string
	AllValue          string
	Multi, IncludeAll bool
	Definition        string
	Query             any
	Datasource        *sourceModel
	Current           struct{ Value any }
	Sort              int
}

type dataLink struct{ Title, URL string }

// sorting is a column that orders a table.
type sorting struct {
	DisplayName string
	Desc        bool
}

type panelModel struct {
	ID                       int
	Type, Title, Description string
	Collapsed                bool
	Datasource               *sourceModel
	GridPos                  struct{ X, Y, W, H int }
	Panels                   []panelModel
	MaxDataPoints            float64
	Targets                  []targetModel
	Transformations          []transformationModel
	Options                  struct {
		Legend struct {
			DisplayMode string
			Calcs       []string
		}
		SortBy []sorting
	}
	FieldConfig struct {
		Defaults struct {
			Unit, NoValue string
			Links         []dataLink
			Color         struct{ Mode string }
			Mappings      []mappingModel
			Custom        struct{ AxisSoftMax float64 }
		}
		Overrides []struct {
			Matcher    struct{ ID, Options string }
			Properties []struct {
				ID    string
				Value json.RawMessage
			}
		}
	}
}

type targetModel struct {
	RefID, Expr, Format string
	LegendFormat        string
	Instant, Range      bool
	Datasource          *sourceModel
}

type transformationModel struct {
	ID      string
	Options struct {
		ExcludeByName map[string]bool
		RenameByName  map[string]string
	}
}

// mappingModel maps values to words; of patterns there is nothing in it.
type mappingModel struct {
	Options map[string]struct{ Text, Color string }
}

func (m *mappingModel) UnmarshalJSON(text []byte) error {
	var either struct {
		Type    string
		Options json.RawMessage
	}
	if err := json.Unmarshal(text, &either); err != nil || either.Type != "value" {
		return err
	}
	return json.Unmarshal(either.Options, &m.Options)
}

// shipped are the committed dashboards and their text.
func shipped(t *testing.T) (all []model, texts map[string][]byte) {
	t.Helper()
	names, err := fs.Glob(dashboards.Files(), "*.json")
	if err != nil {
		t.Fatal(err)
	}
	texts = map[string][]byte{}
	for _, name := range names {
		text, err := fs.ReadFile(dashboards.Files(), name)
		if err != nil {
			t.Fatal(err)
		}
		m := model{name: strings.TrimSuffix(name, ".json")}
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all, texts[m.name] = append(all, m), text
	}
	return all, texts
}

// flat are the panels, those in rows included, without the rows.
func (m model) flat() []panelModel {
	var all []panelModel
	for _, p := range m.Panels {
		if p.Type == "row" {
			all = append(all, p.Panels...)
		} else {
			all = append(all, p)
		}
	}
	return all
}

// flatWithRows are the panels and the rows.
func (m model) flatWithRows() []panelModel {
	all := m.flat()
	for _, p := range m.Panels {
		if p.Type == "row" {
			all = append(all, p)
		}
	}
	return all
}

// TestUpToDate: the committed files are what the generator writes.
func TestUpToDate(t *testing.T) {
	if *update {
		if err := write("../../dashboards"); err != nil {
			t.Fatal(err)
		}
		return
	}
	_, texts := shipped(t)
	all, err := boards()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		want, err := b.encode()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(texts[b.name], want) {
			t.Errorf("dashboards/%s.json is not what the generator writes: make dashboards", b.name)
		}
		delete(texts, b.name)
	}
	for name := range texts {
		t.Errorf("dashboards/%s.json is not written by the generator", name)
	}
}

func TestFrame(t *testing.T) {
	all, texts := shipped(t)
	if len(all) != 7 {
		t.Fatalf("%d dashboards", len(all))
	}
	for _, m := range all {
		if m.UID != "gpufabric-"+m.name || m.Title == "" || m.Description == "" || !slices.Contains(m.Tags, "gpufabric") {
			t.Errorf("%s: uid %q, title %q, description %q, tags %q", m.name, m.UID, m.Title, m.Description, m.Tags)
		}
		if m.SchemaVersion < 37 || m.SchemaVersion > 39 {
			t.Errorf("%s: schemaVersion %d, want 37 to 39 (Grafana 9.3 and later)", m.name, m.SchemaVersion)
		}
		if m.Editable == nil || !*m.Editable || m.Refresh == "" || m.Time.From == "" || m.Time.To != "now" {
			t.Errorf("%s: editable %v, refresh %q, time %v", m.name, m.Editable, m.Refresh, m.Time)
		}
		for _, key := range later {
			if bytes.Contains(texts[m.name], []byte(`"`+key+`":`)) {
				t.Errorf("%s: %s is younger than Grafana 9.3", m.name, key)
			}
		}
		for _, other := range all {
			if reached := slices.ContainsFunc(m.Links, func(l dataLink) bool { return strings.HasPrefix(l.URL, "/d/"+other.UID+"/") }); reached == (other.UID == m.UID) {
				t.Errorf("%s: link to %s: %v", m.name, other.UID, reached)
			}
		}
		checkVariables(t, m)
	}
}

func checkVariables(t *testing.T, m model) {
	t.Helper()
	var names []string
	for _, v := range m.Templating.List {
		names = append(names, v.Name)
		if v.Name == "datasource" {
			if v.Type != "datasource" || v.Query != "prometheus" {
				t.Errorf("%s: variable datasource is %s of %v", m.name, v.Type, v.Query)
			}
			continue
		}
		const sorts = 6 // of Grafana 9.3: with others the list has no order, and a board of one node begins with any
		if v.Sort < 1 || v.Sort > sorts {
			t.Errorf("%s: variable %s: sort %d, want 1 to %d", m.name, v.Name, v.Sort, sorts)
		}
		q, _ := v.Query.(map[string]any)
		if v.Type != "query" || v.Label == "" || v.Datasource == nil || v.Datasource.UID != "${datasource}" || q["query"] != v.Definition || !strings.HasPrefix(v.Definition, "label_values(") {
			t.Errorf("%s: variable %s: %+v", m.name, v.Name, v)
		}
		one := v.Name == "site" || v.Name == "instance" && (m.name == "node" || m.name == "port") || v.Name == "device" && m.name == "port"
		if v.Multi == one || v.IncludeAll == one || !one && v.AllValue != ".*" {
			t.Errorf("%s: variable %s: multi %v, all %v as %q", m.name, v.Name, v.Multi, v.IncludeAll, v.AllValue)
		}
	}
	want := []string{"datasource", "cluster", "instance", "device"}
	if m.name == "node" || m.name == "port" {
		want = []string{"datasource", "cluster", "instance", "site", "device"}
	}
	if m.name == "jobs" {
		want = append(want, "training_job")
	}
	if !slices.Equal(names, want) {
		t.Errorf("%s: variables %q, want %q", m.name, names, want)
	}
}

func TestPanels(t *testing.T) {
	types := []string{"timeseries", "stat", "table", "state-timeline", "heatmap", "text"}
	all, _ := shipped(t)
	for _, m := range all {
		ids, titles := map[int]string{}, map[string]bool{}
		for _, p := range m.flatWithRows() {
			if p.Title == "" || ids[p.ID] != "" || p.ID == 0 {
				t.Errorf("%s/%s: id %d is that of %q", m.name, p.Title, p.ID, ids[p.ID])
			}
			ids[p.ID] = p.Type + " " + p.Title
		}
		for _, p := range m.flat() {
			if titles[p.Title] {
				t.Errorf("%s/%s: there are two", m.name, p.Title)
			}
			titles[p.Title] = true
			if !slices.Contains(types, p.Type) {
				t.Errorf("%s/%s: type %s, which Grafana 9.3 may not have; want one of %s", m.name, p.Title, p.Type, types)
			}
			if len(p.Description) < 20 || !strings.HasSuffix(p.Description, ".") {
				t.Errorf("%s/%s: description %q", m.name, p.Title, p.Description)
			}
			if p.Type == "text" {
				continue
			}
			if p.FieldConfig.Defaults.Unit == "" || len(p.FieldConfig.Defaults.NoValue) < 4 && p.Type != "state-timeline" {
				t.Errorf("%s/%s: unit %q, without data it says %q", m.name, p.Title, p.FieldConfig.Defaults.Unit, p.FieldConfig.Defaults.NoValue)
			}
			if p.Datasource == nil || *p.Datasource != (sourceModel{"prometheus", "${datasource}"}) || len(p.Targets) == 0 {
				t.Errorf("%s/%s: data of %v, %d queries", m.name, p.Title, p.Datasource, len(p.Targets))
			}
			checkTargets(t, m.name, p)
		}
		checkGrid(t, m)
	}
}

// checkTargets requires that figures and tables query the present, and other panels the time of the dashboard.
func checkTargets(t *testing.T, name string, p panelModel) {
	t.Helper()
	now := slices.Contains([]string{"stat", "table"}, p.Type)
	for _, q := range p.Targets {
		if q.Datasource == nil || *q.Datasource != *p.Datasource || q.Instant != now || q.Range == now || (q.Format == "table") != (p.Type == "table") {
			t.Errorf("%s/%s: query %s: instant %v, range %v, format %q, of %v", name, p.Title, q.RefID, q.Instant, q.Range, q.Format, q.Datasource)
		}
	}
	if merged := slices.ContainsFunc(p.Transformations, func(x transformationModel) bool { return x.ID == "merge" }); merged != (p.Type == "table" && len(p.Targets) > 1) {
		t.Errorf("%s/%s: %d queries of a %s, merged: %v", name, p.Title, len(p.Targets), p.Type, merged)
	}
}

// checkGrid requires that panels are within 24 columns, side by side, and that lines are full.
func checkGrid(t *testing.T, m model) {
	t.Helper()
	place := func(panels []panelModel, where string) {
		taken, width := map[[2]int]string{}, map[int]int{}
		for _, p := range panels {
			g := p.GridPos
			if g.W <= 0 || g.H <= 0 || g.X < 0 || g.X+g.W > 24 {
				t.Errorf("%s/%s: place %+v", m.name, p.Title, g)
			}
			width[g.Y] += g.W
			for x := g.X; x < g.X+g.W; x++ {
				for y := g.Y; y < g.Y+g.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" {
						t.Errorf("%s/%s lies over %s", m.name, p.Title, other)
						return
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
		}
		for y, w := range width {
			if w != 24 {
				t.Errorf("%s %s: the line at %d is %d wide, want 24", m.name, where, y, w)
			}
		}
	}
	place(m.Panels, "")
	for _, p := range m.Panels {
		if p.Type == "row" {
			place(p.Panels, p.Title)
			if !p.Collapsed || len(p.Panels) == 0 {
				t.Errorf("%s: row %s is open or empty", m.name, p.Title)
			}
		}
	}
}

// What a metric can say has words in the tables.
func TestEveryValueHasWords(t *testing.T) {
	for _, lacks := range []string{
		missing(severities(), verdict.Severities()), missing(congestionModes(), fabric.RoCEModes()), missing(kinds(), probes.Kinds()),
		missing(transports(), probes.Paths()), missing(skips(), probes.Skips()), missing(probeCauses(), probes.Causes()),
		missing(jobUnknowns(), job.Reasons()), missing(jobRulesWords(), job.Rules()), missing(impairments(), job.Impairments()),
	} {
		if lacks != "" {
			t.Errorf("no words for %s", lacks)
		}
	}
}

func missing[T ~string](w words, values []T) string {
	for _, v := range values {
		if _, ok := w[string(v)]; !ok {
			return string(v)
		}
	}
	return ""
}
