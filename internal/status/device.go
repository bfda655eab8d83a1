// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"slices"

	"gpufabric_exporter/internal/diagnose/roce"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

func (b *builder) device(i int, h *fabric.HCA) Device {
	id := fmt.Sprintf("device-%d", i)
	subjects := []verdict.Subject{{Device: h.Name}}
	for k := range h.Ports {
		subjects = append(subjects, verdict.PortSubject(h, &h.Ports[k]))
	}
	to := Device{
		Board: factOf(h.BoardID), Firmware: factOf(h.Firmware), Driver: factOf(h.Driver), PCI: factOf(h.PCI),
		NUMA:  factOf(h.NUMANode),
		Moved: h.Moved, Restricted: h.Restricted.Or(false),
	}
	if f := b.in.Node.PCI.NIC(h.Name); f != nil {
		to.Group, to.Width, to.Speed = b.groups[f.Address], factOf(f.Link.Width), factOf(f.Link.Speed)
	}
	hidden, stateless := false, h.Moved
	for k := range h.Ports {
		stateless = stateless || isStateless(&h.Ports[k])
		p := b.port(fmt.Sprintf("port-%d-%d", i, h.Ports[k].Number), h, &h.Ports[k])
		hidden = hidden || p.Status == StatusUnknown
		to.Ports = append(to.Ports, p)
	}
	if len(h.Ports) == 0 {
		hidden = !to.Moved && !to.Restricted
	}
	to.Part = b.part(id, h.Name, hidden, subjects...)
	partly := slices.ContainsFunc(to.Ports, func(p Port) bool { return p.Status == StatusPartly })
	if to.Status == StatusOK && (stateless || partly) {
		to.Status = StatusPartly
	}
	if to.Status == StatusOK && allDown(h) {
		to.Status = StatusNone
	}
	if len(to.Ports) > 1 { // findings about a port link to it, or to the device if it has no other port
		for k := range to.Ports {
			b.names[to.Ports[k].Name], b.ids[subjects[k+1].Key()] = to.Ports[k].ID, to.Ports[k].ID
		}
	}
	return to
}

// isStateless reports whether the state of a port is unknown by design: its driver does not give it, or a pod
// has the port.
func isStateless(p *fabric.Port) bool {
	m := p.State.Meta()
	return m.State == fabric.Unknown && (m.Reason == fabric.ReasonDriverConstant || m.Reason == fabric.ReasonMoved)
}

// allDown reports whether a device has ports, and none is active.
func allDown(h *fabric.HCA) bool {
	return len(h.Ports) > 0 && !slices.ContainsFunc(h.Ports, func(p fabric.Port) bool { return !p.Down() })
}

// port converts a port. A port in the network namespace of a pod is in order.
func (b *builder) port(id string, h *fabric.HCA, p *fabric.Port) Port {
	s := verdict.PortSubject(h, p)
	hidden := p.State.Meta().State == fabric.Unknown && !isStateless(p)
	to := Port{
		Part: b.part(id, s.String(), hidden, s), Number: p.Number, Role: worded(p.Role), Layer: worded(p.LinkLayer),
		Interface: factOf(p.NetDev),
		State:     worded(p.State), Physical: worded(p.PhysState), Expected: factOf(p.ExpectedRate),
		GIDs:   mapped(p.GIDs.Entries, gids),
		Rate:   mapped(p.Rate, func(r fabric.Rate) float64 { return r.BytesPerSecond }),
		Choice: mapped(p.GIDChoice, choiceOf), Fabric: fabricOf(h, p), MTU: b.mtu(p),
	}
	if b.whole {
		to.Shared = b.in.Node.SharedPort(h, p)
	}
	if to.Status == StatusOK && isStateless(p) {
		to.Status = StatusPartly
	}
	if to.Status == StatusOK && p.Down() { // what is right of one that is not expected to be active is no port in order
		to.Status = StatusNone
	}
	chains := p.RoCE.Or(nil)
	for i := range chains {
		to.RoCE = append(to.RoCE, chainOf(&chains[i]))
	}
	if to.Status == StatusOK && p.Serves(fabric.RoleCompute) && slices.ContainsFunc(chains, isHidden) {
		to.Status = StatusPartly
	}
	return to
}

