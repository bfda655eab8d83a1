// SPDX-License-Identifier: Apache-2.0

package signature

import "slices"

// setups are lines of NCCL about its set-up: topology, settings, plugins, resources.
var setups = []Signature{
	{
		ID: "version_mismatch", Source: NCCL, Kind: Cause, Forms: []Form{{Text: "Mismatched NCCL version detected"}},
		Cause:   "Ranks use different releases of NCCL, which cannot be mixed.",
		Remedy:  "Use the same image on all nodes, and look for another libnccl.so.2 in LD_LIBRARY_PATH or LD_PRELOAD.",
		Runbook: "check-nccl.md",
		Sure:    true,
	},
	{
		ID: "duplicate_gpu", Source: NCCL, Kind: Cause,
		Forms:  []Form{{Text: "Duplicate GPU detected"}, {Text: "Multiple Ranks are using the same GPU/Partition"}},
		Cause:  "Two ranks of one host use the same GPU.",
		Remedy: "Set the device by the local rank (torch.cuda.set_device), and CUDA_VISIBLE_DEVICES or the GPUs of each Slurm task to match. Where ranks are meant to share a GPU (MIG, tests), NCCL_MULTI_RANK_GPU_ENABLE=1 from 2.30 on.",
		Sure:   true,
	},
	{
		ID: "rank_invalid", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "Invalid rank requested"},
			{Text: "improper usage of ncclCommInitRank"},
			{Text: "Failed to determine local ranks"},
			{Text: "Failed to determine intra proc ranks"},
		},
		Cause:  "The rank is outside of the communicator, or ranks of one host are not what NCCL expects.",
		Remedy: "Check rank and world size of each process.",
	},
	{
		ID: "device_counts_differ", Source: NCCL, Kind: Cause, Forms: []Form{{Text: "Detected mixed local"}},
		Cause:   "The numbers of network devices that GPUs use differ between ranks: a port is down or missing on a host, or NCCL_IB_HCA differs.",
		Remedy:  "Run check on the host with fewer devices.",
		Runbook: "check-ports.md",
	},
	{
		ID: "no_algorithm", Source: NCCL, Kind: Cause, Forms: []Form{
			{Text: "no algorithm/protocol available"},
			{Text: "No algorithm/protocol available"},
		},
		Cause:  "NCCL_ALGO or NCCL_PROTO leaves nothing for this collective.",
		Remedy: "Unset both; see lint.", Runbook: "check-nccl.md",
	},
	{
		ID: "setting_unrecognized", Source: NCCL, Kind: Cause, Forms: []Form{{Text: "Unrecognized element token"}},
		Cause:  "NCCL_ALGO or NCCL_PROTO has a word that this release does not know: it ends the set-up.",
		Remedy: "Correct the variable that the line quotes, or unset it; see lint.", Runbook: "check-nccl.md",
		Sure: true,
	},
	{
		ID: "gpu_without_net", Source: NCCL, Kind: Cause, Forms: []Form{{Text: "Could not find any local path from gpu"}},
		Cause:  "NCCL's topology has no way from this GPU to a network device: an NCCL_TOPO_FILE of another machine, or PCI devices that the container does not see.",
		Remedy: "Unset NCCL_TOPO_FILE, and mount /sys in the container without hiding devices.", Runbook: "check-pcie.md",
	},
	{
		ID: "graph_file_wrong", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "XML Import Channel : dev "},
			{Text: "XML Export Channel : rank "},
			{Text: "XML Graph has wrong version"},
			{Text: "XML Topology has wrong version"},
			{Text: "Could not open XML graph file"},
			{Text: "Could not open XML topology file"},
			{Text: "XML Parse"},
			{Text: "XML Mismatch"},
			{Text: "Attribute ", In: "Attribute %s of node %s not found"},
		},
		Cause:   "A file of topology or graphs that NCCL was given is wrong, or of another machine (NCCL_GRAPH_FILE, NCCL_TOPO_FILE).",
		Remedy:  "Unset NCCL_GRAPH_FILE and NCCL_TOPO_FILE: NCCL finds the topology itself. In VMs use the file of the provider for this type of machine.",
		Runbook: "check-nccl.md",
		Reasons: []Reason{
			{
				Cause:  "NCCL_GRAPH_FILE is of another machine or another choice of devices.",
				Remedy: "Unset NCCL_GRAPH_FILE, also in /etc/nccl.conf and ~/.nccl.conf: it is for debugging.",
				Test:   "unset NCCL_GRAPH_FILE, also in /etc/nccl.conf and ~/.nccl.conf, for one run",
				If:     []Fact{"!text:attribute|topology"},
				Likely: []Fact{"set:NCCL_GRAPH_FILE"}, Certain: []Fact{"set:NCCL_GRAPH_FILE", "text:XML Import Channel"},
			},
			{
				Cause:  "The topology file (NCCL_TOPO_FILE, set by the site or a plugin) is damaged, of another release, or not made for a job that uses only some of the GPUs.",
				Remedy: "Unset NCCL_TOPO_FILE; in VMs use the file of the provider; aws-ofi-nccl 1.11 and later write their own.",
				Test:   "unset NCCL_TOPO_FILE for one run",
				Likely: []Fact{"set:NCCL_TOPO_FILE"},
			},
		},
	},
	{
		ID: "topology_unreadable", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "No path computed to go from"},
			{Text: "could not find CPU close to GPU"},
			{Text: "Could not find intermediate GPU between GPU rank"},
			{Text: "tried to create too many nodes of type"},
			{Text: "XML parser is limited to"},
			{Text: "too many XML nodes"},
			{Text: "Could not find NET with id"},
			{Text: "Could not find net id"},
			{Text: "Failed to find reverse path"},
			{Text: "Could not find rev link"},
			{Text: "Could not find gpu rank"},
			{Text: "Could not find node of type"},
			{Text: "too many Topo links"},
			{Text: "Add NVLink error"},
		},
		Cause:   "NCCL cannot make sense of the PCI topology: the container hides parts of /sys, the machine is virtual without a topology file, or it has more devices than this release knows.",
		Remedy:  "Mount /sys without hiding devices; unset NCCL_TOPO_FILE and NCCL_GRAPH_FILE, in VMs use the file of the provider; try a newer NCCL.",
		Runbook: "check-pcie.md",
		Reasons: []Reason{
			{
				Cause:  "NCCL 2.25 and 2.26 have an error where NICs are merged and the search of the topology falls back.",
				Remedy: "Use NCCL 2.27 or later; NCCL_NET_MERGE_LEVEL=LOC until then.",
				Test:   "the same with NCCL 2.27 or later",
				If:     []Fact{"text:NET with id|net id", "release<2.27", "!release<2.25"}, Likely: []Fact{"release<2.27"},
			},
			{
				Cause:  "This release of NCCL is too old for the GPUs or their links (H100 needs 2.15, Blackwell 2.25).",
				Remedy: "Use a newer NCCL.",
				Test:   "the same with a newer NCCL",
				If:     []Fact{"text:reverse path|rev link"}, Likely: []Fact{"release<2.15"},
			},
			{
				Cause:  "A link between GPUs shows on one side only: an NVLink is down, or the fabric manager does not run.",
				Remedy: "Look at nvidia-smi nvlink -s and topo -m, the fabric manager and Xids.",
				Test:   "nvidia-smi nvlink -s; nvidia-smi topo -m",
				If:     []Fact{"text:reverse path|rev link"},
			},
			{
				Cause:  "NCCL cannot make sense of the PCI topology: the container hides parts of /sys, the machine is virtual without a topology file, or it has more devices than this release knows.",
				Remedy: "Mount /sys without hiding devices; unset NCCL_TOPO_FILE and NCCL_GRAPH_FILE, in VMs use the file of the provider; try a newer NCCL.",
				Test:   "nvidia-smi topo -m in the container and on the host; NCCL_TOPO_DUMP_FILE",
				If:     []Fact{"!text:reverse path|rev link"}, Likely: []Fact{"!text:net id|net with id"},
			},
		},
	},
	{
		ID: "nics_not_merged", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "TOPO/NET : "},
			{Text: "Specified fused NIC"},
			{Text: "when NCCL_IB_MERGE_NICS=0"},
			{Text: "Fusing NET devices from different NUMA domains"},
		},
		Cause:   "NICs could not be merged as NCCL_NET_FORCE_MERGE or NCCL_NET_MERGE_LEVEL ask for.",
		Remedy:  "Unset NCCL_NET_FORCE_MERGE, and set NCCL_NET_MERGE_LEVEL=LOC.",
		Runbook: "check-nccl.md",
	},
	{
		ID: "no_transport", Source: NCCL, Kind: Cause,
		Forms:  []Form{{Text: "No transport found for rank"}, {Text: "has no transport for"}},
		Cause:  "Two ranks have no way to each other: settings turn off all that there are (NCCL_P2P_DISABLE, NCCL_SHM_DISABLE, NCCL_NET), or a network sees no device.",
		Remedy: "Unset NCCL_P2P_DISABLE, NCCL_SHM_DISABLE and NCCL_NET_DISABLE_INTRA.", Runbook: "check-nccl.md",
	},
	{
		ID: "net_plugin", Source: NCCL, Kind: Cause, Generic: true, Forms: []Form{
			{Text: "Failed to initialize any NET plugin"},
			{Text: "Error: network "},
			{Text: "Failed to initialize NET plugin"},
		},
		Cause:  "The network that NCCL_NET names, or any, could not be used.",
		Remedy: "Look at the lines before: a plugin that is not in LD_LIBRARY_PATH, or a device that the container does not have.", Runbook: "check-inside.md",
		Reasons: []Reason{
			{
				Cause:  "The image has no libibverbs, which NCCL_NET=IB needs.",
				Remedy: "Install rdma-core (libibverbs1, ibverbs-providers) in the image.",
				Test:   "ldconfig -p | grep libibverbs in the container",
				If:     []Fact{"seen:ib_library_missing"}, Likely: []Fact{"seen:ib_library_missing"},
			},
			{
				Cause:  "The plugin of the network is not in the image or not in LD_LIBRARY_PATH.",
				Remedy: "Install it, and set LD_LIBRARY_PATH and NCCL_NET_PLUGIN to it; or unset NCCL_NET.",
				Test:   "the line NET/Plugin of the log; ldd libnccl-net.so",
				If:     []Fact{NoPlugin, "!" + PluginUnloadable}, Likely: []Fact{NoPlugin, "!seen:ib_library_missing"},
			},
			{
				Cause:  "The plugin of the network cannot be loaded: it needs {library}, which the C library of the image does not have.",
				Remedy: "Use an image with a newer base (glibc, libstdc++), or a plugin that is built for this one.",
				Test:   "ldd --version in the container",
				If:     []Fact{LibraryTooOld}, Certain: []Fact{LibraryTooOld},
			},
			{
				Cause:  "The plugin of the network cannot be loaded: it needs {library}, which is missing.",
				Remedy: "Install the library in the image, or have LD_LIBRARY_PATH lead to it.",
				Test:   "ldd libnccl-net.so in the container",
				If:     []Fact{PluginUnloadable, "!" + LibraryTooOld}, Likely: []Fact{PluginUnloadable},
			},
			{
				Cause:  "The container has no RDMA device (/dev/infiniband), or NCCL_IB_HCA fits none.",
				Remedy: "Give the container /dev/infiniband (--device=/dev/infiniband, a device plugin), and unset NCCL_IB_HCA.",
				Test:   "ls /dev/infiniband and ibv_devices in the container",
				Likely: []Fact{NoDevice},
			},
		},
	},
	{
		ID: "memory_exhausted", Source: NCCL, Kind: Cause,
		Forms:  []Form{{Text: "Failed to malloc"}, {Text: "Allocation failed"}, {Text: "returned null."}},
		Cause:  "The host or the control group of the job has no memory left.",
		Remedy: "Look at the memory limit of the job.",
	},
	{
		ID: "thread_failed", Source: NCCL, Kind: Cause, Forms: []Form{{
			Text: "Call to pthread_create failed",
			In:   `"pthread_create"`,
		}, {Text: "Thread creation failed"}},
		Cause:  "The limit of processes or threads is reached.",
		Remedy: "Raise ulimit -u, or pids.max of the control group.",
		Sure:   true,
	},
	{
		ID: "setting_limited", Source: NCCL, Kind: Note, Harmless: true,
		Forms: []Form{
			{Text: "User asked for a m"},
			{Text: "is being ignored because it is not a power of 2"},
			{Text: "is too big. Limiting value to"},
			{Text: "is larger than #channels upper limit"},
			{Text: "is larger than maxCTAs"},
			{Text: "is greater than the maximum allowed, setting"},
			{Text: "the total number of sockets is greater than the maximum allowed"},
			{Text: "Ignoring SHM locality"},
			{Text: "falling back to simple order"},
			{Text: "Unable to create thread context due to old driver"},
			{Text: "Skipping nvlink detection"},
			{Text: "not dumping topology"},
			{Text: "Continue without profiler"},
			{Text: "Cannot initialize CollNet, using point-to-point network instead"},
			{Text: "unlink shared memory"},
			{Text: "is not a valid value"},
		},
		Cause:  "NCCL cannot do what a setting or the platform would want, says so, and goes on without.",
		Remedy: "Correct or unset the setting that the line names.",
	},
	{
		ID: "call_invalid", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "is not a valid pointer"},
			{Text: "argument is NULL"},
			{Text: "invalid root "},
			{Text: "invalid type "},
			{Text: "invalid reduction operation"},
			{Text: "mismatchs with NCCL device"},
			{Text: "ncclConfig_t argument not initialized"},
			{Text: "not initialized via NCCL_"},
			{Text: "must be initialized via NCCL_"},
			{Text: "Invalid config "},
			{Text: "Trying to send to self without"},
			{Text: "Trying to recv to self without"},
			{Text: "not in a group call"},
			{Text: "are not allowed in the same group"},
			{Text: "has already been destroyed"},
			{Text: "Invalid device "},
			{Text: "invalid device count"},
			{Text: "corrupted comm object"},
			{Text: "communicator was revoked"},
			{Text: "was compiled with NCCL version"},
			{Text: "It was compiled with NCCL version"},
			{Text: "Window address must be suitably aligned"},
			{Text: "symmetric registration check failed"},
			{Text: "does not support symmetric memory"},
			{Text: "must either be all uncaptured or all captured"},
			{Text: "can be CUDA graph captured"},
		},
		Cause:  "The program calls NCCL in a wrong way: it is no fault of the node.",
		Remedy: "Correct the program, or use releases of framework and NCCL that fit each other.",
		Reasons: []Reason{
			{
				Cause:  "Program and NCCL are of releases that do not fit: the program was compiled with headers of another NCCL than it runs with.",
				Remedy: "Use the NCCL that the framework was built with (unset LD_PRELOAD and LD_LIBRARY_PATH of another one, pip list | grep nccl).",
				Test:   "the release that NCCL logs, and torch.cuda.nccl.version()",
				If:     []Fact{"text:initialized|compiled with"}, Likely: []Fact{"text:initialized|compiled with"},
			},
		},
	},
	{
		ID: "proxy_failed", Source: NCCL, Kind: Consequence,
		Forms: []Form{
			{Text: "[Service thread]"},
			{Text: "[Proxy Service"},
			{Text: "Socket recv failed while polling for opId"},
			{Text: "ncclProxyCallBlockingUDS call to"},
			{Text: "ncclProxyClientGetFd call to"},
		},
		Cause:  "NCCL's own threads on this host lost each other, as they do when a process of the host ends.",
		Remedy: "Look for the first failure on this host.",
	},
}

