// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"io"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/probes"
)

// writeJSON prints what came of the command.
func writeJSON(w io.Writer, r *report) error {
	type value struct {
		Label string  `json:"label"`
		BusBW float64 `json:"busbw_bytes_per_second"`
		Ratio float64 `json:"ratio"` // over the first one
	}
	type size struct {
		Op     string  `json:"op"`
		Type   string  `json:"type"`
		Bytes  uint64  `json:"bytes"`
		Values []value `json:"values"`
	}
	type comparison struct {
		Sizes []size `json:"sizes"`
		Note  string `json:"note,omitempty"` // why it says nothing, or less than it seems
	}
	report := struct {
		Probe      string           `json:"probe"`
		ExitCode   int              `json:"exit_code"`
		Error      string           `json:"error,omitempty"`
		Skipped    *probes.Skipped  `json:"skipped"`
		Runs       []*probes.Result `json:"runs"`
		Comparison *comparison      `json:"comparison,omitempty"`
	}{Probe: r.what, ExitCode: r.code(), Skipped: r.skipped, Runs: []*probes.Result{}}
	if r.err != nil {
		report.Error = r.err.Error()
	}
	compares := false
	for _, run := range r.runs {
		compares = compares || run.label != ""
		if run.result != nil {
			report.Runs = append(report.Runs, run.result)
		}
	}
	if compares && len(report.Runs) > 0 {
		c := compare(r)
		report.Comparison = &comparison{Sizes: []size{}, Note: c.note}
		for _, row := range c.rows {
			s := size{string(row.op), string(row.dtype), row.bytes, nil}
			for i, v := range row.busBW {
				s.Values = append(s.Values, value{c.labels[i], v, v / row.busBW[0]})
			}
			report.Comparison.Sizes = append(report.Comparison.Sizes, s)
		}
	}
	return command.JSON(w, report)
}
