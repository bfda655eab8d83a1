// SPDX-License-Identifier: Apache-2.0

package signature

const (
	nvrm          = "open-gpu-kernel-modules src/nvidia"
	xids          = "docs.nvidia.com/deploy/xid-errors"
	fabricManager = "docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide, appendix D"
	mlx5Health    = "linux drivers/net/ethernet/mellanox/mlx5/core/health.c"
	aer           = "linux drivers/pci/pcie/aer.c"
)

const xid = "NVRM: Xid (PCI"

// kernel are lines of the kernel log.
var kernel = []Signature{
	{
		ID: "xid_fallen_off", Source: Kernel, Kind: Cause, Forms: []Form{{Text: xid, File: xids}}, Codes: []int{79},
		Cause:   "The GPU is no longer on the PCI bus: power, heat, or the slot.",
		Remedy:  "Drain the node and power-cycle it. If it comes back, have the GPU or the baseboard replaced.",
		Runbook: "GpuFabricGpuLost.md",
	},
	{
		ID: "gpu_off_bus", Source: Kernel, Kind: Cause, Sure: true, Forms: []Form{
			{Text: "fallen off the bus and is not responding", File: "nvidia open-gpu-kernel-modules kernel-open/nvidia"},
		},
		Cause:   "A GPU does not answer on the PCI bus (as with Xid 79): power, heat, the slot, or the GPU.",
		Remedy:  "Drain the node and power-cycle it. If it comes back, have the GPU or the baseboard replaced.",
		Runbook: "GpuFabricGpuLost.md",
	},
	{
		ID: "xid_nvlink", Source: Kernel, Kind: Cause, Forms: []Form{{Text: xid, File: xids}}, Codes: []int{74, 144, 145, 146, 147, 148, 149, 150},
		Cause:  "An NVLink of the GPU had an error (from Blackwell on 144 to 150 instead of 74); Xids 45 that follow are of it.",
		Remedy: "Look at the NVLink counters of both ends and for SXids; reset the GPUs of the baseboard when no job runs, and have it replaced if it comes back.", Runbook: "GpuFabricNvlinkErrors.md",
	},
	{
		ID: "xid_memory", Source: Kernel, Kind: Cause, Forms: []Form{{Text: xid, File: xids}}, Codes: []int{48, 64, 95},
		Cause:   "The memory of the GPU has an error that could not be corrected or contained, or a row that could not be remapped.",
		Remedy:  "Drain the node and reset the GPU; have it replaced if remapping failed (nvidia-smi -q -d ROW_REMAPPER).",
		Runbook: "check-gpu.md",
	},
	{
		ID: "xid_memory_contained", Source: Kernel, Kind: Cause, Forms: []Form{{Text: xid, File: xids}}, Codes: []int{63, 94},
		Cause:  "The memory of the GPU had an error that hit only the job using it; the row is remapped with the next reset.",
		Remedy: "Restart the job; reset the GPU when no job runs.", Runbook: "check-gpu.md",
	},
	{
		ID: "xid_gsp", Source: Kernel, Kind: Cause, Forms: []Form{{Text: xid, File: xids}}, Codes: []int{119, 120},
		Cause:   "The firmware of the GPU (GSP) does not answer or failed.",
		Remedy:  "Drain the node and reset the GPU, or power-cycle the node; update the driver if it comes back.",
		Runbook: "check-gpu.md",
	},
	{
		ID: "xid_application", Source: Kernel, Kind: Cause, Generic: true, Forms: []Form{{Text: xid, File: xids}},
		Codes:  []int{13, 31, 43, 45},
		Cause:  "A kernel of the job failed on the GPU (13: exception, 31: page fault, 43: stopped, 45: ended because of another error). Most often an error of the program.",
		Remedy: "Look for another Xid before it. Otherwise run the program with compute-sanitizer; suspect the GPU only if different programs fail on the same one.",
		Reasons: []Reason{
			{
				Cause:  "A kernel of the job failed on the GPU (13: exception, 31: page fault, 43: stopped, 45: ended because of another error). Most often an error of the program.",
				Remedy: "Look for another Xid before it. Otherwise run the program with compute-sanitizer; suspect the GPU only if different programs fail on the same one.",
				Test:   "compute-sanitizer; the same program on another GPU",
				If:     []Fact{"!" + XidsRepeat},
			},
			{
				Cause:  "Kernels of several processes failed on the same GPU: one program accesses memory that is not its own each time, or the GPU is defective.",
				Remedy: "Run the same program on another GPU, and another program on this one: what the error follows is at fault. Then compute-sanitizer, or dcgmi diag -r 3 and a replacement.",
				Test:   "the same program on another GPU; compute-sanitizer",
				If:     []Fact{XidsRepeat},
			},
			{
				Cause:  "The GPU is defective: errors come again on it, with different programs.",
				Remedy: "Have the GPU replaced if it fails with different programs, and others do not with the same.",
				Test:   "dcgmi diag -r 3; nvidia-smi -q: errors of memory and rows that are remapped",
				If:     []Fact{XidsRepeat},
			},
		},
	},
	{
		ID: "xid", Source: Kernel, Kind: Cause, Forms: []Form{{Text: xid, File: xids}},
		Cause:  "The driver of the GPU reported an error.",
		Remedy: "Look up the number in NVIDIA's list of Xids.", Runbook: "check-gpu.md",
	},
	{
		ID: "iommu_fault", Source: Kernel, Kind: Cause,
		Forms: []Form{
			{Text: "[IO_PAGE_FAULT", File: "linux drivers/iommu/amd/iommu.c"},
			{Text: "DMAR: [DMA", File: "linux drivers/iommu/intel/dmar.c"},
			{Text: "arm-smmu-v3: event", File: "linux drivers/iommu/arm/arm-smmu-v3"},
		},
		Cause:   "The IOMMU refused an access of a device: P2P between GPUs, or between a GPU and a NIC, does not work through it.",
		Remedy:  "Let the IOMMU pass through (iommu=pt) or turn it off (amd_iommu=off, intel_iommu=off), and ACS on the PCIe switches; NCCL_P2P_DISABLE=1 and NCCL_NET_GDR_LEVEL=LOC go on meanwhile.",
		Runbook: "check-gpudirect.md",
	},
	{
		ID: "sxid", Source: Kernel, Kind: Cause, Forms: []Form{{Text: "SXid (PCI", File: fabricManager}},
		Cause:  "An NVSwitch reported an error. Fatal: its links are down until the GPUs are reset together. Non-fatal: jobs may go on.",
		Remedy: "Look up the number in the guide of the fabric manager; after a fatal one, drain the node and reset all GPUs and NVSwitches.", Runbook: "check-nvlink.md",
	},
	{
		ID: "mlx5_health", Source: Kernel, Kind: Cause,
		Forms: []Form{
			{Text: "device's health compromised - reached miss count", File: mlx5Health},
			{Text: "unrecoverable hardware error", File: mlx5Health},
		},
		Cause:  "The firmware of the HCA does not run any more.",
		Remedy: "Drain the node. The driver tries a reset; otherwise power-cycle the node, update the firmware, and have the HCA replaced if it comes back.", Runbook: "GpuFabricDeviceStuck.md",
	},
	{
		ID: "mlx5_command_timeout", Source: Kernel, Kind: Cause,
		Forms: []Form{{
			Text: "timeout. Will cause a leak of a command resource",
			File: "linux drivers/net/ethernet/mellanox/mlx5/core/cmd.c",
		}},
		Cause:  "The firmware of the HCA did not answer a command of the driver.",
		Remedy: "Drain the node. Unless a port of the card carries management or storage, reset the HCA (devlink dev reload); else power-cycle the node; update the firmware.", Runbook: "GpuFabricDeviceStuck.md",
	},
	{
		ID: "aer_fatal", Source: Kernel, Kind: Cause, Forms: []Form{{Text: "PCIe Bus Error: severity=Uncorrect", File: aer}},
		Cause:   "A PCIe device had an error that could not be corrected.",
		Remedy:  "Find the device of the address that the line names; reseat or replace the card, riser or cable.",
		Runbook: "GpuFabricPcieFatalErrors.md",
	},
	{
		ID: "aer_corrected", Source: Kernel, Kind: Note, Forms: []Form{{Text: "PCIe Bus Error: severity=Correct", File: aer}},
		Cause:  "A PCIe link repaired an error. Many of them cost bandwidth.",
		Remedy: "Look at the rate of the counters, not at single lines.", Runbook: "GpuFabricPcieErrors.md",
	},
	{
		ID: "gpu_driver_memory", Source: Kernel, Kind: Cause,
		Forms: []Form{
			{Text: "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY]", File: nvrm},
			{Text: "NV_ERR_NO_MEMORY", File: nvrm},
		},
		Cause:  "The driver of the GPU got no memory of the kernel.",
		Remedy: "Look at CmaTotal and MemFree of /proc/meminfo, and at what the program takes.",
		Reasons: []Reason{
			{
				Cause:  "The kernel has no contiguous memory to give (CMA), as with kernels for DGX Spark (GB10) that reserve none.",
				Remedy: "Boot a kernel whose CmaTotal is not 0 (the kernel before, or cma= on its command line), with the driver that belongs to it.",
				Test:   "grep Cma /proc/meminfo; uname -r",
				Likely: []Fact{"text:memdesc"},
			},
			{
				Cause:  "The host has no free memory: the page cache or the program took it, which GPU and CPU share on GB10.",
				Remedy: "Lower the memory of the program, and drop caches before the start.",
				Test:   "free -g while the job starts",
			},
		},
		Runbook: "check-gpu.md",
	},
	{
		ID: "port_module", Source: Kernel, Kind: Cause, Forms: []Form{{Text: "Port module event[error]", File: "linux drivers/net/ethernet/mellanox/mlx5/core/events.c"}},
		Cause:   "The cable or transceiver of a port has an error: not readable, too hot, unplugged.",
		Remedy:  "Reseat or replace the cable or transceiver of the port.",
		Runbook: "GpuFabricLinkFlapping.md",
	},
}
