// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// repair is what the remedy of a broken step of one chain follows from.
type repair struct {
	tools    verdict.Tools
	changes  bool // it sets the port up (setsUp)
	node     *fabric.Node
	port     *fabric.Port
	chain    *fabric.RoCEChain
	expected fabric.RoCEPolicy
	priority int // that RoCE should have, as far as that is known
}

// roceRemedy is what to do. Commands are for an interface that the reader fills in: equal troubles of several ports
// are one.
func roceRemedy(s fabric.RoCEStep, n *fabric.Node, h *fabric.HCA, port *fabric.Port, c *fabric.RoCEChain) string {
	r := repair{
		tools: verdict.ToolsOf(h), node: n, port: port, chain: c, expected: expectedRoCE(n, port),
		priority: c.Judged.Value,
	}
	if r.expected.Priority != nil {
		r.priority = *r.expected.Priority
	}
	remedy := r.commands(s)
	if r.changes {
		return drainFirst + remedy
	}
	return remedy
}

const drainFirst = "Drain the node first, and use no connection through the interface. "

// setsUp returns the tools that set the port up: it may drop packets meanwhile, or its link restart.
func (r *repair) setsUp() verdict.Tools {
	r.changes = true
	return r.tools
}

func (r *repair) commands(s fabric.RoCEStep) string {
	p := r.priority
	switch s {
	case fabric.RoCEDSCP:
		return r.dscp()
	case fabric.RoCEPriority:
		return r.prioritized()
	case fabric.RoCEPFC:
		return r.pfc()
	case fabric.RoCEGlobalPause:
		return "Drain the node, as the link may restart: ethtool -A <interface> autoneg off rx off tx off, and the same at the switch port."
	case fabric.RoCEBuffer:
		return fmt.Sprintf("Give priority %d a buffer: %s; dcb buffer show dev <interface> shows the total size.", p,
			r.setsUp().Command(
				fmt.Sprintf("--prio2buffer %s --buffer_size <bytes>,<bytes>,0,0,0,0,0,0", listOf(1<<p)),
				fmt.Sprintf("buffer set dev <interface> prio-buffer all:0 %d:1 buffer-size all:0 0:<bytes> 1:<bytes>", p), ""))
	case fabric.RoCEETS:
		return "Give its class a share: " + r.setsUp().Command("--tcbw <eight shares>",
			"ets set dev <interface> tc-bw <class>:<share>", "") +
			" for each class; the shares must add up to 100."
	case fabric.RoCENotification, fabric.RoCEReaction:
		on := 1
		if r.expected.ECN != nil && !*r.expected.ECN {
			on = 0
		}
		return fmt.Sprintf("echo %[1]d > /sys/class/net/<interface>/ecn/roce_np/enable/%[2]d; echo %[1]d > /sys/class/net/<interface>/ecn/roce_rp/enable/%[2]d", on, p)
	default:
		return "Give them another DSCP: echo 48 > /sys/class/net/<interface>/ecn/roce_np/cnp_dscp (it goes to priority 6 by default), and a strict priority at the switch."
	}
}

const roceV2Remedy = "Check that NCCL finds a RoCE v2 address, and that NCCL_IB_GID_INDEX selects it."

func (r *repair) dscp() string {
	tc := *r.expected.DSCP<<2 | 2 // ECN capable
	switch r.chain.TrafficClassFrom {
	case fabric.TrafficClassFromOFED:
		return fmt.Sprintf("echo %d > /sys/class/infiniband/<device>/tc/<port>/traffic_class, or -1 to leave it to jobs.", tc)
	case fabric.TrafficClassFromV1:
		return roceV2Remedy
	default:
		return fmt.Sprintf("Set NCCL_IB_TC=%d in /etc/nccl.conf, or correct expected.roce.", tc)
	}
}

