// SPDX-License-Identifier: Apache-2.0

package collector

// The rows of the collector gpu. A GPU is named by its UUID, which stays its own in whatever order GPUs are found; only
// gpu_lost also goes by the index, because a GPU that is lost no longer says who it is.
var (
	gpuDriverLoaded = &Family{
		Name: "gpu_driver_loaded", Type: Gauge,
		Help:   "1 when NVIDIA's driver is there to be asked; 0 without one, which is no error. Absent while that cannot be told.",
		Source: "nvmlInit_v2", Cadence: Fast, Stability: Stable, Collector: "gpu",
	}
	gpuDriverInfo = &Family{
		Name: "gpu_driver_info", Type: Info, Labels: []string{"version", "cuda"},
		Help:   "NVIDIA's driver, with the newest CUDA that it supports; constant 1.",
		Source: "nvmlSystemGetDriverVersion, nvmlSystemGetCudaDriverVersion", Cadence: Rare, Stability: Stable, Collector: "gpu",
	}
	gpuReleased = &Family{
		Name: "gpu_released", Type: Gauge,
		Help: "1 while the exporter has let go of all GPUs because it was told to, for maintenance: nothing is known of them meanwhile. " +
			"Rules that miss GPUs should be silent then.",
		Source: "exporter", Cadence: Fast, Stability: Stable, Collector: "gpu",
	}
	gpuInfo = &Family{
		Name: "gpu_info", Type: Info, Labels: []string{"uuid", "index", "pci_address", "name", "compute_mode"},
		Help: "A GPU; constant 1. index is that of NVML, and of CUDA in the order of the bus. pcie_*, gpudirect_* and gpu_nic_distance name the GPU by its pci_address. " +
			"compute_mode: default, prohibited, exclusive_process, exclusive_thread. What is not known is an empty label.",
		Source: "nvmlDeviceGetUUID, nvmlDeviceGetPciInfo_v3, nvmlDeviceGetName, nvmlDeviceGetComputeMode", Cadence: Slow, Stability: Stable, Collector: "gpu",
	}
	gpuLost = &Family{
		Name: "gpu_lost", Type: Gauge, Labels: []string{"uuid", "index"},
		Help:   "1 when the driver has lost the GPU (it fell off the bus, Xid 79): it takes a reboot. A lost GPU may have an empty uuid, and has no other series.",
		Source: "NVML_ERROR_GPU_IS_LOST", Cadence: Fast, Stability: Stable, Collector: "gpu",
	}
	gpuUtilization = &Family{
		Name: "gpu_utilization_ratio", Type: Gauge, Unit: "ratio", Labels: []string{"uuid"},
		Help:   "Share of the driver's last sample period (a sixth of a second to a second) in which a kernel ran. Says nothing about how much of the GPU it used. Absent with MIG.",
		Source: "nvmlDeviceGetUtilizationRates", Cadence: Fast, Stability: Stable, Collector: "gpu",
	}
	gpuMemoryUsed = &Family{
		Name: "gpu_memory_used_bytes", Type: Gauge, Unit: "bytes", Labels: []string{"uuid"},
		Help:   "Memory of the GPU that is allocated, with what the driver takes for itself.",
		Source: "nvmlDeviceGetMemoryInfo", Cadence: Fast, Stability: Stable, Collector: "gpu",
	}
	gpuMemoryTotal = &Family{
		Name: "gpu_memory_total_bytes", Type: Gauge, Unit: "bytes", Labels: []string{"uuid"},
		Help:   "Memory that the GPU has.",
		Source: "nvmlDeviceGetMemoryInfo", Cadence: Fast, Stability: Stable, Collector: "gpu",
	}
	gpuBAR1Used = &Family{
		Name: "gpu_bar1_used_bytes", Type: Gauge, Unit: "bytes", Labels: []string{"uuid"},
		Help:   "Part in use of the window through which other devices see the memory of the GPU (BAR1). GPUDirect RDMA by a peer-memory module pins in it; when it is full, registrations fail.",
		Source: "nvmlDeviceGetBAR1MemoryInfo", Cadence: Fast, Stability: Stable, Collector: "gpu",
	}
	gpuBAR1Total = &Family{
		Name: "gpu_bar1_total_bytes", Type: Gauge, Unit: "bytes", Labels: []string{"uuid"},
		Help:   "Size of the window through which other devices see the memory of the GPU (BAR1).",
		Source: "nvmlDeviceGetBAR1MemoryInfo", Cadence: Fast, Stability: Stable, Collector: "gpu",
	}
	gpuProcesses = &Family{
		Name: "gpu_processes", Type: Gauge, Labels: []string{"uuid"},
		Help: "Processes that have a context on the GPU: compute, graphics and clients of the Multi-Process Service, each process once. " +
			"A job between two steps is among them though the GPU is idle.",
		Source:  "nvmlDeviceGetComputeRunningProcesses_v3, nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlDeviceGetMPSComputeRunningProcesses_v3",
		Cadence: Fast, Stability: Stable, Collector: "gpu",
	}
	gpuMIGEnabled = &Family{
		Name: "gpu_mig_enabled", Type: Gauge, Labels: []string{"uuid"},
		Help:   "1 when the GPU is divided into instances (MIG), which NCCL cannot join over NVLink. Absent where the GPU cannot be divided.",
		Source: "nvmlDeviceGetMigMode", Cadence: Slow, Stability: Stable, Collector: "gpu",
	}
	gpuPersistence = &Family{
		Name: "gpu_persistence_enabled", Type: Gauge, Labels: []string{"uuid"},
		Help:   "1 when the driver keeps the GPU initialised while nobody uses it.",
		Source: "nvmlDeviceGetPersistenceMode", Cadence: Slow, Stability: Stable, Collector: "gpu",
	}
	gpuThrottled = &Family{
		Name: "gpu_throttled", Type: Gauge, Labels: []string{"uuid", "reason"},
		Help: "1 while the clocks of the GPU are held down, by reason: power_cap (its own limit; usual under full load), hardware_slowdown, software_thermal, hardware_thermal, " +
			"power_brake (of the machine). Absent otherwise. One slow GPU makes all of its job slow.",
		Source: "nvmlDeviceGetCurrentClocksEventReasons", Cadence: Fast, Stability: Stable, Collector: "gpu",
	}
	gpuPCIeReplays = &Family{
		Name: "gpu_pcie_replays_total", Type: Counter, Labels: []string{"uuid"},
		Help:   "Packets that the PCIe link of the GPU had to send again: slot, riser or cable.",
		Source: "nvmlDeviceGetPcieReplayCounter", Cadence: Slow, Stability: Stable, Collector: "gpu",
	}
	gpuFabricState = &Family{
		Name: "gpu_fabric_state", Type: StateSet, Labels: []string{"uuid", "state"},
		Help: "How far fabric manager, or IMEX, has registered the GPU with its NVSwitches: not_started, in_progress, completed; 1 for the current state. " +
			"Until it is completed CUDA does not initialise. Absent without NVSwitches, before Hopper, and on PCIe cards.",
		Source: "nvmlDeviceGetGpuFabricInfoV", Cadence: Slow, Stability: Experimental, Collector: "gpu",
	}
	gpuFabricUnhealthy = &Family{
		Name: "gpu_fabric_unhealthy", Type: Gauge, Labels: []string{"uuid", "reason"},
		Help: "1 for what is wrong with the NVLink fabric of the GPU: what its health mask complains of (degraded_bandwidth, ...), or registration when it ended with an error. " +
			"Absent otherwise.",
		Source: "nvmlDeviceGetGpuFabricInfoV", Cadence: Slow, Stability: Experimental, Collector: "gpu",
	}
)

func gpuCatalogue() []*Family {
	return []*Family{
		gpuDriverLoaded, gpuDriverInfo, gpuReleased, gpuInfo, gpuLost, gpuUtilization, gpuMemoryUsed, gpuMemoryTotal, gpuBAR1Used, gpuBAR1Total,
		gpuProcesses, gpuMIGEnabled, gpuPersistence, gpuThrottled, gpuPCIeReplays, gpuFabricState, gpuFabricUnhealthy,
	}
}
