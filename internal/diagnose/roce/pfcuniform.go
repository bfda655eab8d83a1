// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/diagnose/port"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

func pfcUniformCheck() *verdict.Check {
	return &verdict.Check{
		ID: verdict.CheckPFCUniform, Title: "Compute ports have PFC on for different priorities", Severity: verdict.Warning,
		Topic: "roce", Scope: verdict.ScopePort,
		Reads: "PFC of each interface below the port compared with that of more than half of the compute ports of its board, at least three. Also NCCL_IB_HCA of the host, operstate of members of a bond",
		Guard: "active RoCE compute ports that NCCL_IB_HCA of the host does not exclude; not where roce_pfc fails, nor members of a bond without carrier. " +
			"Ports that are down or hidden count as compute ports of the board, but not as equal ones; ports that a source states to have no link do not count. " +
			"No verdict on two groups of the same size, as of two networks, nor where the driver does not report PFC",
		Modes: []verdict.Mode{modePFC}, Judge: judgePFCUniform,
	}
}

// pfcPeers is what compute ports of each board have PFC on for.
type pfcPeers struct {
	port.Polls[fabric.PriorityMask]
	wires map[fabric.Board]int // of a board: all that could have a say, known or not
	used  fabric.NameFilter
}

// enough is how many interfaces must be equal for another one to be an exception. Two may be right or wrong as one is.
const enough = 3

// majority returns what more than half of the interfaces of a device's board have, and how many do. What is
// hidden or down could be of either kind: it is for neither.
func (p *pfcPeers) majority(n *fabric.Node, h *fabric.HCA) (most fabric.PriorityMask, count int, clear bool) {
	most, _, clear = p.Winner(n, h)
	board := n.Board(h).Or(fabric.Board{})
	count = p.Polls[board][most]
	return most, count, clear && count >= enough && 2*count > p.wires[board]
}

// judgePFCUniform compares PFC of compute ports with that of most of their kind. A site without expectations
// has no other check that finds one port whose PFC is off.
func judgePFCUniform(n *fabric.Node, v *verdict.Verdicts) {
	peers := pfcPeers{Polls: port.Polls[fabric.PriorityMask]{}, wires: map[fabric.Board]int{}}
	peers.used, _ = n.NCCL.Devices()
	for h, p := range n.Ports {
		if p.MayServe(fabric.RoleCompute) && p.RoCE.State != fabric.Absent && peers.used.Takes(h.Name, p.Number) {
			peers.ask(n, h, p)
		}
	}
	port.EachCompute(func(n *fabric.Node, h *fabric.HCA, p *fabric.Port, v *verdict.Verdicts) {
		chains, known := p.RoCE.Get()
		switch {
		case p.RoCE.State == fabric.Absent || !peers.used.Takes(h.Name, p.Number):
		case !known:
			v.Hidden(verdict.PortSubject(h, p), p.RoCE.Meta(), "For which priorities PFC is on")
		default:
			from := len(v.List)
			for i := range chains {
				if hasCarrier(n, &chains[i]) && !failsPFC(&chains[i]) {
					peers.judge(n, h, p, &chains[i], v)
				}
			}
			v.KeepWorst(from)
		}
	})(n, v)
}

// ask counts the interfaces of a port, and what they have. A port that the site expects to be otherwise is no
// example for others.
func (p *pfcPeers) ask(n *fabric.Node, h *fabric.HCA, port *fabric.Port) {
	board := n.Board(h).Or(fabric.Board{})
	chains := port.RoCE.Or(nil)
	switch {
	case port.Down() && port.Link.Stated() && !port.Link.Value:
		return
	case !port.Carries(), len(chains) == 0:
		p.wires[board] += max(len(chains), 1)
		return
	}
	for i := range chains {
		c := &chains[i]
		p.wires[board]++
		if pfc, read := pfcOf(n, c).Get(); read && hasCarrier(n, c) && (n.Policy.RoCE.Lossless == nil || !failsPFC(c)) {
			p.Vote(n, h, pfc.Enabled)
		}
	}
}

