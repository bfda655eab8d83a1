// SPDX-License-Identifier: Apache-2.0

package signature

// resultReasons are what the result of a call says (ncclResult_t, "init.cc:1785 -> 2"), where no warning is in the log.
var resultReasons = []Reason{
	{
		Cause:  "A call of CUDA failed: no memory left on the GPU, a driver that is too old, a GPU that the process does not see, or one in error.",
		Remedy: "Run with NCCL_DEBUG=WARN for the error of CUDA; look at nvidia-smi in the job and at Xids.",
		Test:   "NCCL_DEBUG=WARN for one run; nvidia-smi; dmesg | grep -i xid",
		If:     []Fact{"text:-> 1"},
	},
	{
		Cause:  "A call of the system failed: a limit of the process (memory, files), /dev/shm, a device that is not in the container, or the network.",
		Remedy: "Run with NCCL_DEBUG=WARN for its error; look at ulimit -a, df /dev/shm, ip -br addr and /dev/infiniband in the job.",
		Test:   "NCCL_DEBUG=WARN for one run",
		If:     []Fact{"text:-> 2"},
	},
	{
		Cause:  "NCCL found a state that it does not expect: another rank failed first, releases or settings differ between ranks, or this release has an error.",
		Remedy: "Look at the logs of all ranks for an earlier failure; run with NCCL_DEBUG=WARN, then with a newer NCCL.",
		Test:   "the logs of all ranks, with NCCL_DEBUG=WARN; another release of NCCL",
		If:     []Fact{"text:-> 3"},
	},
	{
		Cause:  "The program handed NCCL an argument that it refuses, or called it in a wrong order.",
		Remedy: "Run with NCCL_DEBUG=WARN: NCCL says which. Two ranks on one GPU are the usual case.",
		Test:   "NCCL_DEBUG=WARN for one run",
		If:     []Fact{"text:-> 4|-> 5"},
	},
	{
		Cause:  "The process of another rank ended, or the network to it failed.",
		Remedy: "Look at the log of the other ranks: one of them failed first.",
		Test:   "the logs of the other ranks",
		If:     []Fact{"text:-> 6"},
	},
}

var gin = []Reason{
	{
		Cause:  "The NIC, its driver or the plugin does not support what GPU-initiated transfers need (GPUDirect RDMA by DMA-BUF or nvidia_peermem, DOCA GPUNetIO, symmetric memory).",
		Remedy: "Use NCCL_GIN_ENABLE=0, or a driver with open kernel modules, ConnectX-6 Dx or later, and libraries of one release.",
		Test:   "NCCL_GIN_ENABLE=0 for one run; check --only=gpudirect on the host",
	},
	{
		Cause:  "The program asks for a kind of transfer that its communicator was not made for.",
		Remedy: "Use releases of framework and NCCL that belong together.",
		Test:   "the releases of framework and NCCL; an example of NCCL on the same hosts",
	},
}

var verbsCalls = []Reason{
	{
		Cause:  "The device, its port or its GID cannot be used: a link that is down, a wrong GID index, another link layer, or firmware that does not answer.",
		Remedy: "Run check on the host; look at ibv_devinfo and show_gids in the job, and leave NCCL_IB_HCA and NCCL_IB_GID_INDEX unset.",
		Test:   "ibv_devinfo and show_gids in the job; ib_write_bw between the two hosts; NCCL_IB_DISABLE=1 for one run",
	},
	{
		Cause:  "The container has not all of what verbs need: /dev/infiniband, IPC_LOCK with unlimited locked memory, rdma-core of the driver.",
		Remedy: "Give it /dev/infiniband, --ulimit memlock=-1 and the same release of rdma-core as the host.",
		Test:   "ls -l /dev/infiniband; ulimit -l; ibv_devices in the job",
	},
	{
		Cause:  "The peer failed first, or has other devices or settings.",
		Remedy: "Look at the log of the peer, and compare the lines NET/IB of both.",
		Test:   "grep NET/IB in the logs of both hosts",
	},
}

