// SPDX-License-Identifier: Apache-2.0

package verdict

// Mode is a way in which the fabric of a node fails or is configured wrong: what the coverage of checks and alerts is
// Mode in.
type Mode struct {
	ID, Text string
	// Alert names the alert rule that finds it, where rates show it and states do not; empty: a check finds it.
	Alert string
	// Gap says why nothing finds it; empty where something does.
	Gap string
}

// Modes that checks find.
const (
	ModePortDown         = "port_down"
	ModeDeviceGone       = "device_gone"
	ModeSurplusPort      = "surplus_port"
	ModeRateDegraded     = "rate_degraded"
	ModeRateMisreported  = "rate_misreported"
	ModeDriverHung       = "driver_hung"
	ModeCounterSaturated = "counter_saturated"
	ModeFirmwareMismatch = "firmware_mismatch"
	ModeMTUMismatch      = "mtu_mismatch"
	ModeGIDMissing       = "gid_missing"
	ModeGIDPinned        = "gid_pinned"
	ModeGIDShared        = "gid_shared"
	ModePFC              = "pfc_wrong"
	ModeTrust            = "dscp_map_wrong"
	ModeTrafficClass     = "traffic_class_wrong"
	ModeWrongPriority    = "traffic_on_wrong_priority"
	ModeECN              = "ecn_wrong"
	ModeCNP              = "cnp_delayed"
	ModeGlobalPause      = "global_pause"
	ModeBuffer           = "buffer_missing"
	ModeETS              = "no_bandwidth_share"
	ModeLoss             = "lossless_drops"
	ModePauseStorm       = "pfc_storm"
	ModePaused           = "paused_by_network"
	ModePCIeLink         = "pcie_link_degraded"
	ModeACS              = "acs_redirects"
	ModeNUMA             = "numa_wrong"
	ModeNICShared        = "nic_shared"
	ModeNCCLConfig       = "nccl_configuration"
	ModeNCCLDevices      = "nccl_devices"
	ModeRDMAOff          = "rdma_switched_off"
	ModeGPUDriver        = "gpu_driver"
	ModeGPULost          = "gpu_lost"
	ModeGPUThrottled     = "gpu_throttled"
	ModeFabricManager    = "fabric_manager"
	ModeNVLinkDown       = "nvlink_down"
	ModeGDRModule        = "gpudirect_module"
	ModeGDRDistance      = "gpudirect_distance"
	ModeGDRConfig        = "gpudirect_forbidden"
	ModeDrift            = "drift"
	ModeIOMMU            = "iommu_translates"
	ModeGPUDivided       = "gpu_divided"
	ModeMemlock          = "memlock"
	ModeSocket           = "socket_interface"
	ModeNCCLOld          = "nccl_old"
	ModeDeviceNode       = "device_node_missing"
	ModeAlignment        = "gpu_without_nic"
	ModeSurplusGPU       = "gpu_surplus"
	ModeOffloadUnused    = "offload_unused"
)

