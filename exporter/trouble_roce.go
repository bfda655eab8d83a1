// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"fmt"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// roceTroubles tells where the chain of RoCE settings of a port breaks. What is judged for a priority that RoCE
// should not use in the first place is left out.
func roceTroubles(n *fabric.Node, p *fabric.Port) []trouble {
	var list []trouble
	chains := p.RoCE.Or(nil)
	for i := range chains {
		c := &chains[i]
		for _, l := range c.Links {
			if l.State != fabric.RoCEBroken {
				continue
			}
			list = append(list, trouble{
				What: roceTitle(l.Step), Why: memberOf(chains, c) + sentence(l.Evidence) + " " + roceConsequence(l.Step),
				Remedy: roceRemedy(l.Step, c, roceWish(n, p)),
			})
			if l.Step == fabric.RoCEDSCP || l.Step == fabric.RoCEPriority {
				break
			}
		}
		list = append(list, observedTroubles(chains, c)...)
	}
	return list
}

// roceUnchecked tells that the chain could not be followed because a read failed. That a driver does not show a
// setting, or that jobs choose their traffic class, is no news.
func roceUnchecked(h *fabric.HCA, p *fabric.Port) trouble {
	chains := p.RoCE.Or(nil)
	if p.GIDChoice.State == fabric.Unknown {
		return trouble{} // told already
	}
	for i := range chains {
		c := &chains[i]
		for _, l := range c.Links {
			if l.State != fabric.RoCEUnknown || l.Reason == fabric.ReasonMissing || l.Reason == fabric.ReasonUnsupported {
				continue
			}
			t := uncheckedFact(h, p, "treatment of RoCE", fabric.Meta{Reason: l.Reason})
			if t.What != "" {
				t.What = "How the network treats RoCE could not be checked"
				t.Why = memberOf(chains, c) + sentence(l.Evidence) + " " + t.Why
				return t
			}
		}
	}
	return trouble{}
}

// roceWish is what the site says of a port, if anything.
func roceWish(n *fabric.Node, p *fabric.Port) fabric.RoCEPolicy {
	if p.Role.Or("") != fabric.RoleCompute {
		return fabric.RoCEPolicy{}
	}
	return n.Policy.RoCE
}

// memberOf names the interface where a port has several.
func memberOf(chains []fabric.RoCEChain, c *fabric.RoCEChain) string {
	if len(chains) < 2 {
		return ""
	}
	return c.Interface + ": "
}

func roceTitle(s fabric.RoCEStep) string {
	switch s {
	case fabric.RoCEDSCP:
		return "RoCE packets do not carry the DSCP that the site expects"
	case fabric.RoCEPriority:
		return "RoCE packets do not get the priority that the site expects"
	case fabric.RoCEPFC:
		return "RoCE and PFC do not fit together"
	case fabric.RoCEGlobalPause:
		return "802.3x flow control is on beside PFC"
	case fabric.RoCEBuffer:
		return "The lossless priority lacks a receive buffer of its own"
	case fabric.RoCEETS:
		return "The priority of RoCE has no share of the bandwidth"
	case fabric.RoCENotification, fabric.RoCEReaction:
		return "Congestion control of RoCE is not as it should be"
	case fabric.RoCECNP:
		return "Congestion notifications wait behind the data"
	default:
		return "The RoCE settings do not fit together at " + spaced(string(s))
	}
}

func roceConsequence(s fabric.RoCEStep) string {
	switch s {
	case fabric.RoCEDSCP, fabric.RoCEPriority:
		return "The network treats them as other traffic."
	case fabric.RoCEPFC, fabric.RoCEBuffer:
		return "In congestion packets are lost that were to be kept, or kept that were to be lost; RDMA stalls or its connections end."
	case fabric.RoCEGlobalPause:
		return "One slow receiver then stops all traffic of the link."
	case fabric.RoCEETS:
		return "Under load it gets what other classes leave."
	case fabric.RoCENotification, fabric.RoCEReaction:
		return "Congestion control works only when both sides are on."
	default:
		return "Senders then hear of congestion too late."
	}
}

