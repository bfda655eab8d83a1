// SPDX-License-Identifier: Apache-2.0

package simulator

// ncclScenarios are about lines of nccl.conf that are right or wrong whatever the hardware is. What NCCL does with them was
// read in its source, files of release 2.30.7.
func ncclScenarios() []Scenario {
	return []Scenario{
		{
			Name: "nccl-rdma-off", Platform: h100,
			Summary: "the NCCL configuration disables RDMA",
			Truth: "NCCL_IB_DISABLE=1 was left in nccl.conf after debugging. Eight compute ports are active, but ncclIbInit " +
				"(transport/net_ib/init.cc) returns before it looks at them: every job of the host uses TCP over the management bond.",
			Expect: []Finding{{"", 0, "rdma_switched_off"}},
			Probed: []ProbeFinding{{"transport", "", "socket"}, {"rail", "", "socket"}},
			edit: func(n *Node) {
				n.Files[ncclConf] += "NCCL_IB_DISABLE=1\n"
				n.NCCL.TCP = true
			},
		},
		{
			Name: "nccl-rdma-off-efa", Platform: "efa",
			Summary: "healthy AWS instance whose NCCL uses EFA through a plugin",
			Truth: "NCCL_IB_DISABLE=1 is set in nccl.conf, as in many templates for EFA. NCCL's own transport needs queue pairs that EFA does " +
				"not have (no IBV_QPT_RC, providers/efa of rdma-core); aws-ofi-nccl does not read the variable. Nothing is reported.",
			edit: func(n *Node) { n.Files[ncclConf] += "NCCL_IB_DISABLE=1\n" },
		},
		{
			Name: "nccl-timeout-99", Platform: h100,
			Summary: "NCCL_IB_TIMEOUT is greater than a queue pair can hold",
			Truth: "NCCL_IB_TIMEOUT=99 was intended as a long timeout. ncclIbQpRts (transport/net_ib/connect.cc) passes it to ibv_modify_qp, " +
				"and mlx5 keeps five bits (ack_timeout of struct mlx5_ifc_ads_bits): 3, which is 33 microseconds. A packet that waits in a " +
				"switch is retransmitted. Ports and addresses are correct.",
			Expect: []Finding{{"", 0, "nccl_line_ignored"}},
			edit:   func(n *Node) { n.setNCCL("NCCL_IB_TIMEOUT=22\n", "NCCL_IB_TIMEOUT=99\n") },
		},
		{
			Name: "nccl-algo-unknown", Platform: h100,
			Summary: "NCCL_ALGO names an algorithm that does not exist",
			Truth: "NCCL_ALGO=Rings is a misspelled Ring. parseList (graph/tuning.cc) of NCCL 2.24 and later returns ncclInvalidUsage for it: " +
				"no communicator can be created, and every job of the host fails at its start.",
			Expect: []Finding{{"", 0, "nccl_value_refused"}},
			edit:   func(n *Node) { n.Files[ncclConf] += "NCCL_ALGO=Rings\n" },
		},
		{
			Name: "nccl-hca-prefix", Platform: "oci-h100",
			Summary: "NCCL_IB_HCA without = also matches a NIC that it does not name",
			Truth: "NCCL_IB_HCA names the 16 ports of the cluster network, without the = of Oracle's own list. mlx5_1 is a prefix, and also " +
				"matches mlx5_11, a NIC of the virtual cloud network (matchIfList of misc/utils.cc).",
			Expect: []Finding{{"", 0, "nccl_device_unnamed"}},
			edit:   func(n *Node) { n.setNCCL("NCCL_IB_HCA==", "NCCL_IB_HCA=") },
		},
		{
			Name: "nccl-hca-short", Platform: h100,
			Summary: "NCCL_IB_HCA names half of the training NICs",
			Truth: "NCCL_IB_HCA is that of a node with four NICs. NCCL uses mlx5_0 to mlx5_3 only, with half of the bandwidth of the node " +
				"(matchIfList of misc/utils.cc).",
			Expect: []Finding{{"", 0, "nccl_device_left_out"}},
			edit:   func(n *Node) { n.setNCCL(",mlx5_4,mlx5_5,mlx5_6,mlx5_7\n", "\n") },
		},
		{
			Name: "nccl-deprecated", Platform: h100,
			Summary: "healthy node whose NCCL configuration uses deprecated names",
			Truth: "NCCL_MIN_NCHANNELS=16 and NCCL_MAX_NRINGS=32 are deprecated but still read (ncclMinNchannels and ncclMaxNchannels of " +
				"graph/connect.cc). That is reported with severity info, and no check of a higher severity fails.",
			Expect: []Finding{{"", 0, "nccl_note"}},
			edit:   func(n *Node) { n.Files[ncclConf] += "NCCL_MIN_NCHANNELS=16\nNCCL_MAX_NRINGS=32\n" },
		},
	}
}
