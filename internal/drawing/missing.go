// SPDX-License-Identifier: Apache-2.0

package drawing

import (
	"html/template"
	"slices"

	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/internal/verdict"
)

// Missing draws the devices that the node should have, where none is drawn: two in a row. A box leads to the finding.
func Missing(d *status.Document) template.HTML {
	const title = "Missing"
	var c canvas
	c.height = heading + 8
	c.text("name", 8, 17, 300, title)
	about := slices.IndexFunc(d.Findings, func(f status.Finding) bool {
		return f.Check == verdict.CheckHardware || f.Check == verdict.CheckComputePorts
	})
	missing := d.Node.Missing[:min(len(d.Node.Missing), maxRows)]
	for i, name := range missing {
		p := status.Part{Name: name, Status: status.StatusFailed, Severity: string(verdict.Critical)}
		if about >= 0 {
			p.ID, p.Severity = d.Findings[about].ID, d.Findings[about].Severity
		}
		x := gpuLeft + float64(i%2)*(width-gpuLeft)/2
		if i%2 == 0 {
			c.height += gap
		}
		c.box(&p, Class(&p), Mark(&p), x, c.height, nicWidth, boxHeight, Words(&p), "missing")
		if i%2 == 1 || i == len(missing)-1 {
			c.height += boxHeight
		}
	}
	c.height += gap
	return c.svg(title)
}
