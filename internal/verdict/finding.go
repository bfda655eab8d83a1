// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"slices"
)

// One fault often fails several checks, and what probes measure follows from it, too. This file decides what
// follows from what: a fault is counted once, and its consequences are listed with it. In doubt nothing
// follows: a fault that is hidden below another one would not be repaired.

// Finding is what one fault made fail, and what follows from it.
type Finding struct {
	Group
	Consequences []Group
}

// worst is the severity of the worst of them.
func (f *Finding) worst() Severity {
	worst := f.Check.Severity
	for i := range f.Consequences {
		if c := f.Consequences[i].Check.Severity; !worst.AtLeast(c) {
			worst = c
		}
	}
	return worst
}

// Findings returns what failed, those with the worst consequences first.
func Findings(list []Verdict) []Finding {
	var all []Finding
	groups := Together(Failures(list))
	for _, g := range groups {
		if g.Cause == nil {
			all = append(all, Finding{Group: g})
		}
	}
	for _, g := range groups {
		if i := slices.IndexFunc(all, func(f Finding) bool { return g.Cause != nil && f.Has(g.Cause) }); i >= 0 {
			all[i].Consequences = append(all[i].Consequences, g)
		}
	}
	slices.SortStableFunc(all, func(a, b Finding) int { return a.worst().Rank() - b.worst().Rank() })
	return all
}

// Has reports whether the verdict is one of the finding, and no consequence of it.
func (f *Finding) Has(v *Verdict) bool {
	return slices.ContainsFunc(f.Members, func(m Verdict) bool { return m.Same(v) })
}
