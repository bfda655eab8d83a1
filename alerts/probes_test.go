// SPDX-License-Identifier: Apache-2.0

package alerts

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/probes"
)

// TestReasonsOfProbes holds what rules say of labels against what a probe can say: a word that does not exist matches
// nothing for ever.
func TestReasonsOfProbes(t *testing.T) {
	words := map[string][]string{}
	for _, s := range probes.Skips() {
		words["gpufabric_probe_skipped/reason"] = append(words["gpufabric_probe_skipped/reason"], string(s))
	}
	for _, f := range probes.Failures() {
		words["gpufabric_probe_failing/reason"] = append(words["gpufabric_probe_failing/reason"], string(f))
	}
	for _, p := range probes.Paths() {
		words["gpufabric_probe_transport/transport"] = append(words["gpufabric_probe_transport/transport"], string(p))
	}
	matcher := regexp.MustCompile(`(gpufabric_probe_\w+)\{(\w+)(?:=|!=|=~|!~)"([^"]*)"\}`)
	found := map[string]bool{}
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
			found[of] = true
			for word := range strings.SplitSeq(m[3], "|") {
				if !slices.Contains(words[of], word) {
					t.Errorf("%s%s: %s is never %q", r.Alert, r.Record, of, word)
				}
			}
		}
	}
	if len(found) != len(words) {
		t.Errorf("rules name words of %v only", found)
	}
}
