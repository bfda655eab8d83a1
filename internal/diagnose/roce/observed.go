// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"slices"

	"gpufabric_exporter/internal/diagnose/port"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// observedCheck is a check of what traffic shows between the last two readings. The thresholds are those of
// fabric.Node.DeriveRoCE.
func observedCheck(c verdict.Check, consequence string, remedy func(verdict.Tools) string,
	step fabric.RoCEStep,
) *verdict.Check {
	c.Topic, c.Scope, c.Rate = "roce", verdict.ScopePort, true
	c.Reads = "two readings of the statistics of the interfaces below the port"
	c.Guard = "active RoCE ports that were read twice within five minutes; not if a reported setting already explains it"
	c.Judge = port.EachActive(func(_ *fabric.Node, h *fabric.HCA, p *fabric.Port, v *verdict.Verdicts) {
		judgeObserved(h, p, v, verdict.Verdict{Consequence: consequence, Remedy: remedy(verdict.ToolsOf(h))}, step)
	})
	return &c
}

// says is a remedy for NICs of every vendor.
func says(remedy string) func(verdict.Tools) string {
	return func(verdict.Tools) string { return remedy }
}

func observedChecks() []*verdict.Check {
	return []*verdict.Check{
		observedCheck(verdict.Check{
			ID: "roce_traffic_priority", Title: "RDMA traffic is sent with the wrong priority", Severity: verdict.Critical,
			Modes: []verdict.Mode{{ID: "traffic_on_wrong_priority", Text: "RDMA traffic is sent with the wrong priority."}},
		},
			"The network does not protect this priority: packets are dropped in congestion, or get only the leftover bandwidth.",
			says("Check the traffic class that the job sets, which overrides that of the host: tr '\\0' '\\n' < /proc/<pid>/environ | grep NCCL_IB_TC"), fabric.RoCEObservedPriority),
		observedCheck(verdict.Check{
			ID: "roce_lossless", Title: "The lossless priority drops packets", Severity: verdict.Critical,
			Modes: []verdict.Mode{{
				ID: "lossless_drops", Text: "The lossless priority drops packets.",
				Alert: "GpuFabricLosslessDrops",
			}},
		},
			"PFC paused the sender too late or not at all. RDMA retransmits the lost packets and all that followed.",
			func(t verdict.Tools) string {
				length := ""
				if t.NVIDIA() {
					length = " and the right cable length (mlnx_qos -i <interface> --cable_len <metres>)"
				}
				return "Check that PFC is on at the switch port too. " + drainFirst +
					"Then give the priority more buffer (dcb buffer show dev <interface>)" + length + "."
			},
			fabric.RoCEObservedLoss),
		observedCheck(verdict.Check{
			ID: verdict.CheckPauseSent, Title: "PFC storm: this host pauses the network", Severity: verdict.Critical,
			Modes: []verdict.Mode{{
				ID: "pfc_storm", Text: "The host pauses the network (PFC storm).",
				Alert: "GpuFabricPfcStorm",
			}},
		},
			"Packets that it does not receive fill the switch and stall other hosts.",
			says("Drain the node. Unless the interface carries your connection, storage or the default route, ip link set dev <interface> down ends the storm; else shut the port at the switch. Check PCIe (lspci -vv -s <address>, dmesg), IOMMU and memory, then restart the node."),
			fabric.RoCEObservedPauseSent),
		observedCheck(verdict.Check{
			ID: "roce_pause_received", Title: "The network pauses this host", Severity: verdict.Warning,
			Modes: []verdict.Mode{{
				ID: "paused_by_network", Text: "The network pauses the host.",
				Alert: "GpuFabricPausedByNetwork",
			}},
		},
			"Every collective waits for this host. The cause is elsewhere: a slow receiver, a host with a PFC storm, or the buffers of the switch.",
			says("If it persists (ethtool -S <interface> | grep pause), trace the pauses: find the port that sends them at the switch of this rail, and nodes with a PFC storm; "+
				"then check the ECN thresholds of the switch."),
			fabric.RoCEObservedPauseReceived),
		observedCheck(verdict.Check{
			ID: "roce_congestion_answered", Title: "Congestion control does not react to congestion", Severity: verdict.Warning,
			Modes: []verdict.Mode{modeECN},
		},
			"Senders do not slow down until PFC pauses them or packets are lost.",
			func(t verdict.Tools) string {
				how := "with the tool of the card's vendor"
				if t.NVIDIA() {
					how = "with MLNX_OFED echo 1 > /sys/class/net/<interface>/ecn/roce_np/enable/<priority> and the same for roce_rp, " +
						"else in the firmware (drain the node, mlxconfig -d <address> set ROCE_CC_PRIO_MASK_P1=<mask>, then a cold restart)"
				}
				return "Turn on congestion control for the priority, at both ends: " + how +
					". If the fabric does not use ECN, set expected.roce.ecn: false."
			},
			fabric.RoCEObservedCNP),
	}
}

func judgeObserved(h *fabric.HCA, p *fabric.Port, v *verdict.Verdicts, w verdict.Verdict, step fabric.RoCEStep) {
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
			w.Evidence, w.Names = member+verdict.Sentence(l.Evidence), namesOfChain(c)
			if step == fabric.RoCEObservedPriority && c.Lossless.Or(false) {
				w.Consequence = "In congestion only the lossless priority is protected: packets of other priorities are dropped, and RDMA stalls."
			}
			v.Failed(verdict.PortSubject(h, p), w)
			return
		case l.Status == fabric.StatusOK:
			asked = true
		case l.Status == fabric.StatusUnknown && !verdict.Silent(fabric.Meta{Reason: l.Reason}):
			unread = l
		}
	}
	switch {
	case unread != nil:
		v.Unknown(verdict.PortSubject(h, p), unread.Reason, verdict.Sentence(unread.Evidence))
	case asked:
		v.OK(verdict.PortSubject(h, p))
	}
}

// Explained reports whether a broken setting is why traffic looks like that.
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
