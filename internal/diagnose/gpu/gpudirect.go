// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"slices"
	"strings"

	"gpufabric_exporter/internal/diagnose/node"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// Kinds of faults that several checks find.
var (
	ModeGDRModule = verdict.Mode{
		ID:   "gpudirect_module",
		Text: "Neither a peer-memory module nor dma-buf is available, so NICs cannot access GPU memory.",
	}
	ModeGDRDistance = verdict.Mode{ID: "gpudirect_distance", Text: "A GPU is too far from its NIC for GPUDirect RDMA."}
	ModeGDRConfig   = verdict.Mode{
		ID:   "gpudirect_forbidden",
		Text: "NCCL_NET_GDR_LEVEL or an option of the GPU driver forbids GPUDirect RDMA.",
	}
	ModeIOMMU = verdict.Mode{ID: "iommu_translates", Text: "An IOMMU translates traffic between GPU and NIC."}
)

// throughHost is what NCCL does without GPUDirect RDMA.
const throughHost = "NCCL copies network traffic through host memory, at a fraction of the bandwidth, and logs " +
	"\"GPU Direct RDMA Disabled\" with NCCL_DEBUG=INFO."

func gpuDirectChecks() []*verdict.Check {
	return []*verdict.Check{
		{
			ID: verdict.CheckGPUDirect, Title: "NCCL cannot use GPUDirect RDMA", Severity: verdict.Critical,
			Topic: "gpudirect", Scope: verdict.ScopeGPU,
			Reads: "the GPU driver, peer-memory module and dma-buf, GrdmaPciTopoCheckOverride, distance to the NIC compared with NCCL's limit, ACS, IOMMU",
			Guard: "GPUs of NVIDIA that have a compute NIC and support it. Not if no GPU of the node is near enough to a NIC, which is the design of the machine, nor if gpu_driver, peermem_bound or pcie_acs report the cause",
			Rests: verdict.OnRole,
			Modes: []verdict.Mode{ModeGDRModule, ModeGDRDistance, ModeGDRConfig, ModeIOMMU}, Judge: judgeGPUDirect,
		},
		{
			ID: verdict.CheckPeermem, Title: "The module is loaded, but not registered with the RDMA core",
			Severity: verdict.Critical, Topic: "gpudirect", Scope: verdict.ScopeNode,
			Reads: "/sys/module compared with the clients of the RDMA core (/sys/kernel/mm/memory_peers)",
			Guard: "while a peer-memory module is loaded; not if NCCL can use dma-buf, which it prefers",
			Modes: []verdict.Mode{ModeGDRModule}, Judge: judgePeermem,
		},
	}
}

// noneNear reports whether no GPU of the node is near enough to a NIC for GPUDirect RDMA: this is the design
// of the machine. It is not known while one of them may be.
func noneNear(all []verdict.GPU) fabric.Fact[bool] {
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
		return fabric.UnknownFact[bool](unread.Reason, unread.Source, unread.At)
	}
	return fabric.Fact[bool]{Value: true, State: fabric.OK}
}

// FarByDesign reports whether the GPUs of a node are known to be too far from their NICs for GPUDirect RDMA,
// as the machine is made.
func FarByDesign(n *fabric.Node) bool {
	all := verdict.GPUs(n)
	far := func(g verdict.GPU) bool {
		block, blocked := g.Blocked()
		return blocked && block == fabric.GDRDistance
	}
	return slices.ContainsFunc(all, far) && noneNear(all).Or(false)
}

func judgeGPUDirect(n *fabric.Node, v *verdict.Verdicts) {
	all := v.GPUs(n)
	byDesign := noneNear(all)
	module, _ := unboundPeermem(n)
	for _, g := range all {
		if g.GDR == nil || g.GDR.Usable.State == fabric.Absent || !g.IsNVIDIA() {
			continue
		}
		block, blocked := g.Blocked()
		switch {
		case g.GDR.Usable.State == fabric.Unknown:
			judgeHiddenGDR(g, v)
		case !blocked:
			v.OK(g.Subject())
		case block == fabric.GDRNoDriver, block == fabric.GDRNoGPU, block == fabric.GDRACS, block == fabric.GDRModule &&
			module != "":
		case block == fabric.GDRDistance && byDesign.State != fabric.OK:
			v.Unknown(g.Subject(), byDesign.Meta().Reason,
				verdict.Sentence(g.GDR.Evidence)+" Whether this is the design of the machine is unknown: the other GPUs do not show it.")
		case block == fabric.GDRDistance && byDesign.Value, block == fabric.GDRDistance && leftOver(all) && complete(n):
		default:
			w := gpuDirectWords(n, g, block)
			w.Unstated = block == fabric.GDRDistance && (leftOver(all) || byManifest(n, g)) && !node.Short(n)
			v.Failed(g.Subject(), w)
		}
	}
}

// byManifest reports whether a manifest alone says that the NIC of a GPU is for training: it was as far away
// when the manifest was written.
func byManifest(n *fabric.Node, g verdict.GPU) bool {
	h := n.HCA(g.GDR.NIC)
	return h != nil && slices.ContainsFunc(h.Ports, func(p fabric.Port) bool { return p.RoleBy == fabric.ByManifest })
}

// leftOver reports whether each NIC that GPUs are dealt is near enough to one of them: those that are too far
// from theirs are GPUs without a NIC of their own, as in servers with more GPUs than NICs. Of a NIC in
// another slot than its GPU, both are left over.
func leftOver(all []verdict.GPU) bool {
	served := map[string]bool{}
	for _, g := range all {
		if g.GDR == nil || g.GDR.NIC == "" {
			continue
		}
		served[g.GDR.NIC] = served[g.GDR.NIC] || g.GDR.Usable.Or(false)
	}
	for _, near := range served {
		if !near {
			return false
		}
	}
	return true
}

