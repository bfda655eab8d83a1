// SPDX-License-Identifier: Apache-2.0

package signature

import "slices"

const vllmEnv = "vllm worker/worker_base.py"

const nodeManager = "ray src/ray/raylet/node_manager.cc"

const shmBroadcast = "vllm distributed/device_communicators/shm_broadcast.py"

const strerror = "glibc strerror, as Python and PyTorch print it"

const (
	ownAllReduce    Fact   = "text:ipcmemory|customallreduce|custom_all_reduce|custom all"
	ownAllReduceOff string = "Turn the custom all-reduce of the program off (TensorRT-LLM: use_custom_all_reduce when the engine is built; vLLM and SGLang: --disable-custom-all-reduce)."
)

// surroundings are lines of programs about what is around them: GPUs, libraries, limits, other processes.
var surroundings = []Signature{
	causesGuessed,
	efaMemoryRefused,
	heapCorrupted,
	{
		ID: "ray_workers_ended", Source: Program, Kind: Consequence, Generic: true,
		Forms:  []Form{{Text: ": 0 Workers (tasks / actors) killed due to memory", File: nodeManager}},
		Cause:  "Workers of Ray ended on a host, and not for want of memory.",
		Remedy: "Look at the logs of the workers, and at raylet.out of that host.",
	},
	{
		ID: "ray_memory_monitor", Source: Program, Kind: Cause, Sure: true,
		Forms: []Form{
			{Text: "Workers (tasks / actors) killed due to memory pressure (OOM)", File: nodeManager},
			{Text: "due to the node running low on memory", File: nodeManager},
		},
		Cause:  "Ray's memory monitor killed workers, because the memory of their host (not of a GPU) was nearly full. NCCL is not involved.",
		Remedy: "Give the host or the job more memory, or lower what workers take (fewer of them, what they keep and return); RAY_memory_usage_threshold moves the limit.",
	},
	{
		ID: "settings_overwritten", Source: Program, Kind: Note,
		Forms: []Form{
			{Text: "Overwriting environment variable NCCL_SOCKET_IFNAME", File: vllmEnv},
			{Text: "Overwriting environment variable NCCL_IB_HCA", File: vllmEnv},
		},
		Cause:  "The launcher replaced a setting of this worker by that of the first host: names of interfaces and devices that differ between hosts do not fit then.",
		Remedy: "None if both hosts have the name that is given now; else name what all hosts have, or do not copy the setting.",
	},
	{
		ID: "peer_access_missing", Source: Program, Kind: Cause,
		Forms: []Form{
			{Text: "peer access is not supported between these two devices", File: cudaErrorText},
			{Text: "custom_all_reduce.cu", File: "vllm, sglang csrc/custom_all_reduce.cuh"},
			{Text: "customAllReduceKernels.cu", File: "TensorRT-LLM cpp/tensorrt_llm/kernels"},
		},
		Cause:  "The program shares memory between GPUs by itself, and that failed: GPUs without peer access, or processes of other hosts or containers.",
		Remedy: "Turn off what needs peer access in the program (its own all-reduce); NCCL itself goes by shared memory there.",
		Reasons: []Reason{
			{
				Cause:  "The program's own all-reduce needs peer access between the GPUs, and these have none. NCCL is not involved.",
				Remedy: ownAllReduceOff, Test: "nvidia-smi topo -p2p r",
				If: []Fact{"text:peer access is not supported", ownAllReduce}, Certain: []Fact{ownAllReduce},
			},
			{
				Cause:  "The program's own all-reduce opens memory of GPUs of other processes by CUDA IPC, which works within one host, and its ranks are on several ({hosts}). NCCL is not involved.",
				Remedy: ownAllReduceOff, Test: "the same without the custom all-reduce",
				If: []Fact{"!text:peer access is not supported", ownAllReduce, HostsReport}, Likely: []Fact{HostsReport},
			},
			{
				Cause:  "The program's own all-reduce failed, which shares memory of GPUs by CUDA IPC: GPUs without peer access, processes of several containers or hosts, or memory of another allocator. NCCL is not involved.",
				Remedy: ownAllReduceOff, Test: "the same without the custom all-reduce; nvidia-smi topo -p2p r",
				If: []Fact{"!text:peer access is not supported", ownAllReduce, "!" + HostsReport}, Likely: []Fact{ownAllReduce},
			},
			{
				Cause:  "The program shares memory between GPUs that have no peer access to each other: PCIe without P2P, a VM, or processes that see one GPU each.",
				Remedy: "Turn off what needs peer access in the program (its own all-reduce), let each process see all GPUs, or set NCCL_P2P_DISABLE=1.",
				Test:   "nvidia-smi topo -p2p r",
				If:     []Fact{"!" + ownAllReduce}, Likely: []Fact{"text:peer access is not supported"},
			},
		},
	},
	{
		ID: "efa_internal_error", Source: Program, Kind: Cause,
		Forms:  []Form{{Text: "Libfabric error: (-", File: "libfabric prov/efa/src/efa_base_ep.h"}},
		Cause:  "The EFA provider of libfabric failed and ends the process; the line has the error of the system.",
		Remedy: "Look at the line after it, which says what failed; run with FI_LOG_LEVEL=warn.",
		Reasons: append([]Reason{{
			Cause:  "The limit of locked memory is too small for the buffers that EFA registers.",
			Remedy: "Set the limit of locked memory to unlimited: ulimit -l, LimitMEMLOCK= of slurmd or containerd, --ulimit memlock=-1, IPC_LOCK in a pod.",
			Test:   "ulimit -l in the job",
			If:     []Fact{"errno:12"}, Likely: []Fact{"errno:12"},
		}, {
			Cause:  "No huge pages, or no memory of the host or of its control group, are left for the buffers of EFA.",
			Remedy: "Raise the memory of the job; FI_EFA_USE_HUGE_PAGE=0.",
			Test:   "FI_EFA_USE_HUGE_PAGE=0 for one run; free -g; grep Huge /proc/meminfo",
			If:     []Fact{"errno:12"},
		}}, slices.DeleteFunc(slices.Clone(errnoReasons),
			func(r Reason) bool { return slices.Contains(r.If, "errno:11,12") })...),
	},
	{
		ID: "gpu_none", Source: Program, Kind: Cause,
		Forms: []Form{
			{Text: "only supported with GPUs, no GPUs found", File: processGroupNCCL},
			{Text: "No CUDA GPUs are available", File: torchCUDA},
			{Text: "Found no NVIDIA driver on your system", File: "pytorch torch/cuda"},
			{Text: "No HIP GPUs are available", File: torchCUDA},
			{Text: "you might not have a CUDA gpu", File: torchCUDA},
			{Text: "couldn't communicate with the NVIDIA driver", File: "nvidia-smi"},
			{Text: "CUDA unknown error - this may be due to an incorrectly set up environment", File: torchCUDA},
			{Text: "nvidia-container-cli: initialization error", File: "libnvidia-container"},
		},
		Cause:   "The process sees no GPU: its container or task was given none, CUDA_VISIBLE_DEVICES is empty or wrong, or the driver failed.",
		Remedy:  "Start the container with the NVIDIA runtime and GPUs (--gpus all, nvidia.com/gpu); ask Slurm for them; look at nvidia-smi -L and CUDA_VISIBLE_DEVICES in the job.",
		Reasons: noneReasons,
		Runbook: "check-gpu.md",
	},
	{
		ID: "gpu_ordinal", Source: Program, Kind: Cause,
		Forms: []Form{
			{Text: "CUDA error: invalid device ordinal", File: cudaErrorText},
			{Text: "HIP error: invalid device ordinal", File: cudaErrorText},
			{Text: "hipErrorInvalidDevice", File: "rccl-tests src/common.h"},
			{Text: "'invalid device ordinal'", File: "nccl-tests src/common.h"},
			{Text: "device >= 0 && device < num_gpus", File: torchCUDA},
			{Text: "AssertionError: Invalid device id", File: "pytorch torch/cuda"},
		},
		Cause:  "A rank chose a GPU that its process does not see: more processes than GPUs on the host, or the local rank and CUDA_VISIBLE_DEVICES (--gpus-per-task) do not fit.",
		Remedy: "Start as many processes as GPUs are visible (--nproc-per-node), and choose the GPU by LOCAL_RANK among those of CUDA_VISIBLE_DEVICES.",
		Reasons: []Reason{
			{
				Cause:  "A rank chose a GPU that its process does not see: {ordinals}.",
				Remedy: "Start as many processes as GPUs are visible (--nproc-per-node), and choose the GPU by LOCAL_RANK among those of CUDA_VISIBLE_DEVICES.",
				Test:   "nvidia-smi -L; CUDA_VISIBLE_DEVICES and LOCAL_RANK of each process",
				If:     []Fact{GPUsFewer}, Certain: []Fact{GPUsFewer},
			},
			{
				Cause:  "A rank chose a GPU that its process does not see: more processes than GPUs on the host, or the local rank and CUDA_VISIBLE_DEVICES (--gpus-per-task) do not fit.",
				Remedy: "Start as many processes as GPUs are visible (--nproc-per-node; nccl-tests: -g for each), and choose the GPU by LOCAL_RANK among those of CUDA_VISIBLE_DEVICES.",
				Test:   "nvidia-smi -L; CUDA_VISIBLE_DEVICES and LOCAL_RANK of each process",
				If:     []Fact{"!" + GPUsFewer, "!text:hip"}, Likely: []Fact{"!" + GPUsFewer},
			},
			hipUnseen,
		},
	},
	{
		ID: "disk_full", Source: Program, Kind: Cause, Sure: true,
		Forms: []Form{
			{Text: "OSError: [Errno 28] No space left on device", File: strerror},
			{Text: "OSError: [Errno 122] Disk quota exceeded", File: strerror},
		},
		Cause:  "A file could not be written: the file system of its path, or a quota, is full.",
		Remedy: "Look at df -h and df -i of the path in the stack (checkpoints, caches, TMPDIR, /dev/shm), and make room.",
	},
	{
		ID: "forked_cuda", Source: Program, Kind: Cause, Sure: true,
		Forms:  []Form{{Text: "Cannot re-initialize CUDA in forked subprocess", File: torchCUDA}},
		Cause:  "A process was forked after CUDA was used, which CUDA does not allow.",
		Remedy: "Start workers by spawn (VLLM_WORKER_MULTIPROC_METHOD=spawn, multiprocessing.set_start_method), or use no GPU before the fork.",
	},
	{
		ID: "tensor_not_on_gpu", Source: Program, Kind: Cause, Sure: true,
		Forms: []Form{
			{Text: "No backend type associated with device type cpu", File: "pytorch c10d/ProcessGroup.hpp"},
			{Text: "Tensors must be CUDA and dense", File: processGroupNCCL},
		},
		Cause:  "The program gave a tensor of the CPU to a collective of NCCL, which moves memory of GPUs alone.",
		Remedy: "Move the tensor to the GPU, or make the group with backend cpu:gloo,cuda:nccl.",
	},
	{
		ID: "gpu_busy", Source: Program, Kind: Cause,
		Forms: []Form{
			{Text: "CUDA-capable devices are busy or unavailable", File: cudaErrorText},
			{Text: "CUDA-capable device(s) is/are busy or unavailable", File: cudaErrorText},
		},
		Cause:   "The GPU cannot be used: another process has it alone (Exclusive_Process), an old process holds it, or it needs a reset.",
		Remedy:  "End old processes (nvidia-smi, fuser /dev/nvidia*), set nvidia-smi -c DEFAULT; look for Xids, and reset the GPU.",
		Reasons: busyReasons,
	},
	{
		ID: "files_exhausted", Source: Program, Kind: Cause, Sure: true,
		Forms: []Form{
			{Text: "[Errno 24] Too many open files", File: strerror},
			{Text: "received 0 items of ancdata", File: "pytorch torch.multiprocessing"},
			{Text: "Error: Too many open files", File: strerror},
		},
		Cause:  "The limit of open files of the process is reached.",
		Remedy: "Raise ulimit -n to 65536 or more in the job, also in the unit of the scheduler or container runtime; torch.multiprocessing.set_sharing_strategy(\"file_system\").",
	},
	{
		ID: "threads_exhausted", Source: Program, Kind: Cause, Sure: true,
		Forms: []Form{
			{Text: "can't start new thread", File: "python"},
			{Text: "pthread_create failed", File: "OpenBLAS, glibc"},
			{Text: "thread: Resource temporarily unavailable", File: "libstdc++, boost, of std::thread"},
			{Text: "fork: Resource temporarily unavailable", File: "bash"},
			{Text: "fork: retry: Resource temporarily unavailable", File: "bash"},
		},
		Cause:  "The limit of processes and threads is reached.",
		Remedy: "Raise ulimit -u, and pids.max of the control group (--pids-limit); set OMP_NUM_THREADS.",
	},
	{
		ID: "environment_missing", Source: Program, Kind: Cause, Sure: true,
		Forms:  []Form{{Text: "rendezvous: environment variable", File: "pytorch torch/distributed/rendezvous.py"}},
		Cause:  "The program was started without the variables that tell it of the job (MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE).",
		Remedy: "Start it with torchrun, or set them from those of the scheduler.",
	},
	{
		ID: "libc_too_old", Source: Program, Kind: Cause, Sure: true,
		Forms: []Form{
			{Text: "version `GLIBC_", File: "glibc elf/dl-version.c"},
			{Text: "version `GLIBCXX_", File: "glibc elf/dl-version.c"},
			{Text: "version `CXXABI_", File: "glibc elf/dl-version.c"},
		},
		Cause:  "A library was built for a newer C or C++ library than the image has, as where one of the host is mounted into a container.",
		Remedy: "Use an image with a newer base, or a library that is built for this one; unset LD_LIBRARY_PATH and LD_PRELOAD to libraries of the host.",
	},
	{
		ID: "nccl_library_missing", Source: Program, Kind: Cause, Sure: true,
		Forms: []Form{
			{Text: "Unable to load NCCL library", File: "xla nccl stub"},
			{Text: "Failed to load NCCL library", File: "vllm distributed/device_communicators/pynccl_wrapper.py"},
			{Text: "libnccl.so.2: cannot open shared object", File: "glibc elf/dl-load.c"},
			{Text: "librccl.so.1: cannot open shared object", File: "glibc elf/dl-load.c"},
			{Text: "Could not load dynamic library 'libnccl", File: "tensorflow tsl dso_loader.cc"},
		},
		Cause:  "The process cannot load NCCL: the library is not installed in this environment, or the loader does not find it.",
		Remedy: "Install it for the CUDA of the framework (pip install nvidia-nccl-cu12, or libnccl2), or have LD_LIBRARY_PATH lead to it (ldconfig -p).",
	},
	{
		ID: "wsl", Source: Program, Kind: Note, Harmless: true,
		Forms:  []Form{{Text: "microsoft-standard-WSL2", File: "uname -r of WSL2"}},
		Cause:  "The job runs in WSL2, whose driver does not do all that the one of Linux does.",
		Remedy: "None if it runs.",
	},
	{
		ID: "name_lookup_slow", Source: Program, Kind: Note, Harmless: true, Quiet: true,
		Forms:  []Form{{Text: "The hostname of the client socket cannot be retrieved", File: "pytorch torch/csrc/distributed/c10d/socket.cpp"}},
		Cause:  "The name of the address of another rank is not found (DNS, /etc/hosts), and each look-up may take seconds: the job starts slowly, and does not fail by it.",
		Remedy: "Let DNS or /etc/hosts answer for the addresses of the hosts (getent hosts ADDRESS), or use a newer PyTorch, which looks up fewer.",
	},
	{
		ID: "library_missing", Source: Program, Kind: Cause,
		Forms: []Form{
			{Text: "ImportError: lib", File: "python"},
			{Text: "OSError: lib", File: "python"},
			{Text: "error while loading shared libraries", File: "glibc elf/dl-load.c"},
		},
		Cause:  "A library that the program needs is not in the image, or not in LD_LIBRARY_PATH.",
		Remedy: "Install the package that has it, of the same release of CUDA, or correct LD_LIBRARY_PATH (ldd, ldconfig -p).",
	},
	{
		ID: "ucx_error", Source: Program, Kind: Cause, Remote: true,
		Forms: []Form{
			{Text: "UCX  ERROR", File: "ucx src/ucs/debug/log.c"},
			{Text: "UCX ERROR", File: "ucx src/ucs/debug/log.c"},
		},
		Cause:   "UCX, over which programs or the plugin of HPC-X move data, failed.",
		Remedy:  "Look at UCX_NET_DEVICES and UCX_TLS, and at the other side.",
		Reasons: ucxReasons,
	},
	{
		ID: "link_down", Source: Program, Kind: Note, Leads: true,
		Forms: []Form{
			{Text: ": Link down", File: "linux drivers/net/ethernet/mellanox/mlx5, kernel log"},
			{Text: "NIC Link is Down", File: "linux drivers/net/ethernet, kernel log"},
		},
		Cause:   "The link of a network device went down.",
		Remedy:  "Look at link_downed and the state of the port that the line names: cable, transceiver, switch.",
		Runbook: "GpuFabricLinkFlapping.md",
	},
	{
		ID: "store_timeout", Source: Program, Kind: Consequence,
		Forms: []Form{
			{Text: "wait timeout after", File: checkC10d},
			{Text: "but store->get(", File: processGroupNCCL},
			{Text: "waitForInput: socket SocketImpl(", File: "pytorch torch/csrc/distributed/c10d/socket.cpp"},
			{Text: "GetKeyValue() timed out", File: "xla distributed runtime"},
			{Text: "RendezvousClosedError", File: "pytorch torch/distributed/elastic/rendezvous"},
		},
		Cause:  "A rank waited for what another one (mostly rank 0) should have written to the store of the job: that one failed, has not come so far, or takes another way.",
		Remedy: "Look at the log of rank 0 and of the ranks that are missing, for the first failure there; raise the timeout if they are only slow.",
		Reasons: []Reason{
			{
				Cause:  "Another rank still works on what it does before: the log shows a loop that goes on ({busy}), and takes longer than this rank waits.",
				Remedy: "Do this work before the job (preprocess, cache), or raise the timeout (init_process_group(timeout=), ddp_timeout).",
				Test:   "whether the loop ends; py-spy dump of the rank that it is of",
				If:     []Fact{Busy}, Likely: []Fact{Busy},
			},
			{
				Cause:  "Rank 0, or the one that should have written, failed or ended first, or does not come so far: it works on something else, or takes another way.",
				Remedy: "Look at the log of rank 0 and of the ranks that are missing, for the first failure there; raise the timeout if they are only slow.",
				Test:   "the logs of all ranks, by time; py-spy dump of rank 0",
				Likely: []Fact{"!errno:111,113,110,101"},
			},
			{
				Cause:  "The store cannot be reached from this host, or was not there yet: address, port or firewall.",
				Remedy: "Check MASTER_ADDR and MASTER_PORT, and that the port is open between the hosts.",
				Test:   "nc -vz MASTER_ADDR MASTER_PORT from this host",
			},
		},
	},
	{
		ID: "barrier_missed", Source: Program, Kind: Consequence,
		Forms: []Form{
			{Text: "failed to pass monitoredBarrier", File: processGroupGloo},
			{Text: "successfully reached monitoredBarrier, but", File: processGroupGloo},
			{Text: "Stalled ranks:", File: "horovod common/stall_inspector.cc"},
			{Text: "submitted to be reduced, gathered or broadcasted by subset of ranks", File: "horovod common/stall_inspector.cc"},
			{Text: "Missing ranks:", File: "horovod common/stall_inspector.cc"},
		},
		Cause:  "The ranks that the line names did not come to a barrier or collective that the others wait in: they are busy, hang, crashed, or took another way.",
		Remedy: "Look at the logs and stacks (py-spy dump) of these ranks and their hosts.",
	},
	{
		ID: "watchdog_stuck", Source: Program, Kind: Consequence,
		Forms: []Form{
			{Text: "watchdog got stuck for", File: processGroupNCCL},
			{Text: "Heartbeat monitor timed out", File: processGroupNCCL},
			{Text: "due to ProcessGroupNCCL watchdog hang", File: processGroupNCCL},
			{Text: "Watchdog timeout (self.watchdog_timeout", File: "sglang managers/scheduler.py"},
			{Text: "TimeoutError: RPC call to ", File: "vllm executor"},
		},
		Cause:   "A watchdog of PyTorch or of the engine saw no progress: a call of CUDA or NCCL blocks (a hang on the GPU or in the network, the end of a communicator), or a thread holds Python's lock (GIL) in one.",
		Remedy:  "Look at stacks of the process (py-spy dump --native, gdb) and at the other ranks; TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC is larger for slow calls.",
		Reasons: stuckReasons,
	},
	{
		ID: "engine_waits", Source: Program, Kind: Consequence, Generic: true,
		Forms: []Form{
			{Text: "No available shared memory broadcast block found", File: shmBroadcast},
			{Text: "No available block found in 60 second", File: shmBroadcast},
			{Text: "made no progress", File: "words of engines and launchers"},
			{Text: "no progress for ", File: "words of engines and launchers"},
			{Text: "eartbeat lost", File: "words of engines and launchers"},
			{Text: "issed heartbeat", File: "words of engines and launchers"},
		},
		Cause:   "A process of the engine waits for another one, which is busy, hangs or ended. It is no fault of shared memory.",
		Remedy:  "Look at stacks of all processes of the engine (py-spy dump --native).",
		Reasons: stuckReasons,
	},
}

// stuckReasons are why nothing goes on.
var stuckReasons = []Reason{
	hangsAtEnd,
	{
		Cause:  "Traffic between the GPUs of the host stalls: a PCIe switch or the IOMMU redirects P2P (ACS).",
		Remedy: "Turn off ACS on the PCIe switches and the IOMMU (iommu=pt or off), or set NCCL_P2P_DISABLE=1, slower.",
		Test:   "NCCL_P2P_DISABLE=1 for one run: if it goes on, this is it",
		If:     []Fact{UsesP2P, OneHost},
	},
	{
		Cause:  "A call of CUDA or NCCL blocks (a hang on the GPU or in the network, the end of a communicator), or a thread holds Python's lock (GIL) in one.",
		Remedy: "Look at stacks of the process (py-spy dump --native, gdb) and at the other ranks; TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC is larger for slow calls.",
		Test:   "py-spy dump of all ranks; nvidia-smi: which GPUs are busy",
	},
}