// Modes returns every mode that is known, with what finds it.
func Modes() []Mode {
	return []Mode{
		{ID: ModePortDown, Text: "A port lost its link or is not configured.", Alert: "GpuFabricPortDown"},
		{ID: ModeDeviceGone, Text: "A NIC left the bus, or its driver did not start.", Alert: "GpuFabricDeviceGone"},
		{ID: ModeSurplusGPU, Text: "The node has more GPUs than its configuration expects, which is for another kind of node."},
		{ID: ModeSurplusPort, Text: "More ports count as ports for training than the site has."},
		{ID: ModeRateDegraded, Text: "A port lost lanes or trained at a lower speed.", Alert: "GpuFabricRateDegraded"},
		{ID: ModeRateMisreported, Text: "The kernel reports the wrong port speed to NCCL."},
		{ID: ModeDriverHung, Text: "A driver or its firmware does not respond.", Alert: "GpuFabricDeviceStuck"},
		{ID: ModeCounterSaturated, Text: "A counter has reached the end of its register and hides further events."},
		{ID: ModeFirmwareMismatch, Text: "Cards of one board run different firmware."},
		{ID: ModeMTUMismatch, Text: "Rails of a node have different MTUs."},
		{ID: ModeGIDMissing, Text: "A RoCE port has no routable RoCE v2 address that NCCL would choose.", Alert: "GpuFabricGidLost"},
		{ID: ModeGIDPinned, Text: "NCCL_IB_GID_INDEX selects an entry by its place, which is or may become the wrong one."},
		{ID: ModeGIDShared, Text: "Two compute ports of the node have one address."},
		{ID: ModePFC, Text: "PFC is off on the priority of RoCE, on for another priority, or on in a lossy fabric."},
		{ID: ModeTrust, Text: "The NIC does not trust DSCP, or maps it to another priority."},
		{ID: ModeTrafficClass, Text: "NCCL's traffic class differs from the one that the network treats as RoCE."},
		{ID: ModeWrongPriority, Text: "RDMA traffic is sent with the wrong priority."},
		{ID: ModeECN, Text: "Congestion control is off on one or both sides.", Alert: "GpuFabricEcnWithoutCnp"},
		{ID: ModeCNP, Text: "Congestion notifications queue behind the data."},
		{ID: ModeGlobalPause, Text: "802.3x flow control stops whole links."},
		{ID: ModeBuffer, Text: "The lossless priority has no dedicated receive buffer."},
		{ID: ModeETS, Text: "The priority of RoCE has no share of the bandwidth."},
		{ID: ModeLoss, Text: "The lossless priority drops packets.", Alert: "GpuFabricLosslessDrops"},
		{ID: ModePauseStorm, Text: "The host pauses the network (PFC storm).", Alert: "GpuFabricPfcStorm"},
		{ID: ModePaused, Text: "The network pauses the host.", Alert: "GpuFabricPausedByNetwork"},
		{ID: ModePCIeLink, Text: "A PCIe link is narrower or slower than both ends support."},
		{ID: ModeACS, Text: "ACS sends traffic between GPU and NIC through the root complex."},
		{ID: ModeNUMA, Text: "The firmware reports a wrong NUMA node."},
		{ID: ModeNICShared, Text: "GPUs share a NIC while another NIC is nearest to no GPU."},
		{ID: ModeNCCLConfig, Text: "NCCL ignores or misreads a line of the host's configuration."},
		{ID: ModeNCCLOld, Text: "The NCCL library is older than the site expects."},
		{ID: ModeNCCLDevices, Text: "NCCL_IB_HCA names missing devices, or leaves out some that the node has for training."},
		{ID: ModeRDMAOff, Text: "The host's NCCL configuration disables RDMA for all jobs."},
		{ID: ModeGPUDriver, Text: "A GPU has no driver that CUDA can use."},
		{ID: ModeGPULost, Text: "The driver lost a GPU, or does not show it.", Alert: "GpuFabricGpuLost"},
		{ID: ModeGPUThrottled, Text: "A GPU is throttled because of heat or power."},
		{ID: ModeFabricManager, Text: "Fabric manager or IMEX has not registered a GPU."},
		{ID: ModeNVLinkDown, Text: "NVLinks of a GPU are down.", Alert: "GpuFabricNvlinkDown"},
		{ID: ModeGDRModule, Text: "Neither a peer-memory module nor dma-buf is available, so NICs cannot access GPU memory."},
		{ID: ModeGDRDistance, Text: "A GPU is too far from its NIC for GPUDirect RDMA."},
		{ID: ModeGDRConfig, Text: "NCCL_NET_GDR_LEVEL or an option of the GPU driver forbids GPUDirect RDMA."},
		{ID: ModeDrift, Text: "The node has changed since its manifest was written."},
		{ID: ModeGPUDivided, Text: "MIG is on for some GPUs of a node that trains on all of them."},
		{ID: ModeMemlock, Text: "Jobs cannot lock the memory that RDMA needs."},
		{ID: ModeOffloadUnused, Text: "NVLS, SHARP or PXN is not used where it could be."},
		{ID: ModeSocket, Text: "NCCL_SOCKET_IFNAME names an interface that is missing or down."},
		{ID: ModeDeviceNode, Text: "Containers lack /dev/infiniband, RDMA devices or libibverbs."},
		{ID: ModeAlignment, Text: "A job has a GPU without a NIC near it."},
		{ID: ModeIOMMU, Text: "An IOMMU translates traffic between GPU and NIC."},

		{ID: "link_flapping", Text: "A link goes down and comes back.", Alert: "GpuFabricLinkFlapping"},
		{ID: "link_integrity", Text: "A link retrains or has recoverable errors.", Alert: "GpuFabricLinkUnstable"},
		{ID: "post_fec_errors", Text: "Errors remain after error correction.", Alert: "GpuFabricPostFecErrors"},
		{ID: "gid_changed", Text: "GIDs change while jobs run.", Alert: "GpuFabricGidChanged"},
		{ID: "retransmissions", Text: "Packets are lost and sent again.", Alert: "GpuFabricRetransmissions"},
		{ID: "queue_pair_death", Text: "Connections fail because retries are exhausted.", Alert: "GpuFabricQpDeath"},
		{ID: "slow_receiver", Text: "The host receives data too slowly.", Alert: "GpuFabricSlowReceiver"},
		{ID: "rail_imbalance", Text: "One rail carries less than the others.", Alert: "GpuFabricRailImbalance"},
		{ID: "traffic_stopped", Text: "RDMA stops while GPUs work.", Alert: "GpuFabricTrafficStopped"},
		{ID: "tcp_fallback", Text: "Training runs over TCP.", Alert: "GpuFabricTrainingOnTcpSuspected"},
		{ID: "tcp_on_rdma_nic", Text: "TCP uses the bandwidth of an RDMA NIC.", Alert: "GpuFabricTcpOnRdmaNic"},
		{ID: "nvlink_errors", Text: "NVLinks have errors.", Alert: "GpuFabricNvlinkErrors"},
		{ID: "pcie_errors", Text: "A PCIe link reports errors (AER).", Alert: "GpuFabricPcieErrors"},
		{ID: "pre_fec_errors", Text: "Corrected bit errors increase.", Gap: "some are normal at 100 Gb/s and above; gpufabric_ethernet_fec_bit_corrections_total shows the trend"},
		{ID: "module_hot", Text: "A transceiver is too hot or gets too little power.", Gap: "reported in the kernel log; the counter of ethtool -S of mlx5 (module_high_temp) is not exported"},
		{ID: "duplicate_address", Text: "Two nodes have one address, or a rail has no route.", Gap: "not visible on one node; routes of rails are not read"},
		{ID: "peermem_refuses", Text: "nvidia-peermem reports invalid contexts.", Gap: "reported only in the kernel log"},
		{ID: "adaptive_routing_wrong", Text: "NCCL_IB_ADAPTIVE_ROUTING or NCCL_IB_SL does not fit the InfiniBand fabric.", Gap: "known only to the subnet manager"},
	}
}
