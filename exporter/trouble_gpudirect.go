// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// throughHost is what NCCL does without GPUDirect RDMA.
const throughHost = "NCCL copies what crosses the network through the memory of the host, at a fraction of the bandwidth, and says " +
	"\"GPU Direct RDMA Disabled\" with NCCL_DEBUG=INFO."

// gpuDirectTroubles tells why NCCL would not use GPUDirect RDMA, and what is loaded for it and of no use.
func gpuDirectTroubles(n *fabric.Node, gpus []gpuView) []trouble {
	var list []trouble
	if t, bad := unboundPeermem(n); bad {
		list = append(list, t)
	}
	for _, g := range gpus {
		if t, bad := blockTrouble(n, g, gpus); bad {
			list = append(list, t)
		}
	}
	return list
}

// isBlocked tells that it is known not to be usable, and what is in the way.
func (g gpuView) isBlocked() (fabric.GDRBlock, bool) {
	if g.GDR == nil {
		return "", false
	}
	usable, known := g.GDR.Usable.Get()
	return g.GDR.Block, known && !usable
}

// blockTrouble is what is in the way of one GPU. That no driver answers is a trouble of its own, and that a product
// cannot do it is none.
func blockTrouble(n *fabric.Node, g gpuView, all []gpuView) (trouble, bool) {
	block, blocked := g.isBlocked()
	if !blocked || block == fabric.GDRNoDriver || block == fabric.GDRNoGPU || block == fabric.GDRDistance && byDesign(all) {
		return trouble{}, false
	}
	if _, told := unboundPeermem(n); told && block == fabric.GDRModule {
		return trouble{}, false
	}
	t := trouble{Where: []string{g.Name}, Why: throughHost, Seen: sentence(g.GDR.Evidence)}
	switch block {
	case fabric.GDRModule:
		t.What = "NCCL cannot use GPUDirect RDMA: nothing lets NICs reach the memory of the GPU"
		t.Remedy = "modprobe nvidia-peermem, and have it loaded at boot (echo nvidia-peermem > /etc/modules-load.d/nvidia-peermem.conf). " +
			"Or install the open kernel modules of the GPU driver: with Linux 5.12 or later they need no such module."
	case fabric.GDROverride:
		t.What = "The GPU driver is told to forbid GPUDirect RDMA"
		t.Remedy = "Remove GrdmaPciTopoCheckOverride=2 from the options of the module nvidia (grep -r GrdmaPciTopoCheckOverride /etc/modprobe.d), and load it again."
	case fabric.GDRDistance:
		t.What = "The GPU is too far from its NIC for GPUDirect RDMA"
		t.Why = "Other GPUs of this node are nearer to theirs. " + throughHost
		t.Remedy = "Plug GPUs and NICs below one PCIe switch, as the vendor pairs them; \"" + name + " topology\" shows which is where."
	case fabric.GDRLevel:
		where := "the configuration of the host"
		if v, ok := n.NCCL.Lookup("NCCL_NET_GDR_LEVEL"); ok {
			where = v.Source + " (" + v.Name + "=" + v.Value + ")"
		}
		t.What = "NCCL_NET_GDR_LEVEL of the host keeps NCCL from using GPUDirect RDMA"
		t.Remedy = "Remove it from " + where + ": by default NCCL goes as far as PXB, through several PCIe switches."
	case fabric.GDRACS:
		return acsTrouble(g.GDR.NIC), true
	case fabric.GDRIOMMU:
		t.What = "An IOMMU translates what GPU and NIC exchange"
		t.Why = "It goes up to the root complex instead of across, at a fraction of the bandwidth; NCCL may hang."
		t.Remedy = "Boot with iommu=pt on the kernel's command line, or switch the IOMMU off in the firmware settings; " +
			"/sys/bus/pci/devices/*/iommu_group/type should say identity."
	default:
		t.What = "NCCL cannot use GPUDirect RDMA"
		t.Remedy = "\"" + name + " topology\" shows what is in the way."
	}
	return t, true
}

// byDesign tells that no GPU of the node is near enough to a NIC: so the machine is built.
func byDesign(all []gpuView) bool {
	return !slices.ContainsFunc(all, func(g gpuView) bool {
		if g.GDR == nil {
			return false
		}
		block, blocked := g.isBlocked()
		return g.GDR.Usable.State == fabric.OK && (!blocked || block != fabric.GDRDistance)
	})
}

func acsTrouble(nic string) trouble {
	return trouble{
		Where: []string{nic}, What: "ACS sends GPUDirect traffic through the root complex",
		Why:    "Bridges between the NIC and its GPU redirect what these exchange, at a fraction of the bandwidth; NCCL may hang.",
		Remedy: "Switch ACS off in the firmware settings, or at each boot: setpci -s BRIDGE ECAP_ACS+0x6.w=0000.",
	}
}

// unboundPeermem tells that the module is loaded without use. NCCL looks for its files alone: it would register memory
// that way and fail, unless it has dma-buf.
func unboundPeermem(n *fabric.Node) (trouble, bool) {
	p, loaded := n.GPUDirect.Peermem.Get()
	if !loaded || p.Bound.Or(true) || slices.ContainsFunc(n.GDR, func(g fabric.GDR) bool { return g.Path == fabric.GDRDMABuf && g.Usable.Or(false) }) {
		return trouble{}, false
	}
	return trouble{
		Where: []string{p.Module}, What: "The module is loaded, but the RDMA core does not know it",
		Why: "/sys/module/" + p.Module + " is there, and no client below /sys/kernel/mm/memory_peers: it was built for another RDMA stack. " +
			"NCCL looks for its files alone, and fails when it registers memory of GPUs.",
		Remedy: "Reinstall the GPU driver after MLNX_OFED or DOCA, so that it is built against their RDMA core; then rmmod " + p.Module + " and modprobe " +
			strings.ReplaceAll(p.Module, "_", "-") + ".",
	}, true
}

// gpuNotes are what is worth knowing of how the node is built, and no trouble.
func gpuNotes(n *fabric.Node, gpus []gpuView) []string {
	var notes []string
	shared := map[string][]string{}
	var nics []string
	for _, g := range gpus {
		if g.Rail != nil && g.Rail.Shared {
			if shared[g.Rail.NIC] == nil {
				nics = append(nics, g.Rail.NIC)
			}
			shared[g.Rail.NIC] = append(shared[g.Rail.NIC], g.Name)
		}
	}
	if len(spareNICs(n)) > 0 { // a trouble
		nics = nil
	}
	for _, nic := range nics {
		notes = append(notes, fmt.Sprintf("%s share %s: the node has fewer NICs than GPUs, and each gets its part of the bandwidth.", strings.Join(shared[nic], ", "), nic))
	}
	far := slices.ContainsFunc(gpus, func(g gpuView) bool { block, blocked := g.isBlocked(); return blocked && block == fabric.GDRDistance })
	if far && byDesign(gpus) {
		notes = append(notes, "No GPU is near enough to a NIC for GPUDirect RDMA by NCCL's default: so the machine is built. "+
			"NCCL_NET_GDR_LEVEL=PHB or SYS makes NCCL try; measure whether that is faster.")
	}
	return notes
}
