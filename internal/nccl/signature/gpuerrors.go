// SPDX-License-Identifier: Apache-2.0

package signature

const (
	cudaErrorText = "CUDA cudaGetErrorString, as PyTorch, nccl-tests, JAX and others print it"
	torchCUDA     = "pytorch c10/cuda"
)

// gpuErrors are errors of CUDA that programs print. They come before lines of PyTorch's watchdog, which quotes them.
var gpuErrors = []Signature{
	{
		ID: "gpu_hardware", Source: Program, Kind: Cause, Sure: true,
		Forms: []Form{
			{Text: "uncorrectable ECC error", File: cudaErrorText},
			{Text: "uncorrectable NVLink error", File: cudaErrorText},
			{Text: "CUDA_ERROR_ECC_UNCORRECTABLE", File: cudaErrorText},
			{Text: "CUDA_ERROR_NVLINK_UNCORRECTABLE", File: cudaErrorText},
		},
		Cause:   "The driver reports an error of the hardware that could not be corrected: memory of the GPU (ECC) or NVLink. NCCL and other ranks only follow.",
		Remedy:  "Drain the node and reset the GPU; look at its Xids (48, 63, 64, 94, 95 for memory, 74 and 144 to 150 for NVLink), and have it replaced if it comes back.",
		Runbook: "check-gpu.md",
	},
	{
		ID: "gpu_contained", Source: Program, Kind: Cause,
		Forms: []Form{
			{Text: "CUDA_ERROR_CONTAINED", File: cudaErrorText},
			{Text: "Invalid access of peer GPU memory over nvlink", File: cudaErrorText},
		},
		Cause:   "An access over NVLink to the memory of another GPU failed: a fault of an NVLink or switch, or of a GPU of the domain. Other ranks only follow.",
		Remedy:  "Look at the Xids and the NVLink counters of all hosts of the NVLink domain, and at its switches; drain those with faults.",
		Runbook: "check-nvlink.md",
	},
	{
		ID: "gpu_fabric_manager", Source: Program, Kind: Cause, Generic: true,
		Forms: []Form{
			{Text: "system not yet initialized", File: cudaErrorText},
			{Text: "CUDA_ERROR_SYSTEM_NOT_READY", File: cudaErrorText},
			{Text: "cudaErrorSystemNotReady", File: cudaErrorText},
			{Text: "Error 802", File: torchCUDA},
		},
		Cause:   "CUDA says that the system is not initialized (802): the fabric manager does not run, does not fit the driver, or has not ended its set-up of the NVSwitches.",
		Remedy:  "systemctl status nvidia-fabricmanager: start it (and enable it) in the version of the driver; look at Fabric in nvidia-smi -q.",
		Runbook: "check-nvlink.md",
		Reasons: []Reason{{
			Cause:  "CUDA says that the system is not initialized (802): the fabric manager does not run, does not fit the driver, or has not ended its set-up of the NVSwitches.",
			Remedy: "systemctl status nvidia-fabricmanager: start it (and enable it) in the version of the driver; look at Fabric in nvidia-smi -q.",
			Test:   "systemctl status nvidia-fabricmanager; nvidia-smi -q: Fabric",
		}},
	},
	{
		ID: "fabric_manager_error", Source: Program, Kind: Cause,
		Forms: []Form{
			{Text: "in the multicast team request setup", File: "fabric manager, fabricmanager.log"},
			{Text: "fabric manager NVLink", File: "fabric manager, fabricmanager.log"},
			{Text: "detected NVSwitch fatal error", File: "fabric manager, fabricmanager.log"},
			{Text: "detected NVSwitch non-fatal error", File: "fabric manager, fabricmanager.log"},
			{Text: "failed to configure all the available GPUs or NVSwitches", File: "fabric manager, fabricmanager.log"},
			{Text: "don't match with driver version", File: "fabric manager, fabricmanager.log"},
		},
		Cause:   "The fabric manager reports an error: it does not know a GPU (it was restarted without a reset of the GPUs), an NVLink or NVSwitch is in error, or it does not fit the driver.",
		Remedy:  "Drain the node, restart nvidia-fabricmanager of the version of the driver and reset all GPUs together, or reboot; NCCL_NVLS_ENABLE=0 goes on without multicast.",
		Runbook: "check-nvlink.md",
		Reasons: []Reason{
			{
				Cause:  "The fabric manager is not of the release of the driver, and does not start: the line has both.",
				Remedy: "Install nvidia-fabricmanager of the very release of the driver, and start it.",
				Test:   "systemctl status nvidia-fabricmanager; cat /proc/driver/nvidia/version",
				If:     []Fact{"text:don't match with driver version"}, Certain: []Fact{"text:don't match with driver version"},
			},
			{
				Cause:  "The fabric manager reports an error: it does not know a GPU (it was restarted without a reset of the GPUs), or an NVLink or NVSwitch is in error.",
				Remedy: "Drain the node, restart nvidia-fabricmanager and reset all GPUs together, or reboot; NCCL_NVLS_ENABLE=0 goes on without multicast.",
				Test:   "nvidia-smi -q: Fabric; /var/log/fabricmanager.log",
				If:     []Fact{"!text:don't match with driver version"}, Likely: []Fact{"!text:don't match with driver version"},
			},
		},
	},
	{
		ID: "gpu_lost", Source: Program, Kind: Cause,
		Forms: []Form{
			{Text: "Unable to determine the device handle for", File: "nvidia-smi"},
			{Text: "GPU is lost", File: "nvidia-smi, NVML"},
			{Text: "CUDA_ERROR_DEVICE_UNAVAILABLE", File: cudaErrorText},
		},
		Cause:   "The driver does not reach a GPU of this host: it was lost, by PCIe, power, heat or a defect. What the program reports of CUDA follows from it.",
		Remedy:  "Drain the node; look at dmesg for Xid 79 and AER at the port of the GPU; power-cycle, and have card or riser replaced.",
		Runbook: "GpuFabricGpuLost.md",
	},
	{
		ID: "gpu_driver_mismatch", Source: Program, Kind: Cause, Sure: true,
		Reasons: []Reason{
			certainBy(driverReasons[0], "text:insufficient|too old"),
			certainBy(driverReasons[4], "text:unsupported display driver"),
			certainBy(driverReasons[5], "text:forward compatibility|compat_not_supported"),
			certainBy(driverApart, "text:version mismatch|api mismatch"),
		},
		Forms: []Form{
			{Text: "CUDA driver version is insufficient", File: cudaErrorText},
			{Text: "The NVIDIA driver on your system is too old", File: "pytorch torch/cuda"},
			{Text: "unsupported display driver / cuda driver combination", File: cudaErrorText},
			{Text: "forward compatibility was attempted on non supported", File: cudaErrorText},
			{Text: "Driver/library version mismatch", File: "nvidia-smi, NVML"},
			{Text: "CUDA_ERROR_COMPAT_NOT_SUPPORTED", File: cudaErrorText},
			{Text: "API mismatch: the client has", File: "NVRM, kernel log"},
		},
		Cause:   "The driver of the GPU does not fit the CUDA of the program or its own libraries: it is too old, or was updated without a reboot.",
		Remedy:  "Install a driver for the CUDA of the image, or use an older image; reboot after an update; remove cuda-compat from LD_LIBRARY_PATH.",
		Runbook: "check-gpu.md",
	},
	{
		ID: "gpu_build_unfit", Source: Program, Kind: Cause,
		Forms: []Form{
			{Text: "no kernel image is available for execution", File: cudaErrorText},
			{Text: "is not compatible with the current PyTorch installation", File: "pytorch torch/cuda"},
			{Text: "error: invalid device function", File: cudaErrorText},
			{Text: "hipErrorNoBinaryForGpu", File: torchCUDA},
		},
		Cause:  "The program, or a library of it such as NCCL, is not built for the architecture of this GPU; an earlier call may have left the error.",
		Remedy: "Use a build of framework and NCCL for this GPU (CUDA 12.8 or later for Blackwell; for old cards NVCC_GENCODE with a CUDA that has them); cuobjdump --list-elf, CUDA_LAUNCH_BLOCKING=1 and another NCCL show which.",
	},
	{
		ID: "gpu_capture", Source: Program, Kind: Cause,
		Forms: []Form{
			{Text: "not permitted when stream is capturing", File: cudaErrorText},
			{Text: "cudaErrorStreamCapture", File: cudaErrorText},
			{Text: "operation failed due to a previous error during capture", File: cudaErrorText},
		},
		Cause:  "The program captures a CUDA graph while something else uses CUDA in a way that a capture forbids: the watchdog of PyTorch, which asks for earlier work of NCCL, or the program itself.",
		Remedy: "Synchronize and let work of NCCL end before the capture; use capture_error_mode=\"thread_local\" or a newer PyTorch, or run without graphs (enforce_eager).",
	},
	{
		ID: "gpu_out_of_memory", Source: Program, Kind: Cause,
		Forms: []Form{
			{Text: "CUDA out of memory", File: "pytorch c10/cuda/CUDACachingAllocator.cpp"},
			{Text: "CUDA error: out of memory", File: "pytorch c10/cuda/CUDAException.cpp"},
			{Text: "HIP out of memory", File: "pytorch c10/cuda/CUDACachingAllocator.cpp"},
			{Text: "RESOURCE_EXHAUSTED: Out of memory", File: "xla"},
		},
		Cause:  "The program asked for more memory than the GPU has left.",
		Remedy: "Lower the batch or the sequence, or use more GPUs; other ranks only lost this one.",
		Sure:   true,
	},
	{
		ID: "shm_exhausted", Source: Program, Kind: Cause, Sure: true,
		Forms: []Form{
			{Text: "unable to write to file </torch_", File: "pytorch ATen/MapAllocator.cpp"},
			{Text: "insufficient shared memory (shm)", File: "pytorch torch/csrc/DataLoader.cpp"},
			{Text: "workers are out of shared memory", File: "pytorch torch/utils/data"},
			{Text: "unable to allocate shared memory(shm)", File: "pytorch ATen/MapAllocator.cpp"},
		},
		Cause:  "/dev/shm is full or too small for the workers of the data loader. It is no failure of NCCL; other ranks only lost this one.",
		Remedy: "Give the container more: --shm-size=16g, --ipc=host, or an emptyDir of medium Memory at /dev/shm; use fewer workers.",
	},
	{
		ID: "gpu_start_failed", Source: Program, Kind: Cause,
		Forms:   []Form{{Text: "Unexpected error from cudaGetDeviceCount()", File: torchCUDA}},
		Cause:   "CUDA cannot start in the process: the driver, its device nodes or the GPUs of the container cannot be used; the line has the error.",
		Remedy:  "Look at nvidia-smi in the job and on the host; start the container with the NVIDIA runtime; look at CUDA_VISIBLE_DEVICES, Xids and the release of the driver.",
		Runbook: "check-gpu.md",
	},
	{
		ID: "gpu_program_error", Source: Program, Kind: Cause, Generic: true,
		Forms: []Form{
			{Text: "CUDA error: ", File: "pytorch c10/cuda/CUDAException.cpp"},
			{Text: "device-side assert triggered", File: "pytorch c10/cuda/CUDAException.cpp"},
			{Text: "Test CUDA failure", File: "nccl-tests src/common.h"},
			{Text: "Test HIP failure", File: "rccl-tests src/common.h"},
			{Text: "CUDA_ERROR_ILLEGAL_ADDRESS", File: cudaErrorText},
			{Text: "CUDA_ERROR_LAUNCH_FAILED", File: cudaErrorText},
			{Text: "HIP error: ", File: torchCUDA},
			{Text: "Memory access fault by GPU node", File: "ROCr runtime"},
			{Text: "HW Exception by GPU node", File: "ROCr runtime"},
			{Text: "HSA_STATUS_ERROR", File: "ROCr runtime"},
		},
		Cause:   "A call or a kernel of the program failed on the GPU.",
		Remedy:  "Run the program with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer; look for an Xid.",
		Runbook: "check-gpu.md",
		Reasons: []Reason{
			{
				Cause:  "A kernel of NCCL itself failed, as nccl-tests runs no others: this release has an error on these GPUs, or does not fit them.",
				Remedy: "Use a newer NCCL (2.26 and older have errors on Blackwell), and a newer driver.",
				Test:   "the same with a newer NCCL",
				If:     []Fact{"text:Test CUDA failure", "text:illegal|launch failure|misaligned"},
			},
			{
				Cause:  "The way from GPU to GPU (P2P over PCIe, ACS, IOMMU) does not work.",
				Remedy: "Set NCCL_P2P_DISABLE=1, slower; turn off ACS and the IOMMU.",
				Test:   "NCCL_P2P_DISABLE=1 for one run",
				If:     []Fact{"text:Test CUDA failure", "text:illegal|launch failure|misaligned"},
			},
			{
				Cause:  "A kernel of the program accessed memory that is not its own, or failed an assertion{xid}.",
				Remedy: "Run the program with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer.",
				Test:   "CUDA_LAUNCH_BLOCKING=1 for one run, then one without CUDA graphs (--enforce-eager); dmesg | grep -i xid: 13 and 31 are of the program",
				If:     []Fact{"text:illegal|assert|misaligned|launch failure|invalid program counter|access fault", "!text:Test CUDA"}, Likely: []Fact{"!seen:xid_hardware", "text:illegal|assert|misaligned"},
			},
			{
				Cause:  "A GPU has more peers than CUDA can map: 8 of a GPU at a time, over all processes of the host.",
				Remedy: "Use at most 8 GPUs in a process, or a process for each GPU; end other programs that map peers.",
				Test:   "the number of GPUs of the process; nvidia-smi: other processes",
				If:     []Fact{"text:peer mapping resources"}, Certain: []Fact{"text:peer mapping resources"},
			},
			{
				Cause:  "CUDA cannot start in the process: it was forked after CUDA was used, or the driver or device nodes of the container cannot be used.",
				Remedy: "Start workers by spawn; look at nvidia-smi in the job, and start the container with the NVIDIA runtime.",
				Test:   "nvidia-smi in the job; a program of CUDA alone",
				If:     []Fact{"text:initialization error"}, Likely: []Fact{"text:initialization error"},
			},
			{
				Cause:  "A library of CUDA (cuBLAS, cuDNN, cuSOLVER) could not start or work: no memory of the GPU is left for it, libraries of several releases are mixed, or a kernel before it failed.",
				Remedy: "Lower the share of memory of the program; use libraries of one release (pip list, LD_LIBRARY_PATH); CUDA_LAUNCH_BLOCKING=1 shows the call that failed.",
				Test:   "nvidia-smi while the job runs; CUDA_LAUNCH_BLOCKING=1 for one run",
				If:     []Fact{"text:cublas_status|cudnn_status|cusolver_status"},
				Likely: []Fact{"text:cublas_status|cudnn_status|cusolver_status"},
			},
			{
				Cause:  "The memory, or another resource, of the GPU is used up.",
				Remedy: "Lower the batch or the share of memory of the program; end other processes on the GPU.",
				Test:   "rocm-smi or nvidia-smi while the job runs",
				If:     []Fact{"text:out_of_resources|out of memory"}, Likely: []Fact{"text:out_of_resources|out of memory"},
			},
			{
				Cause:  "The GPU, its link or the driver failed.",
				Remedy: "Look for Xids at that time; drain the node if they are of the hardware.",
				Test:   "dmesg | grep -i -e xid -e aer; nvidia-smi",
				If:     []Fact{"text:launch failure|unknown error|illegal|timed out|hw exception|hsa_status"},
			},
		},
	},
}

