// SPDX-License-Identifier: Apache-2.0

package simulator

// lookalikeScenarios are healthy nodes that look like broken ones at first sight.
func lookalikeScenarios() []Scenario {
	return []Scenario{
		{
			Name: "healthy-uncabled-ports", Platform: "dual-port",
			Summary: "healthy node whose two-port cards have one cable each",
			Truth: "Four ConnectX-7 with two ports. The first port of each is active at 200 Gb/s. The second is not cabled: on all four cards " +
				"it is down and disabled, has no address, and NCCL_IB_HCA excludes it. Each function is an RDMA device with a port 1; " +
				"sys_image_guid shows which two are one card. Nothing is reported.",
		},
		{
			Name: "healthy-half-cabled", Platform: "half-cabled",
			Summary: "healthy node with half of its rails cabled",
			Truth: "Eight identical InfiniBand ports: four are active at 400 Gb/s, four never had a link. The site expects four, and " +
				"NCCL_IB_HCA lists the cabled ones. Nothing is reported.",
		},
		{
			Name: "healthy-single-card", Platform: "single-card",
			Summary: "healthy node with one cable in its only card",
			Truth: "One card with two ports: the default route uses the first; the second is down and disabled and has no address. The node " +
				"does not train over RDMA. Nothing is reported.",
		},
		{
			Name: "healthy-mixed-nics-roce", Platform: "mixed-nics-roce",
			Summary: "healthy RoCE node with a slower storage NIC below a GPU's PCIe switch",
			Truth: "Each of the eight GPUs has a 400 Gb/s rail below its switch. mlx5_2, which is as near to two of them, is another board " +
				"and runs at 100 Gb/s, so it is for storage. No roles are configured. Eight compute ports, all at their rate. Nothing is " +
				"reported.",
		},
		{
			Name: "healthy-mixed-nics-ib", Platform: "mixed-nics-ib",
			Summary: "healthy InfiniBand node with an Ethernet NIC below a GPU's PCIe switch",
			Truth: "Eight InfiniBand rails at 400 Gb/s. mlx5_2 and mlx5_3, the ports of an Ethernet card, are as near to two GPUs as the " +
				"rails: the first has the default route, the second is for storage. NCCL_IB_HCA=mlx5 includes all of them, and no roles " +
				"are configured. Nothing is reported.",
		},
		{
			Name: "healthy-oci-h100", Platform: "oci-h100",
			Summary: "healthy cloud instance with NICs outside of the cluster network",
			Truth: "NCCL_IB_HCA lists 16 ports at 200 Gb/s. Of the two NICs of the cloud network, mlx5_2 has the default route; mlx5_11 is an " +
				"RDMA device like the others, which NCCL_IB_HCA excludes. 16 compute ports. Nothing is reported.",
		},
		{
			Name: "compute-ports-surplus", Platform: "mixed-nics-roce",
			Summary: "a storage NIC looks like the training NICs",
			Truth: "The site added a ninth ConnectX-7 of the same board and rate for storage, and NCCL_IB_HCA of the host takes it as all others. " +
				"Training works as before; nine ports count as compute where eight are expected.",
			Expect: []Finding{{"", 0, "compute_ports_surplus"}},
			edit: func(n *Node) {
				n.Files[ncclConf] += "NCCL_IB_HCA=mlx5\n"
				h, rail := n.HCA("mlx5_2"), n.HCA("mlx5_0")
				h.Type, h.Board, h.Firmware, h.Ports[0].Rate = rail.Type, rail.Board, rail.Firmware, rail.Ports[0].Rate
				n.NetDev(h.Ports[0].NetDev).Speed = n.NetDev(rail.Ports[0].NetDev).Speed
				f := n.Function(h.PCI)
				f.Chip = n.Function(rail.PCI).Chip
				f.Link = f.Chip.Link
				h.Name = "mlx5_9" // of which the configuration knows nothing
			},
		},
		{
			Name: "healthy-mixed-vendors", Platform: "mixed-vendors",
			Summary: "healthy node with NICs from three vendors",
			Truth: "Two InfiniBand ports from NVIDIA are for training, two RoCE ports from Broadcom are for storage and have neither PFC nor " +
				"a DSCP map, and the default route uses a port from Intel. Rates, firmware and MTU differ between vendors, as expected. " +
				"Nothing is reported.",
		},
		{
			Name: "adaptive-routing", Platform: h100, policy: losslessPolicy,
			Summary: "healthy node with adaptive routing, whose packets arrive out of order",
			Truth: "The fabric routes each packet separately, and NCCL_IB_ADAPTIVE_ROUTING=1 states that to NCCL. One packet in a hundred overtakes " +
				"another and counts as out_of_sequence, equally on every rail. There are no NAKs, no expired timers and no " +
				"retransmissions. Nothing is reported.",
			edit: func(n *Node) {
				n.Files[ncclConf] += "NCCL_IB_ADAPTIVE_ROUTING=1\n"
				for _, f := range onCompute("") {
					grow(n, f.Device, map[string]uint64{"out_of_sequence": 41_000})
				}
			},
		},
		{
			Name: "fresh-boot", Platform: h100, policy: losslessPolicy,
			Summary: "healthy node that has just booted",
			Truth: "All counters of all devices, ports and interfaces are zero, no process uses a GPU, and the PCIe links of the idle GPUs " +
				"run at 2.5 GT/s. Configuration, addresses and ports are correct. Nothing is reported.",
			edit: func(n *Node) {
				n.quiet()
				for _, g := range n.GPUs {
					n.Idle(g.PCI)
				}
			},
		},
		{
			Name: "mig-meant", Platform: a100,
			Summary: "healthy node with MIG on for all GPUs",
			Truth: "The site uses this node for inference and divides all eight GPUs. None differs from its peers, and the network is normal. " +
				"Nothing is reported.",
			edit: func(n *Node) {
				for i := range n.GPUs {
					g := &n.GPUs[i]
					g.MIG, g.Processes = true, nil
				}
			},
		},
	}
}

// quiet puts every counter of devices, ports and interfaces to zero, where it stays.
func (n *Node) quiet() {
	for i := range n.HCAs {
		n.HCAs[i].silence(n)
	}
	for i := range n.NetDevs {
		n.NetDevs[i].silence()
	}
}

// silence puts every counter of a device, of its ports and of their interfaces to zero, where it stays.
func (h *HCA) silence(n *Node) {
	still(h.HW)
	for k := range h.Ports {
		p := &h.Ports[k]
		still(p.PMA)
		still(p.HW)
		still(p.CM)
		if d := n.NetDev(p.NetDev); d != nil {
			d.silence()
		}
	}
}

func (d *NetDev) silence() {
	still(d.Stats)
	d.Received, d.Sent, d.QoS.FEC.Corrected, d.QoS.FEC.Uncorrectable = Counter{}, Counter{}, Counter{}, Counter{}
}

func still(all []Statistic) {
	for i := range all {
		all[i].Start, all[i].PerStep = 0, 0
	}
}