// roceRemedy is what to do. Commands are for an interface that the reader fills in: equal troubles of several ports
// are one.
func roceRemedy(s fabric.RoCEStep, c *fabric.RoCEChain, wish fabric.RoCEPolicy) string {
	p := c.Judged.Value
	if wish.Priority != nil {
		p = *wish.Priority
	}
	switch s {
	case fabric.RoCEDSCP:
		return dscpRemedy(c, wish)
	case fabric.RoCEPriority:
		return priorityRemedy(c, wish, p)
	case fabric.RoCEPFC:
		return pfcRemedy(c, wish, p)
	case fabric.RoCEGlobalPause:
		return "ethtool -A <interface> autoneg off rx off tx off, and the same at the switch port."
	case fabric.RoCEBuffer:
		return fmt.Sprintf("Give priority %d a buffer: mlnx_qos -i <interface> --prio2buffer %s --buffer_size ...", p, onlyPriority(p))
	case fabric.RoCEETS:
		return "Give its class a share: mlnx_qos -i <interface> --tcbw ... or dcb ets set dev <interface> tc-bw ..."
	case fabric.RoCENotification, fabric.RoCEReaction:
		on := 1
		if wish.ECN != nil && !*wish.ECN {
			on = 0
		}
		return fmt.Sprintf("Write %d to /sys/class/net/<interface>/ecn/roce_np/enable/%d and to the same file of roce_rp.", on, p)
	default:
		return "Write another DSCP to /sys/class/net/<interface>/ecn/roce_np/cnp_dscp (48 goes to priority 6 by default), and give it a strict priority at the switch."
	}
}

const roceV2Remedy = "See that NCCL finds a RoCE v2 address, and that NCCL_IB_GID_INDEX does not say otherwise."

func dscpRemedy(c *fabric.RoCEChain, wish fabric.RoCEPolicy) string {
	tc := *wish.DSCP<<2 | 2 // ECN capable
	switch c.TrafficClassFrom {
	case fabric.TrafficClassFromOFED:
		return fmt.Sprintf("Write %d to /sys/class/infiniband/<device>/tc/<port>/traffic_class, or -1 to leave it to jobs.", tc)
	case fabric.TrafficClassFromV1:
		return roceV2Remedy
	default:
		return fmt.Sprintf("Set NCCL_IB_TC=%d, or correct expected.roce.", tc)
	}
}

func priorityRemedy(c *fabric.RoCEChain, wish fabric.RoCEPolicy, p int) string {
	if c.Trust.Or("") == fabric.TrustPCP {
		return "mlnx_qos -i <interface> --trust dscp, or correct expected.roce."
	}
	d, known := c.DSCP.Get()
	if !known && wish.DSCP != nil {
		d, known = *wish.DSCP, true
	}
	if !known { // RoCE v1
		return "See that NCCL finds a RoCE v2 address, or set NCCL_IB_SL and use a VLAN."
	}
	return fmt.Sprintf("mlnx_qos -i <interface> --dscp2prio set,%d,%d or dcb app add dev <interface> dscp-prio %d:%d", d, p, d, p)
}

func pfcRemedy(c *fabric.RoCEChain, wish fabric.RoCEPolicy, p int) string {
	const check = ", and the same at the switch port."
	switch {
	case wish.Lossless == nil && c.TrafficClassFrom == fabric.TrafficClassFromV1: // untagged, without a DSCP
		return roceV2Remedy
	case wish.Lossless != nil && !*wish.Lossless:
		return "mlnx_qos -i <interface> --pfc 0,0,0,0,0,0,0,0 or dcb pfc set dev <interface> prio-pfc all:off" + check
	case wish.Lossless == nil && wish.Priority == nil && c.Trust.Or("") == fabric.TrustPCP:
		return "Make the interface trust DSCP: mlnx_qos -i <interface> --trust dscp. Or use a VLAN, and NCCL_IB_SL."
	}
	command := fmt.Sprintf("mlnx_qos -i <interface> --pfc %s or dcb pfc set dev <interface> prio-pfc all:off %d:on", onlyPriority(p), p)
	if wish.Lossless == nil && wish.Priority == nil {
		return "Set the NCCL_IB_TC whose DSCP goes to the lossless priority, or make its priority lossless: " + command + check
	}
	return command + check
}

// onlyPriority is a list of eight as mlnx_qos takes it, 1 for priority p.
func onlyPriority(p int) string {
	list := strings.Split("0,0,0,0,0,0,0,0", ",")
	list[p] = "1"
	return strings.Join(list, ",")
}
