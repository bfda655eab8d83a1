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
			Summary: "nothing is wrong with a node all of whose GPUs are divided (MIG)",
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
	still := func(all []Statistic) {
		for i := range all {
			all[i].Start, all[i].PerStep = 0, 0
		}
	}
	for i := range n.HCAs {
		h := &n.HCAs[i]
		still(h.HW)
		for k := range h.Ports {
			p := &h.Ports[k]
			still(p.PMA)
			still(p.HW)
			still(p.CM)
		}
	}
	for i := range n.NetDevs {
		d := &n.NetDevs[i]
		still(d.Stats)
		d.Received, d.Sent, d.QoS.FEC.Corrected, d.QoS.FEC.Uncorrectable = Counter{}, Counter{}, Counter{}, Counter{}
	}
}
