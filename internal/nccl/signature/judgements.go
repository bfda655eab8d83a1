// SPDX-License-Identifier: Apache-2.0

package signature

// Judgements that take more than one line: how the connections of a log go.
var (
	TCP = Signature{
		ID: "transport_tcp", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "via NET/Socket", In: `via NET/%s/%d`},
		},
		Cause:   "Data between hosts goes over TCP, which is several times slower than RDMA. Either NCCL found no RDMA device that it can use, or a setting chose TCP.",
		Remedy:  "On nodes with RDMA: look at the lines NET/IB and NET/Plugin, unset NCCL_IB_DISABLE and NCCL_NET=Socket, and run check in the container of the job. On nodes without, this is as expected.",
		Runbook: "GpuFabricJobOnTcp.md",
		Reasons: tcpReasons,
	}
	NoGPUDirect = Signature{
		ID: "gpudirect_unused", Source: NCCL, Kind: Cause,
		Forms:   []Form{{Text: "via NET/IB/0 without /GDRDMA", In: `via NET/%s/%d`}},
		Cause:   "RDMA goes through the memory of the host instead of directly to the GPU: nvidia_peermem or DMA-BUF is missing, or the device is further from the GPU than NCCL_NET_GDR_LEVEL allows.",
		Remedy:  "Run check --only=gpudirect on the host. GPUs that do not support GPUDirect RDMA (GeForce) always have this.",
		Runbook: "check-gpudirect.md",
		Reasons: []Reason{
			deviceFar,
			peerMemoryOfAMD,
			{
				Cause:  "NCCL_NET_GDR_LEVEL or NCCL_NET_GDR_READ turns it off.",
				Remedy: "Unset NCCL_NET_GDR_LEVEL and NCCL_NET_GDR_READ.",
				Test:   "the lines set by environment of the log",
				If:     []Fact{"set:NCCL_NET_GDR_LEVEL"}, Likely: []Fact{"set:NCCL_NET_GDR_LEVEL"},
				Certain: []Fact{"set:NCCL_NET_GDR_LEVEL=LOC"},
			},
			{
				Cause:  "NCCL before 2.23 looks for nv_peer_mem only, and the host has its successor nvidia_peermem.",
				Remedy: "Use NCCL 2.23 or later, or DMA-BUF (open kernel modules of the driver, NCCL_DMABUF_ENABLE=1).",
				Test:   "lsmod | grep -e nv_peer_mem -e nvidia_peermem",
				If:     []Fact{"release<2.23", "!" + OfAMD},
			},
			{
				Cause:  "nvidia_peermem is not loaded on {without}, nor DMA-BUF available there: other hosts of the job use GPUDirect RDMA.",
				Remedy: "Load nvidia_peermem there after the RDMA drivers, or rebuild it for them; compare driver, kernel and RDMA stack with a host that uses it.",
				Test:   "check --only=gpudirect on {without}; lsmod | grep -e peermem -e nv_peer_mem there and on a host that uses it",
				If:     []Fact{GDRApart}, Likely: []Fact{GDRApart},
			},
			{
				Cause:  "nvidia_peermem is not loaded, or not registered with this kernel and RDMA stack, and DMA-BUF is not available.",
				Remedy: "Load nvidia_peermem after the RDMA drivers, rebuild it for them, or use a driver with open kernel modules.",
				Test:   "check --only=gpudirect on the host; lsmod, dmesg | grep -i peermem",
				If:     []Fact{"!" + GDRApart, "!" + OfAMD},
			},
			{
				Cause:  "The device is further from the GPU than NCCL_NET_GDR_LEVEL allows, or the container hides the PCI topology.",
				Remedy: "Compare nvidia-smi topo -m on the host and in the container; mount /sys.",
				Test:   "nvidia-smi topo -m",
				Likely: []Fact{UsesGPUDirect, "!" + GDRApart},
			},
			{
				Cause:  "This is as it should be on hosts with one GB10 (DGX Spark), where GPU and CPU share memory, and with GPUs without GPUDirect RDMA (GeForce).",
				Remedy: "None there; elsewhere run check --only=gpudirect on the host.",
				Test:   "nvidia-smi -L: GB10 or GeForce",
				If:     []Fact{OneGPU}, Likely: []Fact{WithoutGDR},
			},
		},
	}
	NoMNNVL = Signature{
		ID: "mnnvl_unused", Source: NCCL, Kind: Cause,
		Forms:   []Form{{Text: "MNNVL 0", In: "MNNVL %d"}},
		Cause:   "The GPUs of several hosts are registered in one NVLink domain, and NCCL does not use NVLink between the hosts.",
		Remedy:  "Look at what turned it off: settings, IMEX, or hosts of different domains.",
		Runbook: "check-nvlink.md",
		Reasons: []Reason{
			{
				Cause:  "A setting turns it off: NCCL_MNNVL_ENABLE=0.",
				Remedy: "Unset NCCL_MNNVL_ENABLE.",
				Test:   "the lines set by environment of the log",
				If:     []Fact{"set:NCCL_MNNVL_ENABLE=0"}, Certain: []Fact{"set:NCCL_MNNVL_ENABLE=0"},
			},
			{
				Cause:  "NCCL_CUMEM_ENABLE=0 turns it off: NVLink between hosts needs cuMem.",
				Remedy: "Unset NCCL_CUMEM_ENABLE.",
				Test:   "the lines set by environment of the log",
				If:     []Fact{"set:NCCL_CUMEM_ENABLE=0"}, Certain: []Fact{"set:NCCL_CUMEM_ENABLE=0"},
			},
			{
				Cause:  "IMEX does not run on all hosts of the job, or its channels are missing in the container.",
				Remedy: "Run nvidia-imex on all hosts with one list of nodes, and give containers /dev/nvidia-caps-imex-channels (a ComputeDomain in Kubernetes).",
				Test:   "nvidia-imex-ctl -N; ls /dev/nvidia-caps-imex-channels in the container",
				Likely: []Fact{"!set:NCCL_MNNVL_ENABLE"},
			},
			{
				Cause:  "The hosts are of different cliques or domains, so that each domain has one host of the job.",
				Remedy: "Place the job in one rack (topology labels of the scheduler).",
				Test:   "nvidia-smi -q | grep -i clique on each host",
			},
		},
	}
	NetworksApart = Signature{
		ID: "networks_differ", Source: NCCL, Kind: Cause,
		Forms:   []Form{{Text: "Using network ", In: "Using network %s"}},
		Cause:   "The hosts chose different networks, between which connections do not work or hang: the set-up did not end.",
		Remedy:  "Use the same plugin, libraries and settings everywhere: NCCL_NET_PLUGIN=none (or NCCL_IBEXT_DISABLE=1) on all, or the plugin in all images.",
		Runbook: "check-nccl.md",
		Reasons: []Reason{{
			Cause:  "The hosts chose different networks ({networks}): a plugin, a library or a device is on some hosts only.",
			Remedy: "Use the same plugin, libraries and settings everywhere: NCCL_NET_PLUGIN=none (or NCCL_IBEXT_DISABLE=1) on all, or the plugin in all images.",
			Test:   "grep -e 'Using network' -e NET/Plugin in the logs of all hosts; NCCL_NET_PLUGIN=none for one run",
		}},
	}
	ReleasesApart = Signature{
		ID: "releases_differ", Source: NCCL, Kind: Cause,
		Forms:  []Form{{Text: "NCCL version ", In: `NCCL version " STR(NCCL_MAJOR)`}},
		Cause:  "The log has several releases of NCCL, and a set-up that did not end: ranks of one communicator need the same release.",
		Remedy: "Use one release everywhere: the same image; look for another libnccl.so.2 in LD_LIBRARY_PATH, LD_PRELOAD and pip list.",
		Reasons: []Reason{{
			Cause:  "The ranks may run different releases of NCCL ({versions}), which cannot be mixed: the set-up did not end.",
			Remedy: "Use one release everywhere: the same image; look for another libnccl.so.2 in LD_LIBRARY_PATH, LD_PRELOAD and pip list.",
			Test:   "NCCL_DEBUG=VERSION on all hosts",
		}, {
			Cause:  "The releases are of different libraries of one program, and another rank did not come, or was not reached.",
			Remedy: "Give the logs of all ranks; look at those that are missing.",
			Test:   "the logs of the ranks that did not begin",
		}},
	}
	WrongResults = Signature{
		ID: "results_wrong", Source: Program, Kind: Cause, Sure: true,
		Forms:  []Form{{Text: "# Out of bounds values", File: "nccl-tests src/common.cu"}},
		Cause:  "The test computed wrong results.",
		Remedy: "Trust no results of these hosts and this release until a test shows what changes them.",
		Reasons: []Reason{
			{
				Cause:  "A setting forces a protocol or an algorithm ({forced}) that NCCL would not choose: LL128 is safe on some platforms only.",
				Remedy: "Unset NCCL_PROTO and NCCL_ALGO.",
				Test:   "unset NCCL_PROTO NCCL_ALGO for one run",
				If:     []Fact{SettingForced}, Likely: []Fact{SettingForced},
			},
			{
				Cause:  "This release of NCCL has an error: those before 2.6 compute wrong results of 4 GiB and more.",
				Remedy: "Use a newer NCCL.",
				Test:   "the same with a newer NCCL, and with a smaller size",
				If:     []Fact{"release<2.6", LargeTest}, Likely: []Fact{"!" + SettingForced},
			},
			{
				Cause:  "GPUDirect RDMA changes data on its way between the hosts.",
				Remedy: "Set NCCL_NET_GDR_LEVEL=LOC; look at the PCIe switches, ACS and the IOMMU.",
				Test:   "NCCL_NET_GDR_LEVEL=LOC for one run (before NCCL 2.4 NCCL_IB_CUDA_SUPPORT=0)",
				If:     []Fact{"!" + WithinHost, "!set:NCCL_IB_DISABLE=1"},
			},
			{
				Cause:  "P2P between the GPUs of a host changes data on its way (IOMMU, ACS).",
				Remedy: "Turn off ACS and the IOMMU (iommu=pt), or set NCCL_P2P_DISABLE=1.",
				Test:   "NCCL_P2P_DISABLE=1 for one run",
				If:     []Fact{"!" + BetweenHosts},
			},
			builtForOthers,
			{
				Cause:  "A GPU, its memory or a link is defective, or another NCCL would be right.",
				Remedy: "Test the GPUs of the hosts one by one, and try a newer NCCL.",
				Test:   "dcgmi diag -r 3 on each host; the same with another release of NCCL",
			},
		},
	}
	TestsApart = Signature{
		ID: "tests_apart", Source: Program, Kind: Cause,
		Forms:  []Form{{Text: "# Avg bus bandwidth    : 0", File: "nccl-tests src/common.cu"}},
		Cause:  "Each process of the test had a world of one rank: the processes did not find each other, and no data went between GPUs.",
		Remedy: "Build nccl-tests with MPI (make clean; make MPI=1), and start it with mpirun of the same MPI.",
		Reasons: []Reason{{
			Cause:  "Each process of the test had a world of one rank: the processes did not find each other. nccl-tests are built without MPI, with another MPI than mpirun's, or started without it.",
			Remedy: "Build nccl-tests with MPI (make clean; make MPI=1), and start it with mpirun of the same MPI. The numbers say nothing on the network.",
			Test:   "ldd all_reduce_perf | grep -i mpi; mpirun --version",
		}},
	}
	Stalled = Signature{
		ID: "first_collective_stalls", Source: Program, Kind: Cause,
		Forms:  []Form{{Text: "busbw #wrong", File: "nccl-tests src/common.cu"}},
		Cause:  "The set-up ended or a test began, and no result is in the log: the first collective hangs, or the log is cut.",
		Remedy: "Look at the way between the GPUs: IOMMU, ACS, network.",
		Reasons: []Reason{
			intercepted,
			serialised,
			{
				Cause:  "The IOMMU translates what GPUs send each other: RCCL misses iommu=pt on the command line of the kernel, and the first collective has no result.",
				Remedy: "Add iommu=pt (amd_iommu=on) to the command line of the kernel, and reboot.",
				Test:   "cat /proc/cmdline; NCCL_P2P_DISABLE=1 for one run",
				If:     []Fact{IOMMUWarned}, Likely: []Fact{IOMMUWarned},
			},
			{
				Cause:  "Traffic between the GPUs of the host stalls: a PCIe switch or the IOMMU redirects P2P (ACS).",
				Remedy: "Turn off ACS on the PCIe switches and the IOMMU (iommu=pt or off), or set NCCL_P2P_DISABLE=1, slower.",
				Test:   "NCCL_P2P_DISABLE=1 for one run; dmesg | grep -i -e iommu -e dmar -e amd-vi",
				If:     []Fact{UsesP2P},
			},
			{
				Cause:  "The GPUs of the host wait for each other: an IOMMU or ACS that redirects what they send, a process that hangs elsewhere, or an error of this release.",
				Remedy: "Look at stacks of all processes and at the IOMMU (iommu=pt or off) and ACS (lspci -vvv: ACSCtl); try a newer NCCL.",
				Test:   "py-spy dump --native of each process; nvidia-smi: which GPUs are busy; dmesg | grep -i -e iommu -e dmar -e amd-vi",
				If:     []Fact{"!" + UsesP2P, "!" + SeveralHosts, "!" + IOMMUWarned},
			},
			{
				Cause:  "The network between the hosts passes small messages only, or none: MTU, PFC, a firewall.",
				Remedy: "Run check on all hosts; ib_write_bw with large messages between them.",
				Test:   "NCCL_NET=Socket for one run",
				If:     []Fact{SeveralHosts},
			},
		},
	}
	GPUDirectNeedless = Signature{
		ID: "gpudirect_needless", Source: NCCL, Kind: Note, Harmless: true,
		Forms:  []Form{{Text: "via NET/IB/0 without /GDRDMA", In: `via NET/%s/%d`}},
		Cause:  "RDMA goes through the memory of the host, as it should with GB10 (DGX Spark), where GPU and CPU share memory, and with GeForce.",
		Remedy: "None.",
	}
	DevicesApart = Signature{
		ID: "devices_differ", Source: NCCL, Kind: Note,
		Forms:   []Form{{Text: "NET/IB : Using [", File: "NCCL src/transport/net_ib"}},
		Cause:   "Hosts use different numbers of RDMA devices. NCCL goes on (NCCL_IGNORE_NET_MISMATCH), and connections that leave by a device without a partner may hang.",
		Remedy:  "Give all hosts and containers the same devices, or name those that all have in NCCL_IB_HCA.",
		Runbook: "check-ports.md",
	}
	CrossedRails = Signature{
		ID: "rails_crossed", Source: NCCL, Kind: Note, Harmless: true,
		Forms:   []Form{{Text: "via NET/IB/0 to NET/IB/3", In: `via NET/%s/%d`}},
		Cause:   "Connections lead from one device of a host to another device of its peer. Where each rail has switches of its own, they go through the spine, or nowhere.",
		Remedy:  "Set NCCL_CROSS_NIC=0 where rails are separate; none where they are not.",
		Runbook: "check-nccl.md",
	}
)

