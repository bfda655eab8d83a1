// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/report"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/simulator/simulatortest"
	"gpufabric_exporter/internal/status"
)

// named are words of remedies that stand for what the exporter knows of each device and GPU.
var named = regexp.MustCompile(`<(interface|device|port|address|bridges)>`)

// One fault has one remedy, with the names of the node: in the text and the JSON of check, in /status.json and in the report.
func TestOneRemedyForAFault(t *testing.T) {
	seen := 0
	for _, s := range simulator.Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			n := simulatortest.Watch(t, s, 0, 10)[1]
			list := diagnose.Run(n, nil)
			text, verdicts := checkOutput(t, n, list)
			all := []string{text}
			for _, f := range statusOf(n, list).Findings {
				if f.Remedy == "" && f.Subjects[0].Remedy == "" {
					continue
				}
				seen++
				var lines []string
				for _, sub := range f.Subjects {
					line := f.Remedy
					if line == "" {
						line = sub.Remedy
						lines = append(lines, sub.Name+": "+line)
					}
					if !verdicts[f.Check+" "+line] && f.Check != "pcie_acs" { // a verdict names its own bridges, a finding those of all
						t.Errorf("the JSON of check has no verdict %s with the remedy of /status.json: %s", f.Check, line)
					}
					if f.Cause == "" && !strings.Contains(text, line+"\n") {
						t.Errorf("the text of check lacks the remedy of /status.json: %s: %s", f.Check, line)
					}
				}
				if f.Remedy != "" {
					lines = []string{f.Remedy}
				}
				all = append(all, strings.Join(lines, "\n"))
			}
			for _, f := range report.Collect(&report.Input{Node: n, Verdicts: list}).Findings {
				remedy := cmp.Or(f.Remedy, strings.Join(f.Remedies, "\n"))
				if f.From == "check" && remedy != "" && !slices.Contains(all, remedy) {
					t.Errorf("/status.json lacks the remedy of the report: %s: %s", f.ID, remedy)
				}
				all = append(all, remedy)
			}
			for _, remedy := range all {
				if word := named.FindString(remedy); word != "" {
					t.Errorf("%s is left in: %s", word, remedy)
				}
			}
		})
	}
	if seen < 50 {
		t.Errorf("%d findings have a remedy: too few to compare", seen)
	}
}

// checkOutput is the text of check, and the remedies of its JSON by check and text.
func checkOutput(t *testing.T, n *fabric.Node, list []diagnose.Verdict) (text string, remedies map[string]bool) {
	t.Helper()
	var table, b bytes.Buffer
	if err := writeTable(&table, n, config.Config{}, list, false, func(_, s string) string { return s }); err != nil {
		t.Fatal(err)
	}
	if err := writeJSON(&b, n, config.Config{}, list, ""); err != nil {
		t.Fatal(err)
	}
	var doc struct{ Verdicts []verdict }
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	remedies = map[string]bool{}
	for _, v := range doc.Verdicts {
		remedies[v.Check+" "+v.Remedy] = true
	}
	return table.String(), remedies
}

func statusOf(n *fabric.Node, list []diagnose.Verdict) *status.Document {
	return status.Of(&status.Inputs{
		Node: n, Verdicts: list, Links: config.DefaultLinks(),
		Since: func([]diagnose.Verdict) (time.Time, bool, bool) { return time.Time{}, false, false },
	})
}