// gpuAllocation is what NCCL adds after a failed allocation; the line before it has the error.
var gpuAllocation = Signature{
	ID: "gpu_allocation", Source: NCCL, Kind: Cause, Generic: true, Forms: []Form{{Text: "Failed to CUDA "}},
	Cause:   "NCCL could not allocate memory of the GPU.",
	Remedy:  "Leave NCCL 1 to 2 GiB of each GPU: lower the batch, gpu_memory_utilization or mem_fraction_static; empty the cache of the framework.",
	Runbook: "check-gpu.md",
	Reasons: []Reason{
		{
			Cause:  "The GPU failed before.",
			Remedy: "See the Xid.",
			Test:   "dmesg | grep -i xid",
			If:     []Fact{"seen:xid"}, Likely: []Fact{"seen:xid"},
		},
		{
			Cause:  "The program, or another process, uses nearly all memory of the GPU.",
			Remedy: "Lower the batch, gpu_memory_utilization or mem_fraction_static, or empty the cache of the framework before; leave NCCL 1 to 2 GiB.",
			Test:   "nvidia-smi while the job runs",
			Likely: []Fact{"!seen:xid"},
		},
	},
}

// kernelLaunch is a kernel of NCCL that the driver does not start.
var kernelLaunch = Signature{
	ID: "kernel_launch", Source: NCCL, Kind: Cause, Codes: []int{1, 98, 209, 218, 701}, Forms: cudaFailure, Files: []string{"enqueue.cc"},
	Cause:   "The driver did not start a kernel of NCCL.",
	Remedy:  "Use a newer NCCL, and a driver for its CUDA.",
	Runbook: "check-gpu.md",
	Reasons: []Reason{
		{
			Cause:  "This release of NCCL does not fit the GPU: its kernels need more shared memory than the GPU gives them.",
			Remedy: "Use a newer NCCL (2.26.2 or later for Blackwell, RTX 50 and PRO).",
			Test:   "the same with a newer NCCL",
			If:     []Fact{"seen:kernel_unfit"}, Likely: []Fact{"seen:kernel_unfit"},
		},
		{
			Cause:  "This release of NCCL does not fit the GPU or the driver: it has no kernel for it, or one that the driver refuses.",
			Remedy: "Use a newer NCCL, and a driver for its CUDA.",
			Test:   "the same with a newer NCCL",
			Likely: []Fact{"!seen:xid"},
		},
		{
			Cause:  "The GPU failed before.",
			Remedy: "See the Xid.",
			Test:   "dmesg | grep -i xid",
			If:     []Fact{"seen:xid"}, Likely: []Fact{"seen:xid"},
		},
	},
}
