// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"slices"
	"strconv"

	"gpufabric_exporter/internal/diagnose/port"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// Kinds of faults that several checks find.
var (
	modePFC = verdict.Mode{
		ID:   "pfc_wrong",
		Text: "PFC is off on the priority of RoCE, on for another priority, or on in a lossy fabric.",
	}
	modeTrafficClass = verdict.Mode{
		ID:   "traffic_class_wrong",
		Text: "NCCL's traffic class differs from the one that the network treats as RoCE.",
	}
	modeECN = verdict.Mode{
		ID: "ecn_wrong", Text: "Congestion control is off on one or both sides.",
		Alert: "GpuFabricEcnWithoutCnp",
	}
)

const (
	roceReads = "the chain of RoCE settings of each interface below the port (NCCL_IB_TC, trust, DSCP map, PFC, buffers, ECN) compared with expected.roce"
	roceGuard = "active RoCE ports; without expected.roce only contradictions fail, and settings that a driver does not report are skipped"
)

// roceCheck is a check of one step of the chain, or of steps that are one setting to people.
func roceCheck(c verdict.Check, consequence string, steps ...fabric.RoCEStep) *verdict.Check {
	c.Topic, c.Scope, c.Reads, c.Guard, c.Rests = "roce", verdict.ScopePort, roceReads, roceGuard, verdict.OnRole
	c.Judge = port.EachActive(func(n *fabric.Node, h *fabric.HCA, p *fabric.Port, v *verdict.Verdicts) {
		judgeRoCE(n, h, p, v, consequence, steps)
	})
	return &c
}

func roceChecks() []*verdict.Check {
	list := []*verdict.Check{
		roceCheck(verdict.Check{
			ID: verdict.CheckDSCP, Title: "RoCE packets do not carry the DSCP that the site expects",
			Severity: verdict.Critical, Expects: "roce.dscp",
			Modes: []verdict.Mode{modeTrafficClass, port.ModeGIDPinned},
		}, "The network treats them as other traffic.", fabric.RoCETrafficClass, fabric.RoCEDSCP),
		roceCheck(verdict.Check{
			ID: verdict.CheckPriority, Title: "RoCE packets do not have the priority that the site expects",
			Severity: verdict.Critical, Expects: "roce.priority",
			Modes: []verdict.Mode{{ID: "dscp_map_wrong", Text: "The NIC does not trust DSCP, or maps it to another priority."}},
		}, "The network treats them as other traffic.", fabric.RoCEPriority),
		roceCheck(verdict.Check{
			ID: verdict.CheckPFC, Title: "PFC does not match the RoCE configuration", Severity: verdict.Critical,
			Expects: "roce.lossless",
			Modes:   []verdict.Mode{modePFC, modeTrafficClass},
		}, "In congestion, lossless traffic is dropped, or lossy traffic is paused; RDMA stalls or its connections fail.",
			fabric.RoCEPFC),
		roceCheck(verdict.Check{
			ID: "roce_global_pause", Title: "802.3x flow control is on together with PFC", Severity: verdict.Warning,
			Modes: []verdict.Mode{{ID: "global_pause", Text: "802.3x flow control stops whole links."}},
		}, "One slow receiver can pause all traffic of the link.", fabric.RoCEGlobalPause),
		roceCheck(verdict.Check{
			ID: "roce_buffer", Title: "The lossless priority has no dedicated receive buffer", Severity: verdict.Warning,
			Modes: []verdict.Mode{{ID: "buffer_missing", Text: "The lossless priority has no dedicated receive buffer."}},
		}, "In congestion, lossless traffic is dropped.", fabric.RoCEBuffer),
		roceCheck(verdict.Check{
			ID: "roce_ets", Title: "The priority of RoCE has no share of the bandwidth", Severity: verdict.Warning,
			Modes: []verdict.Mode{{ID: "no_bandwidth_share", Text: "The priority of RoCE has no share of the bandwidth."}},
		}, "Under load it gets only the bandwidth that other classes do not use.", fabric.RoCEETS),
		roceCheck(verdict.Check{
			ID: "roce_ecn", Title: "Congestion control of RoCE is misconfigured", Severity: verdict.Warning, Expects: "roce.ecn",
			Modes: []verdict.Mode{modeECN},
		}, "Congestion control works only when both sides are on.", fabric.RoCENotification, fabric.RoCEReaction),
		roceCheck(verdict.Check{
			ID: "roce_cnp", Title: "Congestion notifications queue behind the data", Severity: verdict.Warning,
			Modes: []verdict.Mode{{ID: "cnp_delayed", Text: "Congestion notifications queue behind the data."}},
		}, "Senders are notified of congestion too late.", fabric.RoCECNP),
	}
	return append(append(list, pfcUniformCheck()), observedChecks()...)
}