// nccl are lines of NCCL, in the order in which they are tried.
func nccl() []Signature { return slices.Concat(completions, verbs, sockets, gpus, setups) }

// areas are what warnings without a row of their own are about, by the file of the source. The last row has the others.
var areas = []Signature{
	area("verbs_call_failed", "in calls of InfiniBand and RoCE", "Run check on the host, and look at the error that the line names.", "misc/ibvwrap.cc", "include/ibvwrap.h", "misc/mlx5dv", "transport/net_ib"),
	area("socket_call_failed", "in connections over TCP", "Look at the address that the line names, and at the log of the rank there.", "misc/socket.cc", "os/linux.cc", "transport/net_socket.cc", "bootstrap.cc"),
	area("gpu_sharing_failed", "while GPUs of a host shared memory", "Look for Xids and at containers that share the host; NCCL_P2P_DISABLE=1 and NCCL_CUMEM_ENABLE=0 are tests.", "transport/p2p.cc", "misc/ipcsocket.cc", "misc/cudawrap.cc", "mnnvl.cc"),
	area("host_memory_failed", "with memory that the ranks of a host share", "Look at df /dev/shm and at the limits of the container.", "transport/shm.cc", "misc/shmutils.cc"),
	area("topology_failed", "in the topology of the host", "Unset NCCL_TOPO_FILE and NCCL_GRAPH_FILE, and mount /sys without hiding devices.", "graph/"),
	area("program_call_failed", "in calls of the program", "Look at what the program calls: order, arguments, release of the framework.", "enqueue.cc", "misc/argcheck.cc", "group.cc", "dev_runtime", "rma/", "gin/", "ce_coll.cc", "register", "scheduler/", "mem_manager.cc", "allocator.cc"),
	area("warning_unknown", "of something that is not known here", "Look the text up in the issues of NCCL or of the plugin that printed it."),
}

func area(id, about, remedy string, files ...string) Signature {
	return Signature{
		ID: id, Source: NCCL, Kind: Cause, Files: files,
		Cause: "NCCL or its plugin warned " + about + ", and the call failed.", Remedy: remedy,
	}
}

// IsArea reports whether a signature is of warnings without a row.
func IsArea(s *Signature) bool {
	return slices.ContainsFunc(areas, func(a Signature) bool { return a.ID == s.ID })
}

// Area is what a warning without a row is about, if it made a call fail.
func Area(file, message string) *Signature {
	if Writer(file, message) != "" {
		return &areas[len(areas)-1]
	}
	for i := range areas {
		if areas[i].in(file) {
			return &areas[i]
		}
	}
	return &areas[len(areas)-1]
}
