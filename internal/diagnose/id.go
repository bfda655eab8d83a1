// SPDX-License-Identifier: Apache-2.0

package diagnose

// IDs of checks that code refers to. The others have theirs in the catalogue only.
const (
	CheckReads          = "reads_return" // what could not be read at all
	CheckPortActive     = "port_active"
	CheckPortRate       = "port_rate"
	CheckPortRateAgrees = "port_rate_agrees"
	CheckFirmware       = "firmware_uniform"
	CheckMTU            = "mtu_uniform"
	CheckPFCUniform     = "pfc_uniform"
	CheckGID            = "gid_usable"
	CheckPCIeLink       = "pcie_link"
	CheckACS            = "pcie_acs"
	CheckGPUDriver      = "gpu_driver"
	CheckGPUPCIeLink    = "gpu_pcie_link"
	CheckGPUThrottled   = "gpu_throttled"
	CheckNVLinks        = "nvlink_active"
	CheckNVLinkFabric   = "nvlink_fabric"
	CheckGPUDirect      = "gpudirect_usable"
	CheckPeermem        = "peermem_bound"

	checkHardware     = "hardware"
	checkComputePorts = "compute_ports"
	checkSurplusPorts = "compute_ports_surplus"
	checkGPUs         = "gpus"
	checkGPUsSurplus  = "gpus_surplus"
	checkNCCLDevices  = "nccl_devices"
	checkLeftOut      = "nccl_devices_left_out"
	checkNCCLLines    = "nccl_configuration"
	checkRDMAOff      = "nccl_rdma_off"
	checkGIDIndex     = "nccl_gid_index"
	checkPinnedGIDs   = "gid_pinned_uniform"
	checkDSCP         = "roce_dscp"
	checkPriority     = "roce_priority"
	checkPFC          = "roce_pfc"
	checkPauseSent    = "roce_pause_sent"
)