func judgeRoCE(n *fabric.Node, h *fabric.HCA, p *fabric.Port, v *verdict.Verdicts, consequence string,
	steps []fabric.RoCEStep,
) {
	chains, known := p.RoCE.Get()
	switch {
	case p.RoCE.State == fabric.Absent:
		return
	case !known:
		if r := p.RoCE.Meta().Reason; r != fabric.ReasonNotRead || stated(n, p) {
			v.Unknown(verdict.PortSubject(h, p), r, "The first settings of the chain are unknown: "+verdict.ReasonText(r)+".")
		}
		return
	}
	from := len(v.List)
	for i := range chains {
		c := &chains[i]
		for k := range c.Links {
			if l := &c.Links[k]; slices.Contains(steps, l.Step) {
				if c, l := deciding(c, l); l != nil {
					judgeLink(n, h, p, v, memberOf(chains, &chains[i]), c, l, consequence)
				}
			}
		}
	}
	v.KeepWorst(from)
}

func judgeLink(n *fabric.Node, h *fabric.HCA, p *fabric.Port, v *verdict.Verdicts, member string, c *fabric.RoCEChain,
	l *fabric.RoCELink, consequence string,
) {
	switch l.Status {
	case fabric.StatusOK:
		v.OK(verdict.PortSubject(h, p))
	case fabric.StatusUnknown:
		silent := l.Reason == fabric.ReasonMissing || l.Reason == fabric.ReasonUnsupported || l.Reason == fabric.ReasonNotRead
		if !silent || stated(n, p) {
			v.Unknown(verdict.PortSubject(h, p), l.Reason, member+verdict.Sentence(l.Evidence))
		}
	case fabric.StatusFailed:
		v.Failed(verdict.PortSubject(h, p), verdict.Verdict{
			Evidence: member + verdict.Sentence(l.Evidence), Consequence: consequence, Remedy: roceRemedy(l.Step, n, h, p, c),
			Names: namesOfChain(c),
			Mode:  modeOf(n, p, c, l.Step),
		})
	}
}

// modeOf is the kind of fault of a broken step of whose check there are several; empty: the chain does not show which.
func modeOf(n *fabric.Node, p *fabric.Port, c *fabric.RoCEChain, s fabric.RoCEStep) string {
	switch v1 := c.TrafficClassFrom == fabric.TrafficClassFromV1; {
	case s == fabric.RoCETrafficClass, s == fabric.RoCEDSCP && !v1:
		return modeTrafficClass.ID
	case s == fabric.RoCEPFC && !v1 && stated(n, p):
		if dscp := c.Link(fabric.RoCEDSCP); dscp != nil && dscp.Status == fabric.StatusOK { // the traffic class is right
			return modePFC.ID
		}
	}
	return ""
}

// deciding is the link that decides about a step, and its chain. Behind a DSCP or a priority that RoCE should
// not use, a link that is broken follows from it, unless it is also broken as the site means the chain:
// repairing one fault must not reveal another one. Nil: it follows.
func deciding(c *fabric.RoCEChain, l *fabric.RoCELink) (*fabric.RoCEChain, *fabric.RoCELink) {
	if !behindWrongClass(c, l.Step) {
		return c, l
	}
	if m, differs := c.AsMeant(); differs {
		if meant := m.Link(l.Step); meant.Status == fabric.StatusFailed || meant.Status == fabric.StatusUnknown {
			return &m, meant
		}
	}
	if l.Status == fabric.StatusFailed {
		return nil, nil
	}
	return c, l
}

// behindWrongClass reports whether a step is behind a broken one that decides which DSCP or priority it is judged for.
func behindWrongClass(c *fabric.RoCEChain, s fabric.RoCEStep) bool {
	for i := range c.Links {
		l := &c.Links[i]
		if l.Step == s {
			return false
		}
		if l.Status == fabric.StatusFailed && (l.Step == fabric.RoCEDSCP || l.Step == fabric.RoCEPriority) {
			return true
		}
	}
	return false
}

// stated reports whether the site says how RoCE should be on the port: then what cannot be compared is no all-clear.
func stated(n *fabric.Node, p *fabric.Port) bool { return expectedRoCE(n, p) != (fabric.RoCEPolicy{}) }

// expectedRoCE is what the site says of a port, if anything.
func expectedRoCE(n *fabric.Node, p *fabric.Port) fabric.RoCEPolicy {
	if !p.Serves(fabric.RoleCompute) {
		return fabric.RoCEPolicy{}
	}
	return n.Policy.RoCE
}

// namesOfChain is what commands are about: the interface that was looked at, which for a bond is a member of it.
func namesOfChain(c *fabric.RoCEChain) map[string][]string {
	names := map[string][]string{}
	if c.Interface != "" {
		names["interface"] = []string{c.Interface}
	}
	if p, ok := c.Judged.Get(); ok {
		names["priority"] = []string{strconv.Itoa(p)}
	}
	return names
}

// memberOf names the interface where a port has several.
func memberOf(chains []fabric.RoCEChain, c *fabric.RoCEChain) string {
	if len(chains) < 2 {
		return ""
	}
	return c.Interface + ": "
}

// Checks returns the checks of this package.
func Checks() []*verdict.Check { return slices.Concat(gidChecks(), roceChecks()) }
