// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"fmt"
	"slices"

	"gpufabric_exporter/internal/diagnose/port"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// Kinds of faults of addresses.
var (
	modeGIDMissing = verdict.Mode{
		ID:   "gid_missing",
		Text: "A RoCE port has no routable RoCE v2 address that NCCL would choose.", Alert: "GpuFabricGidLost",
	}
	modeGIDShared = verdict.Mode{ID: "gid_shared", Text: "Two compute ports of the node have one address."}
)

func gidChecks() []*verdict.Check {
	return []*verdict.Check{
		{
			ID: verdict.CheckGID, Title: "NCCL would not use a RoCE v2 address", Severity: verdict.Critical, Topic: "gids",
			Scope: verdict.ScopePort,
			Reads: "the GID table of the port and NCCL's own selection rule (NCCL_IB_GID_INDEX, _ADDR_FAMILY, _ADDR_RANGE, _ROCE_VERSION_NUM of the host); " +
				"whether the manifest or the record of the node has an address of that family for the port",
			Guard: "active RoCE ports of role compute; an IPv6-only fabric passes if NCCL is configured for it. Ports of one device, interfaces of one bond and interfaces in other network namespaces may share an address",
			Rests: verdict.OnRole,
			Modes: []verdict.Mode{modeGIDMissing, port.ModeGIDPinned, modeGIDShared}, Judge: port.EachCompute(judgeGID),
		},
	}
}

func judgeGID(n *fabric.Node, h *fabric.HCA, p *fabric.Port, v *verdict.Verdicts) {
	c, known := p.GIDChoice.Get()
	layer, linked := p.LinkLayer.Get()
	switch {
	case p.GIDChoice.State == fabric.Absent || linked && layer != fabric.LinkEthernet:
		return
	case !known:
		v.Unknown(verdict.PortSubject(h, p), p.GIDChoice.Meta().Reason,
			"The GID table is unknown: "+verdict.ReasonText(p.GIDChoice.Meta().Reason)+".")
		return
	case unreadNCCL(n) != nil && c.Fits():
		r := unreadNCCL(n).Reason
		v.Unknown(verdict.PortSubject(h, p), r,
			"By default NCCL would use a suitable address, but a configuration file of NCCL could not be read: "+verdict.ReasonText(r)+".")
		return
	case c.Fits():
		if other := sharesGID(n, h, p); other != "" {
			v.Failed(verdict.PortSubject(h, p), verdict.Verdict{
				What:        "Two compute ports have the same address",
				Evidence:    fmt.Sprintf("Entry %d is %s, as on %s.", c.Index, c.GID.Addr.Unmap(), other),
				Consequence: "Packets to the address arrive at one of the ports: connections of the other one fail.",
				Remedy:      "Give each network interface an address of its own (ip -br addr), and correct the network configuration.",
				Mode:        modeGIDShared.ID, Anywhere: true,
			})
			return
		}
		v.OK(verdict.PortSubject(h, p))
		return
	}
	if p.NetDevMoved() { // its addresses are the pod's
		v.Unknown(verdict.PortSubject(h, p), fabric.ReasonMoved, "")
		return
	}
	evidence := verdict.Sentence(c.Why)
	if c.GID != nil {
		evidence += fmt.Sprintf(" Entry %d is %s with %s address.", c.Index, verdict.GIDTypeName(c.GID.Type),
			verdict.GIDFamilyName(c.GID.Family))
	}
	mode, remedy := modeGIDMissing.ID, addressRemedy(n, p)
	switch {
	case c.Rule != fabric.GIDByConfiguration:
	case fitsUnpinned(n, h, p):
		mode, remedy = port.ModeGIDPinned.ID, "Remove NCCL_IB_GID_INDEX: NCCL 2.21 and later select a GID themselves."
	default:
		evidence += " The port has no suitable address at another index, either."
		remedy = "Remove NCCL_IB_GID_INDEX; this alone does not help. " + remedy
	}
	lost := p.Address.Value != "" && len(p.AddressesOf(p.Address.Value)) == 0
	if lost {
		evidence += " " + verdict.Sentence(p.Address.Words)
	}
	if lost && p.Address.By == fabric.ByRecord {
		remedy += port.OnPurpose(h)
	}
	v.Failed(verdict.PortSubject(h, p), verdict.Verdict{
		Evidence: evidence, Consequence: "RDMA connections to other nodes are likely to fail.", Remedy: remedy, Mode: mode,
		Names:    addressed(n, p),
		Anywhere: lost,
	})
}

