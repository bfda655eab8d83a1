// SPDX-License-Identifier: Apache-2.0

package alerts

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/probes"
)

// TestWordsOfProbes compares values of labels in rules with those that probes have: a value that does not exist never
// matches, and a fault that no rule names is never reported.
func TestWordsOfProbes(t *testing.T) {
	const faults = "gpufabric_probe_fault_timestamp_seconds/fault"
	words := map[string][]string{}
	for _, f := range probes.Failures() {
		words["gpufabric_probe_failing/reason"] = append(words["gpufabric_probe_failing/reason"], string(f))
	}
	for _, f := range probes.Faults() {
		if !f.OfBandwidth() {
			words[faults] = append(words[faults], string(f))
		}
	}
	matcher := regexp.MustCompile(`(gpufabric_probe_\w+)\{(\w+)(?:=|!=|=~|!~)"([^"]*)"\}`)
	found := map[string][]string{}
	rules, _ := alertRules(t)
	for _, g := range groups(t) {
		rules = append(rules, g.Rules...)
	}
	for _, r := range rules {
		for _, m := range matcher.FindAllStringSubmatch(r.Expr, -1) {
			of := m[1] + "/" + m[2]
			if words[of] == nil {
				continue
			}
			for word := range strings.SplitSeq(m[3], "|") {
				found[of] = append(found[of], word)
				if !slices.Contains(words[of], word) {
					t.Errorf("%s%s: %s is never %q", r.Alert, r.Record, of, word)
				}
			}
		}
	}
	if len(found) != len(words) {
		t.Errorf("rules name words of %v only", found)
	}
	for _, f := range words[faults] {
		if !slices.Contains(found[faults], f) {
			t.Errorf("no rule reads fault %q", f)
		}
	}
}
