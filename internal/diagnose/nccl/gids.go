// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// pinnedGID is NCCL_IB_GID_INDEX of the host, where it is set to an entry; -1 is the default.
func pinnedGID(n *fabric.Node) (set fabric.NCCLVariable, pinned bool) {
	set, found := n.NCCL.Lookup("NCCL_IB_GID_INDEX")
	return set, found && set.IsNumber && set.Number >= 0
}

// judgeGIDIndex only says that it is set, and what to set instead: gid_usable reports a wrong value.
func judgeGIDIndex(n *fabric.Node, v *verdict.Verdicts) {
	set, pinned := pinnedGID(n)
	if !pinned {
		return
	}
	remedy := "Remove NCCL_IB_GID_INDEX unless a job has an NCCL older than 2.21; NCCL_IB_ADDR_FAMILY and NCCL_IB_ADDR_RANGE select among addresses."
	if family, _ := n.NCCL.Text("NCCL_IB_ADDR_FAMILY"); family != "AF_INET6" && withoutIPv4(n) {
		remedy = "Replace it with NCCL_IB_ADDR_FAMILY=AF_INET6 unless a job has an NCCL older than 2.21: without both, NCCL looks for IPv4 addresses, and compute ports have none."
	}
	v.Failed(ofSetting(set), verdict.Verdict{
		Evidence:    seenOf(set),
		Consequence: "Indexes of GID tables change when addresses or interfaces change, and connections then fail.",
		Remedy:      remedy,
	})
}

// withoutIPv4 reports whether compute ports have IPv6 addresses, and none has an IPv4 address.
func withoutIPv4(n *fabric.Node) (found bool) {
	for _, p := range n.ComputePorts {
		for _, g := range p.GIDs.Entries.Or(nil) {
			if g.Family == fabric.FamilyIPv4 {
				return false
			}
			found = found || g.Family == fabric.FamilyIPv6
		}
	}
	return found
}

func judgePinnedGIDs(n *fabric.Node, v *verdict.Verdicts) {
	if _, pinned := pinnedGID(n); !pinned {
		return
	}
	kinds := map[string][]string{}
	var order []string
	var unread *fabric.Meta
	for h, p := range n.Ports {
		if !p.MayServe(fabric.RoleCompute) || p.Down() {
			continue
		}
		c, known := p.GIDChoice.Get()
		switch {
		case p.GIDChoice.State == fabric.Unknown:
			unread = new(p.GIDChoice.Meta())
		case !known || c.Rule != fabric.GIDByConfiguration || c.GID == nil || !c.GID.Routable():
		default:
			kind := verdict.GIDTypeName(c.GID.Type) + " with " + verdict.GIDFamilyName(c.GID.Family) + " address"
			if kinds[kind] == nil {
				order = append(order, kind)
			}
			kinds[kind] = append(kinds[kind], verdict.PortSubject(h, p).String())
		}
	}
	var evidence []string
	for _, kind := range order {
		evidence = append(evidence, kind+" on "+strings.Join(kinds[kind], ", "))
	}
	switch {
	case len(order) > 1:
		v.Failed(verdict.Subject{}, verdict.Verdict{
			Evidence:    "It is " + strings.Join(evidence, "; ") + ".",
			Consequence: "Rails reach other nodes by different networks, or not at all.",
			Remedy:      "Remove NCCL_IB_GID_INDEX: NCCL 2.21 and later select a GID themselves.",
		})
	case unread != nil:
		v.Hidden(verdict.Subject{}, *unread, "The entries that NCCL would use")
	case len(order) == 1:
		v.OK(verdict.Subject{})
	}
}