func (r *repair) prioritized() string {
	d := r.dscpWord()
	switch {
	case r.byTag() && r.expected.DSCP == nil:
		if tag := r.tag(); tag != "" {
			return tag + ", or correct expected.roce."
		}
		fallthrough
	case r.byTag():
		return r.setsUp().Trust(d, strconv.Itoa(r.priority)) + ", or correct expected.roce."
	case d == anyDSCP: // RoCE v1
		return "Check that NCCL finds a RoCE v2 address, or set NCCL_IB_SL and use a VLAN."
	}
	return r.setsUp().Map(d, strconv.Itoa(r.priority))
}

// byTag reports whether the interface takes the priority from the VLAN tag.
func (r *repair) byTag() bool { return r.chain.Trust.Or("") == fabric.TrustPCP }

const atSwitch = ", and the same at the switch port."

// pfc never turns PFC off that is on, but on a fabric that is lossy by design: other traffic may need it.
func (r *repair) pfc() string {
	stated := r.expected.Lossless != nil || r.expected.Priority != nil
	switch {
	case r.expected.Lossless == nil && r.chain.TrafficClassFrom == fabric.TrafficClassFromV1: // untagged, without a DSCP
		return roceV2Remedy
	case r.expected.Lossless != nil && !*r.expected.Lossless:
		if p, known := r.chain.Judged.Get(); known {
			return r.pfcOff(1<<p) + atSwitch
		}
		return r.pfcOff(r.enabled()) + atSwitch
	case !stated && r.byTag():
		if tag := r.tag(); tag != "" {
			return tag + "."
		}
		return "Make the interface trust DSCP: " + r.setsUp().Trust(r.dscpWord(), "<lossless priority>") +
			". Or use a VLAN, and NCCL_IB_SL."
	case stated:
		return r.pfcOn(1<<r.priority) + atSwitch
	}
	switch peers, agree := r.peers(); {
	case agree && peers == r.priority:
		return r.pfcOfPeers(1 << peers)
	case agree && r.enabled().Has(peers):
		return fmt.Sprintf("On the other compute ports DSCP %s goes to priority %d, which is lossless: %s.", r.dscpWord(),
			peers, r.setsUp().Map(r.dscpWord(), strconv.Itoa(peers)))
	}
	return "Set NCCL_IB_TC so that its DSCP maps to the lossless priority, or make its priority lossless: " +
		r.pfcOn(1<<r.priority) + atSwitch
}

// pfcOfPeers sets a port up as its peers are. What only this port has may be needed by other traffic.
func (r *repair) pfcOfPeers(peers fabric.PriorityMask) string {
	surplus := r.enabled() &^ peers
	switch {
	case peers&^r.enabled() != 0:
		return "The other compute ports have PFC on for " + peers.Text() + ": " + r.pfcOn(peers) + atSwitch
	case peers == 0:
		return "If RoCE is to be lossless, turn PFC on at the other ports. If not, and no other traffic needs it: " +
			r.pfcOff(surplus) + atSwitch
	}
	return "The other compute ports have PFC off for " + surplus.Text() + ". If no other traffic needs it: " +
		r.pfcOff(surplus) + atSwitch
}

// pfcOn turns PFC on for priorities, and keeps what is on: it names niccli, whose list may replace that of
// the port, for one priority only.
func (r *repair) pfcOn(set fabric.PriorityMask) string {
	broadcom := ""
	if on := (r.enabled() | set).Priorities(); len(on) == 1 {
		broadcom = fmt.Sprintf("pfc -enable %d", on[0])
	}
	return r.setsUp().Command("--pfc "+listOf(r.enabled()|set), "pfc set dev <interface> prio-pfc "+switched(set, "on"),
		broadcom)
}

// pfcOff turns PFC off for priorities, and keeps what else is on.
func (r *repair) pfcOff(set fabric.PriorityMask) string {
	if rest := r.enabled() &^ set; rest != 0 {
		return r.setsUp().Command("--pfc "+listOf(rest), "pfc set dev <interface> prio-pfc "+switched(set, "off"), "")
	}
	return r.setsUp().Command("--pfc "+listOf(0), "pfc set dev <interface> prio-pfc all:off", "pfc -enable 0xFF")
}