// complete reports whether a source says what devices for training there are, and none is missing.
func complete(n *fabric.Node) bool {
	list, listed := n.NCCL.Devices()
	stated := n.Policy.ComputePorts != nil || listed && !list.Exclude || n.HasRecord() || n.ProfileRails() > 0 ||
		n.Policy.Manifest != nil
	return stated && !node.Short(n)
}

// judgeHiddenGDR leaves out what the driver does not have, and what a hypervisor hides: an operator of this
// node cannot change either.
func judgeHiddenGDR(g verdict.GPU, v *verdict.Verdicts) {
	switch m := g.GDR.Usable.Meta(); m.Reason {
	case fabric.ReasonNotRead, fabric.ReasonMissing, fabric.ReasonVirtual:
	default:
		why := verdict.Sentence(verdict.ReasonText(m.Reason))
		switch m.Reason {
		case fabric.ReasonPrivilege:
			why += " Reading ACS requires root (CAP_SYS_ADMIN)."
		case fabric.ReasonUnsupported: // the step that is not known says more
			why = verdict.Sentence(g.GDR.Evidence)
		}
		v.Unknown(g.Subject(), m.Reason, "Whether NCCL would use GPUDirect RDMA is unknown. "+why)
	}
}

// gpuDirectWords is what is in the way of one GPU.
func gpuDirectWords(n *fabric.Node, g verdict.GPU, block fabric.GDRBlock) verdict.Verdict {
	w := verdict.Verdict{Evidence: verdict.Sentence(g.GDR.Evidence), Consequence: throughHost}
	switch block {
	case fabric.GDRModule:
		w.Mode, w.What = ModeGDRModule.ID,
			"NCCL cannot use GPUDirect RDMA: neither dma-buf nor a peer-memory module is available"
		w.Remedy = "Run modprobe nvidia-peermem, and load it at boot (echo nvidia-peermem > /etc/modules-load.d/nvidia-peermem.conf). " +
			"Or install the open kernel modules of the GPU driver, which support dma-buf with Linux 5.12 or later."
	case fabric.GDROverride:
		w.Mode, w.What = ModeGDRConfig.ID, "The GPU driver is configured to forbid GPUDirect RDMA"
		w.Remedy = "Remove GrdmaPciTopoCheckOverride=2 from the options of the module nvidia (grep -r GrdmaPciTopoCheckOverride /etc/modprobe.d), drain the node, and restart it."
	case fabric.GDRDistance:
		w.Mode, w.What = ModeGDRDistance.ID, "The GPU is too far from its NIC for GPUDirect RDMA"
		w.Consequence = "Other GPUs of this node are nearer to theirs. " + throughHost
		w.Remedy = "Place each GPU and its NIC below one PCIe switch, as the vendor specifies; \"gpufabric_exporter topology\" shows their positions."
	case fabric.GDRLevel:
		where := "the configuration of the host"
		if v, ok := n.NCCL.Lookup(g.GDR.Setting); ok {
			where = v.Source + " (" + v.Name + "=" + v.Value + ")"
		}
		w.Mode, w.What = ModeGDRConfig.ID, g.GDR.Setting+" of the host prevents GPUDirect RDMA"
		w.Remedy = "Remove it from " + where +
			": by default NCCL allows distances up to P2C (through PCIe switches, or the C2C link of a CPU)."
	case fabric.GDRIOMMU:
		w.Mode, w.What = ModeIOMMU.ID, "An IOMMU translates traffic between GPU and NIC"
		w.Consequence = "The traffic goes through the root complex instead of the switch, at a fraction of the bandwidth; NCCL may hang."
		w.Remedy = "Boot with iommu=pt on the kernel's command line, or disable the IOMMU in the firmware settings; " +
			"/sys/bus/pci/devices/*/iommu_group/type should say identity."
	default:
		w.Remedy = "\"gpufabric_exporter topology\" shows the cause."
	}
	return w
}

// unboundPeermem names a module that is loaded without use. NCCL looks for its files alone: it would register
// memory that way and fail, unless it has dma-buf. Otherwise what is not known is returned, if anything.
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
	case bound || slices.ContainsFunc(n.GDR, func(g fabric.GDR) bool {
		return g.Path == fabric.GDRDMABuf &&
			g.Usable.Or(false)
	}):
		return "", nil
	}
	return p.Module, nil
}

func judgePeermem(n *fabric.Node, v *verdict.Verdicts) {
	module, unread := unboundPeermem(n)
	s := verdict.Subject{Name: module}
	switch {
	case unread != nil:
		if len(n.PCI.GPUs()) > 0 {
			v.Hidden(verdict.Subject{Name: "peer-memory module"}, *unread,
				"Whether a peer-memory module is registered with the RDMA core")
		}
	case module != "":
		v.Failed(s, verdict.Verdict{
			Evidence: "/sys/module/" + module +
				" exists, but no client below /sys/kernel/mm/memory_peers: the module was built for another RDMA stack.",
			Consequence: "NCCL checks only for the files of the module, and fails when it registers GPU memory.",
			Remedy: "Reinstall the GPU driver after MLNX_OFED or DOCA, so that it is built against their RDMA core; then, with no job on the node, run rmmod " + module + " and modprobe " +
				strings.ReplaceAll(module, "_", "-") + ".",
		})
	case n.GPUDirect.Peermem.State == fabric.OK:
		v.OK(verdict.Subject{Name: n.GPUDirect.Peermem.Value.Module})
	}
}
