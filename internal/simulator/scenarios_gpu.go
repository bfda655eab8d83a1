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
			Summary: "nothing is wrong with a B200 node on InfiniBand",
			Truth: "Eight compute ports at 400 Gb/s, each beside its GPU, and 18 active NVLinks of 50 GB/s on every GPU. NVLink 5 " +
				"counts no CRC errors and replays, but recoveries and what error correction left. Nothing is reported.",
		},
		{
			Name: "healthy-gb200", Platform: "gb200",
			Summary: "nothing is wrong with a GB200 compute tray",
			Truth: "Four GPUs on NVLink-C2C beside two Grace processors. Over PCIe every GPU is a host bridge away from every NIC; " +
				"NCCL goes over C2C and uses GPUDirect RDMA nevertheless. The memory of each GPU is a NUMA node. Nothing is " +
				"reported.",
		},
		{
			Name: "healthy-nvlink-pairs", Platform: pairs,
			Summary: "nothing is wrong with four A100 PCIe in pairs with NVLink bridges",
			Truth: "All 12 NVLinks of each GPU are active and lead to the other GPU of its pair. Pairs reach each other over PCIe, " +
				"and both GPUs of a pair share the one NIC below their switch, because there is no other. Nothing is reported.",
		},
		{
			Name: "healthy-l40s", Platform: "l40s-pcie",
			Summary: "nothing is wrong with an L40S server without PCIe switches",
			Truth: "GPUs and NICs sit in slots of the processors. What they exchange crosses a host bridge, which is further than " +
				"NCCL uses GPUDirect RDMA by itself: the machine is built so. L40S have no NVLink. Nothing is reported.",
		},
		{
			Name: "healthy-vm-flat", Platform: "vm-flat",
			Summary: "nothing is wrong with a virtual machine whose PCI bus is flat",
			Truth: "GPUs and NICs are on one bus without a bridge between. Which NIC is near which GPU knows the hypervisor only: " +
				"distances and with them GPUDirect RDMA are unknown. NVLink is full. Nothing is reported.",
		},
		{
			Name: "healthy-cpu-node", Platform: "cpu-node",
			Summary: "nothing is wrong with a node that has neither GPUs nor a driver for them",
			Truth:   "Two compute ports at 100 Gb/s. No GPU is on the bus, so that nobody misses the driver. Nothing is reported.",
		},
	}
}

