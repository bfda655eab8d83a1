// SPDX-License-Identifier: Apache-2.0

package simulator

import "syscall"

// qosHealthyScenarios look wrong and are not.
func qosHealthyScenarios() []Scenario {
	return []Scenario{
		{
			Name: "healthy-roce-bond", Platform: "roce-bond", policy: losslessPolicy,
			Summary: "nothing is wrong with a node whose compute devices are bonds",
			Truth: "Four RDMA devices over two ports each. The bonds have no DCB, no statistics and no files of MLNX_OFED; " +
				"their members have, all alike. The traffic of a device is the sum of its members'. Nothing is reported.",
		},
		{
			Name: "healthy-roce-vlan", Platform: "roce-vlan",
			Summary: "nothing is wrong with a node whose fabric goes by the VLAN tag",
			Truth: "The GIDs belong to VLAN interfaces, which have no DCB; the ports below trust the PCP and have PFC on " +
				"priority 3, which NCCL_IB_SL=3 puts into the tag. No DSCP is needed. Nothing is reported.",
		},
		{
			Name: "vf-qos-unknown", Platform: "sriov-vf", policy: losslessPolicy,
			Summary: "nothing is known of the RoCE setup of virtual functions, and nothing is wrong",
			Truth: "The port of a virtual function belongs to the physical one: it has no DCB, does not tell of pause, and its " +
				"statistics of priorities are there but stand at zero while RDMA traffic flows. So mlx5_4, which counts " +
				"as a compute port, is unknown, neither lossy nor on the wrong priority. Nothing is reported.",
		},
		{
			Name: "lossy-design", Platform: h100, policy: lossyPolicy,
			Summary: "nothing is wrong with a fabric that does without PFC",
			Truth: "The site says that its RoCE is lossy: PFC is off on every port, ECN is on, congestion is answered by " +
				"notifications, and the few packets that are lost are sent again. Nothing is reported.",
			edit: func(n *Node) {
				for _, f := range onCompute("") {
					n.qos(f.Device).SetPFC(0)
					marked(n, f.Device)
				}
			},
		},
		{
			Name: "lossy-unstated", Platform: h100,
			Summary: "nothing can be said against a node without PFC whose site has no opinion",
			Truth: "PFC is off on all eight compute ports alike, and the site says nothing of RoCE: it may be a lossy design. " +
				"Nothing differs between the ports. Nothing is reported.",
			edit: func(n *Node) {
				for _, f := range onCompute("") {
					n.qos(f.Device).SetPFC(0)
				}
			},
		},
		{
			Name: "statistics-refused", Platform: h100, policy: losslessPolicy,
			Summary: "nothing is wrong with a node where one driver does not answer for its statistics",
			Truth: "The firmware of enp79s0np0 answers EIO when it is asked what it counted. What hangs on it is unknown; nobody knows of " +
				"anything wrong, and nothing is reported.",
			edit: func(n *Node) { n.NetDev("enp79s0np0").StatsErr = syscall.EIO },
		},
		{
			Name: "brief-pauses", Platform: h100, policy: losslessPolicy,
			Summary: "nothing is wrong with ports that pause and are paused now and then",
			Truth: "All rails send and receive some pause frames, as in every incast: no port is stopped for more than half a " +
				"percent of the time, and nothing is lost. That is PFC at work. Nothing is reported.",
			edit: func(n *Node) {
				for _, f := range onCompute("") {
					count(n, f.Device, map[string]uint64{
						"rx_prio3_pause": 400, "rx_prio3_pause_duration": 4_200, "rx_prio3_pause_transition": 200,
						"tx_prio3_pause": 110, "tx_prio3_pause_duration": 900,
					})
				}
			},
		},
		{
			Name: "traffic-class-104", Platform: h100, policy: losslessPolicy,
			Summary: "nothing is wrong with a traffic class of 104 where others write 106",
			Truth: "NCCL_IB_TC=104 and 106 differ in the ECN bits, which the NIC sets itself: both are DSCP 26 and priority 3. " +
				"Nothing is reported.",
			edit: func(n *Node) { n.setNCCL("NCCL_IB_TC=106", "NCCL_IB_TC=104") },
		},
	}
}
