// SPDX-License-Identifier: Apache-2.0

package fabric

import "slices"

// What a port is for, and whether it is active, is known or is not. All that judges ports asks it here, by
// what unknown has to mean there:
//
//	Serves   known to be for that           MayServe  not known to be for something else
//	Carries  active, or its driver gives no state (EFA): it counts as active everywhere
//	Down     known not to be active         !Down     active, or not known
//
// A port whose state cannot be read neither carries nor is down: it is not counted as active, and is no fault.

// Ports iterates over the ports of all devices.
func (n *Node) Ports(yield func(*HCA, *Port) bool) {
	for i := range n.HCAs {
		h := &n.HCAs[i]
		for k := range h.Ports {
			if !yield(h, &h.Ports[k]) {
				return
			}
		}
	}
}

// ComputePorts iterates over the ports for training, by a source or by a guess.
func (n *Node) ComputePorts(yield func(*HCA, *Port) bool) {
	for h, p := range n.Ports {
		if p.Serves(RoleCompute) && !yield(h, p) {
			return
		}
	}
}

// ActiveCompute iterates over the ports for training that carry.
func (n *Node) ActiveCompute(yield func(*HCA, *Port) bool) {
	for h, p := range n.ComputePorts {
		if p.Carries() && !yield(h, p) {
			return
		}
	}
}

// TrainingStated reports whether a source states that the node has ports for training, or should have.
func (n *Node) TrainingStated() bool {
	for _, p := range n.ComputePorts {
		if p.RoleBy != ByNobody {
			return true
		}
	}
	return n.Policy.ComputePorts != nil && *n.Policy.ComputePorts > 0
}

// Serves reports whether a port of the device is known to have that role.
func (h *HCA) Serves(r Role) bool {
	return slices.ContainsFunc(h.Ports, func(p Port) bool { return p.Serves(r) })
}

// Serves reports whether the port is known to have that role.
func (p *Port) Serves(r Role) bool { return p.Role.Or("") == r }

// MayServe reports whether the port has that role, or it is not known which.
func (p *Port) MayServe(r Role) bool { return p.Role.Or(r) == r }

// Carries reports whether a port is active as far as its driver reports it.
func (p *Port) Carries() bool {
	return p.State.Or("") == PortActive || p.State.Meta().Reason == ReasonDriverConstant
}

// Down reports whether a port is known not to be active.
func (p *Port) Down() bool { return p.State.Or(PortActive) != PortActive }

// RateStated reports whether a source states the rate that the port should have. The number of a site is for
// a role: it states nothing of a port whose role is a guess.
func (p *Port) RateStated() bool {
	return p.ExpectedRate.State == OK && p.RateBy != ByNobody && (p.RateBy != ByConfiguration || p.RoleBy != ByNobody)
}
