// SPDX-License-Identifier: Apache-2.0

package fabric

import "slices"

// Status is what a judgement found: of a check about one subject, of a step of the RoCE chain, of the chain as a whole.
type Status string

// Statuses. Only a step may be not applicable: a check is not asked then.
const (
	StatusOK            Status = "ok"
	StatusFailed        Status = "failed"
	StatusUnknown       Status = "unknown" // a fact that decides is not known
	StatusNotApplicable Status = "not_applicable"
)

// statuses are in order of precedence when several are combined: what failed goes before what is unknown, and
// that before what is good, so that nothing is well while a part of it is not.
var statuses = []Status{StatusFailed, StatusUnknown, StatusOK, StatusNotApplicable}

// Rank orders statuses: 0 is the worst.
func (s Status) Rank() int {
	if i := slices.Index(statuses, s); i >= 0 {
		return i
	}
	return len(statuses)
}

// Worse reports whether s is the status of both together.
func (s Status) Worse(than Status) bool { return s.Rank() < than.Rank() }
