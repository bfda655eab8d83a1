// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Expectation is one thing that the configuration of a site states of its nodes: a key below expected, and its value.
type Expectation struct{ Key, Value string }

// String is how the configuration has it.
func (e Expectation) String() string { return "expected." + e.Key + ": " + e.Value }

const ratePrefix = "port_rate_gigabits_per_second."

// number is a key below expected, and what a policy has of it.
type number struct {
	key   string
	value any // nil: nothing is expected
	unset func()
}

func numberOf[T any](key string, of **T) number {
	n := number{key: key, unset: func() { *of = nil }}
	if *of != nil {
		n.value = **of
	}
	return n
}

// numbers returns all but the rates.
func (p *Policy) numbers() []number {
	return []number{
		numberOf("compute_ports", &p.ComputePorts), numberOf("gpus", &p.GPUs), numberOf("nccl_minimum_version", &p.NCCL),
		numberOf("roce.dscp", &p.RoCE.DSCP), numberOf("roce.priority", &p.RoCE.Priority),
		numberOf("roce.lossless", &p.RoCE.Lossless), numberOf("roce.ecn", &p.RoCE.ECN),
	}
}

// Expectations returns what the policy expects of a node in numbers. The manifest is not among them: an
// operator wrote it from a node that was good.
func (p *Policy) Expectations() (list []Expectation) {
	for _, k := range p.numbers() {
		if k.value != nil {
			list = append(list, Expectation{k.key, fmt.Sprint(k.value)})
		}
	}
	for _, role := range slices.Sorted(maps.Keys(p.PortRates)) {
		list = append(list, Expectation{ratePrefix + string(role), strconv.FormatFloat(p.PortRates[role]*8/1e9, 'g', 6, 64)})
	}
	return list
}

// Without returns the policy without some of its expectations.
func (p *Policy) Without(list []Expectation) *Policy {
	less := *p
	less.PortRates = maps.Clone(p.PortRates)
	for _, k := range less.numbers() {
		if slices.ContainsFunc(list, func(e Expectation) bool { return e.Key == k.key }) {
			k.unset()
		}
	}
	for _, e := range list {
		if role, is := e.RateOf(); is {
			delete(less.PortRates, role)
		}
	}
	return &less
}

// RateOf returns the role whose ports an expectation gives a rate.
func (e Expectation) RateOf() (Role, bool) {
	role, found := strings.CutPrefix(e.Key, ratePrefix)
	return Role(role), found
}

// WithPolicy returns the node as another policy of the site has it judged: its roles, expected rates and RoCE
// chains. The rails of its GPUs stay what they are.
func (n *Node) WithPolicy(p *Policy) *Node {
	with := n.Copy()
	with.Policy = p
	with.DerivePorts()
	with.DeriveRoCE()
	return with
}

// Binding returns the node as it is judged by what binds it. An expectation that it never met may be meant
// for another kind of node: it counts nowhere until it is met once.
func (n *Node) Binding() *Node {
	if len(n.NeverMet) == 0 {
		return n
	}
	with := n.WithPolicy(n.Policy.Without(n.NeverMet))
	with.NeverMet = nil
	return with
}

// Copy returns a node whose ports may be changed.
func (n *Node) Copy() *Node {
	with := *n
	with.HCAs = slices.Clone(n.HCAs)
	for i := range with.HCAs {
		with.HCAs[i].Ports = slices.Clone(n.HCAs[i].Ports)
	}
	return &with
}
