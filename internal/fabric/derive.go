// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

// Derive fills in what follows from the facts: roles, expected rates, rate mismatches, the GID that NCCL
// would choose, how the network treats what it sends, which NIC is near which GPU, and whether GPUDirect RDMA works
// between them. The observer calls it once on a node that no other goroutine has yet.
func (n *Node) Derive() {
	n.DerivePorts()
	n.DeriveGIDs()
	n.DeriveRails()
	n.DeriveRoCE()
	n.DeriveGDR()
}

// DerivePorts derives the roles of ports and what they should be, which everything else follows from.
func (n *Node) DerivePorts() {
	entry := n.Listing().Entry
	for i := range n.HCAs {
		n.HCAs[i].Listed = entry[n.HCAs[i].Name]
	}
	n.deriveRoles()
	for _, p := range n.Ports {
		p.RateMismatch = n.rateMismatch(p)
	}
	n.deriveExpectations()
}

// DeriveGIDs derives the GID selected by NCCL on each port.
func (n *Node) DeriveGIDs() {
	for h, p := range n.Ports {
		p.GIDChoice = n.gidChoice(h, p)
	}
}

// DeriveRails derives which NIC is near which GPU, after DerivePorts.
func (n *Node) DeriveRails() { n.PCI.Rails = n.rails() }

// DeriveRoCE judges the RoCE chains, after DerivePorts and DeriveGIDs.
func (n *Node) DeriveRoCE() {
	for h, p := range n.Ports {
		p.RoCE = n.roceChains(h, p)
	}
}

// rateMismatch compares the rate of an active Ethernet port with the speed of its network interface. The
// kernel prints rates it does not know as SDR or QDR, and NCCL tunes for what is printed.
func (n *Node) rateMismatch(p *Port) Fact[bool] {
	const source = "ports/rate against net/speed"
	if p.LinkLayer.Or("") != LinkEthernet || p.State.Or("") != PortActive {
		return AbsentFact[bool](source, n.At)
	}
	if p.NetDevMoved() {
		return unknownLike[bool](p.NetDev.Meta())
	}
	d := n.NetDev(p.NetDev.Or(""))
	rate, ok := p.Rate.Get()
	if d != nil && !d.Bond.Or(false) && d.Speed.State == OK && d.Speed.Value < slowestRate { // RDMA has no word for it
		return AbsentFact[bool](d.Speed.Source, n.At)
	}
	if d == nil || !ok {
		return UnknownFact[bool](p.Rate.Meta().Reason, source, n.At)
	}
	if d.Bond.Or(false) { // the rate is that of one member
		return AbsentFact[bool](d.Bond.Source, n.At)
	}
	speed, ok := d.Speed.Get()
	if !ok {
		return UnknownFact[bool](d.Speed.Meta().Reason, d.Speed.Source, n.At)
	}
	return Known(speed != rate.BytesPerSecond, source, n.At)
}

// expectedRate is the rate that a source states. The highest rate of the ports of the same role and board is
// a guess, and counts where it is more than the port had so far: a port may never have had its rate.
func (n *Node) expectedRate(h *HCA, p *Port) (Fact[float64], Authority) {
	if r, ok := n.Policy.PortRates[p.Role.Or("")]; ok {
		return Known(r, "config expected.port_rate", n.At), ByConfiguration
	}
	if r, ok := n.Policy.Manifest.rateOf(h, p); ok {
		return Known(r, "manifest", n.At), ByManifest
	}
	if nic := n.inProfile(h, p); nic != nil && nic.Gigabits > 0 && !n.Profile.IsNormal(NormalEFAState) {
		return Known(nic.Gigabits*1e9/8, "profile "+n.Profile.Name, n.At), ByProfile
	}
	most := slices.Max(append(slices.Collect(maps.Keys(n.PeerRates(h, p))), 0))
	switch {
	case most > max(p.Seen.Rate, n.LineRate(p).Or(0)):
		return Known(most, "highest rate of the ports of the same role and board", n.At), ByNobody
	case p.Seen.Rate > 0:
		return Known(max(p.Seen.Rate, n.LineRate(p).Or(0)), "highest rate of the port so far", n.At), ByRecord
	}
	return AbsentFact[float64]("earlier rates of the port", n.At), ByNobody
}

// slowestRate is the lowest rate that RDMA knows, 2.5 Gb/s. Drivers report it of slower ports, and of speeds
// that they do not know.
const slowestRate = 2.5e9 / 8

// LineRate is how fast a port is: of Ethernet the speed of its interface where that is known, else what RDMA reports.
func (n *Node) LineRate(p *Port) Fact[float64] {
	d := n.NetDev(p.NetDev.Or(""))
	if d != nil && p.LinkLayer.Or("") == LinkEthernet && p.Rate.State == OK && !d.Bond.Or(false) && d.Speed.State == OK {
		return d.Speed
	}
	if r, ok := p.Rate.Get(); ok {
		return Known(r.BytesPerSecond, p.Rate.Source, p.Rate.At)
	}
	return Fact[float64]{State: p.Rate.State, Reason: p.Rate.Reason, Source: p.Rate.Source, At: p.Rate.At}
}

// PeerRates counts the ports of the role and board of a port, itself included, by their rates in bytes per second.
func (n *Node) PeerRates(h *HCA, p *Port) map[float64]int {
	votes := map[float64]int{}
	for q := range n.peers(h, p) {
		if r, ok := n.LineRate(q).Get(); ok {
			votes[r]++
		}
	}
	return votes
}

// peers iterates over the ports of the role and board of a port, itself included.
func (n *Node) peers(h *HCA, p *Port) iter.Seq[*Port] {
	return func(yield func(*Port) bool) {
		for o, q := range n.Ports {
			if q.Role.Or("") == p.Role.Or("") && n.SameBoard(h, o).Or(false) && !yield(q) {
				return
			}
		}
	}
}

func (n *Node) gidChoice(h *HCA, p *Port) Fact[GIDChoice] {
	entries, ok := p.GIDs.Entries.Get()
	if !ok {
		return Fact[GIDChoice]{
			State: p.GIDs.Entries.State, Reason: p.GIDs.Entries.Reason, Source: p.GIDs.Entries.Source,
			At: n.At,
		}
	}
	size, ok := p.GIDs.Size.Get()
	layer, known := p.LinkLayer.Get()
	node, typed := h.NodeType.Get()
	if !ok || !known || !typed {
		return UnknownFact[GIDChoice](ReasonNotRead, p.GIDs.Entries.Source, n.At)
	}
	c, ok := SelectGID(node, layer, size, entries, &n.NCCL)
	if !ok {
		return AbsentFact[GIDChoice](p.LinkLayer.Source, n.At)
	}
	return Known(c, strings.Join([]string{p.GIDs.Entries.Source, "NCCL configuration"}, " and "), n.At)
}
