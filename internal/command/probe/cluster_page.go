// SPDX-License-Identifier: Apache-2.0

package probe

import (
	_ "embed" // for the page
	"fmt"
	"html/template"
	"io"
	"strings"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/cluster"
	"gpufabric_exporter/probes/cluster/search"
)

//go:embed cluster.html
var clusterHTML string

// clusterPage is a page without anything from elsewhere: a heat map of nodes and rails, and the verdicts.
var clusterPage = template.Must(template.New("cluster").Parse(clusterHTML))

type pageCell struct{ Level, Text string }

type pageRow struct {
	Name  string
	Cells []pageCell
}

// writeClusterPage writes the page of a report.
func writeClusterPage(w io.Writer, r *cluster.Report) error {
	page := struct {
		Report   *cluster.Report
		Came     int
		Started  string
		Columns  []string
		Rows     []pageRow
		Whole    []pageRow
		Verdicts []cluster.Verdict
	}{Report: r, Came: len(r.Nodes), Started: r.Started.UTC().Format("2006-01-02 15:04:05 UTC"), Verdicts: r.Verdicts}
	list := r.Rails()
	for _, rail := range list {
		page.Columns = append(page.Columns, columnName(rail))
	}
	for i := range r.Nodes {
		row := pageRow{Name: r.Nodes[i].Name}
		for _, rail := range list {
			row.Cells = append(row.Cells, pageCell{levelOf(r, &r.Nodes[i], rail), cell(&r.Nodes[i], rail)})
		}
		page.Rows = append(page.Rows, row)
	}
	if r.AllNodes != nil && r.AllNodes.Result != nil {
		page.Whole = wholeRows(r.AllNodes.Result.Measurements)
	}
	if err := clusterPage.Execute(w, page); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}

// wholeRows are the rows of nccl-tests.
func wholeRows(list []probes.Measurement) []pageRow {
	var rows []pageRow
	for _, m := range list {
		row := pageRow{Name: string(m.Op)}
		text := fmt.Sprintf("%d %d %s %s %s %.2f %.2f %d", m.Bytes, m.Count, m.Type, reduction(m.Op), m.Time.Microseconds(),
			m.AlgBW/1e9, m.BusBW/1e9, m.Wrong)
		for text := range strings.FieldsSeq(text) {
			row.Cells = append(row.Cells, pageCell{Text: text})
		}
		rows = append(rows, row)
	}
	return rows
}

// levelOf is the verdict on a rail of a node.
func levelOf(r *cluster.Report, n *cluster.Node, rail int) string {
	level := "good"
	if _, ok := n.Shares[rail]; !ok {
		level = string(search.Unknown)
	}
	for _, v := range r.Verdicts {
		if v.Node == n.Name && (v.Subject == search.OfNode || v.Subject == search.OfRail && v.Rail == rail) {
			level = string(v.Level)
		}
	}
	return level
}
