// SPDX-License-Identifier: Apache-2.0

package signature

// Reasons that several rows have.
var (
	memlock = Reason{
		Cause:   "The limit of locked memory is too small{memlock}.",
		Remedy:  "Set the limit of locked memory to unlimited: ulimit -l, LimitMEMLOCK= of slurmd or containerd, --ulimit memlock=-1, IPC_LOCK in a pod.",
		Test:    "ulimit -l in the job",
		If:      []Fact{"errno:0,1,11,12", "!" + MemlockFree},
		Likely:  []Fact{"errno:11,12", "!text:dmabuf", "!set:NCCL_BUFFSIZE"},
		Certain: []Fact{MemlockSmall, "!text:dmabuf"},
	}
	deviceAccess = Reason{
		Cause:  "The container or user has no access to the device nodes.",
		Remedy: "Give the container /dev/infiniband (a device plugin, --device=/dev/infiniband, privileged), and the user permission for uverbs*.",
		Test:   "ls -l /dev/infiniband in the job",
		If:     []Fact{"errno:0,1,2,13,19"}, Likely: []Fact{"errno:1,2,13"},
	}
)

// NVMLRefused is a question to NVML that the GPU does not know, where NCCL takes that for a failure.
var NVMLRefused = Signature{
	ID: "nvml_refused", Source: NCCL, Kind: Cause,
	Forms:   []Form{{Text: "failed: Not Supported", File: "NVML nvmlErrorString, before a call that returns an error"}},
	Cause:   "NVML does not know this query for this GPU, and this release of NCCL takes that for a failure.",
	Remedy:  "Use a newer NCCL, or the one of the board.",
	Runbook: "check-gpu.md",
	Reasons: []Reason{
		{
			Cause:  "The GPU is part of a processor (Jetson, Thor, GB10), or of a machine where NVML does not know this query, and this release of NCCL takes that for a failure.",
			Remedy: "Use a newer NCCL, or the one made for the board (JetPack); one GPU for the job goes on meanwhile.",
			Test:   "the same with a newer NCCL; the same with one GPU",
			Likely: []Fact{"text:not supported"},
		},
		{
			Cause:  "The library of NVML and the kernel module are not of one driver, or the container has another one.",
			Remedy: "Reboot after an update of the driver; start the container with the NVIDIA runtime.",
			Test:   "nvidia-smi topo -p2p r, in the job and on the host",
		},
	},
}

// DriverLibraryMissing is a library of the driver that NCCL does not find, where it fails by that.
var DriverLibraryMissing = Signature{
	ID: "driver_library_missing", Source: NCCL, Kind: Cause,
	Forms:   []Form{{Text: "Failed to find CUDA library", File: "NCCL 2.17 and later src/misc/cudawrap.cc"}},
	Cause:   "NCCL does not find libcuda.so, the library of the driver of the GPU, and fails without it.",
	Remedy:  "Start the container with the NVIDIA runtime; let the loader find libcuda.so (ldconfig; in WSL2 /usr/lib/wsl/lib in LD_LIBRARY_PATH).",
	Runbook: "check-gpu.md",
	Reasons: []Reason{driverUnfound},
}

// NVMLIgnored is the same where its process went on.
var NVMLIgnored = Signature{
	ID: "nvml_ignored", Source: NCCL, Kind: Note, Harmless: true,
	Forms:  NVMLRefused.Forms,
	Cause:  "NVML does not know a query for this GPU, and NCCL goes on without.",
	Remedy: "None.",
}

// shmDenied is that the user may not write /dev/shm.
var shmDenied = Reason{
	Cause:  "/dev/shm may not be written by this user: its rights, SELinux, or segments that another user left behind.",
	Remedy: "Make /dev/shm writable for all (chmod 1777), and remove /dev/shm/nccl-* of other users.",
	Test:   "ls -ld /dev/shm; ls -l /dev/shm; id, in the job",
	If:     []Fact{"errno:1,13"}, Likely: []Fact{"errno:1,13"},
	Certain: []Fact{"errno:13", "text:shm_open|shared memory segment"},
}

