// SPDX-License-Identifier: Apache-2.0

package signature

// Choice is a setting by which NCCL takes a way that it might not take by itself, and what fails on that way.
type Choice struct {
	Setting string
	Has     string   // what it has NCCL do
	But     []string // values that do not
	Breaks  []string // IDs of signatures
}

// Choices returns the settings that are the first to doubt where the way fails that they choose.
func Choices() []Choice { return choices }

var (
	sharing = []string{
		"p2p_failed", "p2p_unavailable", "nvlink_import_refused", "gpu_sharing_failed", "cuda_failed",
		Stalled.ID, SetupStalls.ID,
	}
	direct  = []string{"completion_local_protection", "completion_remote_access", "memory_registration", "results_wrong"}
	nvls    = []string{"nvls_failed", "nvls_bind", "nvls_call_failed"}
	kernels = []string{
		"launch_failed", "gpu_kernel_failed", "gpu_program_error", "pytorch_watchdog_timeout", Stalled.ID, SetupStalls.ID,
	}
	graphs  = []string{"topology_unreadable", "topology_failed", "graph_file_wrong", "gpu_without_net"}
	buffers = []string{
		"gpu_memory_full", "gpu_allocation", "memory_registration", "shared_memory", "memory_exhausted", "host_memory_failed",
	}
	tcp = []string{
		"bootstrap_no_interface", "bootstrap_connect", "ports_exhausted", "socket_failed", "socket_call_failed",
	}
)

var choices = []Choice{
	{"NCCL_P2P_LEVEL", "use P2P between GPUs that it would connect otherwise", []string{"LOC", "NVL", "0"}, append([]string{"results_wrong"}, sharing...)},
	{"NCCL_CUMEM_ENABLE", "share memory of GPUs by cuMem", []string{"0"}, sharing[:5]},
	{"NCCL_CUMEM_HOST_ENABLE", "share memory of the host by cuMem", []string{"0"}, []string{"shared_memory", "gpu_host_memory", "host_memory_failed", "cuda_failed"}},
	{"NCCL_NVLS_ENABLE", "use NVLS", []string{"0"}, nvls},
	{"NCCL_COLLNET_ENABLE", "use SHARP", []string{"0"}, []string{"collnet_failed"}},
	{"NCCL_NET_GDR_LEVEL", "use GPUDirect RDMA on ways that it would not take", []string{"LOC", "0"}, direct},
	{"NCCL_IB_CUDA_SUPPORT", "use GPUDirect RDMA", []string{"0"}, direct},
	{"NCCL_NET_GDR_READ", "read memory of GPUs by GPUDirect RDMA", []string{"0"}, direct},
	{"NCCL_IB_PCI_RELAXED_ORDERING", "let the NIC order its writes freely", []string{"0", "2"}, direct[2:]},
	{"NCCL_DMABUF_ENABLE", "register memory of GPUs by DMA-BUF", []string{"0"}, direct[2:3]},
	{"NCCL_NET", "take this network and no other", nil, []string{"net_plugin", "plugin_failed"}},
	{"NCCL_NET_PLUGIN", "load this plugin", []string{"none", "NONE", ""}, []string{"net_plugin", "plugin_failed", "ofi_failed"}},
	{"NCCL_PROTO", "use this protocol and no other", nil, kernels},
	{"NCCL_ALGO", "use this algorithm and no other", nil, kernels},
	{"NCCL_TOPO_FILE", "take the topology from a file", nil, graphs},
	{"NCCL_GRAPH_FILE", "take its rings and trees from a file", nil, graphs},
	{"NCCL_BUFFSIZE", "use buffers of this size", nil, buffers},
	{"NCCL_MIN_NCHANNELS", "use at least so many channels, each with buffers of its own", nil, buffers},
	{"NCCL_NCHANNELS_PER_NET_PEER", "use so many channels to each peer", nil, buffers},
	{"NCCL_SOCKET_FAMILY", "use addresses of this family alone", nil, tcp},
	{"NCCL_MNNVL_ENABLE", "ask for NVLink between hosts", []string{"0"}, []string{"mnnvl_unavailable", "fabric_not_ready"}},
	{"NCCL_LOCAL_REGISTER", "register buffers of the program", []string{"0"}, []string{"registration_failed", "ipc_registration_failed"}},
	{"NCCL_GIN_ENABLE", "use transfers that GPUs start", []string{"0"}, []string{"one_sided_failed"}},
}
