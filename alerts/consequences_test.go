// SPDX-License-Identifier: Apache-2.0

package alerts

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	named    = regexp.MustCompile(`(?:ALERTS|:gpufabric_fault:named)\{alertname=~?"GpuFabric(\(?[\w|]+\)?)"`)
	recorded = regexp.MustCompile(`\b[a-z]+:gpufabric_(?:fault:\w+|check_failed:(?:reported|severe)|probe_fault:(?:slow|explained_timestamp_seconds))`)
)

// explainedBy returns the alerts that an expression subtracts, without GpuFabric, by what it names and by recorded series.
func explainedBy(records map[string]string, expr string) (names []string) {
	for _, m := range named.FindAllStringSubmatch(expr, -1) {
		names = append(names, strings.Split(strings.Trim(m[1], "()"), "|")...)
	}
	for _, record := range recorded.FindAllString(expr, -1) {
		if of, found := records[record]; found && record != "port:gpufabric_fault:named" {
			without := map[string]string{}
			for k, v := range records {
				if k != record {
					without[k] = v
				}
			}
			names = append(names, explainedBy(without, of)...)
		}
	}
	if strings.Contains(expr, "_follows") {
		names = append(names, follows)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

const follows = "a check"

// consequences is the section on what does not fire while something else does.
func consequences(t *testing.T) string {
	t.Helper()
	records := map[string]string{}
	for _, g := range groups(t) {
		for _, r := range g.Rules {
			if r.Record != "" {
				records[r.Record] += r.Expr
			}
		}
	}
	var b strings.Builder
	b.WriteString(`
## Consequences

What follows from another alert does not fire, on the same node, device, port, GPU or job: its expression subtracts the other one. So one fault is one message at sites with an Alertmanager of their own, too.
What counters show of a device stays silent for ten minutes after it. A result of a probe that was explained stays so until the next run. ` + "`check`" + ` names what a check follows from, and so does a probe (` + "`gpufabric_check_follows`, `gpufabric_probe_follows`" + `); a cause is as severe as the worst that follows from it.
While a cause cannot be read, neither its alert ends nor does what follows from it fire.

| alert | is silent while this explains it |
|---|---|
`)
	rules, _ := alertRules(t)
	written := map[string]bool{}
	for _, r := range rules {
		by := slices.DeleteFunc(explainedBy(records, r.Expr), func(name string) bool { return "GpuFabric"+name == r.Alert })
		if len(by) == 0 || written[r.Alert] {
			continue
		}
		written[r.Alert] = true
		for i, name := range by {
			if name != follows {
				by[i] = "`" + name + "`"
			}
		}
		b.WriteString("| `" + r.Alert + "` | " + strings.Join(by, ", ") + " |\n")
	}
	return b.String()
}

// TestConsequencesExist: what explains an alert is one, so that something is sent.
func TestConsequencesExist(t *testing.T) {
	known := map[string]bool{}
	rules, _ := alertRules(t)
	for _, r := range rules {
		known[r.Alert] = true
	}
	for _, g := range groups(t) {
		for _, r := range g.Rules {
			for _, name := range explainedBy(nil, r.Expr) {
				if name != follows && !known["GpuFabric"+name] {
					t.Errorf("%s%s: no alert GpuFabric%s", r.Alert, r.Record, name)
				}
			}
		}
	}
}
