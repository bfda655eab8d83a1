// SPDX-License-Identifier: Apache-2.0

package simulator

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
			Truth: "The site expects priority 3 to be lossless. On mlx5_2 PFC is off for all priorities, as after a reboot without mlnx_qos; " +
				"DSCP 26 still maps to priority 3. Without congestion nothing is lost. When many senders send to this port, it cannot " +
				"pause them, and packets are dropped.",
			Expect: []Finding{{"mlx5_2", 1, "pfc_off_on_used_priority"}},
			edit:   func(n *Node) { n.qos("mlx5_2").SetPFC(0) },
		},
		{
			Name: "pfc-other-priority", Platform: h100,
			Summary: "one compute port has PFC on a priority other than that of its traffic",
			Truth: "mlx5_5 has PFC on priority 4, but NCCL_IB_TC=106 is DSCP 26, which maps to priority 3 on this port and on its seven " +
				"peers: PFC protects the wrong priority. The site configures no expectation for RoCE; that the port has PFC on a priority " +
				"without its traffic is a contradiction by itself.",
			Expect: []Finding{{"mlx5_5", 1, "pfc_off_on_used_priority"}},
			edit:   func(n *Node) { n.qos("mlx5_5").SetPFC(1 << 4) },
		},
		{
			Name: "trust-pcp", Platform: h100, policy: losslessPolicy,
			Summary: "one compute port takes the priority from the VLAN tag, but its packets have no tag",
			Truth: "mlx5_3 trusts PCP, which is the firmware's default: its application table has no DSCP. Untagged frames have priority 0, " +
				"so its RoCE traffic is sent and received in the lossy class. PFC is on for priority 3, which has no traffic.",
			Expect: []Finding{{"mlx5_3", 1, "trust_not_dscp"}},
			edit: func(n *Node) {
				n.qos("mlx5_3").TrustPCP()
				n.Carry("mlx5_3", 0)
			},
		},
		{
			Name: "dscp-map-wrong", Platform: h100, policy: losslessPolicy,
			Summary: "one compute port maps the DSCP of RoCE to the wrong priority",
			Truth: "mlx5_6 trusts DSCP like its peers, but DSCP 26 was mapped to priority 2 (mlnx_qos --dscp2prio set,26,2). The site expects " +
				"priority 3, which has PFC.",
			Expect: []Finding{{"mlx5_6", 1, "dscp_maps_to_other_priority"}},
			edit: func(n *Node) {
				n.qos("mlx5_6").MapDSCP(losslessDSCP, 2)
				n.Carry("mlx5_6", 2)
			},
		},
		{
			Name: "nccl-tc-5", Platform: h100, policy: losslessPolicy,
			Summary: "NCCL_IB_TC is a priority instead of a traffic class",
			Truth: "NCCL_IB_TC=5 was intended as priority 5, but it is the whole traffic class byte: DSCP 1, and the ECN bits 01. DSCP 1 maps " +
				"to priority 0 on every port, which is not lossless. The ports are configured as the site expects; NCCL is not.",
			Expect: onCompute("traffic_class_wrong"),
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
			Truth: "0 was written to tc/1/traffic_class of mlx5_4 to undo a setting, which needs -1 instead. Every queue pair of this port " +
				"now has traffic class 0, regardless of NCCL_IB_TC=106: DSCP 0, priority 0, no PFC. The site configures no expectation for " +
				"RoCE.",
			Expect: []Finding{{"mlx5_4", 1, "traffic_class_overridden"}},
			edit: func(n *Node) {
				n.HCA("mlx5_4").Port(1).TrafficClass = "Global tclass=0\n"
				n.Carry("mlx5_4", 0)
			},
		},
		{
			Name: "ecn-np-off", Platform: h100, policy: losslessPolicy,
			Summary: "one compute port does not notify senders of congestion",
			Truth: "The site expects ECN. On mlx5_1 the notification point is off for priority 3: marked packets arrive, but no CNP is sent, " +
				"so senders to this port do not slow down until PFC stops them. As a sender, the port does react to notifications.",
			Expect: []Finding{{"mlx5_1", 1, "ecn_off_on_used_priority"}},
			edit: func(n *Node) {
				n.qos("mlx5_1").OFED.NP &^= 1 << losslessPriority
				n.withoutCNPs("mlx5_1")
			},
		},
		{
			Name: "global-pause", Platform: h100, policy: losslessPolicy,
			Summary: "global pause is on instead of PFC on one compute port",
			Truth: "mlx5_7 was never configured: global pause (IEEE 802.3x) is on in both directions, which is the firmware's default and " +
				"excludes PFC. Any congestion stops the whole link with all traffic classes, and no counter of a priority shows it. The " +
				"site expects PFC, which is on for the seven peers.",
			Expect: []Finding{{"mlx5_7", 1, "global_pause_on"}},
			edit: func(n *Node) {
				q := n.qos("mlx5_7")
				q.SetPFC(0)
				q.Pause.Receive, q.Pause.Transmit = true, true
			},
		},
		{
			Name: "bond-member-pfc-off", Platform: "roce-bond", policy: losslessPolicy,
			Summary: "PFC is off on one of the two ports of a bond",
			Truth: "mlx5_bond_2 is one RDMA device over ens13f0np0 and ens13f1np1. After the second port was replaced, PFC was enabled on the " +
				"first port only, so half of the queue pairs run through a port that is not lossless. The bond itself has no DCB settings " +
				"to read.",
			Expect: []Finding{{"mlx5_bond_2", 1, "pfc_off_on_used_priority"}},
			edit:   func(n *Node) { n.NetDev("ens13f1np1").QoS.SetPFC(0) },
		},
		{
			Name: "vlan-sl-wrong", Platform: "roce-vlan",
			Summary: "NCCL uses the wrong priority in a fabric that takes it from the VLAN tag",
			Truth: "The ports trust PCP and have PFC on priority 3. The tag has the service level of the queue pair, and nccl.conf, copied " +
				"from another cluster, sets NCCL_IB_SL=2: priority 2, which is lossy. A DSCP would have no effect here. The site " +
				"configures no expectation for RoCE.",
			Expect: []Finding{{"mlx5_0", 1, "service_level_wrong"}, {"mlx5_1", 1, "service_level_wrong"}},
			edit: func(n *Node) {
				n.setNCCL("NCCL_IB_SL=3\n", "NCCL_IB_SL=2\n")
				n.Carry("mlx5_0", 2)
				n.Carry("mlx5_1", 2)
			},
		},
	}
}
