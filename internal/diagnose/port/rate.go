// SPDX-License-Identifier: Apache-2.0

package port

import (
	"fmt"
	"slices"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// rateOf is what the rate of a peer follows from.
func rateOf(n *fabric.Node, h *fabric.HCA, p *fabric.Port) []fabric.Meta {
	if p.Down() {
		return []fabric.Meta{n.Board(h).Meta()}
	}
	return []fabric.Meta{n.Board(h).Meta(), p.Rate.Meta()}
}

func judgeRate(n *fabric.Node, h *fabric.HCA, p *fabric.Port, v *verdict.Verdicts) {
	if w, short := shortBond(n, h, p); short {
		v.Failed(verdict.PortSubject(h, p), w)
		return
	}
	expected, ok := p.ExpectedRate.Get()
	if !ok {
		if m := UnreadPeer(n, h, p, func(o *fabric.HCA, q *fabric.Port) []fabric.Meta { return rateOf(n, o, q) }); m != nil {
			v.Unknown(verdict.PortSubject(h, p), m.Reason,
				"The expected rate is unknown: its peers do not determine it, "+verdict.ReasonText(m.Reason)+".")
		}
		return
	}
	rate, ok := n.LineRate(p).Get()
	if !ok {
		v.Unknown(verdict.PortSubject(h, p), p.Rate.Meta().Reason,
			"The rate is unknown: "+verdict.ReasonText(p.Rate.Meta().Reason)+".")
		return
	}
	switch {
	case rate >= expected:
		v.OK(verdict.PortSubject(h, p))
		return
	case p.RateBy == fabric.ByNobody && p.RateMismatch.Or(false): // port_rate_reported reports it: the port may be as fast
		return
	}
	who := map[fabric.Authority]string{
		fabric.ByConfiguration: "The configuration expects it.", fabric.ByManifest: "The manifest has it.",
		fabric.ByProfile: "The profile of the platform has it.",
		fabric.ByRecord:  "The port had it" + fabric.Until(p.Seen.RateLast) + ".",
		fabric.ByNobody:  "Other ports of its role and board run faster.",
	}[p.RateBy]
	module := verdict.Mlxlink(h)
	if !verdict.ToolsOf(h).NVIDIA() {
		module = "ethtool -m <interface>"
	}
	remedy := "Check the speeds that both ends advertise (ethtool <interface>, " + module +
		") and the configuration of the switch port, then cable and transceiver."
	if p.LinkLayer.Or("") == fabric.LinkInfiniBand {
		module = ""
		if verdict.ToolsOf(h).NVIDIA() {
			module = ", " + verdict.Mlxlink(h)
		}
		remedy = "Compare the active speed and width with those that both ends support (ibportstate -C <device> -D 0 <port>" + module + "), then check cable and transceiver."
	}
	if !p.RateStated() {
		remedy = "If it should be as fast: " + remedy +
			" If not: state the rate (expected.port_rate_gigabits_per_second) or the role (roles) in the configuration, or " +
			verdict.AcceptCommand + "."
	}
	if p.RateBy == fabric.ByRecord {
		remedy += OnPurpose(h)
	}
	v.Failed(verdict.PortSubject(h, p), verdict.Verdict{
		What:     fmt.Sprintf("The port runs at %s, but %s is expected", verdict.Gigabits(rate), verdict.Gigabits(expected)),
		Unstated: !p.RateStated(),
		Evidence: who + lanes(n, h, p, expected), Consequence: ofRole(p, "Every collective waits for its slowest port.",
			"The storage behind the port is slower."),
		Remedy: remedy,
	})
}

// shortBond finds a port whose bond has a member without carrier and is slower than another bond of its role
// and board. The rate of the port is that of one member. A bond of which one member carries everything is as
// fast as the others of its kind, and what all bonds lack is taken as intended.
func shortBond(n *fabric.Node, h *fabric.HCA, p *fabric.Port) (w verdict.Verdict, short bool) {
	d := n.NetDev(p.NetDev.Or(""))
	if d == nil || !d.Bond.Or(false) || d.Speed.State != fabric.OK {
		return w, false
	}
	most := 0.0
	for o, q := range n.Ports {
		if e := n.NetDev(q.NetDev.Or("")); e != nil && e.Bond.Or(false) && q.Role.Or("") == p.Role.Or("") &&
			n.SameBoard(h, o).Or(false) && len(e.Lower.Value) == len(d.Lower.Value) {
			most = max(most, e.Speed.Or(0))
		}
	}
	var down []string
	for _, i := range n.Interfaces.Or(nil) {
		if i.WithoutCarrier() && slices.Contains(d.Lower.Value, i.Name) {
			down = append(down, i.Name)
		}
	}
	return verdict.Verdict{
		What: fmt.Sprintf("The bond runs at %s, but other bonds of the node at %s", verdict.Gigabits(d.Speed.Value),
			verdict.Gigabits(most)),
		Evidence:    "Members of " + d.Name + " without carrier: " + verdict.Few(down) + ".",
		Consequence: ofRole(p, "Every collective waits for its slowest port.", "The storage behind the port is slower."),
		Remedy:      "Bring the member up (ip link set dev <member> up), then check its cable, transceiver (ethtool -m <member>) and switch port.",
		Names:       map[string][]string{"member": down[:min(len(down), 1)]},
	}, len(down) > 0 && d.Speed.Value < most
}

// lanes says how wide and fast the link of a slow port is, and how wide a port of its board with the same
// signalling is at the expected rate. Drivers of Ethernet may not report either.
func lanes(n *fabric.Node, h *fabric.HCA, p *fabric.Port, expected float64) string {
	own := p.Rate.Value
	if own.Lanes == 0 || own.Generation == "" {
		return ""
	}
	for o, q := range n.Ports {
		r, known := q.Rate.Get()
		if known && r.BytesPerSecond >= expected && r.Generation == own.Generation && r.Lanes > own.Lanes &&
			n.SameBoard(h, o).Or(false) {
			return fmt.Sprintf(" Its link has %d of %d lanes (%dX %s).", own.Lanes, r.Lanes, own.Lanes, own.Generation)
		}
	}
	return fmt.Sprintf(" Its link is %dX %s.", own.Lanes, own.Generation)
}

func judgeRateAgrees(n *fabric.Node, h *fabric.HCA, p *fabric.Port, v *verdict.Verdicts) {
	differs, ok := p.RateMismatch.Get()
	switch {
	case p.RateMismatch.State == fabric.Absent:
		return
	case !ok:
		v.Hidden(verdict.PortSubject(h, p), p.RateMismatch.Meta(), "One of them")
		return
	}
	if !differs {
		v.OK(verdict.PortSubject(h, p))
		return
	}
	var speed fabric.Fact[float64]
	if d := n.NetDev(p.NetDev.Or("")); d != nil {
		speed = d.Speed
	}
	v.Failed(verdict.PortSubject(h, p), verdict.Verdict{
		What: fmt.Sprintf("RDMA reports %s, the network interface %s", verdict.Gigabits(p.Rate.Value.BytesPerSecond),
			verdict.Gigabits(speed.Value)),
		Evidence:    p.Rate.Source + " against " + speed.Source + ".",
		Consequence: "NCCL tunes itself for the rate that RDMA reports.",
		Remedy:      "Kernels report a rate that they do not support as a different one: update driver and firmware (ethtool -i <interface> shows both).",
	})
}
