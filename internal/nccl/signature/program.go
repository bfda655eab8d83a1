// SPDX-License-Identifier: Apache-2.0

package signature

const (
	processGroupNCCL = "pytorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp"
	processGroupGloo = "pytorch torch/csrc/distributed/c10d/ProcessGroupGloo.cpp"
	checkC10d        = "pytorch torch/csrc/distributed/c10d/TCPStore.cpp"
	getErrorString   = "nccl src/init.cc, ncclGetErrorString"
	signals          = "python, glibc, torchrun, Slurm"
	memoryKiller     = "linux mm/oom_kill.c, Slurm, Ray, Kubernetes"
	hami             = "HAMi-core src"
)

// pytorch are lines of PyTorch's process group. They are consequences: PyTorch says that a collective did not
// end, not why.
var pytorch = []Signature{
	{
		ID: "pytorch_watchdog_timeout", Source: PyTorch, Kind: Consequence,
		Forms:  []Form{{Text: "Watchdog caught collective operation timeout", File: processGroupNCCL}},
		Cause:  "A collective did not end in the timeout of PyTorch: a rank did not take part (it crashed, hangs, or called another collective), or the network stopped.",
		Remedy: "Compare SeqNum and OpType over the ranks: the rank with the lowest last completed number, or without this line, is the one to look at. If all wait in the same collective, look at the network.", Runbook: "GpuFabricTrafficStopped.md",
		Reasons: []Reason{
			{
				Cause:  "Ranks wait in different collectives: the program took different ways on them (a branch, a number of batches, an exception, a checkpoint on one rank).",
				Remedy: "Look at what the ranks that are behind did before: py-spy dump, or the flight recorder of PyTorch (TORCH_FR_BUFFER_SIZE).",
				Test:   "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 (newer: TORCH_FR_BUFFER_SIZE) and TORCH_NCCL_DUMP_ON_TIMEOUT=1",
				If:     []Fact{WaitApart}, Certain: []Fact{WaitApart},
			},
			{
				Cause:  "Some ranks are behind: those that wait in the earliest collective, or one that does not wait at all, hold up the others.",
				Remedy: "Look at the ranks of the earliest collective and at those that do not wait: their logs, py-spy dump, their hosts.",
				Test:   "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 (newer: TORCH_FR_BUFFER_SIZE) and TORCH_NCCL_DUMP_ON_TIMEOUT=1",
				If:     []Fact{WaitBehind}, Likely: []Fact{WaitBehind},
			},
			{
				Cause:  "Traffic between the GPUs of the host stalls: a PCIe switch or the IOMMU redirects P2P (ACS), so that already the first collective hangs.",
				Remedy: "Turn off ACS on the PCIe switches and the IOMMU (iommu=pt or off), or set NCCL_P2P_DISABLE=1, slower.",
				Test:   "NCCL_P2P_DISABLE=1 for one run: if it goes on, this is it; p2pBandwidthLatencyTest of the CUDA samples",
				If:     []Fact{FirstCollective, UsesP2P, OneHost}, Likely: []Fact{FirstCollective, UsesP2P, OneHost},
			},
			{
				Cause:  "The ranks took different ways through the model under ZeRO-3, as DeepSpeed warns before (modules in another order): a branch by data, or experts that not all ranks use, so that they gather other parameters.",
				Remedy: "Let all ranks use the same modules for each batch, or make them leaf modules (set_z3_leaf_modules, for mixtures of experts).",
				Test:   "py-spy dump of a rank that does not wait, compared with one that does; the same with ZeRO-2",
				If:     []Fact{"seen:zero_order_changed", RanksMissing, "!" + WaitApart}, Likely: []Fact{RanksMissing},
			},
			{
				Cause:  "{missing} did not come, while the log shows a loop that goes on: {busy}. Work on some ranks only, before a collective that all must call, takes longer than the timeout.",
				Remedy: "Do this work before the process group is made, on all ranks, or with a longer timeout (init_process_group(timeout=), ddp_timeout).",
				Test:   "py-spy dump of the rank that does not wait",
				If:     []Fact{RanksMissing, Busy, "!" + WaitBehind, "!" + WaitApart}, Likely: []Fact{Busy},
			},
			{
				Cause:  "{missing} did not call the collective that the others wait in: busy with work of its own (a checkpoint, an evaluation), hanging, or crashed.",
				Remedy: "Look at the rank that does not wait: its log, py-spy dump of its process, its host.",
				Test:   "py-spy dump of the rank that does not wait; its last lines",
				If:     []Fact{RanksMissing, "!" + Busy, "!" + WaitBehind, "!" + WaitApart},
				Likely: []Fact{RanksMissing, "!" + FirstCollective},
			},
			{
				Cause:  "Only this rank is known to wait: the program calls the collective on some ranks only (a checkpoint, an evaluation, a log on rank 0), or another rank is busy, hangs or crashed.",
				Remedy: "Look at the logs and the stacks of the other ranks (py-spy dump); call collectives and barriers on all ranks.",
				Test:   "the logs of all ranks, or TORCH_NCCL_DUMP_ON_TIMEOUT=1 with TORCH_FR_BUFFER_SIZE=2000 (flight recorder)",
				If:     []Fact{RankAlone},
			},
			{
				Cause:  "All known ranks wait in the same collective, so that none is missing: the collective itself stalls, in the network between the hosts, NCCL or the driver, or on a GPU.",
				Remedy: "Look at the network and the kernel messages of all hosts; run nccl-tests on the same hosts, and try another release of NCCL.",
				Test:   "NCCL_DEBUG=INFO; all_reduce_perf of nccl-tests on the same hosts; nvidia-smi and dmesg",
				If:     []Fact{AllRanksWait}, Likely: []Fact{AllRanksWait, "!" + FirstCollective},
			},
			{
				Cause:  "A rank that the log does not show did not call the collective that the others wait in: it is busy, hangs, crashed, or took another way.",
				Remedy: "Look at the rank that does not wait: its log, py-spy dump of its process, its host.",
				Test:   "the logs of all ranks: which has no time-out, or waits elsewhere",
				If:     []Fact{"!" + RanksMissing, "!" + RankAlone, "!" + SizeSaid, "!" + WaitBehind, "!" + WaitApart},
				Likely: []Fact{"!" + AllRanksWait, "!" + FirstCollective},
			},
			{
				Cause:  "The network between the hosts stopped.",
				Remedy: "Run check on all hosts; compare the interfaces and devices that NCCL chose on each; mind firewalls, MTU and ACS.",
				Test:   "all_reduce_perf of nccl-tests on the same hosts",
				If:     []Fact{"!" + AllRanksWait, "!" + RanksMissing, "!" + OneHost},
			},
		},
	},
	{
		ID: "pytorch_watchdog_exception", Source: PyTorch, Kind: Consequence, Generic: true,
		Forms: []Form{
			{Text: "Exception (either an error or timeout) detected by watchdog", File: processGroupNCCL},
			{Text: "raised the following async exception", File: processGroupNCCL},
			{Text: "watchdog thread terminated with exception", File: processGroupNCCL},
			{Text: "some NCCL operations have failed or timed out", File: processGroupNCCL},
			{Text: "Observed flight recorder dump signal from another rank", File: processGroupNCCL},
			{Text: "Terminating the process after attempting to dump debug info, due to collective timeout", File: processGroupNCCL},
		},
		Cause:  "PyTorch ends the process because a collective failed.",
		Remedy: "Look for the lines of NCCL before it; without any, run the job with NCCL_DEBUG=WARN.",
	},
}