// pfcOf is PFC of the interface of a chain.
func pfcOf(n *fabric.Node, c *fabric.RoCEChain) fabric.Fact[fabric.PFC] {
	if d := n.NetDev(c.Interface); d != nil {
		return d.QoS.PFC
	}
	return fabric.UnknownFact[fabric.PFC](fabric.ReasonNotRead, "", n.At)
}

// hasCarrier reports whether the interface of a chain is not known to be without a carrier: a willing one
// then has nothing of what its link partner offers.
func hasCarrier(n *fabric.Node, c *fabric.RoCEChain) bool {
	return !slices.ContainsFunc(n.Interfaces.Or(nil),
		func(i fabric.Interface) bool { return i.Name == c.Interface && i.WithoutCarrier() })
}

// partnerSetsPFC reports whether the interface of a chain takes its configuration from its link partner.
func partnerSetsPFC(n *fabric.Node, c *fabric.RoCEChain) bool {
	d := n.NetDev(c.Interface)
	return d != nil && (!d.QoS.DCBX.Or(fabric.DCBX{Host: true}).Host || d.QoS.ETS.Or(fabric.ETS{}).Willing)
}

// failsPFC reports whether roce_pfc finds a fault.
func failsPFC(c *fabric.RoCEChain) bool {
	_, l := deciding(c, c.Link(fabric.RoCEPFC))
	return l != nil && l.Status == verdict.Failed
}

func (p *pfcPeers) judge(n *fabric.Node, h *fabric.HCA, q *fabric.Port, c *fabric.RoCEChain, v *verdict.Verdicts) {
	s, pfc, member := verdict.PortSubject(h, q), pfcOf(n, c), memberOf(q.RoCE.Value, c)
	own, seen := pfc.Value.Enabled, verdict.Sentence(c.Link(fabric.RoCEPFC).Evidence)
	switch most, count, clear := p.majority(n, h); {
	case n.Board(h).State == fabric.OK && p.wires[n.Board(h).Value] <= enough: // too few to compare with
	case pfc.State == fabric.Absent, pfc.State == fabric.Unknown && verdict.Silent(pfc.Meta()):
	case pfc.State == fabric.Unknown:
		v.Unknown(s, pfc.Reason, member+seen)
	case !clear:
		if unread := port.UnreadPeer(n, h, q, p.readOf(n)); unread != nil {
			v.Unknown(s, unread.Reason,
				"For which priorities PFC of its peers is on is unknown: "+verdict.ReasonText(unread.Reason)+".")
		}
	case own == most:
		v.OK(s)
	default:
		peers := fmt.Sprintf("Of %d interfaces of compute ports of its board, %d have PFC %s.",
			p.wires[n.Board(h).Or(fabric.Board{})], count, onFor(most))
		if own == 0 { // 802.3x may be on instead
			peers = strings.TrimSpace(seen + " " + peers)
		}
		r := repair{tools: verdict.ToolsOf(h), node: n, port: q, chain: c}
		remedy := r.pfcOfPeers(most)
		if partnerSetsPFC(n, c) {
			remedy = "The interface may take PFC from its link partner (DCBX): compare the switch port with those of the other compute ports. If the host decides: " + remedy
		}
		v.Failed(s, verdict.Verdict{
			What: "PFC is " + onFor(own) + ", but its peers have it " + onFor(most), Evidence: member + peers,
			Consequence: "In congestion, this rail loses packets or pauses traffic, and the other rails do not.",
			Remedy:      remedy + " If the port is not for training, give it another role in the configuration (roles).",
			Names:       namesOfChain(c),
		})
	}
}

// readOf is what the say of a peer follows from.
func (p *pfcPeers) readOf(n *fabric.Node) func(*fabric.HCA, *fabric.Port) []fabric.Meta {
	return func(h *fabric.HCA, q *fabric.Port) []fabric.Meta {
		if !p.used.Takes(h.Name, q.Number) {
			return nil
		}
		list := []fabric.Meta{q.State.Meta(), q.RoCE.Meta()}
		for i := range q.RoCE.Or(nil) {
			list = append(list, pfcOf(n, &q.RoCE.Value[i]).Meta())
		}
		return list
	}
}

// onFor says for which priorities PFC is on.
func onFor(m fabric.PriorityMask) string {
	if m == 0 {
		return "off"
	}
	return "on for " + m.Text()
}
