// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"

	"gpufabric_exporter/internal/fabric"
)

const (
	gdrLabels = " pci_address and uuid are those of the GPU, uuid empty where NVML does not name it; device is the RDMA device that the GPU is dealt (gpu_nic_distance)."
	gdrSource = "/sys/bus/pci/devices, /sys/module/nvidia_peermem, /proc/driver/nvidia/version, NVML, NCCL configuration"
)

// The rows of the collector gpudirect.
var (
	gpudirectUsable = &Family{
		Name: "gpudirect_usable", Type: Gauge, Labels: []string{"pci_address", "uuid", "device"},
		Help: "1 when NCCL would use GPUDirect RDMA between the GPU and its NIC under the host's configuration; 0 when it would not, see gpudirect_blocked. " +
			"Absent while that is unknown, see gpudirect_unknown. What a job sets itself is not in it, nor is what its NCCL decided." + gdrLabels,
		Source: gdrSource, Cadence: Slow, Privilege: "root (CAP_SYS_ADMIN) to see ACS", Stability: Stable,
	}
	gpudirectUnusable = &Family{
		Name: "gpudirect_unusable_gpus", Type: Gauge,
		Help:   "How many GPUs have gpudirect_usable 0. Absent while it is unknown for all of them.",
		Source: gdrSource, Cadence: Slow, Privilege: "root (CAP_SYS_ADMIN) to see ACS", Stability: Stable,
	}
	gpudirectPath = &Family{
		Name: "gpudirect_path", Type: Gauge, Labels: []string{"pci_address", "uuid", "device", "path"},
		Help: "1 for the way that NCCL would choose for GPUDirect RDMA: dmabuf, or peermem (a peer-memory module). Absent when it would choose none. " +
			"NCCL knows nothing of ACS and IOMMU: with them it may be chosen and still not be usable, or whether it is usable may be unknown." + gdrLabels,
		Source: gdrSource, Cadence: Slow, Stability: Experimental,
	}
	gpudirectBlocked = &Family{
		Name: "gpudirect_blocked", Type: Gauge, Labels: []string{"pci_address", "uuid", "device", "reason"},
		Help: "1 for the first reason why GPUDirect RDMA is not used, or does not help: driver (none answers, or it lost the GPU), gpu (the product cannot do it), " +
			"module (neither a peer-memory module nor dma-buf), override (the driver is configured to deny it), distance (further than NCCL allows by default), " +
			"level (NCCL_NET_GDR_LEVEL of the host forbids it), acs (a bridge redirects what they exchange), iommu (it translates). Absent unless it is blocked." + gdrLabels,
		Source: gdrSource, Cadence: Slow, Stability: Experimental,
	}
	gpudirectUnknown = &Family{
		Name: "gpudirect_unknown", Type: Gauge, Labels: []string{"pci_address", "uuid", "device", "reason"},
		Help:   "1 while it is unknown whether NCCL would use GPUDirect RDMA; reason as in exporter_facts_unknown. Absent otherwise." + gdrLabels,
		Source: gdrSource, Cadence: Slow, Stability: Experimental,
	}
	gpudirectPeermemLoaded = &Family{
		Name: "gpudirect_peermem_loaded", Type: Gauge,
		Help:   "1 when a peer-memory module (nvidia_peermem, nv_peer_mem) is loaded. Not needed where dma-buf works.",
		Source: "/sys/module/{nvidia_peermem,nv_peer_mem}", Cadence: Slow, Stability: Stable,
	}
	gpudirectPeermemBound = &Family{
		Name: "gpudirect_peermem_bound", Type: Gauge,
		Help: "1 when the peer-memory module has registered with the RDMA stack; 0 when it is loaded to no use, for want of an RDMA stack that it was built for. " +
			"Absent without a module, and where the RDMA stack does not show it.",
		Source: "/sys/kernel/mm/memory_peers/nv_mem", Cadence: Slow, Stability: Stable,
	}
	gpudirectPeermemRegions = &Family{
		Name: "gpudirect_peermem_registered_regions", Type: Gauge,
		Help:   "Memory regions of GPUs that are registered through the peer-memory module now, by all processes: GPUDirect RDMA is in use. Says nothing about dma-buf.",
		Source: "/sys/kernel/mm/memory_peers/nv_mem/{num_alloc_mrs,num_dealloc_mrs}", Cadence: Slow, Stability: Stable,
	}
	gpudirectOpenModule = &Family{
		Name: "gpudirect_open_kernel_module", Type: Gauge,
		Help:   "1 when the GPU driver's kernel module is the open one, which alone exports memory as dma-buf; 0 when it is the proprietary one. Absent without a driver.",
		Source: "/proc/driver/nvidia/version", Cadence: Slow, Stability: Stable,
	}
)

// gpudirectFamilies are the rows of the collector gpudirect, in the order of documentation.
func gpudirectFamilies() []*Family {
	return []*Family{
		gpudirectUsable, gpudirectUnusable, gpudirectPath, gpudirectBlocked, gpudirectUnknown, gpudirectPeermemLoaded, gpudirectPeermemBound,
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
		if usable, told := d.Usable.Get(); told && d.NIC != "" {
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
