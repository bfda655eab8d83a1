// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"encoding/binary"
	"encoding/hex"
	"hash/fnv"
	"slices"

	"gpufabric_exporter/internal/counters"
)

// roceChains judges the chain of each physical interface below a port, the worst first: its verdict is the port's.
// It is absent where there is no RoCE.
func (n *Node) roceChains(h *HCA, p *Port) Fact[[]RoCEChain] {
	layer, known := p.LinkLayer.Get()
	node, typed := h.NodeType.Get()
	role, judged := p.Role.Get()
	switch {
	case known && layer != LinkEthernet:
		return AbsentFact[[]RoCEChain](p.LinkLayer.Source, n.At)
	case typed && node != NodeCA:
		return AbsentFact[[]RoCEChain](h.NodeType.Source, n.At)
	case !known:
		return unknownLike[[]RoCEChain](p.LinkLayer.Meta())
	case !typed:
		return unknownLike[[]RoCEChain](h.NodeType.Meta())
	case p.NetDevMoved(): // only its namespace shows how the interface treats traffic
		return unknownLike[[]RoCEChain](p.NetDev.Meta())
	case !judged: // whether the site's policy is for this port
		return unknownLike[[]RoCEChain](p.Role.Meta())
	}
	in := RoCEInputs{
		GIDType:  UnknownFact[GIDType](p.GIDChoice.Meta().Reason, p.GIDChoice.Source, n.At),
		Tagged:   UnknownFact[bool](ReasonNotRead, "", n.At),
		GIDUnfit: AbsentFact[string](p.GIDChoice.Source, n.At), Override: p.TrafficClass, DefaultToS: p.DefaultToS,
		TC: n.NCCL.setting("NCCL_IB_TC"), SL: n.NCCL.setting("NCCL_IB_SL"), ControlTC: n.NCCL.setting("NCCL_IB_FIFO_TC"),
	}
	if role == RoleCompute {
		in.Policy, in.GIDUnfit = n.Policy.RoCE, p.unfitGID()
	}
	name := p.NetDev.Or("")
	if c, ok := p.GIDChoice.Get(); ok && c.GID != nil {
		in.GIDType = Known(c.GID.Type, p.GIDChoice.Source, n.At)
		if c.GID.NetDev != "" {
			name = c.GID.NetDev // a VLAN's GIDs are in the table of the port below
		}
	}
	in.Tagged = n.Tagged(name)
	in.Congestion = roceCongestion(h.Driver.Or(""), &p.Counters, n.At)
	var chains []RoCEChain
	for _, member := range n.physical(name, nil) {
		in := in
		in.Interface, in.Driver = member, h.Driver
		if d := n.NetDev(member); d != nil {
			in.QoS = d.QoS
			if d.Driver.State == OK {
				in.Driver = d.Driver
			}
			in.Traffic = roceTraffic(in.Driver.Or(""), &d.QoS, n.At)
		}
		c := evaluateRoCE(in)
		if role != RoleCompute {
			*c.Link(RoCEObservedPriority) = RoCELink{
				Step: RoCEObservedPriority, Status: StatusNotApplicable,
				Evidence: "the traffic of this port is not NCCL's: its traffic class may be another",
			}
		}
		chains = append(chains, c)
	}
	slices.SortStableFunc(chains, func(a, b RoCEChain) int { return a.Verdict.Rank() - b.Verdict.Rank() })
	return Known(chains, "RoCE chain", n.At)
}

// unfitGID is why the GID that NCCL would use does not fit. It is absent where that fits, and on a port that
// is not active, which has lost its addresses or never had one.
func (p *Port) unfitGID() Fact[string] {
	choice := p.GIDChoice
	switch c, chosen := choice.Get(); {
	case p.Down():
		return AbsentFact[string](p.State.Source, choice.At)
	case !chosen:
		return unknownLike[string](choice.Meta())
	case c.Fits():
		return AbsentFact[string](choice.Source, choice.At)
	default:
		return Known(c.Why, choice.Source, choice.At)
	}
}

// setting is a variable that NCCL reads as a number: absent when a process that brings none of its own would find
// it unset, or set to -1, which says so. Unknown when a file that may set it could not be read.
func (c *NCCLConfig) setting(name string) Fact[NCCLVariable] {
	whole := c.whole()
	if whole.State != OK {
		return unknownLike[NCCLVariable](whole.Meta())
	}
	v, set := c.Lookup(name)
	if !set || !v.IsNumber || v.Number == -1 {
		return AbsentFact[NCCLVariable](whole.Source, whole.At)
	}
	return Known(v, v.Source, whole.At)
}

// roceMembers bounds what is looked at below an interface. Bonds have two or four members; a bridge, which carries no
// RoCE, may have hundreds.
const roceMembers = 16

