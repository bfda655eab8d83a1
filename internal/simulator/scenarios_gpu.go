// SPDX-License-Identifier: Apache-2.0

package simulator

import "gpufabric_exporter/internal/fabric"

// More platforms.
const b200, pairs = "dgx-b200-ib", "nvlink-pairs"

// gpuHealthyScenarios are the healthy nodes that differ in their GPUs.
func gpuHealthyScenarios() []Scenario {
	return []Scenario{
		{
			Name: "healthy-dgx-b200", Platform: b200,
			Summary: "healthy B200 node with InfiniBand",
			Truth: "Eight compute ports at 400 Gb/s, each next to its GPU, and 18 active NVLinks of 50 GB/s on every GPU. NVLink 5 does not " +
				"count CRC errors and replays, but recoveries and errors that remain after correction. Nothing is reported.",
		},
		{
			Name: "healthy-gb200", Platform: "gb200",
			Summary: "healthy GB200 compute tray",
			Truth: "Four GPUs with NVLink-C2C and two Grace processors. Over PCIe, a host bridge is between every GPU and every NIC; NCCL " +
				"uses C2C and therefore GPUDirect RDMA. The memory of each GPU is a NUMA node. Nothing is reported.",
		},
		{
			Name: "healthy-nvlink-pairs", Platform: pairs,
			Summary: "healthy node with four A100 PCIe in pairs with NVLink bridges",
			Truth: "All 12 NVLinks of each GPU are active and lead to the other GPU of its pair. Pairs reach each other over PCIe, and both " +
				"GPUs of a pair share the only NIC below their switch. Nothing is reported.",
		},
		{
			Name: "healthy-l40s", Platform: "l40s-pcie",
			Summary: "healthy L40S server without PCIe switches",
			Truth: "GPUs and NICs are in slots of the processors. Traffic between them crosses a host bridge, which is farther than NCCL's " +
				"default for GPUDirect RDMA: this is the design of the server. L40S have no NVLink. Nothing is reported.",
		},
		{
			Name: "healthy-vm-flat", Platform: "vm-flat",
			Summary: "healthy virtual machine with a flat PCI bus",
			Truth: "GPUs and NICs are on one bus without bridges. Only the hypervisor knows which NIC is near which GPU, so distances and " +
				"GPUDirect RDMA are unknown. All NVLinks are active. Nothing is reported.",
		},
		{
			Name: "healthy-cpu-node", Platform: "cpu-node",
			Summary: "healthy node without GPUs and GPU driver",
			Truth:   "Two compute ports at 100 Gb/s. No GPU is on the bus, so no driver is expected. Nothing is reported.",
		},
	}
}

// gpuScenarios are about GPUs and their driver.
func gpuScenarios() []Scenario {
	return []Scenario{
		{
			Name: "gpu-driver-missing", Platform: b200,
			Summary: "a GPU node has no GPU driver",
			Truth: "Eight GPUs are on the bus and no driver is bound to them, as after a kernel update for which the driver was not built. " +
				"Network ports and links are correct; no job can start.",
			GPUs: []GPUFinding{{"", "gpu_driver_missing"}},
			GDR:  []GDRLabel{{Block: fabric.GDRNoDriver}},
			edit: func(n *Node) { n.Driver = GPUDriver{} },
		},
		{
			Name: "gpu-driver-released", Platform: a100,
			Summary: "healthy node during service of the GPU driver",
			Truth: "A maintenance file asks the exporter to release all GPUs, so that the driver can be unloaded. The exporter says so, and " +
				"everything that NVML reports is unknown. Nothing is reported.",
			GDR:  []GDRLabel{{Path: viaPeermem, Hidden: true}},
			edit: func(n *Node) { n.Driver.Released = "maintenance file" },
		},
		{
			Name: "gpu-lost", Platform: a100,
			Summary: "one GPU has fallen off the bus",
			Truth: "The driver has lost GPU 5 (Xid 79) and reports nothing else about it; its PCI function is still listed. The other seven " +
				"work. Jobs that need eight GPUs fail, and only a reboot may recover it.",
			GPUs: []GPUFinding{{"0000:90:00.0", "gpu_lost"}},
			GDR:  []GDRLabel{{Path: viaPeermem}, {GPU: "0000:90:00.0", Block: fabric.GDRNoDriver, Hidden: true}},
			edit: func(n *Node) { n.LoseGPU("0000:90:00.0") },
		},
		{
			Name: "gpu-gen3-loaded", Platform: b200,
			Summary: "one busy GPU runs at a quarter of its PCIe speed",
			Truth: "GPU 1 is always busy and its link stays at 8 GT/s, where GPU and slot support 32 GT/s. For an idle GPU 2.5 GT/s is " +
				"normal; for a busy one a low speed is a fault. Its rail carries a quarter of the others' bandwidth.",
			GPUs: []GPUFinding{{"0000:43:00.0", "pcie_link_degraded"}},
			edit: func(n *Node) { n.Function("0000:43:00.0").Link.Speed = gen3 },
		},
		{
			Name: "gpu-x8", Platform: b200,
			Summary: "one GPU has half of its PCIe lanes",
			Truth: "GPU 5 trained at x8 in an x16 slot. The link width does not depend on load, so this is a fault even while the GPU is " +
				"idle. NVLink hides it within the node; bandwidth to the NIC is halved.",
			GPUs: []GPUFinding{{"0000:c3:00.0", "pcie_link_degraded"}},
			edit: func(n *Node) { n.Function("0000:c3:00.0").Link.Width = 8 },
		},
		{
			Name: "gpu-power-brake", Platform: b200,
			Summary: "the power brake of the server slows down one GPU",
			Truth: "GPU 6 runs at a fraction of its clocks because the server asserts its power brake: a power supply has failed or is " +
				"overloaded. It computes correctly, and all others wait for it in every collective.",
			GPUs: []GPUFinding{{"0000:d1:00.0", "gpu_throttled"}},
			edit: func(n *Node) { n.GPU("0000:d1:00.0").ClockReasons = clocksHWSlowdown | clocksPowerBrake },
		},
		{
			Name: "gpu-mig-on", Platform: a100,
			Summary: "MIG is on for one GPU of eight",
			Truth: "MIG is on for GPU 0, left over from inference. Its instances have no peer-to-peer access to the other seven GPUs, so a " +
				"job that needs all eight cannot run.",
			GPUs: []GPUFinding{{"0000:07:00.0", "mig_on"}},
			edit: func(n *Node) {
				g := n.GPU("0000:07:00.0")
				g.MIG, g.Processes = true, nil
			},
		},
	}
}