var bootstrapCalls = []Reason{
	{
		Cause:  "Another rank failed, ended or did not come, so that the exchange among all ranks broke.",
		Remedy: "Look at the logs of all ranks: the first failure is there.",
		Test:   "the logs of all ranks: which of them has another warning, or no Init START",
	},
	{
		Cause:  "The ranks do not run the same: another release of NCCL, other settings, another number of ranks, or a process of an earlier run.",
		Remedy: "Use one image and environment on all hosts, and end old processes.",
		Test:   "NCCL_DEBUG=VERSION, env | grep NCCL and ps on all hosts",
	},
	{
		Cause:  "The interface that NCCL chose does not reach the others, or a firewall is between them.",
		Remedy: "Set NCCL_SOCKET_IFNAME to the network that the hosts share, and open all ports between them.",
		Test:   "the line Bootstrap : Using of each rank; nc -vz between the hosts",
	},
	interfacesApart,
	interfaceOdd,
	loopbackChosen,
}

// loopbackChosen is why ranks of other hosts are refused.
var loopbackChosen = Reason{
	Cause:  "NCCL uses the loopback interface first (lo, 127.0.0.1), so that ranks of other hosts connect to themselves: NCCL_SOCKET_IFNAME takes it, or excludes only others.",
	Remedy: "Set NCCL_SOCKET_IFNAME to the interface that the hosts share, or add lo to what it excludes (^lo,docker0); also in nccl.conf.",
	Test:   "the lines Bootstrap and NET/Socket : Using of each host",
	If:     []Fact{ChoseLoopback, "!one host"}, Likely: []Fact{ChoseLoopback, SeveralHosts},
}

var socketCalls = []Reason{
	{
		Cause:  "The process of the other side ended or never came: it may have failed first.",
		Remedy: "Look at the log of the rank at the address of the line.",
		Test:   "the logs of the other ranks",
	},
	{
		Cause:  "The network between the two fails: an interface that hosts do not share, a firewall, or connections that are cut when idle.",
		Remedy: "Set NCCL_SOCKET_IFNAME to the network that the hosts share, and open all ports between them.",
		Test:   "ip -br addr; nc -vz between the two addresses",
	},
	interfacesApart,
	interfaceOdd,
	loopbackChosen,
}

var nvlsCalls = []Reason{
	{
		Cause:  "NVLS does not work on this host: the fabric manager or an NVSwitch is in error, the container or VM may not use multicast, or driver and NCCL do not fit.",
		Remedy: "Set NCCL_NVLS_ENABLE=0 to go on; look at Fabric in nvidia-smi -q, at nvidia-fabricmanager and SXids; reset the GPUs after it was restarted.",
		Test:   "NCCL_NVLS_ENABLE=0 for one run; nvidia-smi -q | grep -A3 Fabric",
	},
	{
		Cause:  "The memory of the GPU is nearly full.",
		Remedy: "Leave NCCL 1 to 2 GiB.",
		Test:   "nvidia-smi while the job starts",
	},
}

var collnetCalls = []Reason{{
	Cause:  "SHARP or the plugin of it does not work here: no aggregation manager, no resources left, or releases that do not fit.",
	Remedy: "Set NCCL_COLLNET_ENABLE=0, or look at sharp_am and the plugin.",
	Test:   "NCCL_COLLNET_ENABLE=0 for one run",
}}

var sharingCalls = []Reason{
	cumemOff,
	{
		Cause:  "The ranks of the host may not share memory of GPUs: containers that see different GPUs or have no IPC namespace in common, seccomp, or on NVLink domains IMEX.",
		Remedy: "Run the ranks of a host in one container, or with --ipc=host and all GPUs; start nvidia-imex on NVLink domains.",
		Test:   "NCCL_P2P_DISABLE=1 for one run; nvidia-smi -L in each container",
	},
	{
		Cause:  "P2P between these GPUs does not work: the platform (IOMMU, ACS, a VM), the driver, or a link in error.",
		Remedy: "Look at nvidia-smi topo -p2p r and at Xids; NCCL_P2P_DISABLE=1 goes on, slower.",
		Test:   "NCCL_P2P_DISABLE=1 for one run; p2pBandwidthLatencyTest of the CUDA samples",
	},
	{
		Cause:  "A GPU is in error, or its process failed before.",
		Remedy: "Look at Xids, and at the other ranks of the host.",
		Test:   "dmesg | grep -i xid",
	},
}

