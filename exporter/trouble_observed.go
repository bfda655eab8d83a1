// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"slices"

	"gpufabric_exporter/internal/fabric"
)

// observedTroubles tells what traffic shows and settings do not: what went wrong between the last two readings. The
// thresholds are those of fabric.ObserveRoCE. What follows from a setting that is told already is left out.
func observedTroubles(chains []fabric.RoCEChain, c *fabric.RoCEChain) []trouble {
	var list []trouble
	for _, l := range c.Observed {
		if l.State != fabric.RoCEBroken || explained(c, l.Step) {
			continue
		}
		w := observedWords(c, l.Step)
		member := memberOf(chains, c)
		if l.Step == fabric.RoCEObservedCNP { // RDMA counters are the port's, whichever member carries the packets
			member = ""
		}
		w.Seen = member + sentence(l.Evidence)
		list = append(list, w)
	}
	return list
}

// explained tells that a broken setting is why traffic looks like that.
func explained(c *fabric.RoCEChain, s fabric.RoCEStep) bool {
	var by []fabric.RoCEStep
	switch s {
	case fabric.RoCEObservedPriority:
		by = []fabric.RoCEStep{fabric.RoCEDSCP, fabric.RoCEPriority, fabric.RoCEPFC}
	case fabric.RoCEObservedCNP:
		by = []fabric.RoCEStep{fabric.RoCENotification, fabric.RoCEReaction}
	}
	return slices.ContainsFunc(by, func(s fabric.RoCEStep) bool {
		l := c.Link(s)
		return l != nil && l.State == fabric.RoCEBroken
	})
}

// observedWords is a trouble without its evidence: its title, what follows from it, and what to do.
func observedWords(c *fabric.RoCEChain, s fabric.RoCEStep) trouble {
	switch s {
	case fabric.RoCEObservedPriority:
		t := trouble{
			What:   "RDMA traffic leaves with another priority than it should",
			Why:    "The network does not protect it there: it is dropped in congestion, or takes what other traffic leaves.",
			Remedy: "See what traffic class the job sets (NCCL_IB_TC in its environment goes over that of the host).",
		}
		if c.Lossless.Or(false) {
			t.Why = "Only the lossless priority keeps packets in congestion: elsewhere they are dropped, and RDMA stalls."
		}
		return t
	case fabric.RoCEObservedLoss:
		return trouble{
			What:   "The lossless priority loses packets",
			Why:    "PFC stopped the sender too late or not at all. RDMA sends them again, with all that followed.",
			Remedy: "Give the priority more buffer and the right cable length (mlnx_qos -i <interface> --buffer_size ..., --cable_len), and see that PFC is on at the switch port too.",
		}
	case fabric.RoCEObservedPauseSent:
		return trouble{
			What:   "A PFC storm: this host keeps the network from sending",
			Why:    "What it does not take fills the switch and stops others.",
			Remedy: "Take the node out of jobs. Look at the PCIe link of the NIC (width, speed, errors in dmesg), IOMMU and memory; restart the node if nothing shows.",
		}
	case fabric.RoCEObservedPauseReceived:
		return trouble{
			What:   "The network keeps this host from sending",
			Why:    "Every collective waits for it. The cause is elsewhere: a receiver that is slow or sends a PFC storm, or the buffers of the switch.",
			Remedy: "If it lasts, follow the pauses: look for the port that sends them at the switch of this rail, and for nodes with a PFC storm; then look at ECN thresholds of the switch.",
		}
	default:
		return trouble{
			What:   "Congestion is not answered",
			Why:    "Senders do not slow down before PFC stops them, or packets are lost.",
			Remedy: "Turn on congestion control for the priority, at both ends: with MLNX_OFED roce_np and roce_rp below /sys/class/net/<interface>/ecn, else in the firmware (mlxconfig ROCE_CC_PRIO_MASK_P1). If the fabric is to do without, say expected.roce.ecn: false.",
		}
	}
}