// addressed names the interface that is to have the address where the port has a VLAN: that of the VLAN. Of
// several the reader chooses.
func addressed(n *fabric.Node, p *fabric.Port) map[string][]string {
	var tagged []string
	for _, g := range p.GIDs.Entries.Or(nil) {
		if name := OfGID(&g, p); n.Tagged(name).Or(false) && !slices.Contains(tagged, name) {
			tagged = append(tagged, name)
		}
	}
	switch len(tagged) {
	case 0:
		return nil
	case 1:
		return map[string][]string{"interface": tagged}
	}
	return map[string][]string{"interface": nil}
}

// sharesGID returns another active compute port for which NCCL chooses the same address; empty: none. Members
// of a bond may have that of the bond.
func sharesGID(n *fabric.Node, h *fabric.HCA, p *fabric.Port) string {
	own := p.GIDChoice.Value.GID
	d := n.NetDev(p.NetDev.Or(""))
	if own == nil || !own.Routable() || d == nil {
		return ""
	}
	for o, q := range n.ActiveCompute {
		other, e := q.GIDChoice.Value.GID, n.NetDev(q.NetDev.Or(""))
		switch {
		case o == h || other == nil || e == nil || e == d:
		case q.LinkLayer.Or("") != fabric.LinkEthernet || other.Addr != own.Addr:
		case other.NetDev != "" && other.NetDev == own.NetDev, d.Upper.State == fabric.OK && d.Upper.Value == e.Upper.Or(""):
		default:
			return verdict.PortSubject(o, q).String()
		}
	}
	return ""
}

// fitsUnpinned reports whether NCCL would choose a suitable address without NCCL_IB_GID_INDEX.
func fitsUnpinned(n *fabric.Node, h *fabric.HCA, p *fabric.Port) bool {
	unpinned := fabric.NCCLConfig{Variables: slices.DeleteFunc(slices.Clone(n.NCCL.Variables),
		func(v fabric.NCCLVariable) bool { return v.Name == "NCCL_IB_GID_INDEX" })}
	c, chosen := fabric.SelectGID(h.NodeType.Or(""), p.LinkLayer.Or(""), p.GIDs.Size.Or(0), p.GIDs.Entries.Or(nil),
		&unpinned)
	return chosen && c.Fits()
}

// addressRemedy says how a port gets an address that NCCL chooses by itself.
func addressRemedy(n *fabric.Node, p *fabric.Port) string {
	v6 := slices.ContainsFunc(p.GIDs.Entries.Or(nil),
		func(g fabric.GID) bool { return g.Routable() && g.Family == fabric.FamilyIPv6 })
	v4 := slices.ContainsFunc(p.GIDs.Entries.Or(nil),
		func(g fabric.GID) bool { return g.Routable() && g.Family == fabric.FamilyIPv4 })
	v1 := slices.ContainsFunc(p.GIDs.Entries.Or(nil),
		func(g fabric.GID) bool { return g.Type == fabric.GIDRoCEv1 && g.Family == fabric.FamilyIPv4 })
	_, ranged := n.NCCL.Text("NCCL_IB_ADDR_RANGE")
	family, _ := n.NCCL.Text("NCCL_IB_ADDR_FAMILY")
	switch {
	case ranged:
		return "Correct NCCL_IB_ADDR_RANGE, or give the network interface an address in that range."
	case family == "AF_INET6" && !v6 && v4:
		return "The port has only IPv4 addresses: remove NCCL_IB_ADDR_FAMILY=AF_INET6."
	case family == "AF_INET6" && !v6:
		return "Give the network interface a global IPv6 address, as NCCL_IB_ADDR_FAMILY=AF_INET6 expects: ip addr add <IPv6 address>/<length> dev <interface>, and make it persistent in the network configuration."
	case v6 && TaggedGID(n, p) != nil && trustsTag(p):
		return "The port has only IPv6 addresses: set NCCL_IB_ADDR_FAMILY=AF_INET6, and NCCL_IB_SL to the lossless priority."
	case v6:
		return "The port has only IPv6 addresses: set NCCL_IB_ADDR_FAMILY=AF_INET6."
	case v1:
		return "The interface has an IPv4 address, but the device offers it as RoCE v1 only. Compare driver, firmware and its RoCE settings with a port that has RoCE v2 entries (ethtool -i <interface>)."
	default:
		return "Give the network interface an IPv4 address: ip addr add <IPv4 address>/<length> dev <interface>, and make it persistent in the network configuration."
	}
}

// trustsTag reports whether an interface below a port takes the priority from the VLAN tag.
func trustsTag(p *fabric.Port) bool {
	return slices.ContainsFunc(p.RoCE.Or(nil), func(c fabric.RoCEChain) bool { return c.Trust.Or("") == fabric.TrustPCP })
}

// unreadNCCL reports whether a file that may configure NCCL could not be read.
func unreadNCCL(n *fabric.Node) *fabric.Meta {
	for _, f := range n.NCCL.Files {
		if f.Exists.State == fabric.Unknown {
			return new(f.Exists.Meta())
		}
	}
	return nil
}
