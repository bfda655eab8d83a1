// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpufabric_exporter/alerts"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/probes"
)

// TestRunbooksQuoteFindings: the page to which a finding links has the sentence that the reader clicked on.
func TestRunbooksQuoteFindings(t *testing.T) {
	groups, err := alerts.Groups()
	if err != nil {
		t.Fatal(err)
	}
	names := newTexts(groups)
	for problem, title := range names.problems {
		page := problem
		if of, check := names.runbooks[problem]; check {
			page = of.text
		}
		text, err := alerts.Runbook(page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), title.text) {
			t.Errorf("%s does not have the sentence %q of %s", page, title.text, problem)
		}
	}
}

// TestProblemsAreAnchors: the address of each problem is that of a heading of its page.
func TestProblemsAreAnchors(t *testing.T) {
	groups, err := alerts.Groups()
	if err != nil {
		t.Fatal(err)
	}
	names := newTexts(groups)
	for problem := range names.problems {
		page := problem
		if of, own := names.runbooks[problem]; own {
			page = of.text
		}
		text, err := alerts.Runbook(page)
		if err != nil {
			t.Fatal(err)
		}
		if heading := regexp.MustCompile(`(?m)^#+ ` + regexp.QuoteMeta(problem) + `$`); strings.ContainsAny(problem, " %#") || !heading.MatchString(string(text)) {
			t.Errorf("%s.md#%s is no heading", page, problem)
		}
	}
}

// TestPlacesNameProblems: each part of the patterns that order findings names a check or an alert, and none is in two
// places.
func TestPlacesNameProblems(t *testing.T) {
	problems := alertNames(t)
	for _, c := range diagnose.Catalogue() {
		problems = append(problems, c.ID)
	}
	placed := map[string]string{}
	for _, pattern := range []string{wrongFirst, causesFirst, followersLast} {
		checks, inner, _ := strings.Cut(pattern, "GpuFabric(")
		parts := strings.FieldsFunc(checks, func(c rune) bool { return c == '|' })
		for part := range strings.SplitSeq(strings.TrimSuffix(inner, ")"), "|") {
			parts = append(parts, "GpuFabric"+part)
		}
		for _, part := range parts {
			names := regexp.MustCompile("^(?:" + part + ")$")
			if !slices.ContainsFunc(problems, names.MatchString) {
				t.Errorf("%s is no problem", part)
			}
			for _, p := range problems {
				if was := placed[p]; names.MatchString(p) && was != "" && was != pattern {
					t.Errorf("%s is in two places", p)
				} else if names.MatchString(p) {
					placed[p] = pattern
				}
			}
		}
	}
}

// TestMeasuredFits: a cause is not cut on the fleet board, also beside what was measured.
func TestMeasuredFits(t *testing.T) {
	all, _ := shipped(t)
	i := slices.IndexFunc(all, func(m model) bool { return m.name == "fleet" })
	width := 0
	for _, p := range all[i].flat() {
		for _, o := range p.FieldConfig.Overrides {
			for _, prop := range o.Properties {
				if p.Title == "Open findings" && o.Matcher.Options == "Measured, or its cause" && prop.ID == "custom.width" {
					width, _ = strconv.Atoi(string(prop.Value))
				}
			}
		}
	}
	var texts []string
	for _, w := range []words{causes(), jobRulesWords(), physicalStates()} {
		for _, to := range w {
			texts = append(texts, to.text)
		}
	}
	short := shortCauses()
	for _, cause := range []probes.Cause{probes.CauseDisabled, probes.CauseSocketSelected, probes.CauseNoDevice, probes.CauseNotLogged} {
		texts = append(texts, "RDMA 3200 Gb/s, "+short[string(cause)].text)
		delete(short, string(cause))
	}
	for _, to := range short {
		texts = append(texts, "99 % of baseline, "+to.text)
	}
	for _, wrong := range tooLong("Measured", width, texts) {
		t.Error(wrong)
	}
}
