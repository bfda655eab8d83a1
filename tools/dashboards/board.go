// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"gpufabric_exporter/alerts"
)

// width is that of Grafana's grid.
const width = 24

// schema is that of Grafana 9.3. Later ones migrate it when they load it.
const schema = 37

// board is a dashboard: what is wrong comes first, details follow in rows that are closed.
type board struct {
	name        string // of the file; the uid is gpufabric-<name>
	title       string // Grafana makes the end of the address from it
	description string
	oneNode     bool // shows one node at a time
	oneDevice   bool // shows one RDMA device at a time
	ofJobs      bool // shows the jobs that are chosen
	annotations bool // marks changes of versions, beside findings
	lines       []line
	rows        []row

	leads map[string]place // where the figure with that title is explained
}

// place is a panel: the address of its dashboard, and its title.
type place struct{ board, panel string }

// panel is a panel that is not placed yet.
type panel = *dashboard.PanelBuilder

// line is panels side by side; their widths add up to 24.
type line []panel

// row is a closed row of lines.
type row struct {
	title string
	lines []line
}

func boards() ([]board, error) {
	groups, err := alerts.Groups()
	if err != nil {
		return nil, fmt.Errorf("names of alerts: %w", err)
	}
	t := newTexts(groups)
	return []board{fleet(t), node(t), port(t), roce(), jobs(), probeResults(t), ping()}, nil
}

func (b board) uid() string { return "gpufabric-" + b.name }

// source is the Prometheus that the reader chose.
func source() common.DataSourceRef {
	return common.DataSourceRef{Type: new("prometheus"), Uid: new("${datasource}")}
}

func (b board) encode() ([]byte, error) {
	//nolint:staticcheck // its successor writes what only Grafana 12 and later read
	d := dashboard.NewDashboardBuilder(b.title).Uid(b.uid()).Description(b.description).
		Tags([]string{"gpufabric"}).Editable().Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Time("now-6h", "now").Refresh("1m").Timezone("browser").
		Variables(b.variables()).Links(b.links())
	d.Annotations(b.marks())
	y := uint32(0)
	for _, l := range b.lines {
		for _, p := range l.at(&y) {
			b.lead(p)
			d.WithPanel(p)
		}
	}
	for _, r := range b.rows {
		closed := dashboard.NewRowBuilder(r.title).Collapsed(true).Id(id("row " + r.title)).GridPos(dashboard.GridPos{
			H: 1, W: width,
			Y: y,
		})
		y++
		inside := y
		for _, l := range r.lines {
			for _, p := range l.at(&inside) {
				b.lead(p)
				closed.WithPanel(p)
			}
		}
		d.WithRow(closed)
	}
	built, err := d.Build()
	if err != nil {
		return nil, fmt.Errorf("build: %w", err)
	}
	built.SchemaVersion = schema
	return plain(built, b.oneNode)
}

// lead has a figure lead to where it is explained. On other boards there can be more clusters than that of one node.
func (b board) lead(p panel) {
	built, err := p.Build()
	if err != nil || built.Title == nil || b.leads[*built.Title] == (place{}) {
		return
	}
	at, kept := b.leads[*built.Title], "&${__all_variables}"
	if b.oneNode && !strings.HasPrefix(at.board, "/d/"+b.uid()+"/") {
		kept = strings.Replace(keepOne, "?", "&", 1) + "&${instance:queryparam}"
	}
	explained(p, at, kept)
}

// id follows from the title, so that links to a panel survive what is put before it. A row has often the title of a
// panel in it, and no id of one: Grafana would show the empty row.
func id(title string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(title))
	return h.Sum32()%1e6 + 1
}

// at places a line at y and leads on to the next.
func (l line) at(y *uint32) []*dashboard.PanelBuilder {
	var x, highest uint32
	for _, p := range l {
		built, err := p.Build()
		if err != nil || built.GridPos == nil || built.Title == nil {
			continue // the dashboard says so when it is built
		}
		g := *built.GridPos
		g.X, g.Y = x, *y
		x, highest = x+g.W, max(highest, g.H)
		p.GridPos(g).Id(id(*built.Title))
	}
	*y += highest
	return l
}

// later are fields that the SDK writes and Grafana 9.3 does not have.
var later = []string{
	"wideLayout", "showPercentChange", "percentChangeColorMode", "sizing", "minVizWidth", "minVizHeight", "preload",
	"allowCustomValue", "perPage", "selectionMode", "cellRadius", "showColorScale", "maxHeight", "maxWidth",
}

// plain is the JSON of Grafana 9.3, with sorted keys. Queries of a board of one node are of its cluster.
//
//nolint:staticcheck // its successor writes what only Grafana 12 and later read
func plain(d dashboard.Dashboard, oneNode bool) ([]byte, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	var tree any
	r := json.NewDecoder(bytes.NewReader(text))
	r.UseNumber()
	if err := r.Decode(&tree); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	walk(tree, func(of map[string]any) {
		maps.DeleteFunc(of, func(key string, _ any) bool { return slices.Contains(later, key) })
		if expr, ok := of["expr"].(string); ok && oneNode {
			of["expr"] = ofSite(expr)
		}
	})
	of := tree.(map[string]any)
	of["__inputs"], of["__requires"] = []any{}, requires(d) // the source of the data is a variable
	var out bytes.Buffer
	w := json.NewEncoder(&out)
	w.SetEscapeHTML(false)
	w.SetIndent("", " ")
	if err := w.Encode(tree); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return out.Bytes(), nil
}

// requires are what Grafana must have: panels that it comes with, and Prometheus as a source.
func requires(d dashboard.Dashboard) []map[string]string {
	all := []map[string]string{{"type": "grafana", "id": "grafana", "name": "Grafana", "version": "9.3.0"},
		{"type": "datasource", "id": "prometheus", "name": "Prometheus", "version": "1.0.0"}}
	var kinds []string
	add := func(p dashboard.Panel) { kinds = append(kinds, p.Type) }
	for _, p := range d.Panels {
		if p.Panel != nil {
			add(*p.Panel)
		}
		if p.RowPanel != nil {
			for _, inside := range p.RowPanel.Panels {
				add(inside)
			}
		}
	}
	slices.Sort(kinds)
	for _, kind := range slices.Compact(kinds) {
		all = append(all, map[string]string{"type": "panel", "id": kind, "name": kind, "version": ""})
	}
	return all
}

func walk(tree any, each func(map[string]any)) {
	switch t := tree.(type) {
	case map[string]any:
		each(t)
		for _, v := range t {
			walk(v, each)
		}
	case []any:
		for _, v := range t {
			walk(v, each)
		}
	}
}
