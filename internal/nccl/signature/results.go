// SPDX-License-Identifier: Apache-2.0

package signature

// resultNames are what may be behind a result of NCCL that a program prints, by its name.
var resultNames = []Reason{
	{
		Cause:  "The launcher gave a worker NCCL_SOCKET_IFNAME or NCCL_IB_HCA of another host (the lines Overwriting), whose names this host may not have, or not for the same cable.",
		Remedy: "Connect the same port on all hosts, or keep the launcher from copying NCCL_SOCKET_IFNAME, NCCL_IB_HCA and their like (vLLM: VLLM_RAY_EXTRA_ENV_VARS_TO_COPY and its exclusion list).",
		Test:   "ip -br addr and ibv_devices on both hosts, compared with the values of the lines Overwriting",
		If:     []Fact{"seen:settings_overwritten", "!text:cuda error|invalid"}, Likely: []Fact{"seen:settings_overwritten"},
	},
	{
		Cause:  "The program registers memory of a symmetric window while it captures a CUDA graph, which needs calls that a capture forbids.",
		Remedy: "Turn symmetric memory of the framework off (VLLM_USE_NCCL_SYMM_MEM=0, NCCL_WIN_ENABLE=0), or run without graphs (enforce_eager).",
		Test:   "the job without graphs, then without symmetric memory; NCCL_DEBUG=WARN for one run",
		If:     []Fact{"stack:capturing|graph_capture|capture_model|cudagraph", "stack:window|symm"},
		Likely: []Fact{"stack:window|symm"},
	},
	{
		Cause:  "The registration of symmetric memory (a window) failed: the platform cannot share it, the memory is not of the allocator for it, or framework and NCCL do not fit.",
		Remedy: "Turn symmetric memory of the framework off (VLLM_USE_NCCL_SYMM_MEM=0, NCCL_WIN_ENABLE=0).",
		Test:   "the job without symmetric memory; NCCL_DEBUG=WARN for one run",
		If:     []Fact{"stack:window|symm", "!stack:capturing|graph_capture|capture_model|cudagraph"},
		Likely: []Fact{"stack:commwindow|comm_window|symm_mem"},
	},
	{
		Cause:  "The result is not one that the program knows: it runs with another NCCL than it was built with, or uses a communicator that failed before.",
		Remedy: "Use the NCCL that the program was built with (one libnccl.so.2: LD_LIBRARY_PATH, pip list); run with NCCL_DEBUG=WARN.",
		Test:   "grep nccl /proc/PID/maps; NCCL_DEBUG=WARN for one run",
		If:     []Fact{"text:unknown result code"}, Likely: []Fact{"text:unknown result code"},
	},
	interfaceOdd,
	{
		Cause:  "The kind of the error says that a call of the system failed, not which: /dev/shm or a limit that is too small, an interface or device that the container does not have, or a connection that was refused.",
		Remedy: "Run with NCCL_DEBUG=WARN; look at df -h /dev/shm (--shm-size or --ipc=host of the container), ulimit -l -n, ip -br addr and NCCL_SOCKET_IFNAME in the job.",
		Test:   "NCCL_DEBUG=WARN for one run: the first line with WARN says which call; df -h /dev/shm",
		If:     []Fact{"text:system error|ncclSystemError|NCCL_ERROR_SYSTEM|Error 2"},
	},
	{
		Cause:  "The kind of the error says that a call of CUDA failed, not which: no memory left on the GPU, a driver or build that does not fit, GPUs that the process does not see, P2P or NVLS, or a GPU in error.",
		Remedy: "Run with NCCL_DEBUG=WARN; look at nvidia-smi in the job and at Xids.",
		Test:   "NCCL_DEBUG=WARN for one run: the first line with WARN has the error of CUDA; nvidia-smi; dmesg | grep -i xid",
		If:     []Fact{"text:cuda error|Cuda failure|ncclUnhandledCudaError|NCCL_ERROR_UNHANDLED_CUDA|Error 1"},
	},
	{
		Cause:  "The kind of the error says that NCCL met a state that it does not expect, not why: another rank failed first, a plugin or the topology, ranks that differ, or an error of this release.",
		Remedy: "Run with NCCL_DEBUG=WARN on all ranks and look at the first warning; then try a newer NCCL.",
		Test:   "NCCL_DEBUG=WARN for one run: the first line with WARN of all ranks; a newer NCCL",
		If:     []Fact{"text:internal error|ncclInternalError|NCCL_ERROR_INTERNAL|Error 3"},
	},
	{
		Cause:  "Another rank ended, or the network to it failed.",
		Remedy: "Look at the logs of the other ranks for the first failure.",
		Test:   "the logs of all ranks, by time",
		If:     []Fact{"text:remote process|ncclRemoteError|Error 6"},
	},
	{
		Cause:  "A call of NCCL failed. The line has the kind of the error, not the cause.",
		Remedy: "Look for the lines of NCCL before it; without any, run the job with NCCL_DEBUG=WARN.",
		Test:   "NCCL_DEBUG=WARN for one run: the first line with WARN says which call and why",
		If: []Fact{"!text:system error|cuda error|internal error|remote process|ncclS|ncclU|ncclI|ncclR|" +
			"NCCL_ERROR_|Error 1|Error 2|Error 3|Error 6|Cuda failure"},
	},
}