var driverCalls = []Reason{
	driverUnfound,
	{
		Cause:  "Driver and CUDA of the program do not fit: a driver that is too old or was updated without a reboot, or libcuda of another place (compat, stubs).",
		Remedy: "Install a driver for the CUDA of the image; remove compat and stubs from LD_LIBRARY_PATH; reboot after an update.",
		Test:   "nvidia-smi; ldconfig -p | grep libcuda; a program of CUDA without NCCL",
	},
	{
		Cause:  "A GPU is in error or has no memory left, or the container does not see it.",
		Remedy: "Look at nvidia-smi in the job, and at Xids.",
		Test:   "nvidia-smi in the job; dmesg | grep -i xid",
	},
}

var shmCalls = []Reason{
	shmDenied,
	{
		Cause:  "/dev/shm is too small, full, or not the same for all ranks of the host.",
		Remedy: "Give the container more (--shm-size=16g, --ipc=host), and run the ranks of a host in one container.",
		Test:   "df -h /dev/shm in each container; NCCL_SHM_DISABLE=1 for one run",
	},
	{
		Cause:  "Host memory by cuMem does not work here (NUMA nodes, GPUs without P2P, driver).",
		Remedy: "Set NCCL_CUMEM_HOST_ENABLE=0 for all ranks.",
		Test:   "NCCL_CUMEM_HOST_ENABLE=0 for one run",
	},
}

var topologyCalls = []Reason{
	{
		Cause:  "The container or VM hides the PCI topology (/sys), or a file of another machine is given (NCCL_TOPO_FILE, NCCL_GRAPH_FILE).",
		Remedy: "Unset NCCL_TOPO_FILE and NCCL_GRAPH_FILE (also in /etc/nccl.conf), or use the file of the provider; mount /sys whole.",
		Test:   "nvidia-smi topo -m in the job and on the host; NCCL_TOPO_DUMP_FILE",
	},
	{
		Cause:  "This release of NCCL does not know the machine: GPUs, NICs or links that are newer, more or fewer than it expects.",
		Remedy: "Use a newer NCCL.",
		Test:   "the same with a newer NCCL",
	},
	{
		Cause:  "A setting leaves no way that NCCL could use (NCCL_ALGO, NCCL_IB_HCA, NCCL_NET_MERGE_LEVEL, NCCL_P2P_LEVEL).",
		Remedy: "Unset NCCL_* but NCCL_SOCKET_IFNAME.",
		Test:   "env -u of each NCCL_* setting",
	},
}

var registrationCalls = []Reason{
	{
		Cause:  "The memory is not as registration needs: not of ncclMemAlloc or the framework's allocator for it, of several pieces, of another size on some rank, or freed before.",
		Remedy: "Turn the feature off in the framework (symmetric memory, user buffers, NCCL_LOCAL_REGISTER=0), or use releases that belong together.",
		Test:   "the job without symmetric memory or user buffers; NCCL_LOCAL_REGISTER=0 NCCL_WIN_ENABLE=0",
	},
	{
		Cause:  "The platform cannot share such memory: driver, containers, IMEX, or GPUs without P2P.",
		Remedy: "Update the driver; run the ranks of a host in one container.",
		Test:   "NCCL_CUMEM_ENABLE=0 for one run; nvidia-smi topo -p2p r",
	},
	{
		Cause:  "Framework and NCCL are of releases that do not fit, or the process has two copies of NCCL.",
		Remedy: "Use the NCCL that the framework was built with.",
		Test:   "grep nccl /proc/PID/maps; pip list | grep nccl",
	},
}

var launchCalls = []Reason{
	{
		Cause:  "The program calls NCCL in a way that it refuses: arguments, order within a group, a stream or a graph that does not fit.",
		Remedy: "Look at what the program calls there; use releases of framework and NCCL that belong together.",
		Test:   "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL for one run",
	},
	{
		Cause:  "This release of NCCL does not fit the GPU, the driver or a setting (NCCL_ALGO, NCCL_PROTO).",
		Remedy: "Unset NCCL_ALGO and NCCL_PROTO; use a newer NCCL and driver.",
		Test:   "the same with a newer NCCL, and without NCCL_ALGO and NCCL_PROTO",
	},
}

