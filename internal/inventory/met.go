// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"time"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
)

// lookAgain is how often expectations that were not met yet are compared: each time costs a few checks.
const lookAgain = time.Minute

func (h *hardware) met(e fabric.Expectation) bool {
	return slices.ContainsFunc(h.Met, func(m met) bool { return m.Expectation == e.String() })
}

// compare notes which expectations the node meets, and which it is not known to have met. m.mu is held.
func (m *Inventory) compare(n *fabric.Node) {
	if n.Policy == nil {
		return
	}
	if n.Policy != m.policy { // the configuration was read again
		m.policy, m.looked = n.Policy, time.Time{}
		m.unmet = slices.DeleteFunc(n.Policy.Expectations(), m.had.met)
	}
	if len(m.unmet) == 0 || !up(n, fabric.SourceClass) || !up(n, fabric.SourcePCI) ||
		n.At.Sub(m.looked).Abs() < lookAgain {
		return
	}
	m.looked = n.At
	// nodes that were returned have the old list
	m.unmet = slices.DeleteFunc(slices.Clone(m.unmet), func(e fabric.Expectation) bool {
		if !diagnose.Met(n, e) {
			return false
		}
		m.had.Met = merge(m.had.Met, []met{{e.String(), n.At.Unix()}})
		m.due()
		return true
	})
}

// merge adds what is new, and leaves the newest.
func merge(list, more []met) []met {
	list = slices.Clone(list)
	for _, m := range more {
		if !slices.ContainsFunc(list, func(o met) bool { return o.Expectation == m.Expectation }) {
			list = append(list, m)
		}
	}
	return list[max(0, len(list)-maxMet):]
}
