// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"

	"gpufabric_exporter/internal/fabric"
)

// One wrong number in a configuration fails a check on every node that gets it, and a gate that asks check would empty the cluster.
// So a failure that rests on an expectation is one only where the node is known to have met it: until then it is unknown.

// restingOn returns the checks that compare a node with an expectation, the one that shows that it is met first.
func restingOn(e fabric.Expectation) []string {
	if _, rate := e.RateOf(); rate {
		return []string{CheckPortRate}
	}
	return map[string][]string{
		"compute_ports": {CheckComputePorts, checkSurplusPorts, CheckPortActive}, "gpus": {CheckGPUs, checkGPUsSurplus}, "nccl_minimum_version": {checkNCCLVersion},
		"roce.dscp": {CheckDSCP}, "roce.priority": {CheckPriority}, "roce.lossless": {CheckPFC}, "roce.ecn": {"roce_ecn"},
	}[e.Key]
}

// Met reports whether a node meets an expectation of its policy, as far as that can be seen now.
func Met(n *fabric.Node, e fabric.Expectation) bool {
	ids := restingOn(e)
	var checks []*Check
	for _, id := range ids {
		checks = append(checks, Find(id))
	}
	plain := *n
	plain.NeverMet = nil
	role, rated := e.RateOf()
	shown := false
	for _, v := range Run(&plain, checks) {
		if p := portOf(n, v.Subject); rated && (p == nil || p.Role.Or("") != role) {
			continue
		}
		if v.Status == Failed {
			return false
		}
		shown = shown || v.Check.ID == ids[0] && v.Status == OK
	}
	return shown
}

// temper makes unknown what fails only by expectations that the node never met.
func (v *verdicts) temper(n *fabric.Node) {
	if len(n.NeverMet) == 0 || !slices.ContainsFunc(v.list, func(o Verdict) bool { return o.Status == Failed }) {
		return
	}
	less := n.Binding()
	remaining := map[*Check]*verdicts{}
	for i := range v.list {
		o := &v.list[i]
		if o.Status != Failed {
			continue
		}
		again := remaining[o.Check]
		if again == nil {
			again = &verdicts{check: o.Check, node: less}
			o.Check.judge(less, again)
			remaining[o.Check] = again
		}
		if !slices.ContainsFunc(again.list, func(r Verdict) bool { return r.Status == Failed && r.same(o) }) {
			*o = o.Check.unknown(o.Subject, fabric.ReasonNeverMet, o.neverMet(n))
		}
	}
}

// neverMet says why a failure is none yet.
func (v *Verdict) neverMet(n *fabric.Node) string {
	list := slices.DeleteFunc(slices.Clone(n.NeverMet), func(e fabric.Expectation) bool { return !slices.Contains(restingOn(e), v.Check.ID) })
	if len(list) == 0 {
		list = n.NeverMet
	}
	var names []string
	for _, e := range list {
		names = append(names, e.String())
	}
	return fmt.Sprintf("%s %s Nothing shows that this node ever met %s (%s): that may be meant for another kind of node, and counts as a fault once it was met. "+
		"Correct the configuration, or the node: the runbook of the check says how.", Sentence(v.What), v.Evidence, few(names), n.RememberedIn)
}
