// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"path"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// gpuScenarios are about GPUs and their driver.
func gpuScenarios() []Scenario {
	return []Scenario{
		{
			Name: "gpu-driver-missing", Platform: b200,
			Summary: "a GPU node has no GPU driver",
			Truth: "Eight GPUs are on the bus and no driver is bound to them, as after a kernel update for which the driver " +
				"was not built. Network ports and links are correct; no job can start.",
			GPUs:    onNode("gpu_driver_missing"),
			GDR:     []GDRLabel{{Block: fabric.GDRNoDriver}},
			differs: `sys/module(/.*)? proc/driver(/.*)? nvml/.* sys/bus/pci/drivers/nvidia(/.*)? sys/devices/.*/driver`,
			edit:    func(n *Node) { n.Driver = GPUDriver{} },
		},
		{
			Name: "gpu-driver-released", Platform: a100,
			Summary: "healthy node during service of the GPU driver",
			Truth: "A maintenance file asks the exporter to release all GPUs, so that the driver can be unloaded. The " +
				"exporter says so, and everything that NVML reports is unknown. Nothing is reported.",
			GDR:     []GDRLabel{{Path: viaPeermem, Hidden: true}},
			differs: `nvml/.*`,
			edit:    func(n *Node) { n.Driver.Released = "maintenance file" },
		},
		{
			Name: "gpu-lost", Platform: a100,
			Summary: "one GPU has fallen off the bus",
			Truth: "The driver has lost GPU 5 (Xid 79) and reports nothing else about it; its PCI function is still listed. " +
				"The other seven work. Jobs that need eight GPUs fail, and only a reboot may recover it.",
			GPUs:    []GPUFinding{{"0000:90:00.0", "gpu_lost"}},
			GDR:     []GDRLabel{{Path: viaPeermem}, {GPU: "0000:90:00.0", Block: fabric.GDRNoDriver, Hidden: true}},
			differs: `nvml/(5/.*|pairs/.*5.*)`,
			edit:    func(n *Node) { n.LoseGPU("0000:90:00.0") },
		},
		{
			Name: "gpu-gen3-loaded", Platform: b200,
			Summary: "one busy GPU runs at a quarter of its PCIe speed",
			Truth: "GPU 1 is always busy and its link stays at 8 GT/s, where GPU and slot support 32 GT/s. For an idle GPU " +
				"2.5 GT/s is normal; for a busy one a low speed is a fault. Its rail carries a quarter of the others' " +
				"bandwidth.",
			GPUs:    []GPUFinding{{"0000:43:00.0", "pcie_link_degraded"}},
			differs: `sys/devices/.*/0000:(3f|43):0\d\.0/current_link_speed nvml/1/PCIeGeneration`,
			edit:    func(n *Node) { n.Function("0000:43:00.0").Link.Speed = gen3 },
		},
		{
			Name: "gpu-x8", Platform: b200,
			Summary: "one GPU has half of its PCIe lanes",
			Truth: "GPU 5 trained at x8 in an x16 slot. The link width does not depend on load, so this is a fault even " +
				"while the GPU is idle. NVLink hides it within the node; bandwidth to the NIC is halved.",
			GPUs:    []GPUFinding{{"0000:c3:00.0", "pcie_link_degraded"}},
			differs: `sys/devices/.*/0000:(bf|c3):0\d\.0/current_link_width nvml/5/PCIeWidth`,
			edit:    func(n *Node) { n.Function("0000:c3:00.0").Link.Width = 8 },
		},
		{
			Name: "gpu-power-brake", Platform: b200,
			Summary: "the power brake of the server slows down one GPU",
			Truth: "GPU 6 runs at a fraction of its clocks because the server asserts its power brake: a power supply has " +
				"failed or is overloaded. It computes correctly, and all others wait for it in every collective.",
			GPUs:    []GPUFinding{{"0000:d1:00.0", "gpu_throttled"}},
			differs: `nvml/6/ClockReasons`,
			edit:    func(n *Node) { n.GPU("0000:d1:00.0").ClockReasons = clocksHWSlowdown | clocksPowerBrake },
		},
		{
			Name: "gpu-mig-on", Platform: a100,
			Summary: "MIG is on for one GPU of eight",
			Truth: "MIG is on for GPU 0, left over from inference. Its instances have no peer-to-peer access to the other " +
				"seven GPUs, so a job that needs all eight cannot run.",
			GPUs:    []GPUFinding{{"0000:07:00.0", "mig_on"}},
			differs: `nvml/0/(MIG|Processes|Utilization|Memory|BAR1) nvml/pairs/0-\d`,
			edit: func(n *Node) {
				g := n.GPU("0000:07:00.0")
				g.MIG, g.Processes = true, nil
			},
		},

		// About NVLinks and what registers GPUs with their switches.
		{
			Name: "nvlink-down", Platform: b200,
			Summary: "one NVLink of one GPU is down",
			Truth: "Link 7 of GPU 2 is inactive; its other 17 links and all links of its seven peers are active. Collectives " +
				"continue on the remaining links and lose an eighteenth of the bandwidth, or hang.",
			GPUs:    []GPUFinding{{"0000:52:00.0", "nvlink_down"}},
			differs: `nvml/2/NVLinks/7`,
			edit:    func(n *Node) { n.GPU("0000:52:00.0").Links[7].Active = false },
		},
		{
			Name: "nvlink-bridge-loose", Platform: pairs,
			Summary: "one of the three NVLink bridges of a GPU pair is loose",
			Truth: "Links 8 to 11 of GPUs 2 and 3 are inactive: one bridge of three. Eight of twelve links remain. The other " +
				"pair is complete. Half of the GPUs of the node are affected, so comparing with the majority would not find it.",
			GPUs:    []GPUFinding{{"0000:95:00.0", "nvlink_down"}, {"0000:96:00.0", "nvlink_down"}},
			differs: `nvml/[23]/NVLinks/(8|9|10|11)`,
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
			Truth: "Link 3 of GPU 6 counts 40 CRC errors and two replays per second; all others count none. The data is sent " +
				"again and arrives late. A single reading shows a count of unknown age.",
			GPUs:    []GPUFinding{{"0000:b7:00.0", "nvlink_errors"}},
			differs: `nvml/6/NVLinks/3`,
			edit: func(n *Node) {
				l := &n.GPU("0000:b7:00.0").Links[3]
				l.Count(fabric.NVLinkCRC).Counter = Counter{Start: 5100, PerStep: 40}
				l.Count(fabric.NVLinkReplay).Counter = Counter{Start: 260, PerStep: 2}
			},
		},
		{
			Name: "nvlink-recoveries", Platform: b200, OverTime: true,
			Summary: "one NVLink 5 of one GPU recovers repeatedly",
			Truth: "Link 11 of GPU 4 retrains every five seconds, with errors that its error correction did not correct. " +
				"NVLink 5 has no other counters for a bad link: no CRC errors and no replays.",
			GPUs:    []GPUFinding{{"0000:9d:00.0", "nvlink_errors"}},
			differs: `nvml/4/NVLinks/11`,
			edit: func(n *Node) {
				l := &n.GPU("0000:9d:00.0").Links[11]
				l.Count(fabric.NVLinkRecovery).Counter = Counter{Start: 31, PerStep: 1, Every: 5}
				l.Count(fabric.NVLinkEffectiveErrors).Counter = Counter{Start: 900, PerStep: 12}
			},
		},
		{
			Name: "fabric-manager-off", Platform: b200,
			Summary: "fabric manager does not run on a node with NVSwitches",
			Truth: "All links are active, but the GPUs are not registered with their switches: all eight remain in progress, " +
				"CUDA does not initialize, and no job can run.",
			GPUs: onNode("fabric_not_ready"),
			differs: `nvml/\d/(Fabric|Processes|Utilization|Memory|BAR1|ClockReasons|PCIeGeneration)
				sys/devices/.*/current_link_speed`,
			edit: func(n *Node) {
				for i := range n.GPUs {
					n.Idle(n.GPUs[i].PCI)
					n.GPUs[i].NVSwitch = fabric.GPUFabric{State: fabric.GPUFabricInProgress}
				}
			},
		},

		// About what keeps NICs from reaching the memory of GPUs.
		{
			Name: "peermem-missing", Platform: a100,
			Summary: "nvidia_peermem is not loaded, and the GPU driver needs it",
			Truth: "The kernel module of the driver is the proprietary one, which does not export memory as dma-buf, and " +
				"nvidia_peermem was not loaded after the last reboot. NCCL copies all data through host memory.",
			GPUs: onNode("gpudirect_blocked"), GDR: because(fabric.GDRModule),
			differs: `sys/module/nvidia_peermem(/.*)? sys/kernel/mm/memory_peers/nv_mem(/.*)?`,
			edit:    func(n *Node) { n.Driver.Peermem = Peermem{Clients: true} },
		},
		{
			Name: "peermem-unbound", Platform: a100,
			Summary: "nvidia_peermem is loaded, but not registered with ib_core",
			Truth: "The module was built before MLNX_OFED was installed and never registered with this ib_core: the module " +
				"is loaded, but the client nv_mem is missing. NCCL finds the module and tries to use it; registering GPU memory " +
				"then fails.",
			GPUs: onNode("gpudirect_blocked"), GDR: because(fabric.GDRModule),
			differs: `sys/kernel/mm/memory_peers/nv_mem(/.*)?`,
			edit: func(n *Node) {
				p := &n.Driver.Peermem
				p.Bound, p.Registered, p.Allocated = false, 0, Counter{}
			},
		},
		{
			Name: "gpu-driver-proprietary", Platform: h100,
			Summary: "a node that needs dma-buf has the proprietary GPU driver",
			Truth: "An update replaced the open kernel modules with the proprietary ones of the same version. These do not " +
				"export dma-buf, and nvidia_peermem is not loaded because it was never needed here. GPUDirect RDMA no longer " +
				"works, which only a message in NCCL's log shows.",
			GPUs: onNode("gpudirect_blocked"), GDR: because(fabric.GDRModule),
			differs: `proc/driver/nvidia/(version|params)`,
			edit:    func(n *Node) { n.Driver.Open = false },
		},
		{
			Name: "iommu-translating", Platform: b200,
			Summary: "the IOMMU translates traffic between GPUs and NICs",
			Truth: "The kernel was started with intel_iommu=on and without iommu=pt: each function has its own domain, and " +
				"traffic between functions needs address translation. ACS is off, because a boot script disables it.",
			GPUs: onNode("gpudirect_blocked"), GDR: because(fabric.GDRIOMMU),
			differs: `proc/cmdline sys/kernel/iommu_groups/\d+/type`,
			edit:    func(n *Node) { n.Host.Cmdline = strings.Replace(n.Host.Cmdline, "iommu=pt", "intel_iommu=on", 1) },
		},
		{
			Name: "gdr-override", Platform: b200,
			Summary: "an option of the GPU driver forbids GPUDirect RDMA",
			Truth: "The option GrdmaPciTopoCheckOverride=2 of the module nvidia forbids GPUDirect RDMA for every topology. " +
				"Everything else is correct.",
			GPUs: onNode("gpudirect_blocked"), GDR: because("override"),
			differs: `proc/driver/nvidia/params`,
			edit:    func(n *Node) { n.Driver.TopologyOverride = 2 },
		},
		{
			Name: "gdr-level-loc", Platform: b200,
			Summary: "the NCCL configuration forbids GPUDirect RDMA",
			Truth: "NCCL_NET_GDR_LEVEL=LOC in nccl.conf, left over from debugging, forbids GPUDirect RDMA at any distance. " +
				"Hardware and modules are fine.",
			GPUs: onNode("gpudirect_blocked"), GDR: because(fabric.GDRLevel),
			differs: `nccl`,
			edit:    func(n *Node) { n.Files[ncclConf] += "NCCL_NET_GDR_LEVEL=LOC\n" },
		},
		{
			Name: "gdr-level-pix", Platform: a100,
			Summary: "the NCCL configuration allows GPUDirect RDMA below one switch only, and some NICs are farther away",
			Truth: "NCCL_NET_GDR_LEVEL=PIX was copied from another kind of node. Here GPUs and NICs are below cascaded " +
				"switches (PXB), which the default allows and PIX does not. NCCL merges two levels of a cascade, so GPUs 0, 2, " +
				"4 and 6 can still use it; the other four are below a third level.",
			GPUs: []GPUFinding{
				{"0000:0f:00.0", "gpudirect_blocked"},
				{"0000:4e:00.0", "gpudirect_blocked"},
				{"0000:90:00.0", "gpudirect_blocked"},
				{"0000:bd:00.0", "gpudirect_blocked"},
			},
			GDR: []GDRLabel{
				{Path: viaPeermem},
				{GPU: "0000:0f:00.0", Block: fabric.GDRLevel},
				{GPU: "0000:4e:00.0", Block: fabric.GDRLevel},
				{GPU: "0000:90:00.0", Block: fabric.GDRLevel},
				{GPU: "0000:bd:00.0", Block: fabric.GDRLevel},
			},
			differs: `nccl`,
			edit:    func(n *Node) { n.Files[ncclConf] += "NCCL_NET_GDR_LEVEL=PIX\n" },
		},
		{
			Name: "gdr-level-sys", Platform: "l40s-pcie",
			Summary: "healthy L40S server that allows GPUDirect RDMA across host bridges",
			Truth: "NCCL_NET_GDR_LEVEL=SYS in nccl.conf allows GPUDirect RDMA across the host bridge, which NCCL does not " +
				"use by default. Nothing is reported.",
			GDR:     []GDRLabel{{Path: viaDMABuf}},
			differs: `nccl`,
			edit:    func(n *Node) { n.Files[ncclConf] += "NCCL_NET_GDR_LEVEL=SYS\n" },
		},

		// About the way between GPUs and NICs.
		{
			Name: "pcie-nic-x8", Platform: h100,
			Summary: "one compute NIC has half of its PCIe lanes",
			Truth: "mlx5_2 trained at x8 in an x16 slot. Its port is active at 400 Gb/s and no network counter shows a " +
				"problem, but PCIe carries little more than 200 Gb/s.",
			Expect:  []Finding{{"mlx5_2", 1, "pcie_link_degraded"}},
			differs: `sys/devices/.*/0000:4[ef]:00\.0/current_link_width`,
			edit:    func(n *Node) { n.Function(n.HCA("mlx5_2").PCI).Link.Width = 8 },
		},
		{
			Name: "pcie-nic-gen3", Platform: h100,
			Summary: "one compute NIC runs at a quarter of its PCIe speed",
			Truth: "mlx5_5 trained at 8 GT/s where NIC and switch support 32 GT/s: 16 lanes of generation 3 carry about 126 " +
				"Gb/s of the port's 400 Gb/s.",
			Expect:  []Finding{{"mlx5_5", 1, "pcie_link_degraded"}},
			differs: `sys/devices/.*/0000:(bf|c0):00\.0/current_link_speed`,
			edit:    func(n *Node) { n.Function(n.HCA("mlx5_5").PCI).Link.Speed = gen3 },
		},
		{
			Name: "pcie-acs-on", Platform: h100,
			Summary: "ACS is on in all PCIe switches of a node without virtual machines",
			Truth: "Every root port and switch port redirects requests. Traffic between a GPU and its NIC goes up to the " +
				"root complex and down again: GPUDirect RDMA works, with a fraction of its bandwidth.",
			Expect:  onCompute("acs_redirect"),
			GDR:     []GDRLabel{{Block: fabric.GDRACS}},
			differs: `sys/devices/.*/config`,
			edit: func(n *Node) {
				for i := range n.Functions {
					if f := &n.Functions[i]; f.leadsDown() {
						f.ACS = acsOfLinux
					}
				}
			},
		},
		{
			Name: "pcie-numa-wrong", Platform: h100,
			Summary: "the firmware reports the wrong NUMA node for one compute NIC",
			Truth: "mlx5_4 is below the same switch as its GPU on NUMA node 1, but reports node 0. The distance is " +
				"unchanged; interrupts and processes that are placed by the NUMA node of the NIC run on the wrong socket.",
			Expect:  []Finding{{"mlx5_4", 1, "numa_mismatch"}},
			differs: `sys/devices/.*/0000:9a:00\.0/numa_node`,
			edit:    func(n *Node) { n.Function(n.HCA("mlx5_4").PCI).NUMA = 0 },
		},
		{
			Name: "pcie-nic-shared", Platform: h100,
			Summary: "two GPUs share the nearest NIC, and another NIC is nearest to no GPU",
			Truth: "GPU 3 is below the switch of mlx5_2 instead of that of mlx5_3. GPUs 2 and 3 share the 400 Gb/s of " +
				"mlx5_2; mlx5_3 can be reached only across host bridges.",
			Expect: []Finding{{"mlx5_2", 1, "nic_shared"}},
			differs: `nvml/(3/.*|pairs/.*) sys/devices/.*/0000:61:00\.0(/.*)? sys/devices/.*/0000:4e:04\.0(/.*)?
				sys/bus/pci/.*/0000:(61|53|4e):0[04]\.0 sys/kernel/iommu_groups/\d+(/.*)?`,
			edit: func(n *Node) { n.moveGPU("0000:61:00.0", "0000:4e:04.0/0000:53:00.0", n.HCA("mlx5_2").PCI) },
		},
		{
			Name: "pcie-errors", Platform: h100, OverTime: true,
			Summary: "the PCIe link of one compute NIC has errors",
			Truth: "The link of mlx5_1 corrupts twenty packets per second, which are sent again, and occasionally loses one. " +
				"Width and speed are correct, and the network port is fine.",
			Expect:  []Finding{{"mlx5_1", 1, "pcie_errors"}},
			differs: `sys/devices/.*/aer_dev_(correctable|nonfatal)`,
			edit: func(n *Node) {
				n.Function(n.HCA("mlx5_1").PCI).AER = AER{
					Correctable: Counter{Start: 41200, PerStep: 20},
					NonFatal:    Counter{Start: 3, PerStep: 1, Every: 10},
				}
			},
		},
		{
			Name: "pcie-gpus-idle", Platform: h100,
			Summary: "healthy node with idle GPUs",
			Truth: "The PCIe links of all GPUs run at 2.5 GT/s, as always while they are idle. Their width is correct. " +
				"Nothing is reported.",
			differs: `nvml/\d/(Processes|Utilization|Memory|BAR1|ClockReasons|PCIeGeneration)
				sys/devices/.*/current_link_speed`,
			edit: (*Node).idleGPUs,
		},
	}
}

