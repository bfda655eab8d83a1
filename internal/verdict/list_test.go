// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/verdict"
)

// TestOrder: what failed comes first, the worst before the rest, then what is unknown; equals stay as they were given.
func TestOrder(t *testing.T) {
	by := map[verdict.Severity]*verdict.Check{}
	for _, s := range verdict.Severities() {
		by[s] = &verdict.Check{Severity: s}
	}
	var v verdict.Verdicts
	add := func(status verdict.Status, severity verdict.Severity, name string) {
		v.List = append(v.List, verdict.Verdict{Check: by[severity], Status: status, Subject: verdict.Subject{Device: name}})
	}
	add(verdict.OK, verdict.Critical, "g")
	add(verdict.Unknown, verdict.Warning, "f")
	add(verdict.Failed, verdict.Info, "d")
	add(verdict.Unknown, verdict.Critical, "e")
	add(verdict.Failed, verdict.Warning, "b")
	add(verdict.OK, verdict.Info, "h")
	add(verdict.Failed, verdict.Critical, "a")
	add(verdict.Failed, verdict.Warning, "c")
	add(verdict.OK, verdict.Info, "i")
	verdict.Sort(v.List)
	var order []string
	for _, one := range v.List {
		order = append(order, one.Subject.Device)
	}
	if got := strings.Join(order, ""); got != "abcdefghi" {
		t.Errorf("the order is %s", got)
	}
}
