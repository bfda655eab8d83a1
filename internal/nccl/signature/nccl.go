// SPDX-License-Identifier: Apache-2.0

package signature

// completion are the wordings of an RDMA request that failed; Codes distinguish the rows.
var completion = []Form{{Text: "Got completion from peer"}}

// nccl are lines of NCCL.
var nccl = []Signature{
	{
		ID: "completion_retry_exceeded", Source: NCCL, Kind: Cause, Forms: completion, Codes: []int{12},
		Cause:   "The other side did not acknowledge RDMA packets (IBV_WC_RETRY_EXC_ERR): a link or a switch between the two is down or drops packets, the GID or VLAN of one side does not reach the other, the MTUs differ, PFC has stopped the path, or the process on the other side is gone.",
		Remedy:  "Run check on both hosts, and look at the port, the retransmissions and the pauses of the device that the line names. If another rank failed earlier, that one is the cause. NCCL_IB_TIMEOUT=22 or more only helps where links recover by themselves.",
		Runbook: "GpuFabricQpDeath.md",
	},
	{
		ID: "completion_rnr_exceeded", Source: NCCL, Kind: Cause, Forms: completion, Codes: []int{13},
		Cause:   "The other side had no receive buffer posted for too long (IBV_WC_RNR_RETRY_EXC_ERR): its process hangs or is stopped.",
		Remedy:  "Look at the process on the peer: stopped, swapping, in a debugger, or without processor time.",
		Runbook: "GpuFabricSlowReceiver.md",
	},
	{
		ID: "completion_local_protection", Source: NCCL, Kind: Cause, Forms: completion, Codes: []int{4},
		Cause:   "The HCA could not read or write the memory of this rank (IBV_WC_LOC_PROT_ERR): the GPU memory is no longer mapped for it. Typical with GPUDirect RDMA through a PCIe switch or an IOMMU that redirects peer-to-peer traffic (ACS), or after an Xid of the GPU.",
		Remedy:  "Look for an Xid of the GPU first. Then run check --only=gpudirect and turn off ACS; NCCL_NET_GDR_LEVEL=LOC for a test shows whether GPUDirect RDMA is the cause.",
		Runbook: "check-gpudirect.md",
	},
	{
		ID: "completion_remote_access", Source: NCCL, Kind: Cause, Forms: completion, Codes: []int{9, 10, 11},
		Cause:   "The HCA of the other side refused the access or could not do it (IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_OP_ERR): its GPU memory cannot be reached by GPUDirect RDMA, or its process was ending.",
		Remedy:  "Look at the log and the kernel messages of the peer; run check on it, ACS and GPUDirect RDMA first.",
		Runbook: "check-gpudirect.md",
	},
	{
		ID: "completion_flushed", Source: NCCL, Kind: Consequence, Forms: completion, Codes: []int{5},
		Cause:   "The queue pair had failed already, and its other requests were flushed (IBV_WC_WR_FLUSH_ERR).",
		Remedy:  "Look for the first completion with another status, on this rank and on its peer.",
		Runbook: "GpuFabricQpDeath.md",
	},
	{
		ID: "completion_failed", Source: NCCL, Kind: Cause,
		Forms:   append([]Form{{Text: "Got CQE with error"}}, completion...),
		Cause:   "An RDMA request failed with another status (enum ibv_wc_status of libibverbs).",
		Remedy:  "Run check on both hosts, and look at the kernel messages of both.",
		Runbook: "GpuFabricQpDeath.md",
	},
	{
		ID: "qp_create", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "Call to ibv_create_qp failed", In: `"ibv_create_qp"`},
			{Text: "mlx5dv_create_qp failed to create QP"},
			{Text: "Call to ibv_create_cq failed", In: `"ibv_create_cq"`},
		},
		Cause:   "The device could not create a queue pair or a completion queue: the limit of locked memory is too small (Cannot allocate memory), or its queue pairs are used up by other jobs.",
		Remedy:  "Set the limit of locked memory to unlimited (ulimit -l, LimitMEMLOCK= of slurmd, IPC_LOCK in a pod). Otherwise compare the queue pairs in use (rdma resource) with the maximum of the device, and lower NCCL_IB_QPS_PER_CONNECTION.",
		Runbook: "check-node.md",
	},
	{
		ID: "qp_modify", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "Call to ibv_modify_qp failed", In: `"ibv_modify_qp"`},
			{Text: "Call to ibv_modify_qp failed with"},
		},
		Cause:   "The connection to the peer could not be set up: no route or no neighbour for the GID (No route to host, Connection timed out), or a GID that is not there (Invalid argument).",
		Remedy:  "Check that the GID that both sides use is of RoCE v2 and of networks that reach each other; unset NCCL_IB_GID_INDEX from 2.21 on. With one subnet per rail, set NCCL_CROSS_NIC=0.",
		Runbook: "check-gids.md",
	},
	{
		ID: "memory_registration", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "Call to ibv_reg_mr failed", In: `"ibv_reg_mr"`},
			{Text: "Call to ibv_reg_mr_iova2 failed", In: `"ibv_reg_mr_iova2"`},
			{Text: "Call to ibv_reg_dmabuf_mr failed", In: `"ibv_reg_dmabuf_mr"`},
		},
		Cause:   "Memory could not be registered with the device. Cannot allocate memory: the limit of locked memory is too small. Bad address or Invalid argument for memory of a GPU: nvidia_peermem is not loaded or does not fit the driver, or DMA-BUF is not supported.",
		Remedy:  "Set the limit of locked memory to unlimited; load nvidia_peermem, or use a driver with open kernel modules and a kernel with DMA-BUF.",
		Runbook: "check-gpudirect.md",
	},
	{
		ID: "memory_registration_missing", Source: NCCL, Kind: Cause, Forms: []Form{{Text: "NET/IB: could not find mr"}},
		Cause:  "NCCL deregistered memory that it does not know as registered: an error in NCCL, or a consequence of a failure before.",
		Remedy: "Look for an earlier failure; otherwise use a newer release of NCCL.",
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
		ID: "ib_no_ip_interface", Source: NCCL, Kind: Cause, Forms: []Form{{Text: "NET/IB : No IP interface found"}},
		Cause:  "There is no IP interface over which RDMA connections could be negotiated: NCCL_SOCKET_IFNAME excludes all.",
		Remedy: "Set NCCL_SOCKET_IFNAME to an interface that all hosts have.", Runbook: "check-nccl.md",
	},
	{
		ID: "gdrcopy_missing", Source: NCCL, Kind: Note, Forms: []Form{{Text: "GDRCOPY lib wrapper not initialized"}},
		Cause:  "NCCL_GDRCOPY_ENABLE is set, and the process has no libgdrapi.",
		Remedy: "Install GDRCopy in the image of the job, or unset the variable.",
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
		},
		Cause:   "The process may not use the RDMA device: no /dev/infiniband/uverbs in the container, no permission, or the device hangs.",
		Remedy:  "Give the container the device nodes (a device plugin, or --device=/dev/infiniband). If the host cannot use it either, look at the kernel messages.",
		Runbook: "check-inside.md",
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
	},
	{
		ID: "ib_no_pci_path", Source: NCCL, Kind: Note,
		Forms:  []Form{{Text: " (/sys/class/infiniband/", In: "Could not find real path of %s (%s)"}},
		Cause:  "An RDMA device has no PCI device, as with Soft-RoCE, or the container does not see it. NCCL uses it, and does not know how near it is to which GPU.",
		Remedy: "None for Soft-RoCE. Else mount /sys in the container without hiding devices.",
	},
	{
		ID: "sysfs_missing", Source: NCCL, Kind: Cause, Forms: []Form{{Text: "Could not find real path of"}},
		Cause:   "The PCI device is not in /sys: the container does not see it, or it was unplugged.",
		Remedy:  "Mount /sys in the container without hiding devices; on the host, look at the PCI bus.",
		Runbook: "check-pcie.md",
	},
	{
		ID: "peer_closed", Source: NCCL, Kind: Consequence, Forms: []Form{{Text: "Connection closed by remote peer"}},
		Cause:  "The process of another rank ended or closed its connection.",
		Remedy: "Look at the log of the rank at the address that the line names: it failed first, unless it says the same of another one.",
	},
	{
		ID: "communicator_in_error", Source: NCCL, Kind: Consequence,
		Forms:  []Form{{Text: "Attempt to use communicator before the previous operation returned ncclSuccess"}},
		Cause:  "The communicator has an asynchronous error, and the program goes on to use it.",
		Remedy: "Look for the first failure, here or in the logs of other ranks.",
	},
	{
		ID: "bootstrap_no_interface", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "no socket interface found"},
			{Text: "NET/Socket : No usable listening interface found"},
			{Text: "NET/Socket : no interface found"},
		},
		Cause:   "No interface fits NCCL_SOCKET_IFNAME, or the container has only a loopback interface.",
		Remedy:  "Set NCCL_SOCKET_IFNAME to a prefix that an interface of each host has; =name is exact.",
		Runbook: "check-nccl.md",
	},
	{
		ID: "bootstrap_connect", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "socketStartConnect: exceeded retries"},
			{Text: "socketStartConnect: exceeded timeouts"},
			{Text: "socketPollConnect: exceeded retries"},
			{Text: "socketPollConnect: exceeded timeouts"},
			{Text: "socketStartConnect: Connect to"},
			{Text: "exceeded error retry count"},
			{Text: ": connect to ", In: `: connect to %s failed`},
			{Text: "No interface found in the same subnet as remote address"},
		},
		Cause:   "A rank could not reach another one over TCP: a firewall, the address of an interface that other hosts cannot reach (docker0, a management network), or the process there is gone.",
		Remedy:  "Set NCCL_SOCKET_IFNAME to the network that the hosts share, and open its ports between them.",
		Runbook: "check-nccl.md",
	},
	{
		ID: "connect_retried", Source: NCCL, Kind: Note,
		Forms: []Form{
			{Text: "Call to connect returned"},
			{Text: ", retrying (", In: "retrying (%d/%ld) after sleep"},
			{Text: "msec of sleep", In: "retrying %d/%d after %u msec of sleep"},
		},
		Cause:  "A connection to another rank did not succeed at once, and is tried again. Some retries are normal while ranks start.",
		Remedy: "If the job does not go on, look at the address that the line names.",
	},
	{
		ID: "bootstrap_mismatch", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "Bootstrap Root : mismatch in"},
			{Text: "ranks has already checked in"},
			{Text: "Message truncated : received"},
			{Text: "wrong magic"},
			{Text: ": wrong type "},
		},
		Cause:  "Ranks do not agree on the communicator: two processes have the same rank, the numbers of ranks differ, or an old process of another run answers at the address.",
		Remedy: "Check rank and world size of each process; end processes of earlier runs; use another NCCL_COMM_ID or master port.",
	},
	{
		ID: "socket_failed", Source: NCCL, Kind: Consequence,
		Forms: []Form{
			{Text: "socketProgressOpt: Call to"},
			{Text: "ncclOsSocketProgressOpt: Call to"},
			{Text: "NET/Socket : socket progress error"},
		},
		Cause:  "A TCP connection to another rank broke: the other process ended, or the network between the hosts failed.",
		Remedy: "Look at the log of the rank at the address that the line names.",
	},
	{
		ID: "version_mismatch", Source: NCCL, Kind: Cause, Forms: []Form{{Text: "Mismatched NCCL version detected"}},
		Cause:   "Ranks use different releases of NCCL, which cannot be mixed.",
		Remedy:  "Use the same image on all nodes, and look for another libnccl.so.2 in LD_LIBRARY_PATH or LD_PRELOAD.",
		Runbook: "check-nccl.md",
	},
	{
		ID: "duplicate_gpu", Source: NCCL, Kind: Cause,
		Forms:  []Form{{Text: "Duplicate GPU detected"}, {Text: "Multiple Ranks are using the same GPU/Partition"}},
		Cause:  "Two ranks of one host use the same GPU.",
		Remedy: "Set the device by the local rank (torch.cuda.set_device), and CUDA_VISIBLE_DEVICES or the GPUs of each Slurm task to match.",
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
		ID: "p2p_hardware", Source: NCCL, Kind: Cause, Forms: []Form{{Text: "P2P is disabled between NVLINK connected GPUs"}},
		Cause:   "The driver refuses peer-to-peer access between GPUs that NVLink connects: a hardware problem, or the fabric manager does not run.",
		Remedy:  "Look at nvidia-smi topo -p2p r, the NVLinks, the fabric manager and Xids.",
		Runbook: "check-nvlink.md",
	},
	{
		ID: "p2p_failed", Source: NCCL, Kind: Cause, Forms: []Form{
			{Text: "failed to peer with device"},
			{Text: "cudaIpcGetMemHandle failed"},
		},
		Cause:   "Memory of another GPU of the host could not be mapped.",
		Remedy:  "In containers, the ranks of a host must share the IPC namespace or see all its GPUs; look for Xids.",
		Runbook: "check-gpu.md",
	},
	{
		ID: "p2p_unavailable", Source: NCCL, Kind: Note,
		Forms:   []Form{{Text: "Could not enable P2P between dev"}, {Text: "peer query failed between dev"}},
		Cause:   "Two GPUs of the host cannot reach each other directly, and go through the memory of the host: the platform does not support it, or IOMMU and ACS prevent it.",
		Remedy:  "Where the GPUs have NVLink or share a PCIe switch, look at IOMMU, ACS and the fabric manager.",
		Runbook: "check-gpu.md",
	},
	{
		ID: "nvls_bind", Source: NCCL, Kind: Cause, Forms: []Form{{Text: "Failed to bind NVLink SHARP"}},
		Cause:   "NVLink SHARP could not be set up: the fabric manager or an NVSwitch has an error, or is out of resources.",
		Remedy:  "Restart the fabric manager when no job runs; look for SXids. Without NCCL_NVLS_ENABLE=1 newer releases go on without it.",
		Runbook: "check-nvlink.md",
	},
	{
		ID: "mnnvl_unavailable", Source: NCCL, Kind: Cause,
		Forms:   []Form{{Text: "is available but not working on this system"}},
		Cause:   "NVLink between the hosts is there and cannot be used: IMEX does not run, its channels are missing in the container, or its nodes are not of one domain.",
		Remedy:  "Look at nvidia-imex-ctl -N and at /dev/nvidia-caps-imex-channels.",
		Runbook: "check-nvlink.md",
	},
	{
		ID: "shared_memory", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "Error: failed to extend"},
			{Text: "failed to create shared memory"},
			{Text: "Could not map"},
			{Text: " shared memory segment "},
		},
		Cause:  "/dev/shm is full, too small or not shared between the ranks of the host.",
		Remedy: "Give the container more: --shm-size, or an emptyDir of medium Memory at /dev/shm. Remove /dev/shm/nccl-* of ended jobs.",
	},
	{
		ID: "cuda_failed", Source: NCCL, Kind: Cause, Forms: []Form{{Text: "Cuda failure"}},
		Cause:   "A call of CUDA failed. Many are consequences: a GPU in error after an Xid, a kernel of the job that crashed, or no memory left.",
		Remedy:  "Look for Xids at that time; for out of memory, leave NCCL about 1 GiB of each GPU.",
		Runbook: "check-gpu.md",
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
	},
	{
		ID: "gpu_without_net", Source: NCCL, Kind: Cause, Forms: []Form{{Text: "Could not find any local path from gpu"}},
		Cause:  "NCCL's topology has no way from this GPU to a network device: an NCCL_TOPO_FILE of another machine, or PCI devices that the container does not see.",
		Remedy: "Unset NCCL_TOPO_FILE, and mount /sys in the container without hiding devices.", Runbook: "check-pcie.md",
	},
	{
		ID: "net_plugin", Source: NCCL, Kind: Cause, Forms: []Form{
			{Text: "Failed to initialize any NET plugin"},
			{Text: "Error: network "},
			{Text: "Failed to initialize NET plugin"},
		},
		Cause:  "The network that NCCL_NET names, or any, could not be used.",
		Remedy: "Look at the lines before: a plugin that is not in LD_LIBRARY_PATH, or a device that the container does not have.", Runbook: "check-inside.md",
	},
	{
		ID: "memory_exhausted", Source: NCCL, Kind: Cause,
		Forms:  []Form{{Text: "Failed to malloc"}, {Text: "Allocation failed"}},
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

// Judgements that take more than one line: how the connections of a log go.
var (
	TCP = Signature{
		ID: "transport_tcp", Source: NCCL, Kind: Cause, Forms: []Form{{Text: "via NET/Socket", In: `via NET/%s/%d`}},
		Cause:   "Data between hosts goes over TCP, which is several times slower than RDMA. Either NCCL found no RDMA device that it can use, or a setting chose TCP.",
		Remedy:  "On nodes with RDMA: look at the lines NET/IB and NET/Plugin, unset NCCL_IB_DISABLE and NCCL_NET=Socket, and run check in the container of the job. On nodes without, this is as expected.",
		Runbook: "GpuFabricJobOnTcp.md",
	}
	NoGPUDirect = Signature{
		ID: "gpudirect_unused", Source: NCCL, Kind: Cause,
		Forms:   []Form{{Text: "via NET/IB/0 without /GDRDMA", In: `via NET/%s/%d`}},
		Cause:   "RDMA goes through the memory of the host instead of directly to the GPU: nvidia_peermem or DMA-BUF is missing, or the device is further from the GPU than NCCL_NET_GDR_LEVEL allows.",
		Remedy:  "Run check --only=gpudirect on the host. GPUs that do not support GPUDirect RDMA (GeForce) always have this.",
		Runbook: "check-gpudirect.md",
	}
)
