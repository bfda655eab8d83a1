// SPDX-License-Identifier: Apache-2.0

package signature

// verbs are lines of NCCL's network of InfiniBand and RoCE.
var verbs = []Signature{
	{
		ID: "qp_create", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "Call to ibv_create_qp failed", In: `"ibv_create_qp"`},
			{Text: "mlx5dv_create_qp failed to create QP"},
			{Text: "Call to ibv_create_cq failed", In: `"ibv_create_cq"`},
		},
		Cause:   "The device could not create a queue pair or a completion queue.",
		Remedy:  "Look at the error that the line names.",
		Runbook: "check-node.md",
		Reasons: []Reason{{
			Cause:  "{NCCL_IB_QPS_PER_CONNECTION} is out of range, so that the size of the queue is.",
			Remedy: "Unset NCCL_IB_QPS_PER_CONNECTION, or set 1 to 8.",
			Test:   "unset NCCL_IB_QPS_PER_CONNECTION for one run",
			If:     []Fact{"set:NCCL_IB_QPS_PER_CONNECTION", "errno:22"}, Likely: []Fact{"errno:22"},
		}, memlock, {
			Cause:  "The queue pairs of the device are used up, by other jobs or by many connections of this one.",
			Remedy: "Compare the queue pairs in use (rdma resource) with the maximum of the device; lower NCCL_IB_QPS_PER_CONNECTION, or set NCCL_MAX_P2P_NCHANNELS.",
			Test:   "rdma resource show",
			If:     []Fact{"errno:0,11,12,22,28"},
		}, deviceAccess},
	},
	{
		ID: "qp_modify", Source: NCCL, Kind: Cause, Remote: true,
		Forms: []Form{
			{Text: "Call to ibv_modify_qp failed", In: `"ibv_modify_qp"`},
			{Text: "Call to ibv_modify_qp failed with"},
		},
		Cause:   "The connection to the peer could not be set up: no route or no neighbour for its GID, or a GID that is not there.",
		Remedy:  "Check that the GID that both sides use is of RoCE v2 and of networks that reach each other.",
		Runbook: "check-gids.md",
		Reasons: []Reason{
			{
				Cause:  "The two devices are of different subnets: NCCL pairs devices by their index, and these two are not on one cable, switch or rail.",
				Remedy: "Connect or number the ports so that devices of one index are in one subnet (with direct cables: cross them, port 0 to port 1, in a ring of hosts), and set NCCL_IB_SUBNET_AWARE_ROUTING=1 from 2.30.5 on; with one subnet for each rail behind switches NCCL_CROSS_NIC=0, or routes between the rails.",
				Test:   "ping -I INTERFACE the other address of the line",
				If:     []Fact{SubnetsDiffer}, Likely: []Fact{SubnetsDiffer},
			},
			{
				Cause:  "The GID of this side is link-local: it reaches no other network.",
				Remedy: "Unset NCCL_IB_GID_INDEX from 2.21 on, and give the interface of the device an address.",
				Test:   "show_gids",
				If:     []Fact{GIDLinkLocal}, Likely: []Fact{GIDLinkLocal},
			},
			{
				Cause:  "{NCCL_IB_GID_INDEX} names a GID that this host or container does not have or cannot use: the order differs between hosts, and changes with addresses.",
				Remedy: "Unset NCCL_IB_GID_INDEX from 2.21 on; before, set it for each host.",
				Test:   "show_gids on both hosts, in the container",
				If:     []Fact{"errno:19,22,61,101"}, Likely: []Fact{"set:NCCL_IB_GID_INDEX", "errno:19,22,61"},
			},
			{
				Cause:  "{NCCL_IB_GID_INDEX} names a GID that does not reach the peer: a link-local one (fe80::), as index 0 and 1 are on most devices, or one of RoCE v1.",
				Remedy: "Unset NCCL_IB_GID_INDEX from 2.21 on; before, set it to the RoCE v2 GID with the address of the interface (often 3).",
				Test:   "show_gids on both hosts, in the container",
				If:     []Fact{"set:NCCL_IB_GID_INDEX", "errno:110,113"}, Likely: []Fact{"set:NCCL_IB_GID_INDEX", "errno:110,113"},
			},
			{
				Cause:  "The address of the peer does not answer: a link or VLAN between the two is missing, its interface is down, or ARP is filtered.",
				Remedy: "Look at the interfaces of both devices (ip -br addr, ip neigh); with one subnet for each rail NCCL_CROSS_NIC=0.",
				Test:   "ping -I INTERFACE the remote address of the line",
				If:     []Fact{"errno:110,113"}, Likely: []Fact{"errno:110,113"},
			},
			{
				Cause:  "This host has no route to the network of the peer's GID.",
				Remedy: "Add the route to the table that the interface of the device uses (ip rule, ip route), or use one subnet.",
				Test:   "ip route get PEER from ADDRESS",
				If:     []Fact{"errno:101"}, Likely: []Fact{"errno:101"},
			},
			{
				Cause:  "The GID or the device belongs to a network namespace that the container does not see.",
				Remedy: "Give the pod the network interface of the RDMA device too (SR-IOV CNI, macvlan), or use the network of the host; see rdma system show.",
				Test:   "rdma system show; cat /sys/class/infiniband/DEVICE/ports/1/gid_attrs/ndevs/*",
				If:     []Fact{"errno:19,22"}, Likely: []Fact{"errno:19"},
			},
		},
	},
	{
		ID: "memory_registration", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "Call to ibv_reg_mr failed", In: `"ibv_reg_mr"`},
			{Text: "Call to ibv_reg_mr_iova2 failed", In: `"ibv_reg_mr_iova2"`},
			{Text: "Call to ibv_reg_dmabuf_mr failed", In: `"ibv_reg_dmabuf_mr"`},
		},
		Cause:   "Memory could not be registered with the device.",
		Remedy:  "Look at the error that the line names.",
		Runbook: "check-gpudirect.md",
		Reasons: []Reason{
			{
				Cause:  "The kernel has no contiguous memory left to give (CMA), as on DGX Spark with a kernel that reserves none.",
				Remedy: "Use a kernel whose CmaTotal in /proc/meminfo is not 0 (cma= on the command line of the kernel).",
				Test:   "grep Cma /proc/meminfo",
				If:     []Fact{"errno:12", SparkNICs}, Likely: []Fact{"errno:12"},
			},
			memlock,
			{
				Cause:  "nvidia_peermem is not loaded, or does not fit the driver of the GPU or the RDMA stack.",
				Remedy: "Load nvidia_peermem after the RDMA drivers, or use a driver with open kernel modules and a kernel with DMA-BUF.",
				Test:   "lsmod | grep nvidia_peermem; check --only=gpudirect",
				If:     []Fact{"errno:0,14,22,95,524"}, Likely: []Fact{"errno:14"},
			},
			{
				Cause:  "DMA-BUF does not work for this GPU and device.",
				Remedy: "Use open kernel modules of the driver, a kernel from 6.0 on and rdma-core from 34 on; NCCL_DMABUF_ENABLE=0 goes back to nvidia_peermem.",
				Test:   "NCCL_DMABUF_ENABLE=0 for one run",
				If:     []Fact{"text:dmabuf"}, Likely: []Fact{"text:dmabuf", "errno:22,95,524"},
			},
			{
				Cause:  "What NCCL registers is too much for the device or the driver: buffers that are too large or too many ({NCCL_BUFFSIZE}; NCCL_NCHANNELS_PER_NET_PEER, NCCL_LOCAL_REGISTER).",
				Remedy: "Unset NCCL_BUFFSIZE and other settings of buffers and channels.",
				Test:   "env | grep NCCL; unset NCCL_BUFFSIZE for one run",
				If:     []Fact{"errno:12,28"}, Likely: []Fact{"set:NCCL_BUFFSIZE"},
			},
			{
				Cause:  "The BAR1 of the GPU is full or too small for the memory that is registered.",
				Remedy: "Look at BAR1 of nvidia-smi -q -d MEMORY; turn on Resizable BAR; unset NCCL_LOCAL_REGISTER.",
				Test:   "nvidia-smi -q -d MEMORY",
				If:     []Fact{"errno:12,14,28", UsesGPUDirect},
			},
		},
	},
	{
		ID: "gid_query", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "Call to ibv_query_gid failed", In: `"ibv_query_gid"`},
		},
		Cause:   "The GID that NCCL was told to use could not be read.",
		Remedy:  "Unset NCCL_IB_GID_INDEX from 2.21 on; before, set an index that show_gids lists.",
		Runbook: "check-gids.md",
		Reasons: []Reason{
			{
				Cause:  "NCCL_IB_GID_INDEX is beyond the table of the device, or of an entry that is not there.",
				Remedy: "Unset NCCL_IB_GID_INDEX from 2.21 on; before, set an index that show_gids lists.",
				Test:   "show_gids in the container; unset NCCL_IB_GID_INDEX for one run",
				Likely: []Fact{"set:NCCL_IB_GID_INDEX"},
			},
			{
				Cause:  "The port has no address: its interface is down or not in the container.",
				Remedy: "Bring the interface up, or give it to the container.",
				Test:   "show_gids; ip -br addr",
			},
		},
	},
	{
		ID: "resiliency_idle", Source: NCCL, Kind: Note, Harmless: true,
		Forms: []Form{
			{Text: "a request found for a successful completion"},
			{Text: "Resiliency is enabled on a "},
		},
		Cause:  "NIC failover (NCCL_IB_RESILIENCY_PORT_FAILOVER) is on where a communicator has one device only: it can replace none, and may disturb the end of the job.",
		Remedy: "Unset NCCL_IB_RESILIENCY_PORT_FAILOVER on hosts with one device.",
	},
	{
		ID: "memory_registration_missing", Source: NCCL, Kind: Cause, Forms: []Form{{Text: "NET/IB: could not find mr"}},
		Cause:   "NCCL deregistered memory that it does not know as registered: an error in NCCL, or a consequence of a failure before.",
		Remedy:  "Look for an earlier failure; otherwise use a newer release of NCCL.",
		Generic: true,
	},
	{
		ID: "port_error", Source: NCCL, Kind: Note, Leads: true,
		Forms:   []Form{{Text: ": port error", In: "Got non-fatal async event"}},
		Cause:   "A port of the device went down while the job used it.",
		Remedy:  "Look at link_downed and the state of the port that the line names: cable, transceiver, switch.",
		Runbook: "GpuFabricLinkFlapping.md",
	},
	{
		ID: "async_fatal", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "async fatal event"},
			{Text: "Got async error event"},
			{Text: "local catastrophic error", File: "rdma-core ibv_event_type_str"},
			{Text: "local work queue catastrophic error", File: "rdma-core ibv_event_type_str"},
			{Text: "communicator encountered a fatal error"},
		},
		Cause:   "The device reported a fatal event for a queue pair, a completion queue or itself.",
		Remedy:  "Look at the kernel messages of mlx5_core at that time, and run check on the host.",
		Runbook: "GpuFabricQpDeath.md",
	},
	{
		ID: "gid_changed", Source: NCCL, Kind: Note, Leads: true,
		Forms:   []Form{{Text: "GID table changed"}, {Text: "GID table change", File: "rdma-core ibv_event_type_str"}},
		Cause:   "An address of the interface was removed or added while the job ran. Connections that use the GID fail.",
		Remedy:  "Find what configures the interface: DHCP, NetworkManager, or a restart of the network.",
		Runbook: "GpuFabricGidChanged.md",
	},
	{
		ID: "async_event", Source: NCCL, Kind: Note,
		Forms:   []Form{{Text: "Got async event"}, {Text: "Got non-fatal async event"}},
		Cause:   "The device reported an event: a port that went down or came back (port error, port active), or a change of its addresses. A job survives a link that is back before its timeout.",
		Remedy:  "Look at link_downed and the state of the port that the line names.",
		Runbook: "GpuFabricLinkFlapping.md",
	},
	{
		ID: "mlx5dv_missing", Source: NCCL, Kind: Note, Info: true, Harmless: true,
		Forms:  []Form{{Text: "undefined symbol: mlx5dv_reg_dmabuf_mr", File: "glibc dlfcn, of NCCL's dlvsym failed on"}},
		Cause:  "The libmlx5 of the image is older than this NCCL expects.",
		Remedy: "Install a newer rdma-core in the image, if RDMA fails.",
	},
	{
		ID: "nic_failed", Source: NCCL, Kind: Cause, Info: true,
		Forms: []Form{
			{Text: "as permanently failed"},
			{Text: "No support for more than a single failed device"},
			{Text: "The error is fatal ("},
			{Text: "Could not find a replacement QP for the failed QP"},
			{Text: "Could not find a functional device to post the probe"},
		},
		Cause:   "NIC failover (NCCL_IB_RESILIENCY_PORT_FAILOVER) gave up: a device failed for good, or more devices failed than it can replace.",
		Remedy:  "Run check on the host, and look at the port of the device; the job runs on with fewer NICs, or ends.",
		Runbook: "GpuFabricQpDeath.md",
	},
	{
		ID: "nic_failing", Source: NCCL, Kind: Cause, Remote: true,
		Forms:   []Form{{Text: "marked as failed"}},
		Cause:   "A NIC failed, and its traffic goes over the others (NCCL_IB_RESILIENCY_PORT_FAILOVER): the job is slower until it is back.",
		Remedy:  "Run check on the host, and look at the port of the device.",
		Runbook: "GpuFabricLinkFlapping.md",
	},
	{
		ID: "nic_recovered", Source: NCCL, Kind: Note,
		Forms:   []Form{{Text: "Port recovery succeeded for devIndex"}, {Text: "as recovered ("}},
		Cause:   "A NIC that had failed is in use again (NCCL_IB_RESILIENCY_PORT_FAILOVER).",
		Remedy:  "Find out why its link went down: a cable, a transceiver, the switch.",
		Runbook: "GpuFabricLinkFlapping.md",
	},
	{
		ID: "ib_no_ip_interface", Source: NCCL, Kind: Cause, Forms: []Form{{Text: "NET/IB : No IP interface found"}},
		Cause:  "There is no IP interface over which RDMA connections could be negotiated: NCCL_SOCKET_IFNAME excludes all.",
		Remedy: "Set NCCL_SOCKET_IFNAME to an interface that all hosts have.", Runbook: "check-nccl.md",
	},
	{
		ID: "gdrcopy_missing", Source: NCCL, Kind: Note, Forms: []Form{{Text: "GDRCOPY lib wrapper not initialized"}},
		Cause:    "NCCL_GDRCOPY_ENABLE is set, and the process has no libgdrapi.",
		Remedy:   "Install GDRCopy in the image of the job, or unset the variable.",
		Harmless: true,
	},
	{
		ID: "ib_library_missing", Source: NCCL, Kind: Note,
		Forms: []Form{
			{Text: "Failed to open libibverbs.so"},
			{Text: "Count not open libibverbs.so.1", In: "Count not open %s"},
			{Text: "dlvsym failed on ibv_", In: "dlvsym failed on %s"},
			{Text: "lib wrapper not initialized"},
		},
		Cause:   "The process has no libibverbs.so.1, or one that is too old: NCCL uses RDMA devices through a network plugin, if there is one, and else TCP.",
		Remedy:  "Install rdma-core (libibverbs1 and ibverbs-providers) in the image of the job.",
		Runbook: "GpuFabricJobOnTcp.md",
	},
	{
		ID: "ib_device_unusable", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "NET/IB : Unable to open device"},
			{Text: "NET/IB : Unable to query device"},
			{Text: "NET/IB : Unable to query port"},
			{Text: "Call to ibv_open_device failed", In: `"ibv_open_device"`},
			{Text: "Call to ibv_alloc_pd failed", In: `"ibv_alloc_pd"`},
		},
		Cause:   "The process may not use the RDMA device.",
		Remedy:  "Give the container the device nodes (a device plugin, or --device=/dev/infiniband). If the host cannot use it either, look at the kernel messages.",
		Runbook: "check-inside.md",
		Reasons: []Reason{{
			Cause:  "This host cannot open a device that others use, as where its container or a device plugin gives it fewer: connections by that device wait for ever.",
			Remedy: "Give the containers of all hosts all devices (/dev/infiniband/uverbs*), or name those that all have in NCCL_IB_HCA, the same on all.",
			Test:   "the lines NET/IB : Using of all hosts; ls -l /dev/infiniband in each job",
			If:     []Fact{DevicesDiffer}, Likely: []Fact{DevicesDiffer},
		}, deviceAccess, memlock, {
			Cause:  "The device or its firmware does not answer.",
			Remedy: "Run check on the host, and look at the kernel messages.",
			Test:   "ibv_devinfo -d DEVICE on the host",
		}},
	},
	{
		ID: "ib_incompatible_devices", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "Attempted to connect incompatible devices"},
			{Text: "device is incompatible with the local"},
			{Text: "Attempted to merge incompatible devices"},
		},
		Cause:  "NCCL uses ports of InfiniBand and of Ethernet together.",
		Remedy: "Name the ports of one kind in NCCL_IB_HCA, on all hosts.", Runbook: "check-nccl.md",
		Sure: true,
	},
	{
		ID: "ib_no_pci_path", Source: NCCL, Kind: Note,
		Forms:    []Form{{Text: " (/sys/class/infiniband/", In: "Could not find real path of %s (%s)"}},
		Cause:    "An RDMA device has no PCI device, as with Soft-RoCE, or the container does not see it. NCCL uses it, and does not know how near it is to which GPU.",
		Remedy:   "None for Soft-RoCE. Else mount /sys in the container without hiding devices.",
		Harmless: true,
	},
	{
		ID: "sysfs_missing", Source: NCCL, Kind: Cause, Forms: []Form{{Text: "Could not find real path of"}},
		Cause:   "The PCI device is not in /sys: the container does not see it, or it was unplugged.",
		Remedy:  "Mount /sys in the container without hiding devices; on the host, look at the PCI bus.",
		Runbook: "check-pcie.md",
		Reasons: []Reason{
			{
				Cause:  "The system has no PCI tree in /sys, as WSL2 and some virtual machines, and this release of NCCL needs one.",
				Remedy: "Use NCCL 2.11 or later, which knows WSL2.",
				Test:   "uname -r: microsoft; ls /sys/class/pci_bus; the same with a newer NCCL",
				If:     []Fact{"release<2.11"}, Likely: []Fact{"release<2.11"},
			},
			{
				Cause:  "The container does not see the PCI device of a GPU or NIC in /sys, or it was unplugged.",
				Remedy: "Mount /sys in the container without hiding devices; on the host, look at the PCI bus.",
				Test:   "ls /sys/class/pci_bus in the job and on the host; lspci",
			},
		},
	},
	{
		ID: "ib_link_local_flid", Source: NCCL, Kind: Note, Harmless: true,
		Forms:  []Form{{Text: "remote FLID configured as zero"}},
		Cause:  "Two InfiniBand subnets are not routed as NCCL expects, and it goes on with the local identifier.",
		Remedy: "None if the job runs; else ask the administrator of the subnet manager.",
	},
	{
		ID: "collective_mismatch", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "collective mismatch error"},
			{Text: "posted incorrect receive info"},
			{Text: "message truncated : receiving"},
		},
		Cause:  "The two sides of a connection expect different sizes: the ranks do not do the same.",
		Remedy: "Compare settings, releases and calls of the two ranks.",
		Reasons: []Reason{
			{
				Cause:  "The ranks run different releases of NCCL ({versions}).",
				Remedy: "Use one release everywhere.",
				Test:   "NCCL_DEBUG=VERSION on all hosts",
				If:     []Fact{VersionsDiffer}, Likely: []Fact{VersionsDiffer},
			},
			{
				Cause:  "NCCL_* settings or the release of NCCL differ between the two hosts (NCCL_ALGO, NCCL_PROTO, NCCL_BUFFSIZE, channels).",
				Remedy: "Use the same environment, /etc/nccl.conf and image on all hosts.",
				Test:   "env | grep NCCL, and NCCL_DEBUG=VERSION, on both hosts of the line",
				If:     []Fact{"!" + VersionsDiffer},
			},
			{
				Cause:  "The program calls collectives of different sizes, types or order on the two ranks.",
				Remedy: "Compare the calls of the two ranks (the flight recorder of PyTorch, or NCCL_DEBUG_SUBSYS=COLL).",
				Test:   "TORCH_DISTRIBUTED_DEBUG=DETAIL for one run",
			},
		},
	},
}
