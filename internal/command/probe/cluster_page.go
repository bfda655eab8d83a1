// SPDX-License-Identifier: Apache-2.0

package probe

import (
	_ "embed" // for the page
	"fmt"
	"html/template"
	"io"

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
	if err := clusterPage.Execute(w, page); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}

// levelOf is the verdict on a rail of a node.
func levelOf(r *cluster.Report, n *cluster.Node, rail int) string {
	level := "good"
	if _, ok := n.Shares[rail]; !ok {
		level = string(search.Unknown)
	}
	for _, v := range r.Verdicts {
		if v.Node == n.Name && v.Subject != search.OfPath && (v.Rail == rail || v.Subject == search.OfNode) {
			level = string(v.Level)
		}
	}
	return level
}
