// SPDX-License-Identifier: Apache-2.0

package port

import (
	"fmt"
	"strconv"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// ModeGIDPinned is found by several checks.
var ModeGIDPinned = verdict.Mode{
	ID:   "gid_pinned",
	Text: "NCCL_IB_GID_INDEX selects an entry by its place, which is or may become the wrong one.",
}

const onlyCarrying = "ports of role compute and storage"

// Checks returns the checks of ports.
func Checks() []*verdict.Check {
	return []*verdict.Check{
		{
			ID: verdict.CheckPortActive, Title: "The port is not active", Severity: verdict.Critical, Expects: "compute_ports",
			Topic: "ports", Scope: verdict.ScopePort,
			Reads: "state and phys_state of the port; who states that it should have a link: expected.compute_ports, expected.manifest, NCCL_IB_HCA of the host, the profile of the platform, or its own earlier states",
			Guard: onlyCarrying +
				"; not if the driver always reports the same state (EFA), nor where a source states that the port has no link. Without a source it is unknown", Rests: verdict.OnExpectation,
			Modes: []verdict.Mode{{
				ID: "port_down", Text: "A port lost its link or is not configured.",
				Alert: "GpuFabricPortDown",
			}}, Judge: eachPort(judgeActive),
		},
		{
			ID: verdict.CheckPortRate, Title: "The port runs slower than expected", Severity: verdict.Critical,
			Expects: verdict.ExpectsRate, Topic: "ports", Scope: verdict.ScopePort,
			Reads: "rate of the port compared with expected.port_rate of the configuration, the manifest, the profile of the platform, or the highest rate that the port had. Else it is compared with the highest rate of its role and board; of bonds, their speeds and the operstate of their members",
			Guard: onlyCarrying + " that are active. If only other ports of the node are faster, it is unknown",
			Rests: verdict.OnExpectation,
			Modes: []verdict.Mode{{
				ID: "rate_degraded", Text: "A port lost lanes or trained at a lower speed.",
				Alert: "GpuFabricRateDegraded",
			}}, Judge: EachActive(judgeRate),
		},
		{
			ID: verdict.CheckPortRateAgrees, Title: "RDMA and the network interface report different speeds",
			Severity: verdict.Warning, Topic: "ports", Scope: verdict.ScopePort,
			Reads: "rate of the port, speed of its interface", Guard: onlyCarrying + " that are Ethernet and active; not bonds",
			Modes: []verdict.Mode{{ID: "rate_misreported", Text: "The kernel reports the wrong port speed to NCCL."}},
			Judge: EachActive(judgeRateAgrees),
		},
		{
			ID: "counter_counts", Title: "A counter has reached its maximum", Severity: verdict.Info, Topic: "ports",
			Scope: verdict.ScopePort,
			Reads: "PMA counters that stay at their maximum", Guard: onlyCarrying + " that are active",
			Modes: []verdict.Mode{{
				ID:   "counter_saturated",
				Text: "A counter has reached the end of its register and hides further events.",
			}},
			Judge: EachActive(judgeSaturated),
		},
		{
			ID: verdict.CheckFirmware, Title: "Cards of one board run different firmware", Severity: verdict.Warning,
			Topic: "ports", Scope: verdict.ScopeDevice,
			Reads: "fw_ver and board_id of the devices, the IDs of the PCI function without a board_id",
			Guard: "devices with a compute port that have peers of the same board",
			Modes: []verdict.Mode{{ID: "firmware_mismatch", Text: "Cards of one board run different firmware."}},
			Judge: judgeFirmware,
		},
		{
			ID: verdict.CheckMTU, Title: "Network interfaces of compute ports have different MTUs", Severity: verdict.Warning,
			Topic: "ports", Scope: verdict.ScopePort,
			Reads: "mtu of the interfaces", Guard: "Ethernet compute ports that have peers of the same board",
			Modes: []verdict.Mode{{ID: "mtu_mismatch", Text: "Rails of a node have different MTUs."}}, Judge: judgeMTU,
		},
	}
}

func judgeActive(n *fabric.Node, h *fabric.HCA, p *fabric.Port, v *verdict.Verdicts) {
	state, known := p.State.Get()
	switch {
	case p.State.Meta().Reason == fabric.ReasonDriverConstant:
		return
	case !known:
		v.Unknown(verdict.PortSubject(h, p), p.State.Meta().Reason,
			"The state of the port is unknown: "+verdict.ReasonText(p.State.Meta().Reason)+".")
		return
	case state == fabric.PortActive:
		v.OK(verdict.PortSubject(h, p))
		return
	case p.NetDevMoved(): // a port is down where its interface is switched off, which is for the pod to say
		v.Unknown(verdict.PortSubject(h, p), fabric.ReasonMoved, "")
		return
	}
	named := p.Serves(fabric.RoleCompute) || p.RoleBy == fabric.ByConfiguration
	if p.Link.Stated() && !p.Link.Value || !p.Link.Stated() && !named {
		return
	}
	phys := p.PhysState.Or("unknown")
	w := verdict.Verdict{
		Evidence: fmt.Sprintf("Its state is %s, the physical link is %s. %s", state, verdict.Spaced(string(phys)),
			verdict.Sentence(p.Link.Words)),
		Consequence: ofRole(p, "NCCL does not use it, or jobs that require it fail.",
			"The storage behind the port is slower, or cannot be reached."),
		Remedy: "Diagnose the link (" + verdict.Mlxlink(h) + "), then check cable, transceiver and switch port.",
	}
	switch {
	case phys == fabric.PhysLinkUp && p.LinkLayer.Or("") == fabric.LinkInfiniBand:
		w.Remedy = unmanaged(n, state)
	case phys == fabric.PhysDisabled && p.LinkLayer.Or("") != fabric.LinkEthernet:
		w.Remedy = "The port is disabled, here (ibportstate -C <device> -D 0 <port> enable) or at the switch."
	case p.LinkLayer.Or("") != fabric.LinkEthernet && !verdict.ToolsOf(h).NVIDIA():
		w.Remedy = "Check cable, transceiver and switch port."
	case p.LinkLayer.Or("") == fabric.LinkEthernet:
		w.Remedy = "The network interface is down (ip link set dev <interface> up) or has no carrier: check cable, transceiver (ethtool -m <interface>) and switch port."
	}
	if p.Link.By == fabric.ByRecord && phys != fabric.PhysLinkUp {
		w.Remedy += OnPurpose(h)
	}
	if !p.Link.Stated() {
		w.Unstated = true
		w.Evidence = fmt.Sprintf("Its state is %s, the physical link is %s, and nothing states whether the port should have a link.", state, verdict.Spaced(string(phys)))
		w.Remedy = "If it should: " + w.Remedy +
			" If not: state how many ports should be active (expected.compute_ports of the configuration), or " +
			verdict.AcceptCommand + "."
	}
	v.Failed(verdict.PortSubject(h, p), w)
}

// OnPurpose says how the record of the node forgets what a port had.
func OnPurpose(h *fabric.HCA) string {
	name := "<device>"
	if len(h.Ports) > 1 {
		name += ":<port>"
	}
	return " If it is so on purpose: gpufabric_exporter check --accept=" + name + ", as the user of the exporter."
}

// unmanaged is the remedy of an InfiniBand port that has a link and is not active. A port in state init does
// not know its subnet manager yet: another port has to ask.
func unmanaged(n *fabric.Node, s fabric.PortState) string {
	if s == fabric.PortArmed {
		return "A subnet manager has configured the port, but not activated it: check its log for this port and for the switch port."
	}
	remedy := "The link is up, but no subnet manager has configured the port: check that one runs, and its log for this port"
	for h, p := range n.Ports {
		if p.LinkLayer.Or("") == fabric.LinkInfiniBand && p.State.Or("") == fabric.PortActive {
			return remedy + "; an active port reaches it (sminfo -C " + verdict.ShellWord(h.Name, "<active device>") + " -P " +
				strconv.Itoa(p.Number) + ")."
		}
	}
	return "The link is up, but no subnet manager has configured a port of the node: check that one runs in this fabric, and its log."
}

// ofRole returns what follows for training, or for storage.
func ofRole(p *fabric.Port, compute, storage string) string {
	if p.Serves(fabric.RoleStorage) {
		return storage
	}
	return compute
}

// judgeFirmware compares the firmware of devices with that of most of their kind.
func judgeFirmware(n *fabric.Node, v *verdict.Verdicts) {
	polls := Polls[string]{}
	for i := range n.HCAs {
		if h := &n.HCAs[i]; h.Firmware.State == fabric.OK && h.Serves(fabric.RoleCompute) {
			polls.Vote(n, h, h.Firmware.Value)
		}
	}
	for i := range n.HCAs {
		h := &n.HCAs[i]
		if !h.Serves(fabric.RoleCompute) || h.Firmware.State == fabric.Absent || n.Board(h).State == fabric.Absent {
			continue
		}
		s := verdict.Subject{Device: h.Name}
		own, known := h.Firmware.Get()
		most, peers, clear := polls.Winner(n, h)
		switch {
		case !known:
			v.Hidden(s, h.Firmware.Meta(), "The firmware")
		case peers < 2 || !clear:
			if unread := UnreadPeer(n, h, &h.Ports[0], firmwareOf); unread != nil {
				v.Unknown(s, unread.Reason, "The firmware of its peers is unknown: "+verdict.ReasonText(unread.Reason)+".")
			}
		case own == most:
			v.OK(s)
		default:
			v.Failed(s, verdict.Verdict{
				What:        "Firmware " + own + ", but most cards of its board run " + most,
				Consequence: "Rails behave differently, which is hard to diagnose later.",
				Evidence:    h.Firmware.Source + " of devices of the board " + n.Board(h).Value.String() + ".",
				Remedy:      "Install one version on all cards (grep . /sys/class/infiniband/*/fw_ver): drain the node, then the tool of " + verdict.ToolsOf(h).Firmware() + ", then a cold restart.",
			})
		}
	}
}

func firmwareOf(h *fabric.HCA, _ *fabric.Port) []fabric.Meta { return []fabric.Meta{h.Firmware.Meta()} }

// mtuOf is the MTU of the interface of an Ethernet port.
func mtuOf(n *fabric.Node, p *fabric.Port) fabric.Fact[int] {
	name, known := p.NetDev.Get()
	d := n.NetDev(name)
	switch {
	case p.LinkLayer.State == fabric.OK && p.LinkLayer.Value != fabric.LinkEthernet, p.NetDev.State == fabric.Absent:
		return fabric.AbsentFact[int]("link_layer", n.At)
	case !known:
		return fabric.UnknownFact[int](p.NetDev.Meta().Reason, p.NetDev.Source, n.At)
	case d == nil:
		return fabric.UnknownFact[int](fabric.ReasonNotRead, "", n.At)
	}
	return d.MTU
}

// judgeMTU compares the MTU of interfaces with that of most of their kind.
func judgeMTU(n *fabric.Node, v *verdict.Verdicts) {
	polls := Polls[int]{}
	for h, p := range n.ComputePorts {
		if own := mtuOf(n, p); own.State == fabric.OK {
			polls.Vote(n, h, own.Value)
		}
	}
	for h, p := range n.ComputePorts {
		own := mtuOf(n, p)
		if own.State == fabric.Absent || n.Board(h).State == fabric.Absent {
			continue
		}
		most, peers, clear := polls.Winner(n, h)
		switch {
		case own.State == fabric.Unknown:
			v.Hidden(verdict.PortSubject(h, p), own.Meta(), "The MTU")
		case peers < 2 || !clear:
			if unread := UnreadPeer(n, h, p, func(_ *fabric.HCA,
				q *fabric.Port,
			) []fabric.Meta {
				return []fabric.Meta{mtuOf(n, q).Meta()}
			}); unread != nil {
				v.Unknown(verdict.PortSubject(h, p), unread.Reason,
					"The MTU of its peers is unknown: "+verdict.ReasonText(unread.Reason)+".")
			}
		case own.Value == most:
			v.OK(verdict.PortSubject(h, p))
		default:
			v.Failed(verdict.PortSubject(h, p), verdict.Verdict{
				What:        fmt.Sprintf("The MTU is %d, but its peers have %d", own.Value, most),
				Evidence:    own.Source,
				Consequence: "RDMA uses the largest MTU that both ends of a connection support: this rail is slower, or large packets are lost.",
				Remedy:      fmt.Sprintf("Drain the node, and not over a connection through this interface: ip link set dev %s mtu %d, and the same at the switch port.", verdict.ShellWord(p.NetDev.Value, "<interface>"), most),
			})
		}
	}
}
