// SPDX-License-Identifier: Apache-2.0

package simulator

// What a site may say of RoCE: below the key expected, with which the configuration of every platform ends.
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
			Summary: "one compute port has no PFC on a lossless fabric",
			Truth: "The site wants priority 3 lossless. On mlx5_2 PFC is off for all priorities, as after a reboot that " +
				"skipped mlnx_qos; DSCP 26 still leads to priority 3. Nothing is lost while nobody is congested. When " +
				"many senders meet here, this port cannot stop them, and packets are dropped.",
			Expect: []Finding{{"mlx5_2", 1, "pfc_off_on_used_priority"}},
			edit:   func(n *Node) { n.qos("mlx5_2").SetPFC(0) },
		},
		{
			Name: "pfc-other-priority", Platform: h100,
			Summary: "one compute port has PFC on another priority than its traffic",
			Truth: "mlx5_5 has PFC on priority 4, but NCCL_IB_TC=106 is DSCP 26, which leads to priority 3 on this port as " +
				"on its seven peers: what protects it protects nothing. The site says nothing of RoCE; that a port has " +
				"PFC, and not where its traffic is, says enough.",
			Expect: []Finding{{"mlx5_5", 1, "pfc_off_on_used_priority"}},
			edit:   func(n *Node) { n.qos("mlx5_5").SetPFC(1 << 4) },
		},
		{
			Name: "trust-pcp", Platform: h100, policy: losslessPolicy,
			Summary: "one compute port goes by the VLAN tag, which its packets do not have",
			Truth: "mlx5_3 trusts the PCP, as the firmware does by default: its application table has no DSCP. Frames " +
				"without a tag have priority 0, so its RoCE traffic leaves and arrives in the lossy class. PFC is on, " +
				"on priority 3, where nothing is.",
			Expect: []Finding{{"mlx5_3", 1, "trust_not_dscp"}},
			edit: func(n *Node) {
				n.qos("mlx5_3").TrustPCP()
				n.Carry("mlx5_3", 0)
			},
		},
		{
			Name: "dscp-map-wrong", Platform: h100, policy: losslessPolicy,
			Summary: "one compute port leads the DSCP of RoCE to another priority",
			Truth: "mlx5_6 trusts the DSCP like its peers, but somebody mapped DSCP 26 to priority 2 (mlnx_qos --dscp2prio " +
				"set,26,2). The site expects 3, and 3 is where PFC is.",
			Expect: []Finding{{"mlx5_6", 1, "dscp_maps_to_other_priority"}},
			edit: func(n *Node) {
				n.qos("mlx5_6").MapDSCP(losslessDSCP, 2)
				n.Carry("mlx5_6", 2)
			},
		},
		{
			Name: "nccl-tc-5", Platform: h100, policy: losslessPolicy,
			Summary: "NCCL_IB_TC is a priority instead of a traffic class",
			Truth: "NCCL_IB_TC=5 was meant as priority 5. It is the whole traffic class byte: DSCP 1, and the ECN bits " +
				"01. DSCP 1 leads to priority 0 on every port, where nothing is lossless. The ports are as the site " +
				"wants them; the configuration of NCCL is not.",
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
			Summary: "a traffic class set in MLNX_OFED overrides that of NCCL on one port",
			Truth: "Somebody wrote 0 into tc/1/traffic_class of mlx5_4 to undo a setting; that takes -1. Every queue pair " +
				"of this port now has traffic class 0, whatever NCCL_IB_TC=106 says: DSCP 0, priority 0, no PFC. The " +
				"site says nothing of RoCE.",
			Expect: []Finding{{"mlx5_4", 1, "traffic_class_overridden"}},
			edit: func(n *Node) {
				n.HCA("mlx5_4").Port(1).TrafficClass = "Global tclass=0\n"
				n.Carry("mlx5_4", 0)
			},
		},
		{
			Name: "ecn-np-off", Platform: h100, policy: losslessPolicy,
			Summary: "one compute port does not notify senders of congestion",
			Truth: "The site wants ECN. On mlx5_1 the notification point is off for priority 3: marked packets arrive, but " +
				"no CNP goes out, so those who send to this port never slow down before PFC stops them. As a sender " +
				"the port does react.",
			Expect: []Finding{{"mlx5_1", 1, "ecn_off_on_used_priority"}},
			edit: func(n *Node) {
				n.qos("mlx5_1").OFED.NP &^= 1 << losslessPriority
				n.withoutCNPs("mlx5_1")
			},
		},
		{
			Name: "global-pause", Platform: h100, policy: losslessPolicy,
			Summary: "one compute port still has global pause instead of PFC",
			Truth: "mlx5_7 was never set up: global pause (IEEE 802.3x) is on in both directions, as the firmware leaves it, which " +
				"excludes PFC. Any congestion stops the whole link with all of its classes, and no counter of a " +
				"priority shows it. The site wants PFC, which the seven peers have.",
			Expect: []Finding{{"mlx5_7", 1, "global_pause_on"}},
			edit: func(n *Node) {
				q := n.qos("mlx5_7")
				q.SetPFC(0)
				q.Pause.Receive, q.Pause.Transmit = true, true
			},
		},
		{
			Name: "bond-member-pfc-off", Platform: "roce-bond", policy: losslessPolicy,
			Summary: "one of the two ports of a bond has no PFC",
			Truth: "mlx5_bond_2 is one RDMA device over ens13f0np0 and ens13f1np1. After the second was replaced, PFC was " +
				"turned on on the first only; half of the queue pairs run through a port that is not lossless. The " +
				"bond itself has no DCB to ask.",
			Expect: []Finding{{"mlx5_bond_2", 1, "pfc_off_on_used_priority"}},
			edit:   func(n *Node) { n.NetDev("ens13f1np1").QoS.SetPFC(0) },
		},
		{
			Name: "vlan-sl-wrong", Platform: "roce-vlan",
			Summary: "NCCL uses a priority of another fabric, on one that goes by the VLAN tag",
			Truth: "The ports trust the PCP and have PFC on priority 3. The tag holds the service level of the queue pair, " +
				"and nccl.conf, copied from another cluster, sets NCCL_IB_SL=2: priority 2, lossy. A DSCP would change " +
				"nothing here. The site says nothing of RoCE.",
			Expect: []Finding{{"mlx5_0", 1, "service_level_wrong"}, {"mlx5_1", 1, "service_level_wrong"}},
			edit: func(n *Node) {
				n.setNCCL("NCCL_IB_SL=3\n", "NCCL_IB_SL=2\n")
				n.Carry("mlx5_0", 2)
				n.Carry("mlx5_1", 2)
			},
		},
	}
}
