// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"io"
	"net/url"
	"path/filepath"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/nccl/lint"
	"gpufabric_exporter/internal/verdict"
)

// The part of SARIF 2.1.0 that lint writes (OASIS, sarif-schema-2.1.0.json).
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool struct {
			Driver sarifDriver `json:"driver"`
		} `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifDriver struct {
		Name  string      `json:"name"`
		Rules []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string    `json:"id"`
		ShortDescription sarifText `json:"shortDescription"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		Rule      string          `json:"ruleId"`
		Index     int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		Physical *sarifPhysical `json:"physicalLocation,omitempty"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region struct {
			StartLine int `json:"startLine"`
		} `json:"region"`
	}
	sarifLogical struct {
		Name string `json:"name"`
	}
)

// writeSARIF prints a log of the Static Analysis Results Interchange Format: a rule for each verdict, and a
// result for each finding with a severity.
func writeSARIF(w io.Writer, r *lint.Result) error {
	run := sarifRun{Results: []sarifResult{}}
	run.Tool.Driver.Name = "gpufabric_exporter lint"
	index := map[lint.Verdict]int{}
	for i, v := range lint.Verdicts() {
		index[v] = i
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{string(v), sarifText{v.Meaning()}})
	}
	for i := range r.Lines {
		l := &r.Lines[i]
		for _, f := range l.Findings {
			if level := sarifLevel(f.Severity); level != "" {
				message := sarifText{assignment(l) + ": " + advice(f)}
				run.Results = append(run.Results, sarifResult{
					string(f.Verdict), index[f.Verdict], level, message,
					[]sarifLocation{sarifPlace(l)},
				})
			}
		}
	}
	return command.JSON(w, sarifLog{
		"https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json",
		"2.1.0",
		[]sarifRun{run},
	})
}

func sarifLevel(s verdict.Severity) string {
	return map[verdict.Severity]string{verdict.Critical: "error", verdict.Warning: "warning", verdict.Info: "note"}[s]
}

// sarifPlace is the place of a line: a line of a file, or the name of an input without lines.
func sarifPlace(l *lint.Line) sarifLocation {
	if l.Number == 0 {
		return sarifLocation{Logical: []sarifLogical{{l.File}}}
	}
	var p sarifPhysical
	uri := url.URL{Path: filepath.ToSlash(l.File)}
	if filepath.IsAbs(l.File) {
		uri.Scheme = "file"
	}
	p.Artifact.URI, p.Region.StartLine = uri.String(), l.Number
	return sarifLocation{Physical: &p}
}
