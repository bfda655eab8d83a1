// SPDX-License-Identifier: Apache-2.0

package verdict

// IDs of checks that code refers to. The others have theirs in the catalogue only.
const (
	CheckReads          = "reads_return" // what could not be read at all
	CheckComputePorts   = "compute_ports"
	CheckGPUs           = "gpus"
	CheckManifest       = "manifest"
	CheckPortActive     = "port_active"
	CheckPortRate       = "port_rate"
	CheckPortRateAgrees = "port_rate_agrees"
	CheckFirmware       = "firmware_uniform"
	CheckMTU            = "mtu_uniform"
	CheckPFCUniform     = "pfc_uniform"
	CheckGID            = "gid_usable"
	CheckPinnedGIDs     = "gid_pinned_uniform"
	CheckDSCP           = "roce_dscp"
	CheckPriority       = "roce_priority"
	CheckPFC            = "roce_pfc"
	CheckPCIeLink       = "pcie_link"
	CheckACS            = "pcie_acs"
	CheckGPUDriver      = "gpu_driver"
	CheckGPUPCIeLink    = "gpu_pcie_link"
	CheckGPUThrottled   = "gpu_throttled"
	CheckNVLinks        = "nvlink_active"
	CheckNVLinkFabric   = "nvlink_fabric"
	CheckGPUDirect      = "gpudirect_usable"
	CheckPeermem        = "peermem_bound"
	CheckRDMAOff        = "nccl_rdma_off"
	CheckNCCLDevices    = "nccl_devices"
	CheckDevicesPrefix  = "nccl_devices_prefix"
	CheckSocket         = "nccl_socket_interface"
	CheckInsideVerbs    = "inside_verbs"
	CheckInsideMemlock  = "inside_memlock"
	// what lint finds in the settings of a job: the command that runs lint makes its verdicts
	CheckSettings = "inside_settings"

	CheckHardware     = "hardware"
	CheckSurplusPorts = "compute_ports_surplus"
	CheckGPUsSurplus  = "gpus_surplus"
	CheckLeftOut      = "nccl_devices_left_out"
	CheckNCCLLines    = "nccl_configuration"
	CheckNCCLVersion  = "nccl_version"
	CheckGIDIndex     = "nccl_gid_index"
	CheckPauseSent    = "roce_pause_sent"
)