// isHidden reports whether settings of a RoCE chain could not be read. The traffic class that jobs choose is
// no such setting.
func isHidden(c fabric.RoCEChain) bool {
	return slices.ContainsFunc(c.Links, func(l fabric.RoCELink) bool {
		return l.Status == fabric.StatusUnknown && l.Reason != fabric.ReasonNotRead
	})
}

// fabricOf is the kind of network behind a port, as people call it.
func fabricOf(h *fabric.HCA, p *fabric.Port) Fact[string] {
	return mapped(p.LinkLayer, func(l fabric.LinkLayer) string {
		switch {
		case l == fabric.LinkInfiniBand:
			return FabricInfiniBand
		case l == fabric.LinkEthernet && h.NodeType.Or("") == fabric.NodeRNIC:
			return "iWARP"
		case l == fabric.LinkEthernet:
			return FabricRoCE
		case h.Driver.Or("") == "efa":
			return FabricEFA
		}
		return string(l)
	})
}

// mtu is that of the interface of a port; absent without one.
func (b *builder) mtu(p *fabric.Port) Fact[int] {
	name, ok := p.NetDev.Get()
	if !ok {
		return factOf(fabric.AbsentFact[int]("", b.in.Node.At))
	}
	d := b.in.Node.NetDev(name)
	if d == nil {
		return Fact[int]{}
	}
	return factOf(d.MTU)
}

func choiceOf(c fabric.GIDChoice) Choice {
	to := Choice{Index: c.Index, Rule: string(c.Rule), Why: c.Why}
	if c.GID != nil {
		to.GID, to.Type = c.GID.Addr.Unmap().String(), string(c.GID.Type)
	}
	return to
}

func gids(list []fabric.GID) []GID {
	to := []GID{}
	for _, g := range list {
		to = append(to, GID{g.Index, g.Addr.Unmap().String(), string(g.Type), g.NetDev})
	}
	return to
}

func chainOf(c *fabric.RoCEChain) Chain {
	to := Chain{
		Interface: c.Interface, Status: string(c.Verdict), Step: string(c.Step), Mode: string(c.Mode),
		TrafficClass: factOf(c.TrafficClass), DSCP: factOf(c.DSCP), Priority: factOf(c.Priority), Steps: steps(c.Links),
		Observed: steps(c.Observed),
		Settings: c.Verdict, From: c.TrafficClassFrom,
	}
	if l := c.Link(c.Step); l != nil && c.Verdict == fabric.StatusUnknown {
		to.Why = verdict.ReasonText(l.Reason)
		if c.TrafficClassFrom == fabric.TrafficClassFromJob && c.Step == fabric.RoCETrafficClass {
			to.Why = "jobs choose it"
		}
	}
	for _, l := range c.Observed { // traffic shows what settings do not
		if l.Status == fabric.StatusFailed && c.Verdict != fabric.StatusFailed && !roce.Explained(c, l.Step) {
			to.Status, to.Step, to.Why = StatusFailed, string(l.Step), ""
			break
		}
	}
	return to
}

func steps(links []fabric.RoCELink) []Step {
	to := []Step{}
	for i := range links {
		l := &links[i]
		to = append(to, Step{
			string(l.Step), StepName(string(l.Step)), string(l.Status), verdict.Sentence(l.Evidence),
			l.Source, string(l.Reason),
		})
	}
	return to
}

// stepNames are steps in the words of the field, where the label is not.
var stepNames = map[string]string{
	string(fabric.RoCEGID):                   "address (GID)",
	string(fabric.RoCEDSCP):                  "DSCP",
	string(fabric.RoCEPFC):                   "PFC",
	string(fabric.RoCEGlobalPause):           "802.3x flow control",
	string(fabric.RoCEBuffer):                "receive buffer",
	string(fabric.RoCEETS):                   "share of bandwidth",
	string(fabric.RoCENotification):          "congestion notifications",
	string(fabric.RoCEReaction):              "reaction to notifications",
	string(fabric.RoCECNP):                   "priority of notifications",
	string(fabric.RoCEObservedPriority):      "traffic by priority",
	string(fabric.RoCEObservedLoss):          "packets lost",
	string(fabric.RoCEObservedPauseSent):     "pauses sent",
	string(fabric.RoCEObservedPauseReceived): "pauses received",
	string(fabric.RoCEObservedCNP):           "answer to congestion",
}

// StepName is a step of the RoCE chain in words.
func StepName(step string) string { return cmp.Or(stepNames[step], verdict.Spaced(step)) }
