// SPDX-License-Identifier: Apache-2.0

package signature

// cudaFailure are the wordings of a failed call of CUDA; files and codes distinguish the rows.
var cudaFailure = []Form{{Text: "Cuda failure"}}

// gpus are lines of NCCL about GPUs and what connects them within a host or an NVLink domain.
var gpus = []Signature{
	{
		ID: "nvls_bind", Source: NCCL, Kind: Cause, Forms: []Form{{Text: "Failed to bind NVLink SHARP"}},
		Cause:   "NVLink SHARP could not be set up: the fabric manager or an NVSwitch has an error, or is out of resources.",
		Remedy:  "Restart the fabric manager when no job runs, and reset the GPUs with it; look for SXids. NCCL_NVLS_ENABLE=0 goes on without it.",
		Runbook: "check-nvlink.md",
		Reasons: nvlsReasons,
	},
	{
		ID: "nvls_failed", Source: NCCL, Kind: Cause, Forms: cudaFailure, Files: []string{"transport/nvls.cc"},
		Cause:   "NVLink SHARP (NVLS) could not be set up: the driver refused multicast memory.",
		Remedy:  "NCCL_NVLS_ENABLE=0 goes on without NVLS, slower.",
		Runbook: "check-nvlink.md",
		Reasons: nvlsReasons,
	},
	{
		ID: "gpu_memory_full", Source: NCCL, Kind: Cause, Codes: []int{2}, Forms: cudaFailure,
		Cause:   "The GPU has no memory left for NCCL.",
		Remedy:  "Leave NCCL 1 to 2 GiB of each GPU: lower the batch, gpu_memory_utilization or mem_fraction_static; end other processes on the GPU (nvidia-smi).",
		Runbook: "check-gpu.md",
		Reasons: []Reason{
			{
				Cause:  "The memory is shared with the CPU, and the kernel cannot give contiguous pieces of it (GB10).",
				Remedy: "Drop caches before the start, lower the memory of the program, and look at CmaTotal of /proc/meminfo.",
				Test:   "grep -i cma /proc/meminfo; free -g",
				If:     []Fact{"seen:gpu_driver_memory"}, Likely: []Fact{"seen:gpu_driver_memory"},
			},
			{
				Cause:  "It is memory of the host that the ranks share, not of the GPU: NCCL takes it by cuMem from 2.24 on, which fails in containers, WSL and with some drivers.",
				Remedy: "Set NCCL_CUMEM_HOST_ENABLE=0 for all ranks, or use NCCL 2.26.5 or later, which goes on without it.",
				Test:   "NCCL_CUMEM_HOST_ENABLE=0 for one run",
				If:     []Fact{"through:transport/shm.cc"}, Likely: []Fact{"through:transport/shm.cc"},
			},
			{
				Cause:  "The program, or another process, uses nearly all memory of the GPU.",
				Remedy: "Lower the batch, gpu_memory_utilization or mem_fraction_static; leave NCCL 1 to 2 GiB; NCCL_BUFFSIZE, NCCL_MAX_NCHANNELS and NCCL_NVLS_ENABLE=0 lower its need.",
				Test:   "nvidia-smi while the job starts",
				Likely: []Fact{"code:2", "!through:transport/shm.cc"},
			},
		},
	},
	{
		ID: "gpu_host_memory", Source: NCCL, Kind: Cause, Codes: []int{217, 801, 101}, Forms: cudaFailure, Files: []string{"transport/shm.cc"},
		Cause:   "Memory of the host that GPUs share could not be had by cuMem, as NCCL does from 2.24 on.",
		Remedy:  "Set NCCL_CUMEM_HOST_ENABLE=0.",
		Runbook: "check-gpu.md",
		Reasons: []Reason{
			{
				Cause:  "Host memory by cuMem asks for access between GPUs that have no P2P (L4, T4, A10, GeForce, virtual machines).",
				Remedy: "Set NCCL_CUMEM_HOST_ENABLE=0 for all ranks, or use a newer driver and NCCL.",
				Test:   "NCCL_CUMEM_HOST_ENABLE=0 for one run",
				Likely: []Fact{"code:217,801"},
			},
			{
				Cause:  "The ranks see different GPUs: containers or --gpus-per-task confine each to its own.",
				Remedy: "Make all GPUs of the host visible to each rank.",
				Test:   "nvidia-smi -L in each rank",
				If:     []Fact{"code:101"}, Likely: []Fact{"code:101"},
			},
		},
	},
	{
		ID: "gpu_not_visible", Source: NCCL, Kind: Cause, Codes: []int{101}, Forms: cudaFailure, Files: []string{"transport/p2p.cc", "transport/nvls.cc", "include/alloc.h", "include/cudawrap.h"},
		Cause:   "The process does not see the GPU of a rank that NCCL takes to be on the same host: it cannot map its memory.",
		Remedy:  "Give all ranks of a host one container with all its GPUs, or all GPUs to each container and choose with CUDA_VISIBLE_DEVICES.",
		Runbook: "check-inside.md",
		Reasons: []Reason{
			{
				Cause:  "Two containers or control groups of one host see different GPUs, and NCCL takes them for one host.",
				Remedy: "Make all GPUs of the host visible in each container (NVIDIA_VISIBLE_DEVICES=all, CUDA_VISIBLE_DEVICES chooses; one pod for each host). Otherwise NCCL_HOSTID with a name for each container, or NCCL_P2P_DISABLE=1, makes it use the network.",
				Test:   "nvidia-smi -L in each container: do they list the same GPUs",
				Likely: []Fact{"!several hosts"}, Certain: []Fact{Containers},
			},
			{
				Cause:  "The ranks are on hosts of one NVLink domain, and IMEX does not run, or its channels are missing in a container.",
				Remedy: "Run nvidia-imex on all hosts of the job, and give containers /dev/nvidia-caps-imex-channels (a ComputeDomain in Kubernetes).",
				Test:   "nvidia-imex-ctl -N; NCCL_MNNVL_ENABLE=0 for one run",
				If:     []Fact{Clique},
			},
			{
				Cause:  "Slurm or the device plugin confines each rank to its GPU (--gpus-per-task, --gpu-bind).",
				Remedy: "Ask for GPUs of the node instead of the task: --gpus-per-node, --gpu-bind=none.",
				Test:   "nvidia-smi -L in each task",
			},
		},
	},
	{
		ID: "nvlink_import_refused", Source: NCCL, Kind: Cause, Codes: []int{1, 101, 217, 800, 801, 999}, Forms: cudaFailure, Files: []string{"transport/p2p.cc", "mnnvl.cc", "allocator.cc", "dev_runtime"},
		Cause:   "The driver refused to share memory of a GPU with another process.",
		Remedy:  "NCCL_MNNVL_ENABLE=0 goes on over the network, NCCL_CUMEM_ENABLE=0 with older calls of CUDA.",
		Runbook: "check-nvlink.md",
		Reasons: []Reason{
			cumemOff,
			{
				Cause:  "Memory cannot be shared between hosts of the NVLink domain: IMEX does not run, its channels are missing in the container, or its nodes are not of one domain.",
				Remedy: "Run nvidia-imex on all hosts of the job with one list of nodes, and give containers /dev/nvidia-caps-imex-channels (a ComputeDomain and its claim in Kubernetes).",
				Test:   "nvidia-imex-ctl -N; ls /dev/nvidia-caps-imex-channels in the container; NCCL_MNNVL_ENABLE=0 for one run",
				If:     []Fact{Clique}, Likely: []Fact{Clique},
			},
			{
				Cause:  "The container may not share memory handles: no IPC namespace in common, seccomp, or no privileges for cuMem.",
				Remedy: "Run the ranks of a host in one container or with hostIPC (--ipc=host), and allow pidfd_getfd; NCCL_CUMEM_ENABLE=0 uses CUDA IPC instead.",
				Test:   "NCCL_CUMEM_ENABLE=0 for one run",
				If:     []Fact{"code:1,101,304,800,999"}, Likely: []Fact{OneHost, "code:800"},
			},
			{
				Cause:  "The platform does not support it: MIG, vGPU, WSL, or GPUs without P2P.",
				Remedy: "Set NCCL_P2P_DISABLE=1, or NCCL_CUMEM_ENABLE=0.",
				Test:   "nvidia-smi topo -p2p r; NCCL_P2P_DISABLE=1 for one run",
				If:     []Fact{"!" + Clique, "code:217,801"}, Likely: []Fact{"code:217,801"},
			},
		},
	},
	{
		ID: "fabric_not_ready", Source: NCCL, Kind: Cause, Codes: []int{802}, Forms: cudaFailure,
		Cause:   "CUDA says that the system is not initialized: the fabric manager does not run, does not fit the driver, or has not ended its set-up of the NVSwitches.",
		Remedy:  "Start nvidia-fabricmanager of the version of the driver; look at Fabric in nvidia-smi -q (State: Completed); in a VM all NVSwitches or the shared mode are needed.",
		Runbook: "check-nvlink.md",
	},
	{
		ID: "driver_mismatch", Source: NCCL, Kind: Cause, Codes: []int{34, 35, 36, 803, 804}, Forms: cudaFailure,
		Cause:   "The driver of the GPU does not fit the CUDA of the program or of NCCL: it is too old (or a stub library is found instead), was updated while in use, or the image has a forward compatibility library that this GPU does not support.",
		Remedy:  "Install a driver for the CUDA of the image, or use an older image; remove /usr/local/cuda/compat from LD_LIBRARY_PATH; reboot after an update of the driver.",
		Reasons: append([]Reason{linkedStatic}, driverReasons...),
		Runbook: "check-gpu.md",
	},
	{
		ID: "gpu_faulty", Source: NCCL, Kind: Cause, Codes: []int{214, 220, 226}, Forms: cudaFailure,
		Cause:   "The GPU has an error of its hardware: memory (ECC) or NVLink.",
		Remedy:  "Drain the node, and reset the GPU; look at the Xids and at nvidia-smi -q -d ECC,ROW_REMAPPER.",
		Sure:    true,
		Runbook: "check-gpu.md",
	},
	{
		ID: "gpu_missing", Source: NCCL, Kind: Cause, Codes: []int{3, 46, 100}, Forms: cudaFailure,
		Cause:   "The process cannot use a GPU.",
		Remedy:  "Look at nvidia-smi in the container of the job.",
		Runbook: "check-gpu.md",
		Reasons: []Reason{
			{
				Cause:  "The container or the rank has no GPU, or CUDA_VISIBLE_DEVICES is empty.",
				Remedy: "Start the container with the NVIDIA runtime and GPUs; correct CUDA_VISIBLE_DEVICES and the number of ranks of the host.",
				Test:   "nvidia-smi -L in the job",
				If:     []Fact{"code:3,100"}, Likely: []Fact{"code:100"},
			},
			{
				Cause:  "The process was forked after CUDA was initialized, or the driver failed.",
				Remedy: "Start workers with spawn instead of fork; look for Xids, and whether nvidia-fabricmanager runs.",
				Test:   "dmesg | grep -i xid; nvidia-smi",
				If:     []Fact{"code:3"},
			},
			{
				Cause:  "Another process has the GPU alone (compute mode Exclusive_Process).",
				Remedy: "End that process, or set nvidia-smi -c DEFAULT; one rank for each GPU.",
				Test:   "nvidia-smi -q -d COMPUTE; nvidia-smi",
				If:     []Fact{"code:46"}, Likely: []Fact{"code:46"},
			},
		},
	},
	{
		ID: "gpu_image_unfit", Source: NCCL, Kind: Cause, Codes: []int{98, 209, 222}, Forms: cudaFailure,
		Cause:  "This build of NCCL has no code for this GPU, or none that this driver can compile.",
		Remedy: "Use a NCCL that is built for the architecture of the GPU.", Sure: true,
	},
	{
		ID: "capture_failed", Source: NCCL, Kind: Cause, Codes: []int{900, 901, 902, 903, 904, 905, 906, 907, 908}, Forms: cudaFailure,
		Cause:  "A call of CUDA is not allowed while the program captures a graph.",
		Remedy: "Set up communicators and let work of NCCL end before the capture; use a newer framework, or run without graphs (enforce_eager).",
	},
	{
		ID: "gpu_kernel_failed", Source: NCCL, Kind: Cause, Generic: true, Codes: []int{700, 702, 710, 714, 715, 716, 717, 718, 719}, Forms: cudaFailure,
		Cause:   "A kernel on the GPU failed, which NCCL notices with its next call.",
		Remedy:  "Run the program with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer; look for an Xid.",
		Runbook: "check-gpu.md",
		Reasons: []Reason{
			{
				Cause:  "The GPU or an NVLink failed.",
				Remedy: "See the Xid.",
				Test:   "dmesg | grep -i xid",
				If:     []Fact{"seen:xid"}, Likely: []Fact{"seen:xid"},
			},
			{
				Cause:  "A kernel of the program accesses memory that is not its own, often one that was freed while a collective used it.",
				Remedy: "Run the program with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer; the Xid is 31 or 13 then.",
				Test:   "dmesg | grep -i xid: 31, 13 and 43 are of the program, others of the GPU",
				Likely: []Fact{"code:700,714,715,716,717,718"},
			},
			{
				Cause:  "The GPU, an NVLink or the NVLink domain of the hosts (IMEX, fabric manager) stopped the kernel.",
				Remedy: "Look at the Xids of the host, at Fabric in nvidia-smi -q, and at IMEX on NVLink domains of several hosts.",
				Test:   "dmesg | grep -i xid; NCCL_MNNVL_ENABLE=0, then NCCL_NVLS_ENABLE=0 for one run each",
				If:     []Fact{"code:702,719", "!seen:xid"},
			},
		},
	},
	{
		ID: "p2p_hardware", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "P2P is disabled between NVLINK connected GPUs"},
		},
		Cause:   "The driver refuses peer-to-peer access between GPUs that NVLink connects: a hardware problem, or the fabric manager does not run.",
		Remedy:  "Look at nvidia-smi topo -p2p r, the NVLinks, the fabric manager and Xids.",
		Runbook: "check-nvlink.md",
	},
	{
		ID: "p2p_failed", Source: NCCL, Kind: Cause, Forms: []Form{
			{Text: "failed to peer with device"},
			{Text: "cudaIpcGetMemHandle failed"},
			{Text: "cudaIpcOpenMemHandle failed", File: "NCCL 2.4 to 2.12 src/transport/p2p.cc"},
			{Text: "failed to open CUDA IPC handle", File: "NCCL 2.4 to 2.12 src/transport/p2p.cc"},
		},
		Cause:   "Memory of another GPU of the host could not be mapped.",
		Remedy:  "In containers, the ranks of a host must share the IPC namespace or see all its GPUs; look for Xids.",
		Runbook: "check-gpu.md",
		Reasons: importReasons,
	},
	{
		ID: "p2p_unavailable", Source: NCCL, Kind: Note,
		Forms:    []Form{{Text: "Could not enable P2P between dev"}, {Text: "peer query failed between dev"}},
		Cause:    "Two GPUs of the host cannot reach each other directly, and go through the memory of the host: the platform does not support it, or IOMMU and ACS prevent it.",
		Remedy:   "Where the GPUs have NVLink or share a PCIe switch, look at IOMMU, ACS and the fabric manager.",
		Runbook:  "check-gpu.md",
		Harmless: true,
	},
	{
		ID: "mnnvl_unavailable", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "is available but not working", In: "is available but not working on this system"},
			{Text: "is available but not supported on this system"},
			{Text: "MNNVL is not supported on this system"},
		},
		Cause:   "NVLink between the hosts is there and cannot be used: IMEX does not run, its channels are missing in the container, or its nodes are not of one domain.",
		Remedy:  "Run nvidia-imex on all hosts of the job, and give containers /dev/nvidia-caps-imex-channels (a ComputeDomain in Kubernetes); look at nvidia-imex-ctl -N. NCCL_MNNVL_ENABLE=0 goes on over the network.",
		Sure:    true,
		Runbook: "check-nvlink.md",
	},
	{
		ID: "shared_memory", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "Error: failed to extend"},
			{Text: "Call to posix_fallocate failed", File: "NCCL 2.4 to 2.17 src/include/shm.h"},
			{Text: "failed to create shared memory"},
			{Text: "Could not map"},
			{Text: " shared memory segment "},
		},
		Cause:  "/dev/shm is full, too small or not shared between the ranks of the host.",
		Remedy: "Give the container more: --shm-size, or an emptyDir of medium Memory at /dev/shm. Remove /dev/shm/nccl-* of ended jobs.",
		Reasons: []Reason{
			shmDenied,
			{
				Cause:  "The ranks of the host share memory in different ways: host memory by cuMem works for some (by NUMA node, driver or container), and the others wait for a segment without a name and size.",
				Remedy: "Set NCCL_CUMEM_HOST_ENABLE=0 for all ranks; let all ranks of the host see all NUMA nodes (cpuset, --cap-add SYS_NICE).",
				Test:   "NCCL_CUMEM_HOST_ENABLE=0 for one run",
				If:     []Fact{SegmentUnnamed}, Certain: []Fact{SegmentUnnamed},
			},
			{
				Cause:  "/dev/shm is full or too small.",
				Remedy: "Give the container more: --shm-size=16g, or an emptyDir of medium Memory at /dev/shm (64 MiB is the default). Remove /dev/shm/nccl-* of ended jobs.",
				Test:   "df -h /dev/shm in the container",
				If:     []Fact{"errno:0,12,28"}, Likely: []Fact{"text:creat|extend|could not map"}, Certain: []Fact{"errno:28"},
			},
			{
				Cause:  "The two ends of a connection chose different transports, so that one reads as a segment what the other did not write: peer access between the GPUs is possible in one direction only (BIOS, BARs), or the processes see different GPUs.",
				Remedy: "Compare the lines Channel of both ranks (SHM here, P2P there); update the firmware of the host; NCCL_P2P_DISABLE=1 goes on.",
				Test:   "NCCL_P2P_DISABLE=1 for one run",
				If:     []Fact{SegmentAbsurd}, Likely: []Fact{SegmentAbsurd},
			},
			{
				Cause:  "The ranks of the host do not share /dev/shm: they are in different containers, and NCCL takes them for one host.",
				Remedy: "Run the ranks of a host in one container or with hostIPC (--ipc=host), or give each container its own NCCL_HOSTID.",
				Test:   "ls /dev/shm/nccl-* in both containers",
				If:     []Fact{"errno:0,2", "!" + SegmentUnnamed, "!" + SegmentAbsurd}, Likely: []Fact{"errno:2"},
				Certain: []Fact{"errno:2", Containers},
			},
			{
				Cause:  "A file of the same name is there, which an ended job or another user left behind.",
				Remedy: "Remove /dev/shm/nccl-* of ended jobs.",
				Test:   "ls -l /dev/shm",
				If:     []Fact{"errno:17"}, Likely: []Fact{"errno:17"},
			},
		},
	},
	{
		ID: "handle_passing_failed", Source: NCCL, Kind: Cause,
		Forms:  []Form{{Text: "UDS: "}, {Text: "Failed to get FD from rank"}},
		Cause:  "The ranks of the host could not hand each other handles of memory (file descriptors over a Unix socket).",
		Remedy: "Run the ranks of a host in one network and IPC namespace (--net=host --ipc=host), or set NCCL_CUMEM_ENABLE=0; raise ulimit -n.",
		Reasons: []Reason{
			{
				Cause:  "The limit of open files is reached.",
				Remedy: "Raise ulimit -n to 65536 or more.",
				Test:   "ulimit -n in the job",
				If:     []Fact{"errno:24"}, Certain: []Fact{"errno:24"},
			},
			{
				Cause:  "The ranks are in containers with different network namespaces, and NCCL takes them for one host.",
				Remedy: "Run the ranks of a host in one container, or with hostNetwork; NCCL_CUMEM_ENABLE=0 or an own NCCL_HOSTID for each container avoids it.",
				Test:   "NCCL_CUMEM_ENABLE=0 for one run",
				If:     []Fact{"errno:0,2,111"}, Likely: []Fact{Containers},
			},
			{
				Cause:  "Another rank of the host ended before.",
				Remedy: "Look at the first failure of the other ranks of the host.",
				Test:   "the logs of the other ranks of the host",
			},
		},
	},
	{
		ID: "cuda_library", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "Failed to open libnvidia-ml.so.1"},
			{Text: "Minimum requirement is"},
			{Text: "some PFN functions not found in the library"},
			{Text: "nvmlInit"},
		},
		Cause:   "The library of the driver is missing in the process, too old, or does not fit the kernel module.",
		Remedy:  "Start the container with the NVIDIA runtime (libcuda.so.1, libnvidia-ml.so.1); reboot after an update of the driver.",
		Runbook: "check-gpu.md",
		Reasons: []Reason{driverUnfound, driverApart, {
			Cause:  "The library of the driver is missing in the process, too old, or does not fit the kernel module.",
			Remedy: "Start the container with the NVIDIA runtime (libcuda.so.1, libnvidia-ml.so.1); reboot after an update of the driver.",
			Test:   "nvidia-smi in the job and on the host; ldconfig -p | grep -e libcuda -e libnvidia-ml",
			If:     []Fact{"!errno:2", "!text:version mismatch"}, Likely: []Fact{"!errno:2"},
		}},
	},
	{
		ID: "driver_library_unfound", Source: NCCL, Kind: Note, Unwound: &DriverLibraryMissing,
		Forms:  []Form{{Text: "Failed to find CUDA library"}},
		Cause:  "NCCL does not find libcuda.so, and goes on without what it needs it for; features of newer drivers are off, or fail.",
		Remedy: "Start the container with the NVIDIA runtime; let the loader find libcuda.so (ldconfig; in WSL2 /usr/lib/wsl/lib in LD_LIBRARY_PATH).",
	},
	{
		ID: "nvml_unsupported", Source: NCCL, Kind: Note, Harmless: true, Unwound: &NVMLRefused,
		Forms: []Form{
			{Text: "failed: Not Supported", File: "NVML nvmlErrorString"},
			{Text: "Failed to find nvml device for busId", File: "NCCL 2.29 src/init.cc"},
		},
		Cause:  "NVML does not know this query for this GPU, as on Jetson and other GPUs that are part of a processor.",
		Remedy: "None.",
	},
	{
		ID: "kernel_unfit", Source: NCCL, Kind: Note, Info: true,
		Forms: []Form{
			{Text: "exceeds device/fn maxSharedMem"},
			{Text: "exceeds device/fn limit", File: "NCCL 2.2x src/enqueue.cc"},
		},
		Cause:  "A kernel of NCCL needs more shared memory than this GPU has for it: this release was not made for it.",
		Remedy: "Use a newer NCCL.",
	},
	{
		ID: "nvml_failed", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "nvmlDeviceGetHandleByIndex("},
			{Text: "nvmlDeviceGetP2PStatus("},
			{Text: "nvmlDeviceGetHandleByPciBusId", File: "NCCL to 2.29 src/misc/nvmlwrap.cc"},
			{Text: "nvmlDeviceGetCount"},
			{Text: "nvmlDeviceGetCudaComputeCapability("},
		},
		Cause:   "The driver does not answer about a GPU: it was lost, or needs a reset.",
		Remedy:  "Look at nvidia-smi and the Xids of the host.",
		Runbook: "check-gpu.md",
	},
	gpuAllocation,
	kernelLaunch,
	{
		ID: "cuda_failed", Source: NCCL, Kind: Cause, Generic: true, Forms: cudaFailure,
		Cause:   "A call of CUDA failed. Many are consequences: a GPU in error after an Xid, a kernel of the job that crashed, or no memory left.",
		Remedy:  "Look for Xids at that time; for out of memory, leave NCCL about 1 GiB of each GPU.",
		Runbook: "check-gpu.md",
		Reasons: cudaReasons,
	},
}
