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
			Summary: "nvidia_peermem is not loaded, and the GPU driver cannot do without",
			Truth: "The driver's kernel module is the proprietary one, which does not export memory as dma-buf, and nobody loaded " +
				"nvidia_peermem after the last reboot. NCCL copies everything through the memory of the processors.",
			GPUs: blocked, GDR: because(fabric.GDRModule),
			edit: func(n *Node) { n.Driver.Peermem = Peermem{Clients: true} },
		},
		{
			Name: "peermem-unbound", Platform: a100,
			Summary: "nvidia_peermem is loaded, but ib_core does not know it",
			Truth: "The module was built before MLNX_OFED was installed and never registered with this ib_core: it is there, and there " +
				"is no client nv_mem. NCCL finds the module and believes in it; registering memory of a GPU then fails.",
			GPUs: blocked, GDR: because(fabric.GDRModule),
			edit: func(n *Node) {
				p := &n.Driver.Peermem
				p.Bound, p.Registered, p.Allocated = false, 0, Counter{}
			},
		},
		{
			Name: "gpu-driver-proprietary", Platform: h100,
			Summary: "a node that relied on dma-buf got the proprietary GPU driver",
			Truth: "An update replaced the open kernel modules by the proprietary ones of the same version. They do not export dma-buf, " +
				"and this site never needed nvidia_peermem: GPUDirect RDMA is gone with no message but NCCL's.",
			GPUs: blocked, GDR: because(fabric.GDRModule),
			edit: func(n *Node) { n.Driver.Open = false },
		},
		{
			Name: "iommu-translating", Platform: b200,
			Summary: "the IOMMU translates what GPUs and NICs exchange",
			Truth: "The kernel was started with intel_iommu=on and without iommu=pt: functions have domains of their own, and what goes " +
				"from one to the other is looked up in tables first. ACS is off, as a boot script sees to.",
			GPUs: blocked, GDR: because(fabric.GDRIOMMU),
			edit: func(n *Node) { n.Host.Cmdline = strings.Replace(n.Host.Cmdline, "iommu=pt", "intel_iommu=on", 1) },
		},
		{
			Name: "gdr-override", Platform: b200,
			Summary: "the GPU driver is told to deny GPUDirect RDMA",
			Truth: "GrdmaPciTopoCheckOverride=2 among the options of the module nvidia denies it whatever the topology is. Everything else " +
				"is as it should be.",
			GPUs: blocked, GDR: because("override"),
			edit: func(n *Node) { n.Driver.TopologyOverride = 2 },
		},
		{
			Name: "gdr-level-loc", Platform: b200,
			Summary: "NCCL is told not to use GPUDirect RDMA",
			Truth: "NCCL_NET_GDR_LEVEL=LOC in nccl.conf, left over from a search for an error, forbids it at any distance. Hardware and " +
				"modules are fine.",
			GPUs: blocked, GDR: because(fabric.GDRLevel),
			edit: func(n *Node) { n.Files[ncclConf] += "NCCL_NET_GDR_LEVEL=LOC\n" },
		},
		{
			Name: "gdr-level-pix", Platform: a100,
			Summary: "NCCL is told to use GPUDirect RDMA below one switch only, and not every NIC is that near",
			Truth: "NCCL_NET_GDR_LEVEL=PIX came from another kind of node. Here GPUs and NICs sit below cascades of switches, which is " +
				"PXB: near enough by default, too far for PIX. NCCL takes two levels of a cascade together, so that it goes on with " +
				"GPUs 0, 2, 4 and 6; the other four are below a third.",
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
			Summary: "nothing is wrong with an L40S server that allows GPUDirect RDMA across host bridges",
			Truth: "NCCL_NET_GDR_LEVEL=SYS in nccl.conf allows what NCCL would not do by itself: GPUDirect RDMA over the host bridge. " +
				"Nothing is reported.",
			GDR:  []GDRLabel{{Path: viaDMABuf}},
			edit: func(n *Node) { n.Files[ncclConf] += "NCCL_NET_GDR_LEVEL=SYS\n" },
		},
	}
}
