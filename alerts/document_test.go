// SPDX-License-Identifier: Apache-2.0

package alerts

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/ALERTS.md instead of comparing with it")

// TestDocument holds docs/ALERTS.md to the rules and their tests.
func TestDocument(t *testing.T) {
	const name = "../docs/ALERTS.md"
	got := document(t)
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%s is not what the rules say: make generate", name)
	}
}

func document(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(`# Alerts

Generated from the rules and their tests (` + "`make docs`" + `); do not edit.

**critical** alerts page: a job stops or runs several times slower. **warning** alerts are for the next working day, **info** alerts for dashboards and logs.
Alerts about links, devices and addresses are critical where ` + "`check`" + ` is: where a source states what is missing ([ROLES](ROLES.md)).
Traffic and settings of ports that are known not to be for training never page. Alerts that a booting node can cause (links that train, late addresses and devices, checks)
are suppressed for 30 minutes after the boot. Load the files in ` + "`alerts/*.rules.yml`" + ` unchanged;
` + "`alerts/alertmanager.example.yml`" + ` routes the alerts. One fault is one message: see [Consequences](#consequences).

| alert | severity | meaning | evaluated, for, kept | tests that fire, stay silent | runbook |
|---|---|---|---|---|---|
`)
	fires, silent := map[string]int{}, map[string]int{}
	for _, c := range testCases(t) {
		if c.firing > 0 {
			fires[c.alert]++
		} else {
			silent[c.alert]++
		}
	}
	rules, in := alertRules(t)
	for i, r := range rules {
		severity := r.Labels["severity"]
		if strings.Contains(severity, "{{") {
			severity = "of the check"
		}
		meaning := strings.ReplaceAll(r.Annotations["summary"], "{{ $labels.check }}", "_id_")
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s, %s, %s | %d, %d | [page](../alerts/runbooks/%s.md) |\n", r.Alert, severity, meaning,
			in[i].Interval, or(r.For, "at once"), or(r.KeepFiringFor, "0"), fires[r.Alert], silent[r.Alert], r.Alert)
	}
	b.WriteString(consequences(t) + ends())
	b.WriteString("\n## Conditions\n")
	for _, r := range rules {
		fmt.Fprintf(&b, "\n### `%s`\n\n```promql\n%s\n```\n", r.Alert, strings.TrimSpace(r.Expr))
	}
	b.WriteString("\n## Recording rules\n\nExpressions that alerts share, and state that they keep. The comments in the rule files give the reasons.\n\n| name | every | file |\n|---|---|---|\n")
	for _, g := range groups(t) {
		for _, r := range g.Rules {
			if r.Record != "" {
				fmt.Fprintf(&b, "| `%s` | %s | [%s](../alerts/%s) |\n", r.Series(), g.Interval, g.File, g.File)
			}
		}
	}
	b.WriteString("\n## What is tested\n\nTested with promtool. Each line is one test: alerts that must fire, and all others that must stay silent.\n\n")
	var names []string
	for _, c := range testCases(t) {
		if line := fmt.Sprintf("- %s ([%s](../alerts/%s))\n", c.test, c.file, c.file); !slices.Contains(names, line) {
			names = append(names, line)
		}
	}
	b.WriteString(strings.Join(names, ""))
	return b.Bytes()
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
