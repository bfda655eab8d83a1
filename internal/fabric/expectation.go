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

// Expectations returns what the policy expects of a node in numbers. The manifest is not among them: an operator wrote it from a
// node that was good.
func (p *Policy) Expectations() []Expectation {
	var list []Expectation
	add := func(key string, value any) { list = append(list, Expectation{key, fmt.Sprint(value)}) }
	if p.ComputePorts != nil {
		add("compute_ports", *p.ComputePorts)
	}
	if p.GPUs != nil {
		add("gpus", *p.GPUs)
	}
	for _, role := range slices.Sorted(maps.Keys(p.PortRates)) {
		add(ratePrefix+string(role), strconv.FormatFloat(p.PortRates[role]*8/1e9, 'g', 6, 64))
	}
	if p.NCCL != nil {
		add("nccl_minimum_version", p.NCCL)
	}
	if p.RoCE.DSCP != nil {
		add("roce.dscp", *p.RoCE.DSCP)
	}
	if p.RoCE.Priority != nil {
		add("roce.priority", *p.RoCE.Priority)
	}
	if p.RoCE.Lossless != nil {
		add("roce.lossless", *p.RoCE.Lossless)
	}
	if p.RoCE.ECN != nil {
		add("roce.ecn", *p.RoCE.ECN)
	}
	return list
}

// Without returns the policy without some of its expectations.
func (p *Policy) Without(list []Expectation) *Policy {
	less := *p
	less.PortRates = maps.Clone(p.PortRates)
	for _, e := range list {
		switch e.Key {
		case "compute_ports":
			less.ComputePorts = nil
		case "gpus":
			less.GPUs = nil
		case "nccl_minimum_version":
			less.NCCL = nil
		case "roce.dscp":
			less.RoCE.DSCP = nil
		case "roce.priority":
			less.RoCE.Priority = nil
		case "roce.lossless":
			less.RoCE.Lossless = nil
		case "roce.ecn":
			less.RoCE.ECN = nil
		default:
			delete(less.PortRates, Role(strings.TrimPrefix(e.Key, ratePrefix)))
		}
	}
	return &less
}

// RateOf returns the role whose ports an expectation gives a rate.
func (e Expectation) RateOf() (Role, bool) {
	role, found := strings.CutPrefix(e.Key, ratePrefix)
	return Role(role), found
}

// WithPolicy returns the node as another policy of the site has it judged: its roles, expected rates and RoCE chains. The rails of its
// GPUs stay what they are.
func (n *Node) WithPolicy(p *Policy) *Node {
	with := n.Copy()
	with.Policy = p
	with.DerivePorts()
	with.DeriveRoCE()
	return with
}

// Binding returns the node as it is judged by what binds it. An expectation that it never met may be meant for another kind of node: it
// counts nowhere until it is met once.
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
