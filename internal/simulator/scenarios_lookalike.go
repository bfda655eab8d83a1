// SPDX-License-Identifier: Apache-2.0

package simulator

// lookalikeScenarios are healthy nodes that look like broken ones to whoever judges too fast.
func lookalikeScenarios() []Scenario {
	return []Scenario{
		{
			Name: "healthy-uncabled-ports", Platform: "dual-port",
			Summary: "nothing is wrong with a node whose two-port cards have one cable each",
			Truth: "Four ConnectX-7 of two ports. The first port of each is active at 200 Gb/s; the second is down and disabled on all " +
				"four, has no address, and NCCL_IB_HCA leaves it out: nobody cabled it. Each function is an RDMA device of its " +
				"own with a port 1; that two are one card says sys_image_guid. Nothing is reported.",
		},
		{
			Name: "healthy-half-cabled", Platform: "half-cabled",
			Summary: "nothing is wrong with a node half of whose rails are cabled",
			Truth: "Eight equal InfiniBand ports, four of them active at 400 Gb/s and four that never had a link. The site expects four, and " +
				"NCCL_IB_HCA lists those that have a cable. Nothing is reported.",
		},
		{
			Name: "healthy-single-card", Platform: "single-card",
			Summary: "nothing is wrong with a node whose only card has one cable",
			Truth: "One card of two ports: the default route leaves through the first, the second is down and disabled and has no address. The " +
				"node does not train over RDMA. Nothing is reported.",
		},
		{
			Name: "healthy-mixed-nics-roce", Platform: "mixed-nics-roce",
			Summary: "nothing is wrong with a storage NIC below a switch of GPUs, beside faster NICs on RoCE",
			Truth: "Each of the eight GPUs has a 400 Gb/s rail below its switch. mlx5_2, which is as near to two of them, is of another board and " +
				"runs at 100 Gb/s: storage. Nobody told the exporter. Eight compute ports, all at their rate. Nothing is reported.",
		},
		{
			Name: "healthy-mixed-nics-ib", Platform: "mixed-nics-ib",
			Summary: "nothing is wrong with an Ethernet NIC below a switch of GPUs, beside an InfiniBand fabric",
			Truth: "Eight InfiniBand rails at 400 Gb/s. mlx5_2 and mlx5_3, the ports of an Ethernet card, are as near to two GPUs: the first carries " +
				"the default route, the second storage. NCCL_IB_HCA=mlx5 takes them all, and nobody told the exporter. Nothing is reported.",
		},
		{
			Name: "healthy-oci-h100", Platform: "oci-h100",
			Summary: "nothing is wrong with a cloud instance whose own NICs are beside those of the cluster network",
			Truth: "16 ports at 200 Gb/s are in NCCL_IB_HCA. Of the two NICs of the cloud network mlx5_2 carries the default route; mlx5_11 is an RDMA " +
				"device like the others, which NCCL leaves out. 16 compute ports. Nothing is reported.",
		},
		{
			Name: "compute-ports-surplus", Platform: "mixed-nics-roce",
			Summary: "a storage NIC looks just like those for training",
			Truth: "The site put a ninth ConnectX-7 of the same board in for storage, at the same rate, and told nobody: nothing on the node says what " +
				"it is for. Training works as before; nine ports count as compute where eight are expected.",
			Expect: []Finding{{"", 0, "compute_ports_surplus"}},
			edit: func(n *Node) {
				h, rail := n.HCA("mlx5_2"), n.HCA("mlx5_0")
				h.Type, h.Board, h.Firmware, h.Ports[0].Rate = rail.Type, rail.Board, rail.Firmware, rail.Ports[0].Rate
				n.NetDev(h.Ports[0].NetDev).Speed = n.NetDev(rail.Ports[0].NetDev).Speed
				f := n.Function(h.PCI)
				f.Chip = n.Function(rail.PCI).Chip
				f.Link = f.Chip.Link
			},
		},
		{
			Name: "healthy-mixed-vendors", Platform: "mixed-vendors",
			Summary: "nothing is wrong with a node whose NICs come from three vendors",
			Truth: "Two InfiniBand ports of NVIDIA train, two RoCE ports of Broadcom carry storage and have neither PFC nor a DSCP map, " +
				"and the default route leads through one of Intel. Rates, firmware and MTU differ between vendors, as they must. " +
				"Nothing is reported.",
		},
		{
			Name: "adaptive-routing", Platform: h100, policy: losslessPolicy,
			Summary: "nothing is wrong with a node whose packets arrive out of order",
			Truth: "The fabric routes packet by packet, and NCCL is told so by NCCL_IB_ADAPTIVE_ROUTING=1: one of a hundred packets " +
				"overtakes another and counts as out_of_sequence on every rail alike. Nobody sends NAKs, no timer expires, and " +
				"nothing is sent again. Nothing is reported.",
			edit: func(n *Node) {
				n.Files[ncclConf] += "NCCL_IB_ADAPTIVE_ROUTING=1\n"
				for _, f := range onCompute("") {
					grow(n, f.Device, map[string]uint64{"out_of_sequence": 41_000})
				}
			},
		},
		{
			Name: "fresh-boot", Platform: h100, policy: losslessPolicy,
			Summary: "nothing is wrong with a node that has just booted",
			Truth: "All counters of all devices, ports and interfaces are at zero and stay there, no process is on any GPU, and the links " +
				"of idle GPUs are at 2.5 GT/s. Configuration, addresses and ports are as they should be. Nothing is reported.",
			edit: func(n *Node) {
				n.quiet()
				for _, g := range n.GPUs {
					n.Idle(g.PCI)
				}
			},
		},
		{
			Name: "mig-meant", Platform: a100,
			Summary: "nothing is wrong with a node all of whose GPUs are MIG on",
			Truth: "The site serves inference from this node and divides all eight GPUs. None differs from its peers, and the " +
				"network is what it always is. Nothing is reported.",
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