// driverUnfound is that the loader does not find a library of the driver.
var driverUnfound = Reason{
	Cause:  "The loader does not find a library of the driver of the GPU, which the line names.",
	Remedy: "Start the container with the NVIDIA runtime; add the place of the library to LD_LIBRARY_PATH or ldconfig (in WSL2 /usr/lib/wsl/lib).",
	Test:   "ldconfig -p | grep -e libcuda -e libnvidia-ml in the job",
	If:     []Fact{"errno:2"}, Likely: []Fact{"errno:2"},
}

// driverApart is that libraries and module of the driver are of two releases.
var driverApart = Reason{
	Cause:  "The library of the driver and the kernel module are of different releases: the driver was updated without a reboot, or the container has a library of another one.",
	Remedy: "Reboot the host, or reload the module when no job runs; start the container with the NVIDIA runtime, without libraries of its own.",
	Test:   "cat /proc/driver/nvidia/version; nvidia-smi on the host and in the container",
	If:     []Fact{"text:version mismatch"}, Certain: []Fact{"text:version mismatch"},
}

// driverReasons are why the driver does not fit, by the number of CUDA's error.
var driverReasons = []Reason{
	{
		Cause:  "The driver of the GPU is too old for the CUDA of the program or of NCCL.",
		Remedy: "Install a driver for the CUDA of the image, or use an image for an older CUDA.",
		Test:   "nvidia-smi: CUDA Version; torch.version.cuda",
		If:     []Fact{"code:35"}, Certain: []Fact{"code:35"},
	},
	{
		Cause:  "The driver of the GPU is too old for what this NCCL calls, or libcuda.so is of an older release than the kernel module.",
		Remedy: "Install a newer driver, or use an older NCCL; look for another libcuda.so.1 in LD_LIBRARY_PATH.",
		Test:   "nvidia-smi: CUDA Version; ldconfig -p | grep libcuda",
		If:     []Fact{"code:36"}, Likely: []Fact{"code:36"},
	},
	{
		Cause:  "The loader finds the stub of libcuda.so (lib64/stubs of the CUDA toolkit) instead of the driver's library.",
		Remedy: "Take the folder of stubs out of LD_LIBRARY_PATH; start the container with the NVIDIA runtime.",
		Test:   "ldd and LD_DEBUG=libs of the program: which libcuda.so.1; echo $LD_LIBRARY_PATH",
		If:     []Fact{"code:34"}, Likely: []Fact{"code:34"},
	},
	{
		Cause:  "This build of NCCL, or of the program, is not of the libraries that it runs with, or was linked with the stub.",
		Remedy: "Use a NCCL for the CUDA of the program, of one release on all hosts; try a newer one.",
		Test:   "grep -e nccl -e cuda /proc/PID/maps; the same with another release of NCCL",
		If:     []Fact{"code:34"},
	},
	{
		Cause:  "The library of the driver is not of the release of the kernel module: the driver was updated without a reboot, or the image brings a library of its own (cuda-compat).",
		Remedy: "Reboot after an update of the driver; remove /usr/local/cuda/compat from LD_LIBRARY_PATH, or install a driver for the CUDA of the image.",
		Test:   "cat /proc/driver/nvidia/version; ldconfig -p | grep libcuda in the container",
		If:     []Fact{"code:803"}, Certain: []Fact{"code:803"},
	},
	{
		Cause:  "The image has a library of forward compatibility (cuda-compat), which this GPU or driver does not support.",
		Remedy: "Remove /usr/local/cuda/compat from LD_LIBRARY_PATH, or install a driver for the CUDA of the image.",
		Test:   "ls /usr/local/cuda/compat; nvidia-smi: CUDA Version",
		If:     []Fact{"code:804"}, Certain: []Fact{"code:804"},
	},
}