// switched is a set as dcb takes it, as "3:on 4:on".
func switched(set fabric.PriorityMask, to string) string {
	var list []string
	for _, p := range set.Priorities() {
		list = append(list, strconv.Itoa(p)+":"+to)
	}
	return strings.Join(list, " ")
}

// enabled are the priorities for which PFC is on at the interface.
func (r *repair) enabled() fabric.PriorityMask {
	if d := r.node.NetDev(r.chain.Interface); d != nil {
		return d.QoS.PFC.Or(fabric.PFC{}).Enabled
	}
	return 0
}

// peers is the lossless priority that all other compute ports give to the same DSCP; false: there are fewer
// than two, or they differ.
func (r *repair) peers() (priority int, agree bool) {
	dscp, known := r.chain.DSCP.Get()
	count := 0
	for _, p := range r.node.ActiveCompute {
		chains := p.RoCE.Or(nil)
		if p == r.port {
			continue
		}
		for c := range chains {
			of, mapped := chains[c].Priority.Get()
			if chains[c].DSCP.Or(-1) != dscp || !mapped || !chains[c].Lossless.Or(false) || count > 0 && of != priority {
				return 0, false
			}
			priority, count = of, count+1
		}
	}
	return priority, known && count > 1
}

// tag says how packets get the lossless priority where it is taken from their VLAN tag; empty: no address of
// the port is in a VLAN.
func (r *repair) tag() string {
	level := "NCCL_IB_SL=<lossless priority>"
	if p := r.enabled().Priorities(); r.expected.Priority != nil {
		level = fmt.Sprintf("NCCL_IB_SL=%d", r.priority)
	} else if len(p) == 1 {
		level = fmt.Sprintf("NCCL_IB_SL=%d", p[0])
	}
	chosen := r.port.GIDChoice.Or(fabric.GIDChoice{}).GID
	to := TaggedGID(r.node, r.port)
	switch {
	case to == nil || chosen == nil:
		return ""
	case r.node.Tagged(OfGID(chosen, r.port)).Or(false):
		return "Set " + level
	case !chosen.Routable() || chosen.Family != to.Family:
		if to.Family == fabric.FamilyIPv6 {
			level = "NCCL_IB_ADDR_FAMILY=AF_INET6 and " + level
		}
		return fmt.Sprintf("Entry %d, which NCCL takes, is untagged; entry %d is in a VLAN: set %s", chosen.Index, to.Index,
			level)
	}
	return fmt.Sprintf("Entry %d, which NCCL takes, is untagged (%s); entry %d is in a VLAN: remove that address, or set NCCL_IB_ADDR_RANGE to the subnet of the VLAN. Set %s",
		chosen.Index, OfGID(chosen, r.port), to.Index, level)
}

// TaggedGID is a routable address of a port whose packets carry a VLAN tag; nil: there is none.
func TaggedGID(n *fabric.Node, p *fabric.Port) *fabric.GID {
	list := p.GIDs.Entries.Or(nil)
	i := slices.IndexFunc(list, func(g fabric.GID) bool { return g.Routable() && n.Tagged(OfGID(&g, p)).Or(false) })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// OfGID is the interface of an entry.
func OfGID(g *fabric.GID, p *fabric.Port) string { return cmp.Or(g.NetDev, p.NetDev.Or("")) }

const anyDSCP = "<dscp>"

// dscpWord is the DSCP of a chain, or that which the site expects, or the placeholder for one.
func (r *repair) dscpWord() string {
	if d, known := r.chain.DSCP.Get(); known {
		return strconv.Itoa(d)
	}
	if r.expected.DSCP != nil {
		return strconv.Itoa(*r.expected.DSCP)
	}
	return anyDSCP
}

// listOf is a list as mlnx_qos takes it, 1 for each priority of the set.
func listOf(set fabric.PriorityMask) string {
	list := strings.Split("0,0,0,0,0,0,0,0", ",")
	for _, p := range set.Priorities() {
		list[p] = "1"
	}
	return strings.Join(list, ",")
}
