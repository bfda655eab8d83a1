// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// One wrong number in a configuration fails a check on every node that gets it, and a gate that asks check
// would empty the cluster. So a failure that rests on an expectation is one only where the node is known to
// have met it: until then it is unknown.

// restingOn returns the checks that compare a node with an expectation, the one that shows that it is met first.
func restingOn(e fabric.Expectation) []*verdict.Check {
	key := e.Key
	if _, rate := e.RateOf(); rate {
		key = verdict.ExpectsRate
	}
	return slices.DeleteFunc(Catalogue(), func(c *verdict.Check) bool { return c.Expects != key })
}

// Met reports whether a node meets an expectation of its policy, as far as that can be seen now.
func Met(n *fabric.Node, e fabric.Expectation) bool {
	checks := restingOn(e)
	plain := *n
	plain.NeverMet = nil
	role, rated := e.RateOf()
	shown := false
	for _, v := range Run(&plain, checks) {
		if p := portOf(n, v.Subject); rated && (p == nil || p.Role.Or("") != role) {
			continue
		}
		if v.Status == verdict.Failed {
			return false
		}
		shown = shown || v.Check == checks[0] && v.Status == verdict.OK
	}
	return shown
}

// temper makes unknown what fails only by expectations that the node never met.
func temper(n *fabric.Node, list []verdict.Verdict) {
	if len(n.NeverMet) == 0 || !slices.ContainsFunc(list,
		func(o verdict.Verdict) bool { return o.Status == verdict.Failed }) {
		return
	}
	less := n.Binding()
	remaining := map[*verdict.Check]*verdict.Verdicts{}
	for i := range list {
		o := &list[i]
		if o.Status != verdict.Failed {
			continue
		}
		again := remaining[o.Check]
		if again == nil {
			again = verdict.Collect(less, 1)
			again.Ask(o.Check)
			remaining[o.Check] = again
		}
		if !slices.ContainsFunc(again.List, func(r verdict.Verdict) bool { return r.Status == verdict.Failed && r.Same(o) }) {
			*o = o.Check.Unknown(o.Subject, fabric.ReasonNeverMet, neverMet(n, o))
		}
	}
}

// neverMet says why a failure is none yet.
func neverMet(n *fabric.Node, v *verdict.Verdict) string {
	list := slices.DeleteFunc(slices.Clone(n.NeverMet),
		func(e fabric.Expectation) bool { return !slices.Contains(restingOn(e), v.Check) })
	if len(list) == 0 {
		list = n.NeverMet
	}
	var names []string
	for _, e := range list {
		names = append(names, e.String())
	}
	return fmt.Sprintf("%s %s Nothing shows that this node ever met %s (%s): that may be meant for another kind of node, and counts as a fault once it was met. "+
		"Correct the configuration, or the node: the runbook of the check says how.", verdict.Sentence(v.What), v.Evidence,
		verdict.Few(names), n.RememberedIn)
}