// cudaReasons are what errors of CUDA mean in calls that no row has.
var cudaReasons = []Reason{
	{
		Cause:  "The GPU or an NVLink failed.",
		Remedy: "See the Xid.",
		Test:   "dmesg | grep -i xid",
		If:     []Fact{"seen:xid"}, Likely: []Fact{"seen:xid"},
	},
	{
		Cause:  "The job runs in WSL2, whose driver does not do all that NCCL asks for between several GPUs.",
		Remedy: "Run it on Linux itself, or try a newer NCCL and driver; NCCL_P2P_DISABLE=1 and NCCL_CUMEM_ENABLE=0 may go on.",
		Test:   "NCCL_P2P_DISABLE=1 NCCL_CUMEM_ENABLE=0 for one run; the same on Linux itself",
		If:     []Fact{"seen:wsl"}, Likely: []Fact{"seen:wsl"},
	},
	{
		Cause:  "The library of the driver is not where NCCL looks for it (libcuda.so, an earlier line), as in WSL2 and containers without the NVIDIA runtime: calls go to none, or to another one.",
		Remedy: "Let the loader find libcuda.so (ldconfig, LD_LIBRARY_PATH; in WSL2 /usr/lib/wsl/lib); in WSL2 try the same on Linux itself.",
		Test:   "ldconfig -p | grep libcuda in the job; uname -r (microsoft-standard-WSL2)",
		If:     []Fact{"seen:driver_library_unfound"}, Likely: []Fact{"seen:driver_library_unfound"},
	},
	{
		Cause:  "This release of NCCL does not fit the driver or the platform (WSL2, a virtual machine): P2P or cuMem does not work there.",
		Remedy: "Use a newer NCCL and driver; NCCL_P2P_DISABLE=1 or NCCL_CUMEM_ENABLE=0 may go on.",
		Test:   "the same with a newer NCCL; NCCL_P2P_DISABLE=1, then NCCL_CUMEM_ENABLE=0, for one run each",
		If:     []Fact{"seen:driver_library_unfound"},
	},
	{
		Cause:  "This release of NCCL does not fit the GPU: its kernels need more shared memory than the GPU gives them.",
		Remedy: "Use a newer NCCL (2.26.2 or later for Blackwell, RTX 50 and PRO).",
		Test:   "the same with a newer NCCL",
		If:     []Fact{"seen:kernel_unfit", "code:1"}, Likely: []Fact{"seen:kernel_unfit"},
	},
	{
		Cause:  "A GPU has more peers than CUDA can map: 8 of a GPU at a time, over all processes of the host.",
		Remedy: "Use at most 8 GPUs in a process, or a process for each GPU; end other programs that map peers.",
		Test:   "the number of GPUs of the process; nvidia-smi: other processes",
		If:     []Fact{"code:711"}, Certain: []Fact{"code:711"},
	},
	{
		Cause:  "The driver or the platform does not support what NCCL asks for (vGPU without unified memory, MIG, WSL, an old driver, confidential computing).",
		Remedy: "For a vGPU turn on unified memory (UVM) in its profile; use a newer driver; NCCL_CUMEM_ENABLE=0 and NCCL_NVLS_ENABLE=0 avoid newer features.",
		Test:   "nvidia-smi -q: Virtualization Mode; NCCL_CUMEM_ENABLE=0 NCCL_NVLS_ENABLE=0 for one run",
		If:     []Fact{"code:801"}, Likely: []Fact{"code:801"},
	},
	noPeers,
	noOrdinal,
	{
		Cause:  "The container may not share memory handles (seccomp, no IPC namespace in common, IMEX channels missing).",
		Remedy: "Run the ranks of a host in one container or with --ipc=host; NCCL_CUMEM_ENABLE=0 uses CUDA IPC instead.",
		Test:   "NCCL_CUMEM_ENABLE=0 for one run",
		If:     []Fact{"code:101,304,800"}, Likely: []Fact{"code:304,800"},
	},
	{
		Cause:  "The program ends, or uses another GPU than the communicator was made for.",
		Remedy: "Destroy process groups before the end; set the device of each rank before the first collective.",
		Test:   "CUDA_LAUNCH_BLOCKING=1 for one run",
		If:     []Fact{"code:4,201,400,709"}, Likely: []Fact{"code:4,201,400,709"},
	},
	{
		Cause:  "Driver, GPU and this build of NCCL do not fit: it has no code for the GPU, needs a newer driver, or finds another libcuda or libnccl than it was built for.",
		Remedy: "Use a newer driver, and a NCCL for the CUDA of the driver and for this GPU; look at LD_LIBRARY_PATH.",
		Test:   "nvidia-smi; ldd of the program: which libcuda.so.1 and libnccl.so.2; cuobjdump --list-elf of libnccl.so.2",
		If:     []Fact{"code:200,218,219,221,300,302,303,500"}, Likely: []Fact{"code:200,218,219,221,300,302,303,500"},
	},
	{
		Cause:  "The driver or the fabric manager failed.",
		Remedy: "Look at the Xids and at nvidia-smi -q | grep -A3 Fabric; reset the GPUs when no job runs.",
		Test:   "dmesg | grep -i -e xid -e nvrm",
		If:     []Fact{"code:205,999"}, Likely: []Fact{"code:999"},
	},
	{
		Cause:  "A call of CUDA failed for another reason: the error of the line does not say where.",
		Remedy: "Look for Xids at that time, and for the first failure of the other ranks; run with NCCL_DEBUG=INFO for the place in the source.",
		Test:   "NCCL_DEBUG=INFO for one run",
	},
}
