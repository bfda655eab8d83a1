// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// throughHost is what NCCL does without GPUDirect RDMA.
const throughHost = "NCCL copies what crosses the network through the memory of the host, at a fraction of the bandwidth, and says " +
	"\"GPU Direct RDMA Disabled\" with NCCL_DEBUG=INFO."

func gpuDirectChecks() []*Check {
	return []*Check{
		{
			ID: CheckGPUDirect, Title: "NCCL cannot use GPUDirect RDMA", Severity: Critical, Topic: "gpudirect", Scope: ScopeGPU,
			Reads: "the GPU driver, peer-memory module and dma-buf, GrdmaPciTopoCheckOverride, distance to the NIC against NCCL's limit, ACS, IOMMU",
			Guard: "asked of GPUs that have a compute NIC and can do it; not where no GPU of the node is near enough to a NIC, because so the machine is built, nor where gpu_driver, peermem_bound or pcie_acs tell why",
			Modes: []string{ModeGDRModule, ModeGDRDistance, ModeGDRConfig, ModeIOMMU}, judge: judgeGPUDirect,
		},
		{
			ID: CheckPeermem, Title: "The module is loaded, but the RDMA core does not know it", Severity: Critical, Topic: "gpudirect", Scope: ScopeNode,
			Reads: "/sys/module against the clients of the RDMA core (/sys/kernel/mm/memory_peers)",
			Guard: "asked while a peer-memory module is loaded; not where NCCL has dma-buf, which it prefers", Modes: []string{ModeGDRModule}, judge: judgePeermem,
		},
	}
}

// Blocked tells that GPUDirect RDMA is known not to be usable, and what is in the way.
func (g GPU) Blocked() (fabric.GDRBlock, bool) {
	if g.GDR == nil {
		return "", false
	}
	usable, known := g.GDR.Usable.Get()
	return g.GDR.Block, known && !usable
}

// FarByDesign tells that no GPU of the node is near enough to a NIC for GPUDirect RDMA: so the machine is built. It is
// unknown while one of them may be.
func FarByDesign(all []GPU) fabric.Fact[bool] {
	var unread fabric.Meta
	for _, g := range all {
		if g.GDR == nil {
			continue
		}
		block, blocked := g.Blocked()
		switch {
		case g.GDR.Usable.State == fabric.OK && (!blocked || block != fabric.GDRDistance):
			return fabric.Known(false, "GPUDirect RDMA", g.GDR.Usable.At)
		case g.GDR.Usable.State == fabric.Unknown:
			unread = g.GDR.Usable.Meta()
		}
	}
	if unread.Reason != "" {
		return fabric.NotKnown[bool](unread.Reason, unread.Source, unread.At)
	}
	return fabric.Fact[bool]{Value: true, State: fabric.OK}
}

func judgeGPUDirect(n *fabric.Node, v *verdicts) {
	all := v.ofGPUs(n)
	byDesign := FarByDesign(all)
	module, _ := unboundPeermem(n)
	for _, g := range all {
		if g.GDR == nil || g.GDR.Usable.State == fabric.Absent {
			continue
		}
		block, blocked := g.Blocked()
		switch {
		case g.GDR.Usable.State == fabric.Unknown:
			judgeHiddenGDR(g, v)
		case !blocked:
			v.ok(g.Subject())
		case block == fabric.GDRNoDriver, block == fabric.GDRNoGPU, block == fabric.GDRACS, block == fabric.GDRModule && module != "":
		case block == fabric.GDRDistance && byDesign.State != fabric.OK:
			v.unknown(g.Subject(), byDesign.Meta().Reason, Sentence(g.GDR.Evidence)+" Whether the machine is built so is not known: other GPUs do not tell.")
		case block == fabric.GDRDistance && byDesign.Value:
		default:
			v.failed(g.Subject(), gpuDirectWords(n, g, block))
		}
	}
}

// judgeHiddenGDR leaves out what the driver does not have, and what a hypervisor hides: nobody can do anything about it.
func judgeHiddenGDR(g GPU, v *verdicts) {
	switch m := g.GDR.Usable.Meta(); m.Reason {
	case fabric.ReasonNotRead, fabric.ReasonMissing, fabric.ReasonVirtual:
	default:
		why := Sentence(ReasonText(m.Reason))
		if m.Reason == fabric.ReasonPrivilege {
			why += " ACS takes root (CAP_SYS_ADMIN)."
		}
		v.unknown(g.Subject(), m.Reason, "Whether NCCL would use GPUDirect RDMA is not known. "+why)
	}
}