// program are lines of what calls NCCL, starts it or ends it. A program says what a call of NCCL returned, as
// PyTorch does, too.
var program = []Signature{
	{
		ID: "program_call_refused", Source: Program, Kind: Cause, Generic: true,
		Forms: []Form{
			{Text: "invalid usage (run with", File: getErrorString},
			{Text: "invalid argument (run with", File: getErrorString},
			{Text: "invalid usage, NCCL version", File: getErrorString},
			{Text: "invalid argument, NCCL version", File: getErrorString},
			{Text: "ncclInvalidArgument", File: "names of ncclResult_t, as programs print them"},
			{Text: "ncclInvalidUsage", File: "names of ncclResult_t, as programs print them"},
		},
		Cause:  "NCCL refused a call: the program used it in a wrong way. It is no fault of the network.",
		Remedy: "Run with NCCL_DEBUG=WARN: NCCL says which argument.",
		Reasons: []Reason{
			{
				Cause:  "The framework does not fit this release of NCCL: what it hands over was initialized for another one.",
				Remedy: "Use the NCCL that the framework was built with, or a framework for this release (pip list | grep nccl; unset LD_PRELOAD of another libnccl.so.2).",
				Test:   "the release that NCCL logs, and torch.cuda.nccl.version()",
				If:     []Fact{"text:devcomm|dev_comm|config_t"}, Likely: []Fact{"text:devcomm|dev_comm|config_t"},
			},
			{
				Cause:  "The program registers symmetric memory (a window) before the communicator did anything: it is not connected yet.",
				Remedy: "Run a barrier or another collective on the group before the first registration, or update the framework.",
				Test:   "torch.distributed.barrier() before the first use of symmetric memory",
				If:     []Fact{"text:symm_mem|symmetric|window"}, Likely: []Fact{"text:symmetricmemory|window"},
			},
			{
				Cause:  "Two ranks use one GPU, a rank or a size is wrong, or a buffer is not of this GPU.",
				Remedy: "Set the device of each rank before the first collective (torch.cuda.set_device(LOCAL_RANK)), and check rank and world size.",
				Test:   "NCCL_DEBUG=WARN for one run",
			},
			{
				Cause:  "The process has two copies of NCCL, or another release than the program was built with: what one made, the other refuses.",
				Remedy: "Leave one libnccl.so.2 in the environment (pip list | grep nccl, LD_LIBRARY_PATH, LD_PRELOAD).",
				Test:   "grep nccl /proc/PID/maps: which libnccl.so, and how many",
			},
		},
	},
	{
		ID: "nccl_error", Source: Program, Kind: Consequence, Generic: true,
		Forms: []Form{
			{Text: "unhandled system error (run with", File: getErrorString},
			{Text: "unhandled cuda error (run with", File: getErrorString},
			{Text: "internal error - please report this issue to the NCCL developers", File: getErrorString},
			{Text: "remote process exited or there was a network error", File: getErrorString},
			{Text: "NCCL error in:", File: processGroupNCCL},
			{Text: "Cuda failure (run with", File: getErrorString},
			{Text: "unhandled system error, NCCL version", File: getErrorString},
			{Text: "unhandled cuda error, NCCL version", File: getErrorString},
			{Text: "internal error, NCCL", File: getErrorString},
			{Text: "'unhandled system error", File: getErrorString},
			{Text: "'unhandled cuda error", File: getErrorString},
			{Text: "NCCL failure ", File: "nccl-tests src/common.h"},
			{Text: "Failed, NCCL error", File: "TensorRT-LLM"},
			{Text: "NCCL operation ", File: "xla, tensorflow, ray"},
			{Text: "NCCL: unhandled ", File: "tensorflow core/nccl"},
			{Text: "ExternalError: NCCL error", File: "paddle platform/enforce.h"},
			{Text: "NCCL Error ", File: "older PyTorch torch/csrc/cuda/nccl.cpp"},
			{Text: "NCCL_ERROR_", File: "cupy_backends/cuda/libs/nccl.pyx"},
			{Text: "failed: unhandled system error", File: "horovod common/ops/nccl_operations.cc"},
			{Text: "failed: unhandled cuda error", File: "horovod common/ops/nccl_operations.cc"},
			{Text: "ncclUnhandledCudaError", File: "PyTorch, Monarch, Paddle, CuPy"},
			{Text: "ncclSystemError", File: "PyTorch, Monarch, Paddle, CuPy"},
			{Text: "ncclInternalError", File: "PyTorch, Monarch, Paddle, CuPy"},
			{Text: "ncclRemoteError", File: "PyTorch, Monarch, Paddle, CuPy"},
			{Text: "NCCL error: ", File: "vllm distributed/device_communicators/pynccl_wrapper.py"},
		},
		Cause:   "A call of NCCL failed. The line has the kind of the error, not the cause.",
		Remedy:  "Look for the lines of NCCL before it; without any, run the job with NCCL_DEBUG=WARN.",
		Reasons: resultNames,
	},
	{
		ID: "zero_order_changed", Source: Program, Kind: Note, Harmless: true,
		Forms:  []Form{{Text: "Invalidate trace cache @ step", File: "deepspeed runtime/zero/partitioned_param_coordinator.py"}},
		Cause:  "The order of modules changed between steps under ZeRO-3: the program takes another way through the model.",
		Remedy: "None if all ranks take the same way.",
	},
	{
		ID: "gpu_share_not_free", Source: Program, Kind: Cause, Sure: true,
		Forms:  []Form{{Text: "on startup is less than desired GPU memory utilization", File: "vllm worker"}},
		Cause:  "A rank did not start, because less memory of its GPU is free than the program asks for: another process has it, or on GB10 the page cache.",
		Remedy: "Lower gpu_memory_utilization, end other processes on the GPU (nvidia-smi), or drop caches where memory is shared with the CPU.",
	},
	{
		ID: "interceptor_failed", Source: Program, Kind: Cause,
		Forms:  []Form{{Text: "[HAMI-core ERROR", File: hami}, {Text: "/libvgpu/src/", File: hami}},
		Cause:  "A library that divides GPUs among containers (HAMi, libvgpu.so by LD_PRELOAD) fails in calls of CUDA that NCCL makes.",
		Remedy: "Give the job whole GPUs without HAMi, set CUDA_DISABLE_CONTROL=true in the container, or NCCL_CUMEM_ENABLE=0 and NCCL_CUMEM_HOST_ENABLE=0; update HAMi.",
		Sure:   true,
	},
	{
		ID: "interceptor", Source: Program, Kind: Note, Harmless: true,
		Forms:  []Form{{Text: "[HAMI-core ", File: hami}, {Text: "libvgpu.so", File: hami}},
		Cause:  "A library that divides GPUs among containers (HAMi) is between the program and CUDA.",
		Remedy: "None if the job runs; else run it without: CUDA_DISABLE_CONTROL=true.",
	},
	{
		ID: "host_out_of_memory", Source: Program, Kind: Cause,
		Forms: []Form{
			{Text: "oom_kill event", File: memoryKiller},
			{Text: "oom-kill", File: memoryKiller},
			{Text: "Out of memory: Killed process", File: memoryKiller},
			{Text: "Memory cgroup out of memory", File: memoryKiller},
			{Text: "OOMKilled", File: memoryKiller},
		},
		Cause:  "The host or the control group of the job ran out of memory, and a process was killed.",
		Remedy: "Raise the memory of the job, or lower what it takes: workers of the data loader, checkpoints, pinned memory.",
		Sure:   true,
	},
	{
		ID: "job_ended", Source: Program, Kind: Cause,
		Forms: []Form{
			{Text: "error: Node failure on", File: "Slurm src/srun"},
			{Text: "DUE TO TIME LIMIT", File: "Slurm src/slurmd"},
			{Text: "DUE TO NODE FAILURE", File: "Slurm src/slurmd"},
			{Text: "DUE TO PREEMPTION", File: "Slurm src/slurmd"},
			{Text: " CANCELLED AT ", File: "Slurm src/slurmd"},
		},
		Cause:  "The scheduler ended the job: time limit, a failed node, preemption or a user.",
		Remedy: "Look at sacct of the job; what other lines say comes from it, if they are later.",
	},
	{
		ID: "process_killed", Source: Program, Kind: Cause, Generic: true,
		Forms: []Form{
			{Text: "SIGKILL", File: signals},
			{Text: "exitcode: -9", File: signals},
			{Text: "exitcode  : -9", File: signals},
			{Text: "killed by signal 9", File: signals},
			{Text: ": Killed", File: signals},
			{Text: "return code = -9", File: "deepspeed launcher/launch.py"},
			{Text: "on signal 9", File: "Open MPI"},
			{Text: "exited with code -9", File: signals},
			{Text: "exit code 137", File: signals},
			{Text: "Exit Code:    137", File: signals},
		},
		Cause:  "A process of the job was killed from outside: by the kernel for want of memory, by the scheduler, or by its launcher after another rank failed.",
		Remedy: "Look at the messages of the kernel for oom-kill, and at the scheduler.",
		Reasons: []Reason{
			{
				Cause:  "The memory of the host or of its control group was full, and the kernel killed the process (OOM killer), as it does most often.",
				Remedy: "Raise the memory of the job, or lower what it takes: workers of the data loader, checkpoints loaded by each rank, pinned memory.",
				Test:   "dmesg | grep -i -e oom -e 'killed process'; kubectl describe pod: OOMKilled",
				If:     []Fact{"!seen:job_ended"}, Likely: []Fact{"text:exitcode"},
			},
			{
				Cause:  "The scheduler, a user, or the launcher after another rank failed killed the process.",
				Remedy: "Look at the log of the scheduler, and at the first failure of the other ranks.",
				Test:   "sacct, kubectl get events",
			},
		},
	},
	{
		ID: "process_crashed", Source: Program, Kind: Cause,
		Forms: []Form{
			{Text: "Fatal Python error: Segmentation", File: signals},
			{Text: "Fatal Python error: Bus", File: signals},
			{Text: "Fatal Python error: Illegal", File: signals},
			{Text: "SIGSEGV", File: signals},
			{Text: "SIGBUS", File: signals},
			{Text: "Segmentation fault", File: signals},
			{Text: "Segfault encountered", File: signals},
			{Text: "Caught signal 11", File: signals},
			{Text: "Caught signal 7", File: signals},
			{Text: "exitcode: -11", File: signals},
			{Text: "exitcode  : -11", File: signals},
			{Text: "exitcode: -7", File: signals},
			{Text: "Bus error", File: signals},
			{Text: "return code = -11", File: "deepspeed launcher/launch.py"},
			{Text: "return code = -7", File: "deepspeed launcher/launch.py"},
			{Text: "on signal 11", File: "Open MPI"},
			{Text: "on signal 7", File: "Open MPI"},
			{Text: "segfault at ", File: "linux arch/x86/mm/fault.c"},
		},
		Generic: true,
		Cause:   "A process of the job crashed.",
		Remedy:  "Look at its stack (PYTHONFAULTHANDLER=1, or a core file): in which library it is.",
		Reasons: crashReasons,
	},
	{
		ID: "collectives_differ", Source: Program, Kind: Cause, Sure: true,
		Forms:  []Form{{Text: "Detected mismatch between collectives on ranks", File: "pytorch torch/csrc/distributed/c10d/ProcessGroupWrapper.cpp"}},
		Cause:  "At the same place of the program ranks call collectives of different sizes, types or kinds: their parameters, batches or ways through the program differ. It is no fault of the network.",
		Remedy: "Compare what the two ranks that the line names do there: a batch without a part of the model, a branch, a checkpoint on one rank.",
	},
	{
		ID: "rxdm_failed", Source: Program, Kind: Cause,
		Forms: []Form{
			{Text: "Number of GPUs detected in the PCI tree", File: "GPUDirect-TCPXO fastrak_gpumem_manager.cc"},
			{Text: "fastrak_gpumem_manager.cc:200]", File: "GPUDirect-TCPXO fastrak_gpumem_manager.cc"},
			{Text: "tcpxo-daemon] E", File: "GPUDirect-TCPXO, by kubectl"},
			{Text: "tcpx-daemon] E", File: "GPUDirect-TCPX, by kubectl"},
			{Text: "tcpxo-daemon] F", File: "GPUDirect-TCPXO, by kubectl"},
		},
		Cause:  "The receive daemon of GPUDirect-TCPX or TCPXO (RxDM) failed on this node, so that the plugin of NCCL cannot connect to it: its GPUs or NICs are not as it expects.",
		Remedy: "Read the log of the daemon from its beginning; compare GPUs and NICs of the node with Google's guide (networks of the pod, hostNetwork, no further network on a NIC slot).",
	},
	{
		ID: "library_mismatch", Source: Program, Kind: Cause,
		Forms: []Form{
			{Text: "undefined symbol: nccl", File: "glibc elf/dl-lookup.c"},
			{Text: "libnccl.so.2: cannot open shared object file", File: "glibc elf/dl-load.c"},
			{Text: "version `IBVERBS_", File: "glibc elf/dl-version.c"},
			{Text: "undefined symbol: pnccl", File: "glibc elf/dl-lookup.c"},
			{Text: "undefined symbol: ibv_", File: "glibc elf/dl-lookup.c"},
		},
		Cause:  "The loader finds a library that does not fit: another libnccl.so.2 or libibverbs.so.1 than the program was built with.",
		Remedy: "Unset LD_PRELOAD and LD_LIBRARY_PATH of other releases; install one release in the image, and do not mount libraries of the host.",
		Sure:   true,
	},
	{
		ID: "verbs_driver_missing", Source: Program, Kind: Note,
		Forms: []Form{
			{Text: "couldn't load driver 'lib", File: "rdma-core libibverbs/dynamic_driver.c"},
			{Text: "no userspace device-specific driver found for", File: "rdma-core libibverbs/init.c"},
		},
		Cause:  "libibverbs has no driver for a device, or drivers of another release of rdma-core.",
		Remedy: "Install ibverbs-providers of the same release as libibverbs1 in the image; without devices of that kind, none.",
	},
	{
		ID: "store_closed", Source: Program, Kind: Consequence, Generic: true,
		Forms: []Form{
			{Text: "ailed to recv, got 0 bytes", File: checkC10d},
			{Text: "See root cause above", File: "vllm engine"},
			{Text: "Broken pipe", File: checkC10d},
			{Text: "RuntimeError: Socket Timeout", File: checkC10d},
			{Text: "RuntimeError: Connection reset by peer", File: checkC10d},
			{Text: "ChildFailedError", File: "pytorch torch/distributed/elastic/multiprocessing"},
			{Text: "Fatal Python error: Aborted", File: signals},
			{Text: "exited on signal 6", File: signals},
			{Text: "exitcode: -6", File: signals},
			{Text: "exitcode  : -6", File: signals},
			{Text: "return code = -6", File: "deepspeed launcher/launch.py"},
			{Text: "Signal: Aborted", File: signals},
			{Text: "exited on signal 15", File: signals},
			{Text: "exitcode: -15", File: signals},
			{Text: "stopped sending heartbeats", File: "xla distributed runtime, coordination service"},
			{Text: "DEADLINE_EXCEEDED: Barrier timed out", File: "xla distributed runtime, coordination service"},
			{Text: "Shutdown barrier", File: "xla distributed runtime, coordination service"},
			{Text: "Terminating process because the JAX", File: "xla distributed runtime"},
			{Text: "Polled an error from coordination service", File: "xla distributed runtime"},
			{Text: "closing signal SIGTERM", File: "pytorch torch/distributed/elastic/multiprocessing"},
		},
		Cause:  "The process that the ranks are started or coordinated by ended, after one of them failed.",
		Remedy: "Look for the rank that failed first.",
		Reasons: []Reason{
			{
				Cause:  "Another process of the job failed or was ended first: this line only follows from it.",
				Remedy: "Look for the rank that failed first: its log, its exit code, the messages of the kernel and the scheduler on its host.",
				Test:   "the logs of all ranks, by time; dmesg | grep -i -e oom -e segfault -e xid on each host; sacct or kubectl get events",
			},
			{
				Cause:  "The process that holds the store (rank 0, or the launcher of the first host) ended while others still worked, as where the program ends without waiting for all.",
				Remedy: "End with a barrier and destroy_process_group on all ranks.",
				Test:   "whether rank 0 ended without an error before",
				If:     []Fact{"text:0 bytes|broken pipe|reset by peer|socket timeout"},
			},
		},
	},
}