// Judgements returns what takes more than one line.
func Judgements() []*Signature {
	return []*Signature{
		&TCP, &NoGPUDirect, &NoMNNVL, &CrossedRails, &NetworksApart, &ReleasesApart, &Stalled, &WrongResults, &TestsApart,
		&SetupStalls, &DevicesApart, &GPUDirectNeedless, &LauncherFailed, &MembersMissing,
	}
}

// tcpReasons are why NCCL uses TCP.
var tcpReasons = []Reason{
	efaWithoutMemory,
	{
		Cause:   "The setting NCCL_IB_DISABLE=1 turns RDMA off.",
		Remedy:  "Unset NCCL_IB_DISABLE, unless another network is wanted (EFA, GPUDirect-TCPX).",
		Test:    "unset NCCL_IB_DISABLE for one run",
		If:      []Fact{"set:NCCL_IB_DISABLE=1"},
		Certain: []Fact{"set:NCCL_IB_DISABLE=1", "!seen:ofi_failed", "!seen:ofi_provider"},
	},
	{
		Cause:  "The setting NCCL_NET=Socket chooses TCP.",
		Remedy: "Unset NCCL_NET.",
		Test:   "unset NCCL_NET for one run",
		If:     []Fact{"set:NCCL_NET=Socket"}, Certain: []Fact{"set:NCCL_NET=Socket"},
	},
	{
		Cause:  "The network plugin of the site did not start, and NCCL went on with TCP.",
		Remedy: "See the warnings of the plugin.",
		Test:   "fi_info -p efa in the container",
		If:     []Fact{"seen:ofi_failed"}, Certain: []Fact{"seen:ofi_failed"},
	},
	{
		Cause:  "The network plugin of the image cannot be loaded: it needs {library}, which a library that is there is too old for.",
		Remedy: "Use a newer release of that library (of libfabric: the EFA installer; of GLIBC: a newer image), or a plugin that is built for the old one.",
		Test:   "ldd -v libnccl-net.so in the container",
		If:     []Fact{LibraryTooOld}, Likely: []Fact{LibraryTooOld},
	},
	{
		Cause:  "The network plugin of the image cannot be loaded: it, or a library that it needs, is built for another machine.",
		Remedy: "Use a plugin and libraries for the processor of this host.",
		Test:   "file -L libnccl-net.so in the container; uname -m",
		If:     []Fact{ForOtherArch}, Likely: []Fact{ForOtherArch},
	},
	{
		Cause:  "The network plugin of the image cannot be loaded: {library} is missing, which it needs.",
		Remedy: "Install the library in the image, or have LD_LIBRARY_PATH lead to it.",
		Test:   "ldd libnccl-net.so in the container",
		If:     []Fact{PluginUnloadable, "!" + LibraryTooOld, "!" + ForOtherArch}, Likely: []Fact{PluginUnloadable},
	},
	{
		Cause:  "The image has no libibverbs (rdma-core), so that NCCL cannot use RDMA devices.",
		Remedy: "Install rdma-core (libibverbs1, ibverbs-providers) in the image, and give the container /dev/infiniband.",
		Test:   "ldconfig -p | grep libibverbs in the container",
		If:     []Fact{"seen:ib_library_missing"}, Likely: []Fact{"seen:ib_library_missing"},
	},
	{
		Cause:  "The image has libibverbs without a driver for the device, or of another release of rdma-core than the drivers (ABI).",
		Remedy: "Install ibverbs-providers of the same release as libibverbs1 in the image; do not mount the libraries of the host.",
		Test:   "ibv_devinfo in the container",
		If:     []Fact{"seen:verbs_driver_missing"}, Likely: []Fact{"seen:verbs_driver_missing"},
	},
	{
		Cause:  "Some hosts have RDMA, and others do not: all use what all have.",
		Remedy: "Compare the lines NET/IB of the hosts, and run check on those without.",
		Test:   "grep 'Using network' in the logs of all hosts",
		If:     []Fact{HostsDisagree}, Likely: []Fact{HostsDisagree},
	},
	{
		Cause:  "{NCCL_SHM_DISABLE} and {NCCL_P2P_DISABLE} turn off the ways within a host, so that its ranks use the network.",
		Remedy: "Unset NCCL_SHM_DISABLE; and NCCL_P2P_DISABLE, if P2P works there.",
		Test:   "unset NCCL_SHM_DISABLE for one run",
		If:     []Fact{OneHost, "set:NCCL_SHM_DISABLE=1"}, Certain: []Fact{"set:NCCL_SHM_DISABLE=1"},
	},
	{
		Cause:  "The ranks of the host share neither memory nor GPUs, as in containers of their own, so that they use the network.",
		Remedy: "Run the ranks of a host in one container, or with --ipc=host and all GPUs.",
		Test:   "df -h /dev/shm and nvidia-smi -L in each container",
		If:     []Fact{OneHost, "!set:NCCL_SHM_DISABLE=1"},
	},
	{
		Cause:  "The container is started without /dev/infiniband, as its command shows, so that NCCL finds no RDMA device there.",
		Remedy: "Start it with --device=/dev/infiniband, --cap-add=IPC_LOCK and --ulimit memlock=-1.",
		Test:   "ls /dev/infiniband; ibv_devinfo in the container and on the host",
		If:     []Fact{NoVerbsGiven, NoDevice, "!" + OneHost},
		Likely: []Fact{NoVerbsGiven},
	},
	{
		Cause:  "The container has no RDMA device, the ports are down, or {NCCL_IB_HCA} fits none.",
		Remedy: "Give the container /dev/infiniband (a device plugin), run check on the host, and unset NCCL_IB_HCA.",
		Test:   "ibv_devinfo in the container and on the host",
		If:     []Fact{"!" + OneHost, "!seen:efa_memory_refused"}, Likely: []Fact{NoDevice},
	},
}
