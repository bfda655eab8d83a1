// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"

	"gpufabric_exporter/internal/fabric"
)

const (
	gdrLabels = " pci_address and uuid are those of the GPU; uuid is empty if NVML does not report it. device is the RDMA device that is assigned to the GPU (gpu_nic_distance)."
	gdrSource = "/sys/bus/pci/devices, /sys/module/nvidia_peermem, /proc/driver/nvidia/version, NVML, NCCL configuration"
)

// The rows of the collector gpudirect.
var (
	gpudirectUsable = &Family{
		Name: "gpudirect_usable", Type: Gauge, Labels: []string{"pci_address", "uuid", "device"},
		Help: "1 if NCCL would use GPUDirect RDMA between the GPU and its NIC with the host's configuration; 0 if it would not, see gpudirect_blocked. " +
			"Absent while it is unknown, see gpudirect_unknown. Settings and decisions of running jobs are not considered." +
			gdrLabels,
		Source: gdrSource, Cadence: Slow, Privilege: "root (CAP_SYS_ADMIN) to see ACS", Stability: Stable,
	}
	gpudirectUnusable = &Family{
		Name: "gpudirect_unusable_gpus", Type: Gauge,
		Help:   "Number of GPUs whose gpudirect_usable is 0. Absent while it is unknown for all GPUs.",
		Source: gdrSource, Cadence: Slow, Privilege: "root (CAP_SYS_ADMIN) to see ACS", Stability: Stable,
	}
	gpudirectPath = &Family{
		Name: "gpudirect_path", Type: Gauge, Labels: []string{"pci_address", "uuid", "device", "path"},
		Help: "1 for the mechanism that NCCL would choose for GPUDirect RDMA: dmabuf, or peermem (a peer-memory module). Absent if it would choose none. " +
			"NCCL does not consider ACS and IOMMU: with them, the chosen mechanism may be unusable, or it may be unknown whether it is usable." + gdrLabels,
		Source: gdrSource, Cadence: Slow, Stability: Experimental,
	}
	gpudirectBlocked = &Family{
		Name: "gpudirect_blocked", Type: Gauge, Labels: []string{"pci_address", "uuid", "device", "reason"},
		Help: "1 for the first reason why GPUDirect RDMA is not used or has no benefit: driver (not available, or it lost the GPU), gpu (the product does not support it), " +
			"module (neither a peer-memory module nor dma-buf), override (an option of the driver forbids it), distance (farther than NCCL allows by default), " +
			"level (NCCL_NET_GDR_LEVEL of the host forbids it), acs (a bridge redirects the traffic), iommu (it translates the traffic). Absent unless it is blocked." + gdrLabels,
		Source: gdrSource, Cadence: Slow, Stability: Experimental,
	}
	gpudirectUnknown = &Family{
		Name: "gpudirect_unknown", Type: Gauge, Labels: []string{"pci_address", "uuid", "device", "reason"},
		Help:   "1 while it is unknown whether NCCL would use GPUDirect RDMA; reason as in exporter_facts_unknown. Absent otherwise." + gdrLabels,
		Source: gdrSource, Cadence: Slow, Stability: Experimental,
	}
	gpudirectPeermemLoaded = &Family{
		Name: "gpudirect_peermem_loaded", Type: Gauge,
		Help:   "1 if a peer-memory module (nvidia_peermem, nv_peer_mem) is loaded. It is not needed if dma-buf works.",
		Source: "/sys/module/{nvidia_peermem,nv_peer_mem}", Cadence: Slow, Stability: Stable,
	}
	gpudirectPeermemBound = &Family{
		Name: "gpudirect_peermem_bound", Type: Gauge,
		Help: "1 if the peer-memory module has registered with the RDMA stack; 0 if it is loaded without effect, because it was built for another RDMA stack. " +
			"Absent without a module, and if the RDMA stack does not show registrations.",
		Source: "/sys/kernel/mm/memory_peers/nv_mem", Cadence: Slow, Stability: Stable,
	}
	gpudirectPeermemRegions = &Family{
		Name: "gpudirect_peermem_registered_regions", Type: Gauge,
		Help:   "Number of GPU memory regions that all processes have registered through the peer-memory module; above 0, GPUDirect RDMA is in use. Does not include dma-buf.",
		Source: "/sys/kernel/mm/memory_peers/nv_mem/{num_alloc_mrs,num_dealloc_mrs}", Cadence: Slow, Stability: Stable,
	}
	gpudirectOpenModule = &Family{
		Name: "gpudirect_open_kernel_module", Type: Gauge,
		Help:   "1 if the GPU driver's kernel module is the open one, 0 if it is the proprietary one. Only the open module exports memory as dma-buf. Absent without a driver.",
		Source: "/proc/driver/nvidia/version", Cadence: Slow, Stability: Stable,
	}
)

// gpudirectFamilies are the rows of the collector gpudirect, in the order of documentation.
func gpudirectFamilies() []*Family {
	return []*Family{
		gpudirectUsable, gpudirectUnusable, gpudirectPath, gpudirectBlocked, gpudirectUnknown, gpudirectPeermemLoaded,
		gpudirectPeermemBound,
		gpudirectPeermemRegions, gpudirectOpenModule,
	}
}

func hasGPUDirect(n *fabric.Node) (bool, string) {
	if len(n.PCI.GPUs()) == 0 {
		return false, "no GPU is on the PCI bus"
	}
	for i := range n.GDR {
		if n.GDR[i].NIC != "" {
			return true, ""
		}
	}
	return false, "no compute NIC is on the PCI bus"
}

func collectGPUDirect(n *fabric.Node, emit emit) {
	known, unusable := false, 0
	for i := range n.GDR {
		d := &n.GDR[i]
		collectGDR(n, d, emit)
		if usable, judged := d.Usable.Get(); judged && d.NIC != "" {
			known = true
			if !usable {
				unusable++
			}
		}
	}
	if known {
		emit(gpudirectUnusable, float64(unusable))
	}
	d := &n.GPUDirect
	switch peermem, ok := d.Peermem.Get(); {
	case ok:
		emit(gpudirectPeermemLoaded, 1)
		boolean(emit, gpudirectPeermemBound, peermem.Bound)
		number(emit, gpudirectPeermemRegions, peermem.Registered)
	case d.Peermem.State == fabric.Absent:
		emit(gpudirectPeermemLoaded, 0)
	}
	boolean(emit, gpudirectOpenModule, d.OpenModule)
}

// collectGDR is about one GPU and the NIC that it is dealt.
func collectGDR(n *fabric.Node, d *fabric.GDR, emit emit) {
	uuid := ""
	if g := n.GPUDriver.At(d.GPU); g != nil {
		uuid = label(g.UUID)
	}
	if d.NIC == "" {
		return
	}
	at := []string{d.GPU, uuid, d.NIC}
	and := func(more string) []string { return append(slices.Clip(at), more) }
	if d.Path != "" {
		emit(gpudirectPath, 1, and(string(d.Path))...)
	}
	switch usable, known := d.Usable.Get(); {
	case known:
		emit(gpudirectUsable, bit(usable), at...)
		if d.Block != "" {
			emit(gpudirectBlocked, 1, and(string(d.Block))...)
		}
	case d.Usable.State == fabric.Unknown:
		emit(gpudirectUnknown, 1, and(string(d.Usable.Meta().Reason))...)
	}
}
