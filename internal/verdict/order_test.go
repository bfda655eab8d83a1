// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"slices"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

func TestSeverityOrder(t *testing.T) {
	order := []Severity{Critical, Warning, Info, "no such"}
	for i, s := range order {
		for k, o := range order {
			if s.AtLeast(o) != (i <= k) {
				t.Errorf("%s is at least %s: %v", s, o, s.AtLeast(o))
			}
		}
	}
}

// Verdicts come by status and, of one status, by severity; those of one place stay in the order in which they
// were given.
func TestVerdictsAreOrdered(t *testing.T) {
	var v Verdicts
	var want []Verdict
	for _, status := range []Status{Failed, Unknown, OK, fabric.StatusNotApplicable} {
		for _, severity := range append(Severities(), "no such") {
			for _, device := range []string{"a", "b"} {
				want = append(want, Verdict{Check: &Check{Severity: severity}, Status: status, Subject: Subject{Device: device}})
			}
		}
	}
	for _, device := range []string{"a", "b"} {
		for _, w := range slices.Backward(want) {
			if w.Subject.Device == device {
				v.List = append(v.List, w)
			}
		}
	}
	Sort(v.List)
	same := func(a, b Verdict) bool {
		return a.Status == b.Status && a.Check.Severity == b.Check.Severity && a.Subject == b.Subject
	}
	if !slices.EqualFunc(v.List, want, same) {
		t.Errorf("sorted as %v", v.List)
	}
}
