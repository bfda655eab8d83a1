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
	"gpufabric_exporter/internal/simulator/simulatortest"
	"gpufabric_exporter/internal/simulator/stage"
	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/internal/verdict"
)

// named are words of remedies that stand for what the exporter knows of each device and GPU.
var named = regexp.MustCompile(`<(interface|device|port|address|bridges)>`)

// One fault has one remedy, with the names of the node: in the text and the JSON of check, in /status.json
// and in the report. What follows from it has none, and names it.
func TestOneRemedyForAFault(t *testing.T) {
	seen, consequences := 0, 0
	on := stage.New(t)
	for _, s := range simulatortest.Kinds(simulatortest.Fault) {
		t.Run(s.Name, func(t *testing.T) {
			n := simulatortest.WatchOn(t, on, s, 0, 10)[1]
			list := diagnose.Run(n, nil)
			text, verdicts := checkOutput(t, n, list)
			all := []string{text}
			doc := statusOf(n, list)
			facts := report.Collect(&report.Input{Node: n, Verdicts: list})
			consequences += sameCauses(t, text, verdicts, doc.Findings, facts.Findings)
			for _, f := range doc.Findings {
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
					if !slices.ContainsFunc(verdicts, func(v shown) bool { return v.Check == f.Check && v.Remedy == line }) && f.Check != "pcie_acs" { // a verdict names its own bridges, a finding those of all
						t.Errorf("the JSON of check has no verdict %s with the remedy of /status.json: %s", f.Check, line)
					}
					if !strings.Contains(text, line+"\n") {
						t.Errorf("the text of check lacks the remedy of /status.json: %s: %s", f.Check, line)
					}
				}
				if f.Remedy != "" {
					lines = []string{f.Remedy}
				}
				all = append(all, strings.Join(lines, "\n"))
			}
			for _, f := range facts.Findings {
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
				for step := range strings.Lines(remedy) {
					if wrong := harm(step, false); wrong != "" {
						t.Errorf("%s: %s", wrong, step)
					}
				}
			}
		})
	}
	if seen < 50 {
		t.Errorf("%d findings have a remedy: too few to compare", seen)
	}
	if consequences < 5 {
		t.Errorf("%d findings follow from others: too few to compare", consequences)
	}
}

// sameCauses compares what follows from which check in all outputs, and returns how many findings do.
func sameCauses(t *testing.T, text string, verdicts []shown, findings []status.Finding, reported []report.Finding) int {
	t.Helper()
	pairs := func(output string, n int, at func(int) (check, cause, remedy string)) []string {
		var all []string
		for i := range n {
			check, cause, remedy := at(i)
			if cause == "" {
				continue
			}
			all = append(all, check+" from "+cause)
			if remedy != "" {
				t.Errorf("%s: %s follows from %s, and has a remedy of its own: %s", output, check, cause, remedy)
			}
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	want := pairs("check", len(verdicts), func(i int) (string, string, string) {
		return verdicts[i].Check, verdicts[i].Cause, verdicts[i].Remedy
	})
	ofStatus := pairs("/status.json", len(findings), func(i int) (string, string, string) {
		f, cause := findings[i], ""
		if k := slices.IndexFunc(findings, func(c status.Finding) bool { return c.ID == f.Cause }); k >= 0 {
			cause = findings[k].Check
		} else if f.Cause != "" {
			t.Errorf("/status.json has no finding %s", f.Cause)
		}
		return f.Check, cause, f.Remedy + f.Subjects[0].Remedy
	})
	ofReport := pairs("report", len(reported), func(i int) (string, string, string) {
		f := reported[i]
		return f.ID, f.Cause, f.Remedy + strings.Join(f.Remedies, "")
	})
	if !slices.Equal(want, ofStatus) || !slices.Equal(want, ofReport) {
		t.Errorf("what follows from what: check has %q, /status.json %q, the report %q", want, ofStatus, ofReport)
	}
	for _, pair := range want {
		if _, cause, _ := strings.Cut(pair, " from "); !strings.Contains(text, "It follows from "+cause+": repair that.\n") {
			t.Errorf("the text of check lacks the cause: %s", pair)
		}
	}
	return len(want)
}

// checkOutput is the text of check, and the verdicts of its JSON.
func checkOutput(t *testing.T, n *fabric.Node, list []verdict.Verdict) (text string, verdicts []shown) {
	t.Helper()
	var table, b bytes.Buffer
	if err := writeTable(&table, n, config.Config{}, list, false, func(_, s string) string { return s }); err != nil {
		t.Fatal(err)
	}
	if err := new(checking).writeJSON(&b, n, config.Config{}, list, ""); err != nil {
		t.Fatal(err)
	}
	var doc struct{ Verdicts []shown }
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	return table.String(), doc.Verdicts
}

func statusOf(n *fabric.Node, list []verdict.Verdict) *status.Document {
	return status.Of(&status.Inputs{
		Node: n, Verdicts: list, Links: config.DefaultLinks(),
		Since: func([]verdict.Verdict) (time.Time, bool, bool) { return time.Time{}, false, false },
	})
}