// physical returns the interfaces below one that have a driver: the members of a bond, what a VLAN sits on, or the
// interface itself. A name that was seen is not followed again.
func (n *Node) physical(name string, seen map[string]bool) []string {
	if seen == nil {
		seen = map[string]bool{}
	}
	if seen[name] || len(seen) > roceMembers {
		return nil
	}
	seen[name] = true
	d := n.NetDev(name)
	if d == nil || len(d.Lower.Or(nil)) == 0 {
		return []string{name}
	}
	var list []string
	for _, l := range d.Lower.Value {
		list = append(list, n.physical(l, seen)...)
	}
	if len(list) == 0 { // a circle, which the kernel does not allow
		return []string{name}
	}
	return list
}

// Tagged reports whether what leaves through an interface carries a VLAN tag: it sits on another and is no bond.
func (n *Node) Tagged(name string) Fact[bool] {
	d := n.NetDev(name)
	if d == nil {
		return UnknownFact[bool](ReasonNotRead, "net", n.At)
	}
	lower, known := d.Lower.Get()
	bond, knownBond := d.Bond.Get()
	switch {
	case d.Lower.State == Absent || known && len(lower) == 0:
		return Known(false, d.Lower.Source, d.Lower.At)
	case !known:
		return unknownLike[bool](d.Lower.Meta())
	case !knownBond:
		return unknownLike[bool](d.Bond.Meta())
	}
	return Known(!bond, d.Lower.Source, d.Lower.At)
}

// roceHash is a short name of all that is set for RoCE on an interface. It stays the same from release to release
// as long as what goes into it does, so that alerts can compare nodes.
func roceHash(c *RoCEChain, q *QoS) string {
	h := roceHasher{}
	h.part(c.Trust.State, []int{slices.Index(Trusts(), c.Trust.Value)})
	h.part(c.TrafficClass.State, []int{c.TrafficClass.Value})
	h.part(c.DSCP.State, []int{c.DSCP.Value})
	h.part(c.Judged.State, []int{c.Judged.Value})
	h.part(q.PFC.State, []int{int(q.PFC.Value.Enabled)})
	ets := &q.ETS.Value
	h.part(q.ETS.State, ets.PriorityClass[:], ets.Bandwidth[:])
	for _, a := range ets.Algorithm {
		h.part(q.ETS.State, []int{int(a)})
	}
	h.part(q.NP.State, []int{int(q.NP.Value)})
	h.part(q.RP.State, []int{int(q.RP.Value)})
	pause := 0
	if q.Pause.Value.Receive {
		pause |= 1
	}
	if q.Pause.Value.Transmit {
		pause |= 2
	}
	h.part(q.Pause.State, []int{pause})
	h.part(q.Buffers.State, q.Buffers.Value.OfPriority[:], q.Buffers.Value.Bytes[:])
	return h.String()
}

// dscpMap hashes the priority that PriorityOfDSCP returns for each DSCP. A DSCP that the driver does not list
// has priority -1: interfaces with the same driver treat it alike.
func dscpMap(trust Fact[Trust], driver string, q *QoS) string {
	apps, knownApps := q.Apps.Get()
	table, knownTable := q.DSCPPriority.Get()
	switch trusted, known := trust.Get(); {
	case !known, !knownApps && !notOffered(q.Apps.Meta()), !knownTable && !missing(q.DSCPPriority.Meta()), !knownApps &&
		!knownTable:
		return ""
	case trusted == TrustPCP:
		return string(TrustPCP)
	}
	if !knownTable {
		for dscp := range table {
			table[dscp] = -1
			if counters.TraitsOf(driver).PCPUntilDSCP {
				table[dscp] = dscp >> 3
			}
		}
	}
	var listed [NumDSCP]bool
	for _, a := range apps {
		if a.Selector != AppDSCP || a.Protocol < 0 || a.Protocol >= NumDSCP {
			continue
		}
		if !listed[a.Protocol] || a.Priority > table[a.Protocol] {
			listed[a.Protocol], table[a.Protocol] = true, a.Priority
		}
	}
	h := roceHasher{}
	h.part(OK, table[:])
	return h.String()
}

func bufferMap(buffers Fact[Buffers]) string {
	b, known := buffers.Get()
	if !known {
		return ""
	}
	h := roceHasher{}
	h.part(OK, b.OfPriority[:], b.Bytes[:])
	return h.String()
}

// roceHasher collects what is hashed: for each part its state, and the numbers if it is known.
type roceHasher struct{ text []byte }

func (h *roceHasher) part(s State, lists ...[]int) {
	h.text = append(h.text, byte(s))
	for _, list := range lists {
		for _, v := range list {
			if s == OK {
				h.text = binary.AppendVarint(h.text, int64(v))
			}
		}
	}
}

func (h *roceHasher) String() string {
	sum := fnv.New32a()
	_, _ = sum.Write(h.text) // never fails
	return hex.EncodeToString(sum.Sum(nil))
}
