// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"slices"
)

// Sort puts each verdict where its turn is, by status, then by severity; those of one place stay in their order.
func Sort(list []Verdict) {
	slices.SortStableFunc(list, func(a, b Verdict) int {
		return cmp.Or(a.Status.Rank()-b.Status.Rank(), a.Check.Severity.Rank()-b.Check.Severity.Rank())
	})
}

// Failures returns the verdicts that failed.
func Failures(list []Verdict) []Verdict { return WithStatus(list, Failed) }

// Unknowns returns the verdicts that are unknown.
func Unknowns(list []Verdict) []Verdict { return WithStatus(list, Unknown) }

// WithStatus returns the verdicts of a status.
func WithStatus(list []Verdict, s Status) []Verdict {
	return slices.DeleteFunc(slices.Clone(list), func(v Verdict) bool { return v.Status != s })
}
