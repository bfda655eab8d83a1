// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"syscall"

	"gpufabric_exporter/internal/fabric"
)

// What a site may expect of RoCE: below the key expected, with which the configuration of every platform ends.
const (
	losslessPolicy = "  roce: {dscp: 26, priority: 3, lossless: true, ecn: true}\n"
	lossyPolicy    = "  roce: {dscp: 26, priority: 3, lossless: false, ecn: true}\n"
	losslessUnread = "  roce: {dscp: 26, priority: 3, lossless: true}\n" // of drivers that do not show congestion control
)

// qosScenarios are about how ports are set up for RoCE: one look finds them.
func qosScenarios() []Scenario {
	return []Scenario{
		{
			Name: "pfc-off", Platform: h100, policy: losslessPolicy,
			Summary: "PFC is off on one compute port of a lossless fabric",
			Truth: "The site expects priority 3 to be lossless. On mlx5_2 PFC is off for all priorities, as after a reboot " +
				"without mlnx_qos; DSCP 26 still maps to priority 3. Without congestion nothing is lost. When many senders send " +
				"to this port, it cannot pause them, and packets are dropped.",
			Expect:  []Finding{{"mlx5_2", 1, "pfc_off_on_used_priority"}},
			differs: `pfc:enp79s0np0`,
			edit:    func(n *Node) { n.qos("mlx5_2").SetPFC(0) },
		},
		{
			Name: "pfc-other-priority", Platform: h100,
			Summary: "one compute port has PFC on a priority other than that of its traffic",
			Truth: "mlx5_5 has PFC on priority 4, but NCCL_IB_TC=106 is DSCP 26, which maps to priority 3 on this port and " +
				"on its seven peers: PFC protects the wrong priority. The site configures no expectation for RoCE; that the " +
				"port has PFC on a priority without its traffic is a contradiction by itself.",
			Expect:  []Finding{{"mlx5_5", 1, "pfc_off_on_used_priority"}},
			differs: `pfc:enp192s0np0 eth:enp192s0np0/stats/[rt]x_prio4_pause.*`,
			edit:    func(n *Node) { n.qos("mlx5_5").SetPFC(1 << 4) },
		},
		{
			Name: "trust-pcp", Platform: h100, policy: losslessPolicy,
			Summary: "one compute port takes the priority from the VLAN tag, but its packets have no tag",
			Truth: "mlx5_3 trusts PCP, which is the firmware's default: its application table has no DSCP. Untagged frames " +
				"have priority 0, so its RoCE traffic is sent and received in the lossy class. PFC is on for priority 3, which " +
				"has no traffic.",
			Expect:  []Finding{{"mlx5_3", 1, "trust_not_dscp"}},
			differs: `net:enp94s0np0/qos/tc_num eth:enp94s0np0/dcb/apps eth:enp94s0np0/<carried>`,
			edit: func(n *Node) {
				n.qos("mlx5_3").TrustPCP()
				n.Carry("mlx5_3", 0)
			},
		},
		{
			Name: "dscp-map-wrong", Platform: h100, policy: losslessPolicy,
			Summary: "one compute port maps the DSCP of RoCE to the wrong priority",
			Truth: "mlx5_6 trusts DSCP like its peers, but DSCP 26 was mapped to priority 2 (mlnx_qos --dscp2prio set,26,2). " +
				"The site expects priority 3, which has PFC.",
			Expect:  []Finding{{"mlx5_6", 1, "dscp_maps_to_other_priority"}},
			differs: `eth:enp206s0np0/dcb/apps eth:enp206s0np0/stats/[rt]x_prio[23]_(packets|bytes)`,
			edit: func(n *Node) {
				n.qos("mlx5_6").MapDSCP(losslessDSCP, 2)
				n.Carry("mlx5_6", 2)
			},
		},
		{
			Name: "nccl-tc-5", Platform: h100, policy: losslessPolicy,
			Summary: "NCCL_IB_TC is a priority instead of a traffic class",
			Truth: "NCCL_IB_TC=5 was intended as priority 5, but it is the whole traffic class byte: DSCP 1, and the ECN " +
				"bits 01. DSCP 1 maps to priority 0 on every port, which is not lossless. The ports are configured as the site " +
				"expects; NCCL is not.",
			Expect:  onCompute("traffic_class_wrong"),
			differs: `nccl eth:<rails>/<carried>`,
			edit: func(n *Node) {
				n.setNCCL("NCCL_IB_TC=106", "NCCL_IB_TC=5")
				for _, f := range onCompute("") {
					n.Carry(f.Device, 0)
				}
			},
		},
		{
			Name: "ofed-traffic-class", Platform: h100,
			Summary: "on one port, a traffic class of MLNX_OFED overrides that of NCCL",
			Truth: "0 was written to tc/1/traffic_class of mlx5_4 to undo a setting, which needs -1 instead. Every queue " +
				"pair of this port now has traffic class 0, regardless of NCCL_IB_TC=106: DSCP 0, priority 0, no PFC. The site " +
				"configures no expectation for RoCE.",
			Expect:  []Finding{{"mlx5_4", 1, "traffic_class_overridden"}},
			differs: `sys/devices/.*/infiniband/mlx5_4/tc/1/traffic_class eth:enp154s0np0/<carried>`,
			edit: func(n *Node) {
				n.HCA("mlx5_4").Port(1).TrafficClass = "Global tclass=0\n"
				n.Carry("mlx5_4", 0)
			},
		},
		{
			Name: "ecn-np-off", Platform: h100, policy: losslessPolicy,
			Summary: "one compute port does not notify senders of congestion",
			Truth: "The site expects ECN. On mlx5_1 the notification point is off for priority 3: marked packets arrive, but " +
				"no CNP is sent, so senders to this port do not slow down until PFC stops them. As a sender, the port does " +
				"react to notifications.",
			Expect: []Finding{{"mlx5_1", 1, "ecn_off_on_used_priority"}},
			differs: `net:enp64s0np0/ecn/roce_np/enable/3 port:mlx5_1/hw_counters/np_cnp_sent
				eth:enp64s0np0/stats/tx_prio6_(packets|bytes)`,
			edit: func(n *Node) {
				n.qos("mlx5_1").OFED.NP &^= 1 << losslessPriority
				n.withoutCNPs("mlx5_1")
			},
		},
		{
			Name: "global-pause", Platform: h100, policy: losslessPolicy,
			Summary: "global pause is on instead of PFC on one compute port",
			Truth: "mlx5_7 was never configured: global pause (IEEE 802.3x) is on in both directions, which is the " +
				"firmware's default and excludes PFC. Any congestion stops the whole link with all traffic classes, and no " +
				"counter of a priority shows it. The site expects PFC, which is on for the seven peers.",
			Expect:  []Finding{{"mlx5_7", 1, "global_pause_on"}},
			differs: `pfc:enp220s0np0 eth:enp220s0np0/(pause|stats/[rt]x_global_pause.*)`,
			edit: func(n *Node) {
				q := n.qos("mlx5_7")
				q.SetPFC(0)
				q.Pause.Receive, q.Pause.Transmit = true, true
			},
		},
		{
			Name: "bond-member-pfc-off", Platform: "roce-bond", policy: losslessPolicy,
			Summary: "PFC is off on one of the two ports of a bond",
			Truth: "mlx5_bond_2 is one RDMA device over ens13f0np0 and ens13f1np1. After the second port was replaced, PFC " +
				"was enabled on the first port only, so half of the queue pairs run through a port that is not lossless. The " +
				"bond itself has no DCB settings to read.",
			Expect:  []Finding{{"mlx5_bond_2", 1, "pfc_off_on_used_priority"}},
			differs: `pfc:ens13f1np1`,
			edit:    func(n *Node) { n.NetDev("ens13f1np1").QoS.SetPFC(0) },
		},
		{
			Name: "vlan-sl-wrong", Platform: "roce-vlan",
			Summary: "NCCL uses the wrong priority in a fabric that takes it from the VLAN tag",
			Truth: "The ports trust PCP and have PFC on priority 3. The tag has the service level of the queue pair, and " +
				"nccl.conf, copied from another cluster, sets NCCL_IB_SL=2: priority 2, which is lossy. A DSCP would have no " +
				"effect here. The site configures no expectation for RoCE.",
			Expect:  []Finding{{"mlx5_0", 1, "service_level_wrong"}, {"mlx5_1", 1, "service_level_wrong"}},
			differs: `nccl eth:ens[56]np0/stats/[rt]x_prio[23]_(packets|bytes)`,
			edit: func(n *Node) {
				n.setNCCL("NCCL_IB_SL=3\n", "NCCL_IB_SL=2\n")
				n.Carry("mlx5_0", 2)
				n.Carry("mlx5_1", 2)
			},
		},

		// Healthy nodes that look wrong at first sight.
		{
			Name: "vf-qos-unknown", Platform: "sriov-vf", policy: losslessPolicy,
			Summary: "healthy virtual functions whose RoCE settings are unknown",
			Truth: "The port of a virtual function belongs to the physical function: it has no DCB, does not report pause, " +
				"and its statistics of priorities stay zero while RDMA traffic flows. Therefore the settings of mlx5_4, which " +
				"counts as a compute port, are unknown; it is not reported as lossy or as using the wrong priority. Nothing is " +
				"reported.",
		},
		{
			Name: "lossy-design", Platform: h100, policy: lossyPolicy,
			Summary: "healthy node in a fabric without PFC",
			Truth: "The site has configured that its RoCE is lossy: PFC is off on every port, ECN is on, ports answer " +
				"congestion with notifications, and the few lost packets are retransmitted. Nothing is reported.",
			differs: `pfc:<rails> port:mlx5_[0-7]/<marks> eth:<rails>/stats/<cnps>`,
			edit: onRails(func(n *Node, device string) {
				n.qos(device).SetPFC(0)
				marked(n, device)
			}),
		},
		{
			Name: "lossy-unstated", Platform: h100,
			Summary: "healthy node without PFC, whose site has not configured what it expects",
			Truth: "PFC is off on all eight compute ports, and the site configures no expectation for RoCE, so the fabric " +
				"may be lossy by design. The ports do not differ. Nothing is reported.",
			differs: `pfc:<rails>`,
			edit:    onRails(func(n *Node, device string) { n.qos(device).SetPFC(0) }),
		},
		{
			Name: "statistics-refused", Platform: h100, policy: losslessPolicy,
			Summary: "healthy node on which one driver does not return its statistics",
			Truth: "The firmware of enp79s0np0 answers EIO when its statistics are read. Everything that depends on them is " +
				"unknown; no fault is known. Nothing is reported.",
			differs: `eth:enp79s0np0/refuses`,
			edit:    func(n *Node) { n.NetDev("enp79s0np0").StatsErr = syscall.EIO },
		},
		{
			Name: "brief-pauses", Platform: h100, policy: losslessPolicy,
			Summary: "healthy node whose ports send and receive a few pause frames",
			Truth: "All rails send and receive some pause frames, as in every incast. No port is paused for more than 0.5 % " +
				"of the time, and nothing is lost: this is how PFC is meant to work. Nothing is reported.",
			differs: `eth:<rails>/stats/[rt]x_prio3_pause.*`,
			edit: onRails(func(n *Node, device string) {
				count(n, device, map[string]uint64{
					"rx_prio3_pause": 400, "rx_prio3_pause_duration": 4_200, "rx_prio3_pause_transition": 200,
					"tx_prio3_pause": 110, "tx_prio3_pause_duration": 900,
				})
			}),
		},
		{
			Name: "traffic-class-104", Platform: h100, policy: losslessPolicy,
			Summary: "healthy node with traffic class 104 instead of the usual 106",
			Truth: "NCCL_IB_TC=104 and 106 differ in the ECN bits, which the NIC sets itself: both are DSCP 26 and priority " +
				"3. Nothing is reported.",
			differs: `nccl`,
			edit:    func(n *Node) { n.setNCCL("NCCL_IB_TC=106", "NCCL_IB_TC=104") },
		},

		// About what the class of RoCE is given: room, bandwidth, and a way for notifications around it.
		{
			Name: "buffer-shared", Platform: h100, policy: losslessPolicy,
			Summary: "on one compute port, the lossless priority shares a receive buffer with all others",
			Truth: "PFC is on for priority 3 of mlx5_6, but a script mapped all priorities to receive buffer 0, which is the " +
				"firmware's default without PFC. Lossy traffic fills the buffer that the lossless traffic needs while its " +
				"sender is paused.",
			Expect:  []Finding{{"mlx5_6", 1, "lossless_buffer_missing"}},
			differs: `net:enp206s0np0/qos/(prio2buffer|buffer_size) eth:enp206s0np0/dcb/buffers`,
			edit: func(n *Node) {
				b := &n.qos("mlx5_6").Buffers
				*b = fabric.Buffers{Bytes: [fabric.NumPriorities]int{b.Total}, Total: b.Total}
			},
		},
		{
			Name: "ets-starved", Platform: h100, policy: losslessPolicy,
			Summary: "the traffic class of RoCE has no bandwidth share on one compute port",
			Truth: "On mlx5_1 traffic classes share bandwidth by ETS, and class 1, that of priority 0, has all of it. The " +
				"class of priority 3 has no share and gets only unused bandwidth.",
			Expect:  []Finding{{"mlx5_1", 1, "no_bandwidth_share"}},
			differs: `eth:enp64s0np0/dcb/ets`,
			edit: func(n *Node) {
				e := &n.qos("mlx5_1").ETS
				for c := range e.Algorithm {
					e.Algorithm[c], e.Bandwidth[c] = fabric.TSAETS, 0
				}
				e.Bandwidth[e.PriorityClass[0]] = 100
			},
		},
		{
			Name: "cnp-with-data", Platform: h100, policy: losslessPolicy,
			Summary: "the congestion notifications of one compute port queue behind its data",
			Truth: "The notifications that mlx5_4 sends carry DSCP 26, like the data, instead of 48. They have priority 3 " +
				"and are paused together with the data, so senders learn of the congestion after it is over.",
			Expect: []Finding{{"mlx5_4", 1, "notifications_with_data"}},
			differs: `net:enp154s0np0/ecn/roce_np/cnp_(dscp|802p_prio)
				eth:enp154s0np0/stats/tx_prio[36]_(packets|bytes)`,
			edit: func(n *Node) {
				q := n.qos("mlx5_4")
				q.OFED.CNPDSCP, q.OFED.CNPPriority = losslessDSCP, losslessPriority
				for _, d := range n.members("mlx5_4") {
					for _, name := range []string{"bytes", "packets"} {
						from, to := d.Statistic("tx_prio6_"+name), d.Statistic("tx_prio3_"+name)
						to.Counter, from.Counter = to.plus(from.Counter), Counter{}
					}
				}
			},
		},
		{
			Name: "bnxt-pfc-off", Platform: "bnxt-roce", policy: losslessUnread,
			Summary: "PFC is off on one Broadcom port of a lossless fabric",
			Truth: "The site expects priority 3 to be lossless. PFC is off on bnxt_re3 for all priorities, while DSCP 26 " +
				"still maps to priority 3; PFC is on for its seven peers. In congestion, this port loses packets.",
			Expect:  []Finding{{"bnxt_re3", 1, "pfc_off_on_used_priority"}},
			differs: `eth:ens4np0/dcb/pfc`,
			edit:    func(n *Node) { n.qos("bnxt_re3").SetPFC(0) },
		},
	}
}