var pluginCalls = []Reason{
	{
		Cause:  "The plugin does not fit: it is of another release than NCCL, a library that it needs is missing or of another release, or a setting refuses it.",
		Remedy: "Use plugin, NCCL and image of one release of the provider; or run without it (NCCL_NET_PLUGIN=none, NCCL_TUNER_PLUGIN=none).",
		Test:   "NCCL_NET_PLUGIN=none NCCL_TUNER_PLUGIN=none for one run; ldd of the plugin",
	},
	{
		Cause:  "The devices that it needs are not in the container, or their daemon does not run.",
		Remedy: "Give the container the devices, and look at the daemon of the plugin.",
		Test:   "ls /dev/infiniband; the daemon's log",
	},
}

var proxyCalls = []Reason{
	{
		Cause:  "Another rank, or the thread of this host that serves the others, failed or ended before.",
		Remedy: "Look at the logs of all ranks of the host for the first failure.",
		Test:   "the logs of all ranks, by time",
	},
	{
		Cause:  "A transport failed while it connected or moved data: network, P2P or shared memory.",
		Remedy: "Look at the lines before; leave out one transport after the other.",
		Test:   "NCCL_P2P_DISABLE=1, then NCCL_SHM_DISABLE=1, then NCCL_NET=Socket, for one run each",
	},
}

var gdrcopyCalls = []Reason{{
	Cause:  "GDRCopy does not work here: the module gdrdrv is not loaded, /dev/gdrdrv is not in the container, or releases do not fit.",
	Remedy: "Unset NCCL_GDRCOPY_ENABLE, or load gdrdrv and give the container /dev/gdrdrv.",
	Test:   "NCCL_GDRCOPY_ENABLE=0 for one run; lsmod | grep gdrdrv",
}}

var setupCalls = []Reason{
	{
		Cause:  "Another rank failed first, or the ranks do not agree (number of ranks, releases, settings).",
		Remedy: "Look at the logs of all ranks for the first failure; use one image and environment.",
		Test:   "the logs of all ranks; NCCL_DEBUG=VERSION on all hosts",
	},
	{
		Cause:  "Driver, GPU or platform do not give what NCCL needs at its start.",
		Remedy: "Look at nvidia-smi in the job; use a driver for the CUDA of the image.",
		Test:   "nvidia-smi in the job; a program of CUDA without NCCL",
	},
	{
		Cause:  "A setting or file that this release does not accept.",
		Remedy: "Unset NCCL_* but NCCL_SOCKET_IFNAME.",
		Test:   "env -u of each NCCL_* setting; /etc/nccl.conf",
	},
}

var otherCalls = []Reason{
	{
		Cause:  "GDRCopy cannot be opened: the container has no /dev/gdrdrv, or the module gdrdrv is not loaded.",
		Remedy: "Load gdrdrv on the host, and give the container /dev/gdrdrv.",
		Test:   "ls -l /dev/gdrdrv in the container; lsmod | grep gdrdrv on the host",
		If:     []Fact{"text:gdr handle|gdrcopy"}, Likely: []Fact{"text:gdr handle|gdrcopy"},
	},
	{
		Cause:  "The plugin aws-ofi-nccl failed: libfabric, plugin and driver are not of one EFA installer, devices are not in the container, or a limit of memory is too small.",
		Remedy: "Use the EFA software of one installer in image and host; --device=/dev/infiniband/uverbs*, --ulimit memlock=-1.",
		Test:   "fi_info -p efa in the container; FI_LOG_LEVEL=warn for one run",
		If:     []Fact{"text:NET/OFI", "!text:tuner|NCCL_|gdrcopy"},
	},
	{
		Cause:  "A setting that the line names is not what the plugin or this release of NCCL expects; the plugin may have set it itself.",
		Remedy: "Look at who sets it (the job, the image, /etc/nccl.conf, the plugin), and use another release of the plugin if it does.",
		Test:   "env | grep NCCL in the job; the lines set by environment of the log; the same without the plugin that wrote the line",
		If:     []Fact{"text:NCCL_", "!text:gdrcopy"}, Likely: []Fact{"text:NCCL_"},
	},
	{
		Cause:  "What the line names failed, and no row is of it.",
		Remedy: "Look the text up in the issues of NCCL or of the plugin that printed it; the same without the plugin shows whose it is.",
		Test:   "NCCL_NET_PLUGIN=none for one run; NCCL_DEBUG=INFO for the lines before",
	},
}
