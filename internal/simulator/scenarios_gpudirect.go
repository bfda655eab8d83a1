// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// gpuDirectScenarios are about what keeps NICs from reaching the memory of GPUs.
func gpuDirectScenarios() []Scenario {
	blocked := []GPUFinding{{"", "gpudirect_blocked"}}
	because := func(b fabric.GDRBlock) []GDRLabel { return []GDRLabel{{Block: b}} }
	return []Scenario{
		{
			Name: "peermem-missing", Platform: a100,
			Summary: "nvidia_peermem is not loaded, and the GPU driver needs it",
			Truth: "The kernel module of the driver is the proprietary one, which does not export memory as dma-buf, and nvidia_peermem was " +
				"not loaded after the last reboot. NCCL copies all data through host memory.",
			GPUs: blocked, GDR: because(fabric.GDRModule),
			edit: func(n *Node) { n.Driver.Peermem = Peermem{Clients: true} },
		},
		{
			Name: "peermem-unbound", Platform: a100,
			Summary: "nvidia_peermem is loaded, but not registered with ib_core",
			Truth: "The module was built before MLNX_OFED was installed and never registered with this ib_core: the module is loaded, but the " +
				"client nv_mem is missing. NCCL finds the module and tries to use it; registering GPU memory then fails.",
			GPUs: blocked, GDR: because(fabric.GDRModule),
			edit: func(n *Node) {
				p := &n.Driver.Peermem
				p.Bound, p.Registered, p.Allocated = false, 0, Counter{}
			},
		},
		{
			Name: "gpu-driver-proprietary", Platform: h100,
			Summary: "a node that needs dma-buf has the proprietary GPU driver",
			Truth: "An update replaced the open kernel modules with the proprietary ones of the same version. These do not export dma-buf, " +
				"and nvidia_peermem is not loaded because it was never needed here. GPUDirect RDMA no longer works, which only a message " +
				"in NCCL's log shows.",
			GPUs: blocked, GDR: because(fabric.GDRModule),
			edit: func(n *Node) { n.Driver.Open = false },
		},
		{
			Name: "iommu-translating", Platform: b200,
			Summary: "the IOMMU translates traffic between GPUs and NICs",
			Truth: "The kernel was started with intel_iommu=on and without iommu=pt: each function has its own domain, and traffic between " +
				"functions needs address translation. ACS is off, because a boot script disables it.",
			GPUs: blocked, GDR: because(fabric.GDRIOMMU),
			edit: func(n *Node) { n.Host.Cmdline = strings.Replace(n.Host.Cmdline, "iommu=pt", "intel_iommu=on", 1) },
		},
		{
			Name: "gdr-override", Platform: b200,
			Summary: "an option of the GPU driver forbids GPUDirect RDMA",
			Truth: "The option GrdmaPciTopoCheckOverride=2 of the module nvidia forbids GPUDirect RDMA for every topology. Everything else is " +
				"correct.",
			GPUs: blocked, GDR: because("override"),
			edit: func(n *Node) { n.Driver.TopologyOverride = 2 },
		},
		{
			Name: "gdr-level-loc", Platform: b200,
			Summary: "the NCCL configuration forbids GPUDirect RDMA",
			Truth: "NCCL_NET_GDR_LEVEL=LOC in nccl.conf, left over from debugging, forbids GPUDirect RDMA at any distance. Hardware and " +
				"modules are fine.",
			GPUs: blocked, GDR: because(fabric.GDRLevel),
			edit: func(n *Node) { n.Files[ncclConf] += "NCCL_NET_GDR_LEVEL=LOC\n" },
		},
		{
			Name: "gdr-level-pix", Platform: a100,
			Summary: "the NCCL configuration allows GPUDirect RDMA below one switch only, and some NICs are farther away",
			Truth: "NCCL_NET_GDR_LEVEL=PIX was copied from another kind of node. Here GPUs and NICs are below cascaded switches (PXB), which " +
				"the default allows and PIX does not. NCCL merges two levels of a cascade, so GPUs 0, 2, 4 and 6 can still use it; the " +
				"other four are below a third level.",
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
			edit: func(n *Node) { n.Files[ncclConf] += "NCCL_NET_GDR_LEVEL=PIX\n" },
		},
		{
			Name: "gdr-level-sys", Platform: "l40s-pcie",
			Summary: "healthy L40S server that allows GPUDirect RDMA across host bridges",
			Truth: "NCCL_NET_GDR_LEVEL=SYS in nccl.conf allows GPUDirect RDMA across the host bridge, which NCCL does not use by default. " +
				"Nothing is reported.",
			GDR:  []GDRLabel{{Path: viaDMABuf}},
			edit: func(n *Node) { n.Files[ncclConf] += "NCCL_NET_GDR_LEVEL=SYS\n" },
		},
	}
}
