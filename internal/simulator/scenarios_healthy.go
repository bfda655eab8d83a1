// SPDX-License-Identifier: Apache-2.0

package simulator

// healthyScenarios are the healthy nodes of all platforms but those of NVIDIA.
func healthyScenarios() []Scenario {
	return []Scenario{
		{
			Name: "healthy-bnxt-roce", Platform: "bnxt-roce",
			Summary: "healthy node with Broadcom Thor2",
			Truth: "Eight compute ports at 400 Gb/s. bnxt_re has no PMA counters, and has gauges among its hardware counters: the objects in " +
				"use and their peaks. Its recoverable_errors are broadcasts and grow on every healthy node. Nothing is reported.",
		},
		{
			Name: "healthy-irdma-roce", Platform: "irdma-roce",
			Summary: "healthy node with Intel E810",
			Truth: "Two compute ports at 100 Gb/s of one card, which is not recognizable as one card because each port has its own image " +
				"GUID. RoCE v2 only, so the address is at GID index 1. The LID of 1 is a constant. Nothing is reported.",
		},
		{
			Name: "healthy-ionic-roce", Platform: "ionic-roce",
			Summary: "healthy node with AMD Pollara",
			Truth: "Eight compute ports at 400 Gb/s and eight GPUs that are not NVIDIA's. RoCE v2 only; the names of the counters come from " +
				"the firmware. Nothing is reported.",
		},
		{
			Name: "healthy-efa", Platform: "efa",
			Summary: "healthy AWS instance with EFA",
			Truth: "32 EFA devices without interface, link layer or LID. State and rate are constants of the driver and say nothing about a " +
				"link. The hardware counters of the ports count traffic, those of the devices count errors of the driver. Nothing is " +
				"reported.",
		},
		{
			Name: "healthy-mana", Platform: "mana",
			Summary: "healthy Azure virtual machine with MANA",
			Truth: "Two compute ports at 200 Gb/s whose devices have no firmware version, no NUMA node and 16 GID slots. The default route " +
				"uses the synthetic interface. Nothing is reported.",
		},
		{
			Name: "healthy-sriov-vf", Platform: "sriov-vf",
			Summary: "healthy node with virtual functions",
			Truth: "mlx5_0 and mlx5_1 are physical. mlx5_2 and mlx5_3 are virtual functions of mlx5_0 that belong to containers and are not " +
				"compute ports of this node. mlx5_4 is a virtual function, too, but as in a guest nothing shows it: its kind is unknown, " +
				"and it counts as the third compute port. Virtual functions have no link counters. Nothing is reported.",
		},
		{
			Name: "healthy-128-ports", Platform: "sriov-rails",
			Summary: "healthy node with 128 RDMA ports",
			Truth: "mlx5_0 to mlx5_15 are the 16 physical ports of the cluster network. Each has seven virtual functions, which belong to the " +
				"containers of seven tenants and are no compute ports of this node. Nothing is reported.",
		},
		{
			Name: "healthy-two-port", Platform: "two-port",
			Summary: "healthy node whose NICs have two ports",
			Truth: "mlx5_0 and mlx5_1 are one card, as their image GUID shows. mlx4_0 is one device with ports 1 and 2, whose interfaces " +
				"share a PCI function and differ in dev_port. Nothing is reported.",
		},
	}
}
