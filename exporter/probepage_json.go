// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"encoding/json"
	"io"
	"time"

	"gpufabric_exporter/probes"
)

// The JSON of the command probe and of /probes.json (docs/PROBES.md), around that of probes.Result.

// ProbesPath is where the page of probes is; with .json behind, that for programs.
const ProbesPath = "/probes"

type probeSkippedJSON struct {
	Why    string     `json:"reason"`
	Detail string     `json:"detail"`
	Advice string     `json:"advice"`
	At     *time.Time `json:"at"`
}

func skippedJSON(s *probes.Skipped) *probeSkippedJSON {
	if s == nil {
		return nil
	}
	return &probeSkippedJSON{string(s.Why), s.Detail, adviceOnSkip(s.Why), moment(s.At)}
}

// moment is nil for never.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Millisecond)
	return &t
}

func unlessZero(v float64) *float64 {
	if v == 0 {
		return nil
	}
	return &v
}

// writeProbeJSON prints what came of the command.
func writeProbeJSON(w io.Writer, r *probeReport) error {
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
		Probe      string            `json:"probe"`
		ExitCode   int               `json:"exit_code"`
		Error      string            `json:"error,omitempty"`
		Skipped    *probeSkippedJSON `json:"skipped"`
		Runs       []*probes.Result  `json:"runs"`
		Comparison *comparison       `json:"comparison,omitempty"`
	}{Probe: r.what, ExitCode: r.code(), Skipped: skippedJSON(r.skipped), Runs: []*probes.Result{}}
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
		c := compareProbes(r)
		report.Comparison = &comparison{Sizes: []size{}, Note: c.note}
		for _, row := range c.rows {
			s := size{string(row.op), string(row.dtype), row.bytes, nil}
			for i, v := range row.busBW {
				s.Values = append(s.Values, value{c.labels[i], v, v / row.busBW[0]})
			}
			report.Comparison.Sizes = append(report.Comparison.Sizes, s)
		}
	}
	return encodeJSON(w, report)
}

func encodeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