// certainBy is a reason with another fact that it is certain by.
func certainBy(r Reason, fact Fact) Reason {
	r.If, r.Likely, r.Certain = []Fact{fact}, nil, []Fact{fact}
	return r
}

// netNotFound is that NCCL_NET names what is not there.
var netNotFound = Reason{
	Cause:  "{NCCL_NET} names a network that neither NCCL nor a plugin of the image has, or whose devices are not in the container.",
	Remedy: "Unset NCCL_NET, or install the plugin and give the container the devices (/dev/infiniband).",
	Test:   "unset NCCL_NET for one run; the lines NET/ of the log at the level INFO",
	If:     []Fact{"text:error: network ", "!" + NoDevice, "!" + NoPlugin, "!" + PluginUnloadable},
	Likely: []Fact{"text:error: network "},
}

// ringsApart is that ranks computed different rings.
var ringsApart = Reason{
	Cause:  "Ranks found different topologies: speeds or devices that one of them cannot read, settings or releases that differ, or an error of this release.",
	Remedy: "Use a newer NCCL, and the same settings on all ranks; compare what each rank finds.",
	Test:   "the same with a newer NCCL; NCCL_TOPO_DUMP_FILE=/tmp/topo.xml on each rank, compared",
	If:     []Fact{"text:does not loop|loops back"}, Likely: []Fact{"text:does not loop|loops back"},
}

// cumemOff is that a setting has NCCL share memory of GPUs by the older way.
var cumemOff = Reason{
	Cause:  "NCCL_CUMEM_ENABLE=0 is set, so that NCCL shares memory of GPUs by CUDA IPC, which does not work here: memory of another allocator (expandable segments), ranks that set it differently, or containers.",
	Remedy: "Unset NCCL_CUMEM_ENABLE, or set it to 1 on all ranks, also where a framework sets it.",
	Test:   "NCCL_CUMEM_ENABLE=1 for one run on all ranks; NCCL_P2P_DISABLE=1 for one run",
	If:     []Fact{"set:NCCL_CUMEM_ENABLE=0"}, Likely: []Fact{"set:NCCL_CUMEM_ENABLE=0"},
}

// intercepted is that a library is between the program and CUDA.
var intercepted = Reason{
	Cause:  "A library that is between the program and CUDA (HAMi, LD_PRELOAD) stalls calls that NCCL makes.",
	Remedy: "Run the job without it: CUDA_DISABLE_CONTROL=true, or unset LD_PRELOAD; update it.",
	Test:   "CUDA_DISABLE_CONTROL=true, or env -u LD_PRELOAD, for one run; py-spy dump --native of each process",
	If:     []Fact{"seen:interceptor"}, Likely: []Fact{"seen:interceptor"},
}

// importReasons are why memory of another GPU cannot be mapped.
var importReasons = []Reason{
	{
		Cause:  "Several machines have the same host name, and NCCL takes them for one: it tries P2P between hosts.",
		Remedy: "Give each host a name of its own (or NCCL_HOSTID, from 2.19 on).",
		Test:   "hostname on each host, in the container; the addresses of the lines Using",
		If:     []Fact{SameName}, Likely: []Fact{SameName},
	},
	{
		Cause:  "The two GPUs have no peer access to each other, and NCCL did not see it, as where each process sees its own GPU only.",
		Remedy: "Set NCCL_P2P_DISABLE=1, or let each process see all GPUs of the host (CUDA_VISIBLE_DEVICES), so that NCCL can ask for it.",
		Test:   "nvidia-smi topo -p2p r; NCCL_P2P_DISABLE=1 for one run",
		If:     []Fact{"text:peer access is not supported|: 217"}, Likely: []Fact{"text:peer access is not supported|: 217"},
	},
	{
		Cause:  "The ranks of the host do not share what P2P needs: the IPC namespace, or sight of all GPUs, as in containers.",
		Remedy: "Run the ranks of a host in one container, or with --ipc=host and all GPUs; NCCL_P2P_DISABLE=1 goes on, slower.",
		Test:   "nvidia-smi -L in each container; NCCL_P2P_DISABLE=1 for one run",
		Likely: []Fact{"!text:peer access is not supported|: 217"},
	},
}

