// SPDX-License-Identifier: Apache-2.0

package collector

const (
	gdrLabels = " pci_address and uuid are those of the GPU, uuid empty where NVML does not name it; device is the RDMA device that the GPU is dealt (gpu_nic_distance)."
	gdrSource = "/sys/bus/pci/devices, /sys/module/nvidia_peermem, /proc/driver/nvidia/version, NVML, NCCL configuration"
)

// The rows of the collector gpudirect.
var (
	gpudirectUsable = &Family{
		Name: "gpudirect_usable", Type: Gauge, Labels: []string{"pci_address", "uuid", "device"},
		Help: "1 when NCCL would use GPUDirect RDMA between the GPU and its NIC under the host's configuration; 0 when it would not, see gpudirect_blocked. " +
			"Absent while that cannot be told, see gpudirect_unknown. What a job sets itself is not in it, nor is what its NCCL decided." + gdrLabels,
		Source: gdrSource, Cadence: Slow, Privilege: "root (CAP_SYS_ADMIN) to see ACS", Stability: Stable, Collector: "gpudirect",
	}
	gpudirectUnusable = &Family{
		Name: "gpudirect_unusable_gpus", Type: Gauge,
		Help:   "How many GPUs have gpudirect_usable 0. Absent while that can be told of none.",
		Source: gdrSource, Cadence: Slow, Privilege: "root (CAP_SYS_ADMIN) to see ACS", Stability: Stable, Collector: "gpudirect",
	}
	gpudirectPath = &Family{
		Name: "gpudirect_path", Type: Gauge, Labels: []string{"pci_address", "uuid", "device", "path"},
		Help: "1 for the way that NCCL would choose for GPUDirect RDMA: dmabuf, or peermem (a peer-memory module). Absent when it would choose none. " +
			"NCCL knows nothing of ACS and IOMMU: with them it may be chosen and still not be usable, or nobody may be able to tell." + gdrLabels,
		Source: gdrSource, Cadence: Slow, Stability: Experimental, Collector: "gpudirect",
	}
	gpudirectBlocked = &Family{
		Name: "gpudirect_blocked", Type: Gauge, Labels: []string{"pci_address", "uuid", "device", "reason"},
		Help: "1 for the first reason why GPUDirect RDMA is not used, or does no good: driver (none answers, or it lost the GPU), gpu (the product cannot do it), " +
			"module (neither a peer-memory module nor dma-buf), override (the driver is told to deny it), distance (further than NCCL allows by default), " +
			"level (NCCL_NET_GDR_LEVEL of the host forbids it), acs (a bridge redirects what they exchange), iommu (it translates). Absent unless it is blocked." + gdrLabels,
		Source: gdrSource, Cadence: Slow, Stability: Experimental, Collector: "gpudirect",
	}
	gpudirectUnknown = &Family{
		Name: "gpudirect_unknown", Type: Gauge, Labels: []string{"pci_address", "uuid", "device", "reason"},
		Help:   "1 while it cannot be told whether NCCL would use GPUDirect RDMA; reason as in exporter_facts_unknown. Absent otherwise." + gdrLabels,
		Source: gdrSource, Cadence: Slow, Stability: Experimental, Collector: "gpudirect",
	}
	gpudirectPeermemLoaded = &Family{
		Name: "gpudirect_peermem_loaded", Type: Gauge,
		Help:   "1 when a peer-memory module (nvidia_peermem, nv_peer_mem) is loaded. Not needed where dma-buf works.",
		Source: "/sys/module/{nvidia_peermem,nv_peer_mem}", Cadence: Slow, Stability: Stable, Collector: "gpudirect",
	}
	gpudirectPeermemBound = &Family{
		Name: "gpudirect_peermem_bound", Type: Gauge,
		Help: "1 when the peer-memory module has registered with the RDMA stack; 0 when it is loaded to no use, for want of an RDMA stack that it was built for. " +
			"Absent without a module, and where the RDMA stack does not show it.",
		Source: "/sys/kernel/mm/memory_peers/nv_mem", Cadence: Slow, Stability: Stable, Collector: "gpudirect",
	}
	gpudirectPeermemRegions = &Family{
		Name: "gpudirect_peermem_registered_regions", Type: Gauge,
		Help:   "Memory regions of GPUs that are registered through the peer-memory module now, by all processes: GPUDirect RDMA is in use. Says nothing about dma-buf.",
		Source: "/sys/kernel/mm/memory_peers/nv_mem/{num_alloc_mrs,num_dealloc_mrs}", Cadence: Slow, Stability: Stable, Collector: "gpudirect",
	}
	gpudirectOpenModule = &Family{
		Name: "gpudirect_open_kernel_module", Type: Gauge,
		Help:   "1 when the GPU driver's kernel module is the open one, which alone exports memory as dma-buf; 0 when it is the proprietary one. Absent without a driver.",
		Source: "/proc/driver/nvidia/version", Cadence: Slow, Stability: Stable, Collector: "gpudirect",
	}
)

func gpudirectCatalogue() []*Family {
	return []*Family{
		gpudirectUsable, gpudirectUnusable, gpudirectPath, gpudirectBlocked, gpudirectUnknown,
		gpudirectPeermemLoaded, gpudirectPeermemBound, gpudirectPeermemRegions, gpudirectOpenModule,
	}
}