// gpuScenarios are about GPUs and their driver.
func gpuScenarios() []Scenario {
	return []Scenario{
		{
			Name: "gpu-driver-missing", Platform: b200,
			Summary: "a GPU node has no GPU driver",
			Truth: "Eight GPUs are on the bus and no driver is bound to them, as after an update of the kernel that the driver was " +
				"not built for. Ports and links of the network are as they should be; no job can start.",
			GPUs: []GPUFinding{{"", "gpu_driver_missing"}},
			GDR:  []GDRLabel{{Block: fabric.GDRNoDriver}},
			edit: func(n *Node) { n.Driver = GPUDriver{} },
		},
		{
			Name: "gpu-driver-released", Platform: a100,
			Summary: "nothing is wrong with a node whose GPU driver is being serviced",
			Truth: "A maintenance file asks the exporter to let go of all GPUs, so that the driver can be unloaded. It says so and " +
				"knows nothing of what NVML would tell. Nothing is reported.",
			GDR:  []GDRLabel{{Path: viaPeermem, Hidden: true}},
			edit: func(n *Node) { n.Driver.Released = "maintenance file" },
		},
		{
			Name: "gpu-lost", Platform: a100,
			Summary: "one GPU has fallen off the bus",
			Truth: "The driver has lost GPU 5 (Xid 79) and says nothing of it but that; its PCI function is still listed. The other " +
				"seven work. Jobs that want eight fail, and only a reboot brings it back, if anything.",
			GPUs: []GPUFinding{{"0000:90:00.0", "gpu_lost"}},
			GDR:  []GDRLabel{{Path: viaPeermem}, {GPU: "0000:90:00.0", Block: fabric.GDRNoDriver, Hidden: true}},
			edit: func(n *Node) { n.LoseGPU("0000:90:00.0") },
		},
		{
			Name: "gpu-gen3-loaded", Platform: b200,
			Summary: "one GPU works at a quarter of its PCIe speed",
			Truth: "GPU 1 runs kernels all the time and its link stays at 8 GT/s, where GPU and slot do 32 GT/s. Idle GPUs are at " +
				"2.5 GT/s and that is well; one at work is not. Its rail gets a quarter of what the others get.",
			GPUs: []GPUFinding{{"0000:43:00.0", "pcie_link_degraded"}},
			edit: func(n *Node) { n.Function("0000:43:00.0").Link.Speed = gen3 },
		},
		{
			Name: "gpu-x8", Platform: b200,
			Summary: "one GPU has half of its PCIe lanes",
			Truth: "GPU 5 trained at x8 in a slot of x16. Lanes do not come and go with the load, so that this is a fault on an " +
				"idle GPU too. NVLink hides it within the node; traffic to the NIC is halved.",
			GPUs: []GPUFinding{{"0000:c3:00.0", "pcie_link_degraded"}},
			edit: func(n *Node) { n.Function("0000:c3:00.0").Link.Width = 8 },
		},
		{
			Name: "gpu-power-brake", Platform: b200,
			Summary: "one GPU is slowed down by the power brake of the machine",
			Truth: "GPU 6 runs at a fraction of its clocks because the machine pulls its brake: a power supply has failed or is " +
				"overloaded. It computes correctly, and all others wait for it in every collective.",
			GPUs: []GPUFinding{{"0000:d1:00.0", "gpu_throttled"}},
			edit: func(n *Node) { n.GPU("0000:d1:00.0").ClockReasons = clocksHWSlowdown | clocksPowerBrake },
		},
		{
			Name: "gpu-mig-on", Platform: a100,
			Summary: "one GPU of eight is MIG on",
			Truth: "MIG is on for GPU 0, left over from inference: its parts have no peer-to-peer access to the other seven GPUs, and " +
				"a job of all eight cannot run.",
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
			Truth: "Link 7 of GPU 2 is inactive while its other 17 and all links of its seven peers are active. Collectives go on over " +
				"the rest and lose an eighteenth of the bandwidth, or hang.",
			GPUs: []GPUFinding{{"0000:52:00.0", "nvlink_down"}},
			edit: func(n *Node) { n.GPU("0000:52:00.0").Links[7].Active = false },
		},
		{
			Name: "nvlink-bridge-loose", Platform: pairs,
			Summary: "one of the three NVLink bridges of a pair of GPUs is loose",
			Truth: "Links 8 to 11 of GPUs 2 and 3 are inactive: one bridge of three. Eight links are left of twelve. The other pair " +
				"is whole, and half of the GPUs of the node look like these, so that a majority of peers does not tell.",
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
			Summary: "errors grow on one NVLink of one GPU",
			Truth: "Link 3 of GPU 6 counts 40 CRC errors and two replays a second; all others stand still. Data is sent again and " +
				"arrives, later. One look shows a number that could be of any age.",
			GPUs: []GPUFinding{{"0000:b7:00.0", "nvlink_errors"}},
			edit: func(n *Node) {
				l := &n.GPU("0000:b7:00.0").Links[3]
				l.Count(fabric.NVLinkCRC).Counter = Counter{Start: 5100, PerStep: 40}
				l.Count(fabric.NVLinkReplay).Counter = Counter{Start: 260, PerStep: 2}
			},
		},
		{
			Name: "nvlink-recoveries", Platform: b200, OverTime: true,
			Summary: "one NVLink 5 of one GPU recovers again and again",
			Truth: "Link 11 of GPU 4 trains anew every five seconds and lets errors through that its error correction did not " +
				"catch. NVLink 5 has no other counters for a bad link: there are no CRC errors and no replays to look for.",
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
			Truth: "All links are active, but nobody registers the GPUs with their switches: all eight stay in progress, CUDA does not " +
				"initialise, and nothing runs on them.",
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