// nvlinkScenarios are about NVLinks and what registers GPUs with their switches.
func nvlinkScenarios() []Scenario {
	return []Scenario{
		{
			Name: "nvlink-down", Platform: b200,
			Summary: "one NVLink of one GPU is down",
			Truth: "Link 7 of GPU 2 is inactive; its other 17 links and all links of its seven peers are active. Collectives continue on the " +
				"remaining links and lose an eighteenth of the bandwidth, or hang.",
			GPUs: []GPUFinding{{"0000:52:00.0", "nvlink_down"}},
			edit: func(n *Node) { n.GPU("0000:52:00.0").Links[7].Active = false },
		},
		{
			Name: "nvlink-bridge-loose", Platform: pairs,
			Summary: "one of the three NVLink bridges of a GPU pair is loose",
			Truth: "Links 8 to 11 of GPUs 2 and 3 are inactive: one bridge of three. Eight of twelve links remain. The other pair is " +
				"complete. Half of the GPUs of the node are affected, so comparing with the majority would not find it.",
			GPUs: []GPUFinding{{"0000:95:00.0", "nvlink_down"}, {"0000:96:00.0", "nvlink_down"}},
			edit: func(n *Node) {
				for _, address := range []string{"0000:95:00.0", "0000:96:00.0"} {
					for k := 8; k < 12; k++ {
						n.GPU(address).Links[k].Active = false
					}
				}
			},
		},
		{
			Name: "nvlink-errors", Platform: a100, OverTime: true,
			Summary: "the error counters of one NVLink increase",
			Truth: "Link 3 of GPU 6 counts 40 CRC errors and two replays per second; all others count none. The data is sent again and " +
				"arrives late. A single reading shows a count of unknown age.",
			GPUs: []GPUFinding{{"0000:b7:00.0", "nvlink_errors"}},
			edit: func(n *Node) {
				l := &n.GPU("0000:b7:00.0").Links[3]
				l.Count(fabric.NVLinkCRC).Counter = Counter{Start: 5100, PerStep: 40}
				l.Count(fabric.NVLinkReplay).Counter = Counter{Start: 260, PerStep: 2}
			},
		},
		{
			Name: "nvlink-recoveries", Platform: b200, OverTime: true,
			Summary: "one NVLink 5 of one GPU recovers repeatedly",
			Truth: "Link 11 of GPU 4 retrains every five seconds, with errors that its error correction did not correct. NVLink 5 has no " +
				"other counters for a bad link: no CRC errors and no replays.",
			GPUs: []GPUFinding{{"0000:9d:00.0", "nvlink_errors"}},
			edit: func(n *Node) {
				l := &n.GPU("0000:9d:00.0").Links[11]
				l.Count(fabric.NVLinkRecovery).Counter = Counter{Start: 31, PerStep: 1, Every: 5}
				l.Count(fabric.NVLinkEffectiveErrors).Counter = Counter{Start: 900, PerStep: 12}
			},
		},
		{
			Name: "fabric-manager-off", Platform: b200,
			Summary: "fabric manager does not run on a node with NVSwitches",
			Truth: "All links are active, but the GPUs are not registered with their switches: all eight remain in progress, CUDA does not " +
				"initialize, and no job can run.",
			GPUs: []GPUFinding{{"", "fabric_not_ready"}},
			edit: func(n *Node) {
				for i := range n.GPUs {
					n.Idle(n.GPUs[i].PCI)
					n.GPUs[i].NVSwitch = fabric.GPUFabric{State: fabric.GPUFabricInProgress}
				}
			},
		},
	}
}