// nvlsReasons are what makes the set-up of NVLink SHARP fail.
var nvlsReasons = []Reason{
	{
		Cause:  "The driver is too old for the multicast memory that this NCCL asks for (handles of the fabric are of CUDA 12.3 and later).",
		Remedy: "Use a driver of CUDA 12.4 or later, or set NCCL_NVLS_ENABLE=0.",
		Test:   "nvidia-smi: CUDA Version; NCCL_NVLS_ENABLE=0 for one run",
		If:     []Fact{"driver<12.3"}, Likely: []Fact{"driver<12.3"},
	},
	{
		Cause:  "The NVSwitches have no multicast groups left: each communicator with NVLS takes some, also of other jobs on the host, and NCCL 2.29 fails where others go on without.",
		Remedy: "Set NCCL_NVLS_ENABLE=0, make fewer communicators (process groups), or use another release of NCCL.",
		Test:   "NCCL_NVLS_ENABLE=0 for one run; how many groups the program makes",
		If:     []Fact{"text:out of memory"}, Likely: []Fact{"text:out of memory", "!driver<12.3"},
	},
	{
		Cause:  "The fabric manager was restarted, or failed, without a reset of the GPUs after it.",
		Remedy: "Drain the node, restart nvidia-fabricmanager and reset all GPUs together (nvidia-smi -r), or reboot. NCCL_NVLS_ENABLE=0 goes on meanwhile.",
		Test:   "nvidia-smi -q | grep -A3 Fabric, and the times of systemctl status nvidia-fabricmanager and of the boot",
		Likely: []Fact{"!driver<12.3", "!" + Clique},
	},
	{
		Cause:  "NVLink between hosts cannot be used: IMEX does not run, or its channels are missing in the container.",
		Remedy: "Run nvidia-imex on all hosts of the job, and give containers /dev/nvidia-caps-imex-channels (a ComputeDomain in Kubernetes).",
		Test:   "nvidia-imex-ctl -N; NCCL_MNNVL_ENABLE=0 for one run",
		If:     []Fact{Clique}, Likely: []Fact{Clique},
	},
	{
		Cause:  "The machine shares its NVSwitches (a VM, MIG, or a partition of the fabric), without multicast.",
		Remedy: "Set NCCL_NVLS_ENABLE=0.",
		Test:   "NCCL_NVLS_ENABLE=0 for one run",
	},
}

// ucxReasons are why UCX fails.
var ucxReasons = []Reason{
	{
		Cause:  "The other side did not acknowledge packets: the path (a link, PFC, MTU), the GID, or its process is gone.",
		Remedy: "Look at the log of the peer first; compare GIDs and MTUs; set UCX_NET_DEVICES and UCX_IB_GID_INDEX.",
		Test:   "ib_write_bw between the two hosts; show_gids; the log of the peer",
		If:     []Fact{"text:retry count|Endpoint timeout"}, Likely: []Fact{"text:retry count"},
	},
	{
		Cause:  "UCX found no way between the two processes: UCX_TLS or UCX_NET_DEVICES leave none, or a device or /dev/shm is not in the container.",
		Remedy: "Unset UCX_TLS and UCX_NET_DEVICES; give the container /dev/infiniband, IPC and shared memory.",
		Test:   "ucx_info -d in the container",
		If:     []Fact{"text:no active messages|unreachable|not available|no usable"}, Likely: []Fact{"text:no active messages|unreachable|not available|no usable"},
	},
	{
		Cause:  "UCX, over which programs or the plugin of HPC-X move data, failed.",
		Remedy: "Use NCCL_PLUGIN_P2P=ib for the verbs of the plugin; look at UCX_NET_DEVICES and UCX_TLS.",
		Test:   "UCX_LOG_LEVEL=info for one run",
		If:     []Fact{"!text:retry count|no active messages|unreachable|not available|no usable"},
	},
}