// acsOfLinux is what Linux sets with the IOMMU on: source validation, request and completion redirect, upstream
// forwarding.
const acsOfLinux = 0x1d

// moveGPU plugs a GPU in below the switch that a NIC is below: at that port of it, and with that address.
func (n *Node) moveGPU(from, to, nic string) {
	uplink := path.Dir(path.Dir(n.Function(nic).Path))
	port, address := path.Split(to)
	gpu := n.Function(from)
	old := path.Dir(gpu.Path)
	gpu.Path = uplink + "/" + to
	downstream := *lookup(n.Functions, func(f Function) bool { return f.Path == old })
	downstream.Path = uplink + "/" + strings.TrimSuffix(port, "/")
	downstream.Group = len(n.Functions) + 1
	n.Functions = append(n.Functions, downstream)
	for i := range n.GPUs {
		if n.GPUs[i].PCI == from {
			n.GPUs[i].PCI = address
		}
	}
	slices.SortFunc(n.GPUs, func(a, b GPU) int { return strings.Compare(a.PCI, b.PCI) })
}

// onNode labels the GPUs of the whole node.
func onNode(what string) []GPUFinding { return []GPUFinding{{What: what}} }

// idleGPUs takes all work from all GPUs.
func (n *Node) idleGPUs() {
	for _, g := range n.GPUs {
		n.Idle(g.PCI)
	}
}
