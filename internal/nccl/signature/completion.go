// SPDX-License-Identifier: Apache-2.0

package signature

// completion are the wordings of an RDMA request that failed; Codes distinguish the rows.
var completion = []Form{
	{Text: "Got completion from peer"},
	{Text: "Got completion with error", File: "NCCL 2.4 to 2.12 src/transport/net_ib.cc"},
}

// completions are lines of RDMA requests that failed, by their status.
var completions = []Signature{
	{
		ID: "completion_retry_exceeded", Source: NCCL, Kind: Cause, Forms: completion, Codes: []int{12},
		Cause:   "The other side did not acknowledge RDMA packets (IBV_WC_RETRY_EXC_ERR): a link or a switch between the two is down or drops packets, the GID or VLAN of one side does not reach the other, the MTUs differ, PFC has stopped the path, or the process on the other side is gone.",
		Remedy:  "Run check on both hosts, and look at the port, the retransmissions and the pauses of the device that the line names. If another rank failed earlier, that one is the cause. NCCL_IB_TIMEOUT=22 or more only helps where links recover by themselves.",
		Runbook: "GpuFabricQpDeath.md",
		Remote:  true,
		Reasons: []Reason{
			{
				Cause:  "The process or the host on the other side is gone: it may have failed first.",
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
				Cause:  "Both devices are of one host, whose NICs do not reach each other: the switch, a VLAN, neighbours or routes of virtual functions.",
				Remedy: "Set NCCL_CROSS_NIC=0 or NCCL_NET_DISABLE_INTRA=1, so that ranks of a host use its own ways; look at ip neigh and the switch between the ports.",
				Test:   "ib_write_bw -x GID for each pair of these addresses; NCCL_CROSS_NIC=0, then NCCL_NET_DISABLE_INTRA=1, for one run each",
				If:     []Fact{OfOneHost}, Likely: []Fact{OfOneHost},
			},
			{
				Cause:  "Connections lead from one rail to another, and the rails do not reach each other.",
				Remedy: "Set NCCL_CROSS_NIC=0, and have all hosts number their devices alike (NCCL_IB_HCA with =); or connect the rails.",
				Test:   "NCCL_CROSS_NIC=0 for one run; ib_write_bw between devices of different rails",
				If:     []Fact{RailsCrossed}, Likely: []Fact{RailsCrossed},
			},
			{
				Cause:  "The two InfiniBand ports do not reach each other: different partition keys (as VMs of different scale sets have), a subnet manager that does not run or does not route between them, or different subnets.",
				Remedy: "Give both the same partition (VMs: one scale or placement set); look at the subnet manager and at the state of both ports.",
				Test:   "cat /sys/class/infiniband/*/ports/*/pkeys/* on both; sminfo, ibstat; ib_write_bw between the two hosts",
				If:     []Fact{OnlyInfiniBand},
			},
			{
				Cause:  "The path between the two InfiniBand ports drops packets: a cable, a link or a switch.",
				Remedy: "Run check on both hosts; look at the errors of both ports and of the switch ports between them.",
				Test:   "ib_write_bw for each pair of devices of the two hosts; NCCL_IB_HCA with one device for one run; perfquery",
				If:     []Fact{OnlyInfiniBand},
			},
			{
				Cause:  "The path between the two devices drops or stops packets: a link, a switch, PFC, or MTUs that differ.",
				Remedy: "Run check on both hosts; compare the MTU of devices, interfaces and switch, and look at the port, the retransmissions and the pauses.",
				Test:   "ib_write_bw -d DEVICE -x GID with large messages between the devices of the line, also where both are of one host; NCCL_CROSS_NIC=0, then NCCL_NET_DISABLE_INTRA=1, for one run each; active_mtu of ibv_devinfo",
				If:     []Fact{"!" + SubnetsDiffer, "!" + OnlyInfiniBand},
			},
			{
				Cause:  "The GID of one side does not reach the other (RoCE): another index, version or VLAN. NCCL before 2.21 takes index 0, which is not of RoCE v2 on most hosts.",
				Remedy: "Unset NCCL_IB_GID_INDEX from 2.21 on; before, set it to the index of the RoCE v2 address of each host (often 3).",
				Test:   "show_gids on both hosts; ib_write_bw -x GID",
				If:     []Fact{"!" + OnlyInfiniBand, "!" + SubnetsDiffer, "!" + GIDLinkLocal},
			},
			{
				Cause:  "The process, its queue pairs or the host on the other side are gone: it failed or ended first.",
				Remedy: "Look at the log and the kernel messages of the peer that the line names.",
				Test:   "the log of the peer: a failure or an end there that is older",
				If:     []Fact{"!" + PeerFailed},
			},
			{
				Cause:  "The port of a device went down for longer than the retries last.",
				Remedy: "Look at link_downed and the state of both ports; NCCL_IB_TIMEOUT=22 outlasts short flaps.",
				Test:   "dmesg and the counter link_downed of both hosts",
				If:     []Fact{"!seen:port_error"},
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
				Cause:  "The rdma-core of the image is too old for this NCCL: libmlx5 has no mlx5dv_reg_dmabuf_mr, and memory is registered in a way that the device refuses.",
				Remedy: "Install a newer rdma-core (libibverbs1, ibverbs-providers, or DOCA) in the image.",
				Test:   "strings libmlx5.so.1 | grep mlx5dv_reg_dmabuf_mr in the container",
				If:     []Fact{"seen:mlx5dv_missing"}, Likely: []Fact{"seen:mlx5dv_missing"},
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
		ID: "completion_local_length", Source: NCCL, Kind: Cause, Forms: completion, Codes: []int{1},
		Cause:   "What arrived, or was sent, is longer than the HCA takes for this request (IBV_WC_LOC_LEN_ERR): the two sides do not agree on a size or on the MTU.",
		Remedy:  "Compare active_mtu of both devices (ibv_devinfo), then the sizes that the ranks give the collective.",
		Runbook: "GpuFabricQpDeath.md",
		Remote:  true,
		Reasons: []Reason{
			{
				Cause:  "The devices of the two hosts have different MTUs, and NCCL from 2.20 on does not take the smaller one on some paths.",
				Remedy: "Give both interfaces and the switch the same MTU, or use another release of NCCL.",
				Test:   "ibv_devinfo on both hosts: active_mtu; ip link: mtu",
			},
			{
				Cause:  "The ranks call a collective with different sizes, or in another order, so that more arrives than a rank expects.",
				Remedy: "Compare the calls of both ranks (TORCH_DISTRIBUTED_DEBUG=DETAIL, or the flight recorder of PyTorch).",
				Test:   "NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=COLL on both ranks; all_reduce_perf of nccl-tests on the two hosts",
			},
			{
				Cause:  "The memory of the request was freed, or cannot be reached: a PCIe switch or IOMMU that redirects GPUDirect RDMA (ACS).",
				Remedy: "Run check --only=gpudirect on the host that the line is of.",
				Test:   "NCCL_NET_GDR_LEVEL=LOC for one run",
				If:     []Fact{UsesGPUDirect},
			},
		},
	},
	{
		ID: "completion_failed", Source: NCCL, Kind: Cause, Forms: completion,
		Cause:   "An RDMA request failed with another status (enum ibv_wc_status of libibverbs).",
		Remedy:  "Run check on both hosts, and look at the kernel messages of both.",
		Runbook: "GpuFabricQpDeath.md",
		Remote:  true,
	},
	{
		ID: "completion_unnamed", Source: NCCL, Kind: Consequence, Generic: true, Forms: []Form{{Text: "Got CQE with error"}},
		Cause:   "An RDMA request failed; the next line of the thread has its status.",
		Remedy:  "Look at the line Got completion from peer.",
		Runbook: "GpuFabricQpDeath.md",
	},
}
