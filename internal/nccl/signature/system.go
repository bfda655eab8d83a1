// SPDX-License-Identifier: Apache-2.0

package signature

const (
	processGroupNCCL = "pytorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp"
	processGroupGloo = "pytorch torch/csrc/distributed/c10d/ProcessGroupGloo.cpp"
	xids             = "docs.nvidia.com/deploy/xid-errors"
	fabricManager    = "docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide, appendix D"
	mlx5Health       = "linux drivers/net/ethernet/mellanox/mlx5/core/health.c"
	aer              = "linux drivers/pci/pcie/aer.c"
)

// pytorch are lines of PyTorch's process group. They are consequences: PyTorch says that a collective did not
// end, not why.
var pytorch = []Signature{
	{
		ID: "pytorch_watchdog_timeout", Source: PyTorch, Kind: Consequence,
		Forms:  []Form{{Text: "Watchdog caught collective operation timeout", File: processGroupNCCL}},
		Cause:  "A collective did not end in the timeout of PyTorch: a rank did not take part (it crashed, hangs, or called another collective), or the network stopped.",
		Remedy: "Compare SeqNum and OpType over the ranks: the rank with the lowest last completed number, or without this line, is the one to look at. If all wait in the same collective, look at the network.", Runbook: "GpuFabricTrafficStopped.md",
	},
	{
		ID: "pytorch_watchdog_exception", Source: PyTorch, Kind: Consequence,
		Forms: []Form{
			{Text: "Exception (either an error or timeout) detected by watchdog", File: processGroupNCCL},
			{Text: "raised the following async exception", File: processGroupNCCL},
			{Text: "watchdog thread terminated with exception", File: processGroupNCCL},
		},
		Cause:  "PyTorch ends the process because a collective failed.",
		Remedy: "Look for the lines of NCCL before it; without any, run the job with NCCL_DEBUG=WARN.",
	},
}

// program are lines in which a program says what a call of NCCL returned, as PyTorch does, too.
var program = []Signature{
	{
		ID: "nccl_error", Source: Program, Kind: Consequence,
		Forms: []Form{{
			Text: "unhandled system error (run with NCCL_DEBUG=INFO for details)",
			File: "nccl src/init.cc, ncclGetErrorString",
		}, {
			Text: "remote process exited or there was a network error",
			File: "nccl src/init.cc, ncclGetErrorString",
		}, {Text: "NCCL error in:", File: processGroupNCCL}},
		Cause:  "A call of NCCL failed. The line has the kind of the error, not the cause.",
		Remedy: "Look for the lines of NCCL before it; without any, run the job with NCCL_DEBUG=WARN.",
	},
}

// gloo are lines of Gloo, over which PyTorch's ranks exchange what is not on GPUs.
var gloo = []Signature{
	{
		ID: "gloo_connect", Source: Gloo, Kind: Cause, Forms: []Form{{
			Text: "Gloo connectFullMesh failed with",
			File: processGroupGloo,
		}},
		Cause:  "Ranks could not reach each other over TCP. Typical: the name of the host leads to 127.0.1.1, or to an interface that other hosts cannot reach.",
		Remedy: "Set GLOO_SOCKET_IFNAME to the network that the hosts share.", Runbook: "check-nccl.md",
	},
	{
		ID: "gloo_timeout", Source: Gloo, Kind: Consequence,
		Forms: []Form{
			{Text: "ms for recv operation to complete", File: "gloo gloo/transport/tcp/unbound_buffer.cc"},
			{Text: "ms for send operation to complete", File: "gloo gloo/transport/tcp/unbound_buffer.cc"},
		},
		Cause:  "Another rank did not answer in time: it crashed, hangs, or is busy with something else, such as a checkpoint.",
		Remedy: "Look at the log of the rank that did not arrive.",
	},
	{
		ID: "gloo_closed", Source: Gloo, Kind: Consequence,
		Forms:  []Form{{Text: "Connection closed by peer [", File: "gloo gloo/transport/tcp/pair.cc"}},
		Cause:  "The process of another rank ended.",
		Remedy: "Look at the log of the rank at the address that the line names.",
	},
}

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
		ID: "xid_nvlink", Source: Kernel, Kind: Cause, Forms: []Form{{Text: xid, File: xids}}, Codes: []int{74},
		Cause:  "An NVLink of the GPU had an error.",
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
		ID: "xid_application", Source: Kernel, Kind: Cause, Forms: []Form{{Text: xid, File: xids}},
		Codes:  []int{13, 31, 43, 45},
		Cause:  "A kernel of the job failed on the GPU (13: exception, 31: page fault, 43: stopped, 45: ended because of another error). Most often an error of the program.",
		Remedy: "Look for another Xid before it. Otherwise run the program with compute-sanitizer; suspect the GPU only if different programs fail on the same one.",
	},
	{
		ID: "xid", Source: Kernel, Kind: Cause, Forms: []Form{{Text: xid, File: xids}},
		Cause:  "The driver of the GPU reported an error.",
		Remedy: "Look up the number in NVIDIA's list of Xids.", Runbook: "check-gpu.md",
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
}
