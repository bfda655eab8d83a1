// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"slices"

	"gpufabric_exporter/internal/fabric"
)

// observedCheck is a check of what traffic shows between the last two readings. The thresholds are those of
// fabric.ObserveRoCE.
func observedCheck(id string, severity Severity, mode, title, consequence, remedy string, step fabric.RoCEStep) *Check {
	return &Check{
		ID: id, Title: title, Severity: severity, Topic: "roce", Scope: ScopePort, Rate: true, Modes: []string{mode},
		Reads: "statistics of the interfaces below the port, twice",
		Guard: "asked of active RoCE ports that were read twice within five minutes; not where a setting that is told already explains it",
		judge: eachActive(func(_ *fabric.Node, h *fabric.HCA, p *fabric.Port, v *verdicts) {
			judgeObserved(h, p, v, Verdict{Consequence: consequence, Remedy: remedy}, step)
		}),
	}
}

func observedChecks() []*Check {
	return []*Check{
		observedCheck("roce_traffic_priority", Critical, ModeWrongPriority, "RDMA traffic leaves with another priority than it should",
			"The network does not protect it there: it is dropped in congestion, or takes what other traffic leaves.",
			"See what traffic class the job sets, which goes over that of the host: tr '\\0' '\\n' < /proc/<pid>/environ | grep NCCL_IB_TC", fabric.RoCEObservedPriority),
		observedCheck("roce_lossless", Critical, ModeLoss, "The lossless priority loses packets",
			"PFC stopped the sender too late or not at all. RDMA sends them again, with all that followed.",
			"Give the priority more buffer (dcb buffer show dev <interface>) and the right cable length (mlnx_qos -i <interface> --cable_len <metres>), and see that PFC is on at the switch port too.",
			fabric.RoCEObservedLoss),
		observedCheck("roce_pause_sent", Critical, ModePauseStorm, "A PFC storm: this host keeps the network from sending",
			"What it does not take fills the switch and stops others.",
			"Take the node out of jobs; ip link set dev <interface> down ends the storm for all others. Look at the PCIe link of the NIC (lspci -vv -s <address>, dmesg), IOMMU and memory; "+
				"restart the node if nothing shows.",
			fabric.RoCEObservedPauseSent),
		observedCheck("roce_pause_received", Warning, ModePaused, "The network keeps this host from sending",
			"Every collective waits for it. The cause is elsewhere: a receiver that is slow or sends a PFC storm, or the buffers of the switch.",
			"If it lasts (ethtool -S <interface> | grep pause), follow the pauses: look for the port that sends them at the switch of this rail, and for nodes with a PFC storm; "+
				"then look at ECN thresholds of the switch.",
			fabric.RoCEObservedPauseReceived),
		observedCheck("roce_congestion_answered", Warning, ModeECN, "Congestion is not answered",
			"Senders do not slow down before PFC stops them, or packets are lost.",
			"Turn on congestion control for the priority, at both ends: with MLNX_OFED echo 1 > /sys/class/net/<interface>/ecn/roce_np/enable/<priority> and the same of roce_rp, "+
				"else in the firmware (mlxconfig -d <address> set ROCE_CC_PRIO_MASK_P1=<mask>). If the fabric is to do without, say expected.roce.ecn: false.",
			fabric.RoCEObservedCNP),
	}
}

func judgeObserved(h *fabric.HCA, p *fabric.Port, v *verdicts, w Verdict, step fabric.RoCEStep) {
	chains := p.RoCE.Or(nil)
	asked := false
	var unread *fabric.RoCELink
	for i := range chains {
		c := &chains[i]
		l := c.Link(step)
		if l == nil {
			continue
		}
		switch {
		case l.Status == fabric.StatusFailed && !Explained(c, step):
			member := memberOf(chains, c)
			if step == fabric.RoCEObservedCNP { // RDMA counters are the port's, whichever member carries the packets
				member = ""
			}
			w.Evidence, w.Names = member+Sentence(l.Evidence), namesOfChain(c)
			if step == fabric.RoCEObservedPriority && c.Lossless.Or(false) {
				w.Consequence = "Only the lossless priority keeps packets in congestion: elsewhere they are dropped, and RDMA stalls."
			}
			v.failed(PortSubject(h, p), w)
			return
		case l.Status == fabric.StatusOK:
			asked = true
		case l.Status == fabric.StatusUnknown && !silent(fabric.Meta{Reason: l.Reason}):
			unread = l
		}
	}
	switch {
	case unread != nil:
		v.unknown(PortSubject(h, p), unread.Reason, Sentence(unread.Evidence))
	case asked:
		v.ok(PortSubject(h, p))
	}
}

// Explained tells that a broken setting is why traffic looks like that.
func Explained(c *fabric.RoCEChain, s fabric.RoCEStep) bool {
	var by []fabric.RoCEStep
	switch s {
	case fabric.RoCEObservedPriority:
		by = []fabric.RoCEStep{fabric.RoCEDSCP, fabric.RoCEPriority, fabric.RoCEPFC}
	case fabric.RoCEObservedCNP:
		by = []fabric.RoCEStep{fabric.RoCENotification, fabric.RoCEReaction}
	}
	return slices.ContainsFunc(by, func(s fabric.RoCEStep) bool {
		l := c.Link(s)
		return l != nil && l.Status == fabric.StatusFailed
	})
}
