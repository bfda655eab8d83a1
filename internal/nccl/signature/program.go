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
				Cause:  "A rank did not call the collective that the others wait in: it is busy, hangs, crashed, or took another way.",
				Remedy: "Look at the rank that does not wait: its log, py-spy dump of its process, its host.",
				Test:   "the logs of all ranks: which has no time-out, or waits elsewhere",
				Likely: []Fact{"!" + FirstCollective},
			},
			{
				Cause:  "The network between the hosts stopped: all ranks wait in the same collective.",
				Remedy: "Run check on all hosts; compare the interfaces and devices that NCCL chose on each; mind firewalls, MTU and ACS.",
				Test:   "all_reduce_perf of nccl-tests on the same hosts",
			},
		},
	},
	{
		ID: "pytorch_watchdog_exception", Source: PyTorch, Kind: Consequence, Generic: true,
		Forms: []Form{
			{Text: "Exception (either an error or timeout) detected by watchdog", File: processGroupNCCL},
			{Text: "raised the following async exception", File: processGroupNCCL},
			{Text: "watchdog thread terminated with exception", File: processGroupNCCL},
			{Text: "Heartbeat monitor timed out", File: processGroupNCCL},
			{Text: "some NCCL operations have failed or timed out", File: processGroupNCCL},
			{Text: "Observed flight recorder dump signal from another rank", File: processGroupNCCL},
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
			{Text: "NCCL error: ", File: "vllm distributed/device_communicators/pynccl_wrapper.py"},
		},
		Cause:  "A call of NCCL failed. The line has the kind of the error, not the cause.",
		Remedy: "Look for the lines of NCCL before it; without any, run the job with NCCL_DEBUG=WARN.",
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
		ID: "gpu_out_of_memory", Source: Program, Kind: Cause,
		Forms: []Form{
			{Text: "CUDA out of memory", File: "pytorch c10/cuda/CUDACachingAllocator.cpp"},
			{Text: "CUDA error: out of memory", File: "pytorch c10/cuda/CUDAException.cpp"},
			{Text: "HIP out of memory", File: "pytorch c10/cuda/CUDACachingAllocator.cpp"},
		},
		Cause:  "The program asked for more memory than the GPU has left.",
		Remedy: "Lower the batch or the sequence, or use more GPUs; other ranks only lost this one.",
		Sure:   true,
	},
	{
		ID: "gpu_program_error", Source: Program, Kind: Cause, Generic: true,
		Forms: []Form{
			{Text: "CUDA error: ", File: "pytorch c10/cuda/CUDAException.cpp"},
			{Text: "device-side assert triggered", File: "pytorch c10/cuda/CUDAException.cpp"},
		},
		Cause:   "A call or a kernel of the program failed on the GPU.",
		Remedy:  "Run the program with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer; look for an Xid.",
		Runbook: "check-gpu.md",
		Reasons: []Reason{
			{
				Cause:  "The GPU has an error of its hardware.",
				Remedy: "Drain the node and reset the GPU; look at its Xids.",
				Test:   "dmesg | grep -i xid",
				If:     []Fact{"text:ecc|nvlink"}, Certain: []Fact{"text:uncorrectable"},
			},
			{
				Cause:  "The fabric manager does not run, or does not fit the driver.",
				Remedy: "Start nvidia-fabricmanager of the version of the driver.",
				Test:   "nvidia-smi -q | grep -A3 Fabric",
				If:     []Fact{"text:system not yet initialized"}, Certain: []Fact{"text:system not yet initialized"},
			},
			{
				Cause:  "A kernel of the program accessed memory that is not its own, or failed an assertion.",
				Remedy: "Run the program with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer.",
				Test:   "CUDA_LAUNCH_BLOCKING=1 for one run",
				If:     []Fact{"text:illegal|assert|misaligned|launch failure|invalid program counter"}, Likely: []Fact{"!seen:xid"},
			},
		},
	},
	{
		ID: "host_out_of_memory", Source: Program, Kind: Cause,
		Forms: []Form{
			{Text: "oom_kill event", File: memoryKiller},
			{Text: "oom-kill", File: memoryKiller},
			{Text: "Out of memory: Killed process", File: memoryKiller},
			{Text: "Memory cgroup out of memory", File: memoryKiller},
			{Text: "OOMKilled", File: memoryKiller},
			{Text: "due to the node running low on memory", File: memoryKiller},
		},
		Cause:  "The host or the control group of the job ran out of memory, and a process was killed.",
		Remedy: "Raise the memory of the job, or lower what it takes: workers of the data loader, checkpoints, pinned memory.",
		Sure:   true,
	},
	{
		ID: "job_ended", Source: Program, Kind: Cause,
		Forms: []Form{
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
		},
		Cause:  "A process of the job was killed from outside: by the kernel for want of memory, by the scheduler, or by its launcher after another rank failed.",
		Remedy: "Look at the messages of the kernel for oom-kill, and at the scheduler.",
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
		},
		Generic: true,
		Cause:   "A process of the job crashed.",
		Remedy:  "Look at its stack (PYTHONFAULTHANDLER=1, or a core file): in which library it is.",
		Reasons: []Reason{
			{
				Cause:  "A library that is between the program and CUDA (HAMi, LD_PRELOAD) crashed.",
				Remedy: "Run the job without it: CUDA_DISABLE_CONTROL=true, or unset LD_PRELOAD.",
				Test:   "env -u LD_PRELOAD, or CUDA_DISABLE_CONTROL=true for one run",
				If:     []Fact{"seen:interceptor"}, Likely: []Fact{"seen:interceptor"},
			},
			{
				Cause:  "/dev/shm is full: a page of shared memory cannot be had.",
				Remedy: "Give the container more: --shm-size=16g, or an emptyDir of medium Memory at /dev/shm.",
				Test:   "df -h /dev/shm in the container",
				If:     []Fact{"text:bus error|sigbus|-7|signal 7"}, Likely: []Fact{"text:bus error|sigbus|-7|signal 7"},
			},
			{
				Cause:  "The set-up of NCCL overran its stack: its search of the topology of a large NVLink domain needs more than threads get where ulimit -s is unlimited (2 MiB then).",
				Remedy: "Set ulimit -s 8192 in the job (in the unit of the scheduler or container too), or use NCCL 2.28 or later; NCCL_MNNVL_ENABLE=0 avoids the search.",
				Test:   "ulimit -s in the job; ulimit -s 8192 for one run",
				If:     []Fact{InSetup, Clique}, Likely: []Fact{InSetup, Clique, "release<2.28"},
			},
			{
				Cause:  "NCCL, a plugin of it or the driver crashed in the set-up of a communicator.",
				Remedy: "Run without plugins (NCCL_NET_PLUGIN=none, NCCL_TUNER_PLUGIN=none), with another release of NCCL, and with ulimit -s 8192.",
				Test:   "NCCL_NET_PLUGIN=none for one run",
				If:     []Fact{InSetup}, Likely: []Fact{InSetup, "!" + Clique},
			},
		},
	},
	{
		ID: "library_mismatch", Source: Program, Kind: Cause,
		Forms: []Form{
			{Text: "undefined symbol: nccl", File: "glibc elf/dl-lookup.c"},
			{Text: "libnccl.so.2: cannot open shared object file", File: "glibc elf/dl-load.c"},
			{Text: "version `IBVERBS_", File: "glibc elf/dl-version.c"},
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
		ID: "rendezvous_failed", Source: Program, Kind: Cause, Remote: true,
		Forms: []Form{
			{Text: "clients joined", File: checkC10d},
			{Text: "The client socket has timed out after", File: "pytorch torch/csrc/distributed/c10d/socket.cpp"},
			{Text: "The client socket has failed to connect to", File: "pytorch torch/csrc/distributed/c10d/socket.cpp"},
			{Text: "The server socket has failed to listen", File: "pytorch torch/csrc/distributed/c10d/socket.cpp"},
			{Text: "RendezvousTimeoutError", File: "pytorch torch/distributed/elastic/rendezvous"},
			{Text: "RendezvousConnectionError", File: "pytorch torch/distributed/elastic/rendezvous"},
		},
		Cause:  "The processes of the job did not find each other over TCP, before NCCL began.",
		Remedy: "Check MASTER_ADDR and MASTER_PORT on all hosts, that all started, and that the port is open between them.",
		Reasons: []Reason{
			{
				Cause:  "Another process has the port, often one of an earlier run.",
				Remedy: "End the old process, or use another port.",
				Test:   "ss -ltnp on the first host",
				If:     []Fact{"errno:98"}, Certain: []Fact{"errno:98"},
			},
			{
				Cause:  "Not all processes started, or not with the same number of processes and address.",
				Remedy: "Compare the command lines of all hosts (--nnodes, --node-rank, MASTER_ADDR); look at those that did not come.",
				Test:   "the processes of each host",
				If:     []Fact{"text:joined"}, Likely: []Fact{"text:joined"},
			},
			{
				Cause:  "The address or port of the first host cannot be reached: a name that leads elsewhere, a firewall, or its process ended.",
				Remedy: "Use the address of the network that the hosts share, and open the port.",
				Test:   "nc -vz MASTER_ADDR MASTER_PORT from the other hosts",
			},
		},
	},
	{
		ID: "store_closed", Source: Program, Kind: Consequence, Generic: true,
		Forms: []Form{
			{Text: "failed to recv, got 0 bytes", File: checkC10d},
			{Text: "Broken pipe", File: checkC10d},
			{Text: "ChildFailedError", File: "pytorch torch/distributed/elastic/multiprocessing"},
			{Text: "Fatal Python error: Aborted", File: signals},
			{Text: "closing signal SIGTERM", File: "pytorch torch/distributed/elastic/multiprocessing"},
		},
		Cause:  "The process that the ranks are started or coordinated by ended, after one of them failed.",
		Remedy: "Look for the rank that failed first.",
	},
}

// gloo are lines of Gloo, over which PyTorch's ranks exchange what is not on GPUs.
var gloo = []Signature{
	{
		ID: "gloo_connect", Source: Gloo, Kind: Cause, Remote: true, Forms: []Form{{
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