// gpuDirectWords is what is in the way of one GPU.
func gpuDirectWords(n *fabric.Node, g GPU, block fabric.GDRBlock) Verdict {
	w := Verdict{Evidence: Sentence(g.GDR.Evidence), Consequence: throughHost}
	switch block {
	case fabric.GDRModule:
		w.What = "NCCL cannot use GPUDirect RDMA: nothing lets NICs reach the memory of the GPU"
		w.Remedy = "modprobe nvidia-peermem, and have it loaded at boot (echo nvidia-peermem > /etc/modules-load.d/nvidia-peermem.conf). " +
			"Or install the open kernel modules of the GPU driver: with Linux 5.12 or later they need no such module."
	case fabric.GDROverride:
		w.What = "The GPU driver is told to forbid GPUDirect RDMA"
		w.Remedy = "Remove GrdmaPciTopoCheckOverride=2 from the options of the module nvidia (grep -r GrdmaPciTopoCheckOverride /etc/modprobe.d), and load it again."
	case fabric.GDRDistance:
		w.What = "The GPU is too far from its NIC for GPUDirect RDMA"
		w.Consequence = "Other GPUs of this node are nearer to theirs. " + throughHost
		w.Remedy = "Plug GPUs and NICs below one PCIe switch, as the vendor pairs them; \"gpufabric_exporter topology\" shows which is where."
	case fabric.GDRLevel:
		where := "the configuration of the host"
		if v, ok := n.NCCL.Lookup("NCCL_NET_GDR_LEVEL"); ok {
			where = v.Source + " (" + v.Name + "=" + v.Value + ")"
		}
		w.What = "NCCL_NET_GDR_LEVEL of the host keeps NCCL from using GPUDirect RDMA"
		w.Remedy = "Remove it from " + where + ": by default NCCL goes as far as PXB, through several PCIe switches."
	case fabric.GDRIOMMU:
		w.What = "An IOMMU translates what GPU and NIC exchange"
		w.Consequence = "It goes up to the root complex instead of across, at a fraction of the bandwidth; NCCL may hang."
		w.Remedy = "Boot with iommu=pt on the kernel's command line, or switch the IOMMU off in the firmware settings; " +
			"/sys/bus/pci/devices/*/iommu_group/type should say identity."
	default:
		w.Remedy = "\"gpufabric_exporter topology\" shows what is in the way."
	}
	return w
}

// unboundPeermem names a module that is loaded without use. NCCL looks for its files alone: it would register memory that
// way and fail, unless it has dma-buf. Otherwise what is not known is returned, if anything.
func unboundPeermem(n *fabric.Node) (module string, unread *fabric.Meta) {
	p, loaded := n.GPUDirect.Peermem.Get()
	if !loaded {
		if n.GPUDirect.Peermem.State == fabric.Unknown {
			unread = new(n.GPUDirect.Peermem.Meta())
		}
		return "", unread
	}
	switch bound, known := p.Bound.Get(); {
	case !known:
		return "", new(p.Bound.Meta())
	case bound || slices.ContainsFunc(n.GDR, func(g fabric.GDR) bool { return g.Path == fabric.GDRDMABuf && g.Usable.Or(false) }):
		return "", nil
	}
	return p.Module, nil
}

func judgePeermem(n *fabric.Node, v *verdicts) {
	module, unread := unboundPeermem(n)
	s := Subject{Name: module}
	switch {
	case unread != nil:
		if len(n.PCI.GPUs()) > 0 {
			v.hidden(Subject{Name: "peer-memory module"}, *unread, "Whether the RDMA core knows a peer-memory module")
		}
	case module != "":
		v.failed(s, Verdict{
			Evidence:    "/sys/module/" + module + " is there, and no client below /sys/kernel/mm/memory_peers: it was built for another RDMA stack.",
			Consequence: "NCCL looks for its files alone, and fails when it registers memory of GPUs.",
			Remedy: "Reinstall the GPU driver after MLNX_OFED or DOCA, so that it is built against their RDMA core; then rmmod " + module + " and modprobe " +
				strings.ReplaceAll(module, "_", "-") + ".",
		})
	case n.GPUDirect.Peermem.State == fabric.OK:
		v.ok(Subject{Name: n.GPUDirect.Peermem.Value.Module})
	}
}
