// SPDX-License-Identifier: Apache-2.0

package signature

// completion are the wordings of an RDMA request that failed; Codes distinguish the rows.
var completion = []Form{{Text: "Got completion from peer"}}

// verbs are lines of NCCL's network of InfiniBand and RoCE.
var verbs = []Signature{
	{
		ID: "completion_retry_exceeded", Source: NCCL, Kind: Cause, Forms: completion, Codes: []int{12},
		Cause:   "The other side did not acknowledge RDMA packets (IBV_WC_RETRY_EXC_ERR): a link or a switch between the two is down or drops packets, the GID or VLAN of one side does not reach the other, the MTUs differ, PFC has stopped the path, or the process on the other side is gone.",
		Remedy:  "Run check on both hosts, and look at the port, the retransmissions and the pauses of the device that the line names. If another rank failed earlier, that one is the cause. NCCL_IB_TIMEOUT=22 or more only helps where links recover by themselves.",
		Runbook: "GpuFabricQpDeath.md",
		Remote:  true,
		Reasons: []Reason{
			{
				Cause:  "The process or the host on the other side is gone: it failed first.",
				Remedy: "Look at the log and the kernel messages of the peer that the line names.",
				Test:   "the log of the peer: a failure there that is older",
				If:     []Fact{PeerFailed}, Likely: []Fact{PeerFailed},
			},
			{
				Cause:  "The port of a device went down.",
				Remedy: "Look at link_downed and the state of the port: cable, transceiver, switch.",
				Test:   "the event in the log, and the messages of the kernel at that time",
				If:     []Fact{"seen:port_error"}, Likely: []Fact{"seen:port_error"},
			},
			{
				Cause:  "The GID of one side does not reach the other: the two are of different subnets, which nothing routes between.",
				Remedy: "Give both sides addresses of networks that reach each other; with one subnet for each rail NCCL_CROSS_NIC=0.",
				Test:   "ping -I INTERFACE between the two addresses of the line",
				If:     []Fact{SubnetsDiffer},
				Likely: []Fact{SubnetsDiffer},
			},
			{
				Cause:  "The GID that NCCL uses is link-local or of RoCE v1, which does not cross a router.",
				Remedy: "Unset NCCL_IB_GID_INDEX from 2.21 on, and give the interface an IPv4 address; for IPv6 networks NCCL_IB_ADDR_FAMILY=AF_INET6.",
				Test:   "show_gids, or cat /sys/class/infiniband/DEVICE/ports/1/gid_attrs/types/*",
				If:     []Fact{GIDLinkLocal},
				Likely: []Fact{GIDLinkLocal},
			},
			{
				Cause:  "NCCL before 2.21 takes the GID of index 0, which is not of RoCE v2 on most hosts.",
				Remedy: "Set NCCL_IB_GID_INDEX to the index of the RoCE v2 address (often 3), or use a newer NCCL.",
				Test:   "show_gids",
				If:     []Fact{"release<2.21", "!set:NCCL_IB_GID_INDEX", "text:/RoCE"},
			},
			{
				Cause:  "A link, a switch or PFC between the two hosts drops or stops packets.",
				Remedy: "Run check on both hosts, and look at the port, the retransmissions and the pauses of the device that the line names.",
				Test:   "ib_write_bw -d DEVICE between the two hosts",
				Likely: []Fact{"!" + PeerFailed},
			},
			{
				Cause:  "The process or the host on the other side is gone: it failed first.",
				Remedy: "Look at the log and the kernel messages of the peer that the line names.",
				Test:   "the log of the peer: a failure there that is older",
				If:     []Fact{"!" + PeerFailed},
			},
		},
	},
	{
		ID: "completion_rnr_exceeded", Source: NCCL, Kind: Cause, Forms: completion, Codes: []int{13},
		Cause:   "The other side had no receive buffer posted for too long (IBV_WC_RNR_RETRY_EXC_ERR): its process hangs or is stopped.",
		Remedy:  "Look at the process on the peer: stopped, swapping, in a debugger, or without processor time.",
		Runbook: "GpuFabricSlowReceiver.md",
		Remote:  true,
	},
	{
		ID: "completion_local_protection", Source: NCCL, Kind: Cause, Forms: completion, Codes: []int{4},
		Cause:   "The HCA could not read or write the memory of this rank (IBV_WC_LOC_PROT_ERR): the GPU memory is no longer mapped for it. Typical with GPUDirect RDMA through a PCIe switch or an IOMMU that redirects peer-to-peer traffic (ACS), or after an Xid of the GPU.",
		Remedy:  "Look for an Xid of the GPU first. Then run check --only=gpudirect and turn off ACS; NCCL_NET_GDR_LEVEL=LOC for a test shows whether GPUDirect RDMA is the cause.",
		Runbook: "check-gpudirect.md",
		Reasons: []Reason{
			{
				Cause:  "The GPU had an error, and its memory is no longer mapped for the HCA.",
				Remedy: "See the Xid.",
				Test:   "dmesg | grep -i xid",
				If:     []Fact{"seen:xid"},
				Likely: []Fact{"seen:xid"},
			},
			{
				Cause:  "A PCIe switch or an IOMMU redirects the traffic between NIC and GPU (ACS), so that GPUDirect RDMA fails.",
				Remedy: "Run check --only=gpudirect on the host; turn off ACS on the switches, or the IOMMU (iommu=pt).",
				Test:   "NCCL_NET_GDR_LEVEL=LOC for one run",
				Likely: []Fact{UsesGPUDirect},
			},
			{
				Cause:  "The memory that is sent was freed or unmapped by the program while NCCL used it.",
				Remedy: "Wait for the collective before the buffer is freed; look for registered buffers (ncclCommRegister, NCCL_LOCAL_REGISTER).",
				Test:   "NCCL_LOCAL_REGISTER=0 for one run",
			},
		},
	},
	{
		ID: "completion_remote_access", Source: NCCL, Kind: Cause, Forms: completion, Codes: []int{9, 10, 11},
		Cause:   "The HCA of the other side refused the access or could not do it (IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_OP_ERR): its GPU memory cannot be reached by GPUDirect RDMA, or its process was ending.",
		Remedy:  "Look at the log and the kernel messages of the peer; run check on it, ACS and GPUDirect RDMA first.",
		Runbook: "check-gpudirect.md",
		Reasons: []Reason{
			{
				Cause:  "A PCIe switch or an IOMMU of the other host redirects the traffic between NIC and GPU (ACS), so that GPUDirect RDMA fails there.",
				Remedy: "Run check --only=gpudirect on the peer; turn off ACS on its switches, or the IOMMU (iommu=pt).",
				Test:   "NCCL_NET_GDR_LEVEL=LOC for one run",
				Likely: []Fact{UsesGPUDirect},
			},
			{
				Cause:  "Ranks call collectives of different sizes or in another order, so that one writes behind the buffer of the other.",
				Remedy: "Compare the calls of both ranks (TORCH_NCCL_DESYNC_DEBUG=1, or the flight recorder of PyTorch).",
				Test:   "NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=COLL on both ranks",
			},
		},
	},
	{
		ID: "completion_flushed", Source: NCCL, Kind: Consequence, Forms: completion, Codes: []int{5},
		Cause:   "The queue pair had failed already, and its other requests were flushed (IBV_WC_WR_FLUSH_ERR).",
		Remedy:  "Look for the first completion with another status, on this rank and on its peer.",
		Runbook: "GpuFabricQpDeath.md",
		Reasons: []Reason{
			{
				Cause:  "GPUDirect RDMA fails because a PCIe switch or an IOMMU redirects the traffic between NIC and GPU (ACS). Only flushes are logged then.",
				Remedy: "Run check --only=gpudirect on both hosts; turn off ACS on the switches between NIC and GPU, or the IOMMU (iommu=pt, amd_iommu=off).",
				Test:   "NCCL_NET_GDR_LEVEL=LOC for one run: if it goes on, this is it",
				If:     []Fact{OnlyFlushed, UsesGPUDirect},
				Likely: []Fact{OnlyFlushed, UsesGPUDirect},
			},
			{
				Cause:  "The peer failed first: its log has the completion with another status.",
				Remedy: "Look at the log of the peer that the line names, for the first failure there.",
				Test:   "explain with the logs of both hosts",
			},
		},
	},
	{
		ID: "completion_failed", Source: NCCL, Kind: Cause,
		Forms:   append([]Form{{Text: "Got CQE with error"}}, completion...),
		Cause:   "An RDMA request failed with another status (enum ibv_wc_status of libibverbs).",
		Remedy:  "Run check on both hosts, and look at the kernel messages of both.",
		Runbook: "GpuFabricQpDeath.md",
		Remote:  true,
	},
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
		Reasons: []Reason{memlock, {
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
				If:     []Fact{SubnetsDiffer}, Likely: []Fact{SubnetsDiffer}, Certain: []Fact{SubnetsDiffer, "errno:101,110,113"},
			},
			{
				Cause:  "The GID of this side is link-local: it reaches no other network.",
				Remedy: "Unset NCCL_IB_GID_INDEX from 2.21 on, and give the interface of the device an address.",
				Test:   "show_gids",
				If:     []Fact{GIDLinkLocal}, Likely: []Fact{GIDLinkLocal},
			},
			{
				Cause:  "NCCL_IB_GID_INDEX names a GID that this host does not have: the order differs between hosts, and changes with addresses.",
				Remedy: "Unset NCCL_IB_GID_INDEX from 2.21 on; before, set it for each host.",
				Test:   "show_gids on both hosts",
				If:     []Fact{"errno:22,61,101"}, Likely: []Fact{"set:NCCL_IB_GID_INDEX", "errno:22,61"},
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
				If:     []Fact{"errno:12", SparkNICs}, Likely: []Fact{"seen:gpu_driver_memory"},
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
				Cause:  "The BAR1 of the GPU is full or too small for the memory that is registered.",
				Remedy: "Look at BAR1 of nvidia-smi -q -d MEMORY; turn on Resizable BAR; unset NCCL_LOCAL_REGISTER.",
				Test:   "nvidia-smi -q -d MEMORY",
				If:     []Fact{"errno:12,14,28", UsesGPUDirect},
			},
		},
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
			{Text: "communicator encountered a fatal error"},
		},
		Cause:   "The device reported a fatal event for a queue pair, a completion queue or itself.",
		Remedy:  "Look at the kernel messages of mlx5_core at that time, and run check on the host.",
		Runbook: "GpuFabricQpDeath.md",
	},
	{
		ID: "async_event", Source: NCCL, Kind: Note,
		Forms:   []Form{{Text: "Got async event"}, {Text: "Got non-fatal async event"}},
		Cause:   "The device reported an event: a port that went down or came back (port error, port active), or a change of its addresses. A job survives a link that is back before its timeout.",
		Remedy:  "Look at link_downed and the state of the port that the line names.",
		Runbook: "GpuFabricLinkFlapping.md",
	},
	{
		ID: "gid_changed", Source: NCCL, Kind: Note, Forms: []Form{{Text: "GID table changed"}},
		Cause:   "An address of the interface was removed or added while the job ran. Connections that use the GID fail.",
		Remedy:  "Find what configures the interface: DHCP, NetworkManager, or a restart of the network.",
		Runbook: "GpuFabricGidChanged.md",
	},
	{
		ID: "nic_failed", Source: NCCL, Kind: Cause,
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
		Reasons: []Reason{deviceAccess, memlock, {
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
		Cause:  "Two ranks of one communicator called collectives of different sizes, types or order.",
		Remedy: "Compare the calls of the two ranks (the flight recorder of PyTorch, or NCCL_DEBUG_SUBSYS=COLL).",
		Sure:   true,
	},
}

// Reasons that several rows have.
var (
	memlock = Reason{
		Cause:  "The limit of locked memory is too small.",
		Remedy: "Set the limit of locked memory to unlimited: ulimit -l, LimitMEMLOCK= of slurmd or containerd, --ulimit memlock=-1, IPC_LOCK in a pod.",
		Test:   "ulimit -l in the job",
		If:     []Fact{"errno:0,1,11,12"}, Likely: []Fact{"errno:11,12"},
	}
	deviceAccess = Reason{
		Cause:  "The container or user has no access to the device nodes.",
		Remedy: "Give the container /dev/infiniband (a device plugin, --device=/dev/infiniband, privileged), and the user permission for uverbs*.",
		Test:   "ls -l /dev/infiniband in the job",
		If:     []Fact{"errno:0,1,2,13,19"}, Likely: []Fact{"errno:1,2,13"},
	}
)
