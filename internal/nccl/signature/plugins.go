// SPDX-License-Identifier: Apache-2.0

package signature

import "strings"

const (
	awsOFI     = "aws-ofi-nccl src"
	fastSocket = "nccl-fastsocket net_fastsocket.cc"
	tcpxo      = "GPUDirect-TCPXO tcpxo_nccl_net.cc"
	rcclInit   = "rccl src/init.cc"
)

// writers are plugins, by how their warnings or the names of their source files begin.
var writers = []struct{ name, text, file string }{
	{"aws-ofi-nccl", "NET/OFI", "nccl_ofi"},
	{"GPUDirect-TCPXO (FasTrak)", "NET/FasTrak", "tcpxo"},
	{"GPUDirect-TCPX", "NET/GPUDirectTCPX", "net_gpudirecttcpx"},
	{"gIB", "NET/gIB", "gib"},
	{"fastsocket", "NET/FastSocket", "net_fastsocket"},
	{"UCX of HPC-X", "NET/UCX", "ucx_"},
	{"HPC-X", "NET/IBext", "ib_plugin"},
	{"SHARP of HPC-X", "NET/SHARP", "sharp_plugin"},
	{"ANP of AMD", "NET/ANP", "anp"},
	{"MRC", "NET/MRC", "mrc"},
}

// Writer names the plugin that wrote a warning; empty: NCCL.
func Writer(file, message string) string {
	for _, w := range writers {
		if strings.HasPrefix(message, w.text) || file != "" && strings.HasPrefix(file, w.file) {
			return w.name
		}
	}
	return ""
}

// plugins are lines of network plugins, and of RCCL.
var plugins = []Signature{
	{
		ID: "ofi_address", Source: Plugin, Kind: Cause, Remote: true,
		Forms:   []Form{{Text: "Unable to insert remote address into address vector", File: awsOFI}},
		Cause:   "EFA cannot reach the device of the peer.",
		Remedy:  "Let the security group of the instances allow all traffic to and from itself.",
		Runbook: "check-nccl.md",
		Reasons: []Reason{
			{
				Cause:  "The security group of the instances does not allow all traffic from and to itself, which EFA needs.",
				Remedy: "Add a rule to the security group for all traffic, inbound and outbound, whose source and destination is the group itself; the instances must be in one subnet.",
				Test:   "aws ec2 describe-security-groups; fi_pingpong -p efa between the two instances",
				Likely: []Fact{"text:RC: -22"},
			},
			{
				Cause:  "The hosts or containers do not have the same EFA devices, or the same release of libfabric.",
				Remedy: "Ask for the same number of vpc.amazonaws.com/efa on all, and use one image.",
				Test:   "fi_info -p efa on both hosts",
			},
		},
	},
	{
		ID: "ofi_provider", Source: Plugin, Kind: Cause,
		Forms: []Form{
			{Text: "No eligible providers were found", File: awsOFI},
			{Text: "Could not find any optimal provider", File: awsOFI},
			{Text: "Only EFA provider is supported", File: awsOFI},
			{Text: "Couldn't open a fabric", File: awsOFI},
			{Text: "Couldn't create fabric", File: awsOFI},
			{Text: "Couldn't create domain", File: awsOFI},
			{Text: "fi_getinfo", File: awsOFI},
		},
		Cause:   "libfabric gives the plugin aws-ofi-nccl no device, or cannot open the one that it gives.",
		Remedy:  "Give the pod or container the devices of the network, and libfabric for them.",
		Runbook: "check-inside.md",
		Reasons: []Reason{
			{
				Cause:  "The job has no VNI on Slingshot for the device, so that libfabric (cxi) cannot open it.",
				Remedy: "Ask the scheduler for one: srun --network=single_node_vni or job_vni; give containers SLINGSHOT_VNIS and SLINGSHOT_SVC_IDS of the job.",
				Test:   "env | grep SLINGSHOT in the job; fi_info -p cxi",
				If:     []Fact{"provider:cxi"}, Likely: []Fact{"seen:cxi_no_vni"},
			},
			{
				Cause:  "libfabric or libcxi of the image is not of the release of the host, or lacks what the plugin asks for.",
				Remedy: "Use libfabric and libcxi of the host, and a plugin that is built for them.",
				Test:   "fi_info -p cxi --version in the container and on the host",
				If:     []Fact{"provider:cxi"},
			},
			{
				Cause:  "The container or user may not open the RDMA device, or locked memory is limited.",
				Remedy: "Give the container /dev/infiniband, and set ulimit -l to unlimited.",
				Test:   "ls -l /dev/infiniband; ulimit -l; fi_info -p verbs in the container",
				If:     []Fact{"provider:verbs"},
			},
			{
				Cause:  "The container has no EFA device: the pod asks for none, or the device plugin does not run.",
				Remedy: "Ask for vpc.amazonaws.com/efa in the pod, or --device=/dev/infiniband/uverbs*; use a type of instance with EFA.",
				Test:   "fi_info -p efa in the container",
				If:     []Fact{"!provider:cxi", "!provider:verbs", "!provider:efa"},
				Likely: []Fact{"text:provider|fi_getinfo"},
			},
			{
				Cause:  "libfabric of the image is not of the EFA installer, or is older than the plugin needs.",
				Remedy: "Install the EFA software in the image (efa_installer.sh --skip-kmod), and have LD_LIBRARY_PATH lead to /opt/amazon/efa/lib.",
				Test:   "fi_info --version in the container",
				If:     []Fact{"!provider:cxi", "!provider:verbs"},
			},
			{
				Cause:  "FI_PROVIDER names another provider.",
				Remedy: "Set FI_PROVIDER=efa, or unset it.",
				Test:   "echo $FI_PROVIDER",
				If:     []Fact{"!provider:cxi", "!provider:verbs", "!provider:efa"},
			},
		},
	},
	{
		ID: "ofi_provider_tcp", Source: Plugin, Kind: Cause, Info: true,
		Forms: []Form{
			{Text: "Selected Provider is tcp", File: awsOFI},
			{Text: "Selected provider is tcp", File: awsOFI},
			{Text: "Selected Provider is sockets", File: awsOFI},
			{Text: "Selected provider is sockets", File: awsOFI},
		},
		Cause:   "The plugin aws-ofi-nccl found no EFA device, and takes TCP of libfabric, with which it is slow or does not start.",
		Remedy:  "Give the container the EFA devices.",
		Runbook: "check-inside.md",
		Reasons: []Reason{
			{
				Cause:  "EFA is not visible in this container or on this instance, so that libfabric offers the provider tcp only.",
				Remedy: "Start the container with --device=/dev/infiniband/uverbs*, --network host and --ulimit memlock=-1, or vpc.amazonaws.com/efa in the pod; use a type of instance with EFA.",
				Test:   "fi_info -p efa; ls /dev/infiniband in the container",
				Likely: []Fact{"!set:FI_PROVIDER"},
			},
			{
				Cause:  "FI_PROVIDER names tcp, or libfabric of the image is built without EFA.",
				Remedy: "Set FI_PROVIDER=efa, and use libfabric of the EFA installer (/opt/amazon/efa/lib).",
				Test:   "echo $FI_PROVIDER; fi_info --version",
			},
		},
	},
	{
		ID: "ofi_memory", Source: Plugin, Kind: Cause,
		Forms: []Form{
			{Text: "Unable to register memory", File: awsOFI},
			{Text: "Could not register memory", File: awsOFI},
			{Text: "Couldn't register memory region", File: awsOFI},
			{Text: "but then couldn't be configured on an endpoint", File: awsOFI},
			{Text: "FI_OPT_CUDA_API_PERMITTED", File: awsOFI},
		},
		Cause:  "The plugin aws-ofi-nccl cannot register memory with the device.",
		Remedy: "Set the limit of locked memory to unlimited; update driver, libfabric and plugin together (GPUDirect RDMA needs a driver with DMA-BUF or efa_nv_peermem).",
		Reasons: []Reason{
			{
				Cause:  "The plugin, libfabric and NCCL do not fit: libfabric of an older EFA installer cannot register memory of GPUs as this NCCL (2.19 and later) allocates it.",
				Remedy: "Use an EFA installer of 1.29.1 or later with the plugin for this NCCL; FI_EFA_SET_CUDA_SYNC_MEMOPS=0 until then.",
				Test:   "cat /opt/amazon/efa_installed_packages; FI_EFA_SET_CUDA_SYNC_MEMOPS=0 for one run",
				If:     []Fact{"text:RC: -22|Invalid argument"},
				Likely: []Fact{"text:RC: -22|Invalid argument", "!release<2.19"},
			},
			{
				Cause:  "GPUDirect RDMA does not work: the driver has neither DMA-BUF nor efa_nv_peermem.",
				Remedy: "Update driver, libfabric and plugin together.",
				Test:   "lsmod | grep efa_nv_peermem; modinfo nvidia: Dual MIT/GPL",
				If:     []Fact{"!errno:12,11"},
			},
			memlock,
		},
	},
	{
		ID: "ofi_endpoint", Source: Plugin, Kind: Cause,
		Forms: []Form{
			{Text: "Couldn't enable endpoint", File: awsOFI},
			{Text: "Couldn't allocate endpoint", File: awsOFI},
			{Text: "Creating new endpoint for domain", File: awsOFI},
			{Text: "Couldn't create completion queue", File: awsOFI},
			{Text: "Couldn't open AV", File: awsOFI},
			{Text: "requires at least libfabric version", File: awsOFI},
		},
		Cause:   "The plugin aws-ofi-nccl could not set up the device: libfabric is of another release than the plugin needs, a limit of memory is too small, or the device is used up.",
		Remedy:  "Use libfabric and plugin of one EFA installer; set the limit of locked memory to unlimited; set FI_EFA_USE_HUGE_PAGE=0 where huge pages are scarce; end other jobs of the node.",
		Reasons: []Reason{memlock},
	},
	{
		ID: "ofi_completion", Source: Plugin, Kind: Cause, Remote: true,
		Forms: []Form{
			{Text: "completed with error", File: awsOFI},
			{Text: "Unable to retrieve completion queue entries", File: awsOFI},
		},
		Cause:  "A request over the network failed: the peer is gone, or cannot be reached.",
		Remedy: "Look at the log of the peer; let the security group allow all traffic to and from itself.",
		Reasons: []Reason{
			{
				Cause:  "The peer cannot be reached over EFA: the security group does not allow all traffic to and from itself, or the instances are not in one subnet.",
				Remedy: "Add rules to the security group for all traffic, inbound and outbound, whose source and destination is the group itself: 0.0.0.0/0 does not cover EFA.",
				Test:   "fi_pingpong -p efa between the two instances",
				If:     []Fact{"text:unreachable|No route|113|handshake|unresponsive|4126"},
				Likely: []Fact{"text:unreachable|No route|113|handshake|unresponsive|4126"},
			},
			{
				Cause:  "The process on the other side ended or does not answer.",
				Remedy: "Look at the log of the peer for the first failure.",
				Test:   "the logs of the other hosts",
				Likely: []Fact{"text:unresponsive|invalid address|remote"},
			},
		},
	},
	{
		ID: "ofi_failed", Source: Plugin, Kind: Cause, Generic: true,
		Forms: []Form{
			{Text: "aws-ofi-nccl initialization failed", File: awsOFI},
			{Text: "NET/OFI Initializing plugin failed", File: awsOFI},
			{Text: "Unable to find a protocol that worked", File: awsOFI},
			{Text: "Failed to initialize sendrecv protocol", File: awsOFI},
			{Text: "Failed to initialize rdma protocol", File: awsOFI},
			{Text: "Aborting due to call failure", File: awsOFI},
		},
		Cause:  "The plugin aws-ofi-nccl did not start: NCCL goes on with another network, TCP most often.",
		Remedy: "Look at the lines of NET/OFI before, and at fi_info -p efa in the container.",
	},
	{
		ID: "tcpxo_buffer", Source: Plugin, Kind: Cause,
		Forms:  []Form{{Text: "does not have a valid fd set", File: tcpxo}},
		Cause:  "The plugin GPUDirect-TCPXO refuses to register a buffer: it was not allocated as the plugin needs, with a file descriptor (DMA-BUF).",
		Remedy: "Use the plugin, NCCL and settings of one release of Google's guide (nccl-env-profile.sh); NCCL_NET=Socket goes on over TCP, slower. Do not remove the settings that the plugin wants.",
	},
	{
		ID: "tcpx_failed", Source: Plugin, Kind: Cause, Remote: true,
		Forms: []Form{
			{Text: "NET/FasTrak plugin:", File: tcpxo},
			{Text: "NET/FasTrak :", File: tcpxo},
			{Text: "NET/GPUDirectTCPX", File: "GPUDirect-TCPX net_gpudirecttcpx"},
		},
		Cause:  "The plugin GPUDirect-TCPX or TCPXO failed: its receive datapath manager (RxDM) on the host is not there or ended, or its settings do not fit.",
		Remedy: "Look at the container tcpx-daemon or tcpxo-daemon of the pod, and use the settings of Google's guide for this release.",
	},
	{
		ID: "fastsocket_retry", Source: Plugin, Kind: Note, Harmless: true,
		Forms: []Form{
			{Text: "Maximum retry reached for", File: fastSocket},
			{Text: "Cannot get incoming CPU", File: fastSocket},
		},
		Cause:  "The plugin fastsocket waits for the other side, and tries again.",
		Remedy: "None if it says later that it is connected.",
	},
	{
		ID: "ucx_failed", Source: Plugin, Kind: Cause, Remote: true,
		Forms: []Form{
			{Text: "NET/UCX", File: "nccl-rdma-sharp-plugins src/ucx_plugin.c"},
			{Text: "UCX ERROR", File: "ucx src/ucs/debug/log.c"},
		},
		Cause:   "UCX, over which the plugin of HPC-X moves data, failed.",
		Remedy:  "Use NCCL_PLUGIN_P2P=ib for the verbs of the plugin; look at UCX_NET_DEVICES and UCX_TLS.",
		Reasons: ucxReasons,
	},
	{
		ID: "sharp_unavailable", Source: Plugin, Kind: Note, Harmless: true,
		Forms: []Form{
			{Text: "SHARP coll init error", File: "nccl-rdma-sharp-plugins src/sharp_plugin.c"},
			{Text: "SHARP group create failed", File: "nccl-rdma-sharp-plugins src/sharp_plugin.c"},
		},
		Cause:  "Sums in InfiniBand switches (SHARP) could not be set up: no aggregation manager, or no resources left. NCCL goes on without.",
		Remedy: "Unset NCCL_COLLNET_ENABLE, or look at sharp_am on the host of the subnet manager.",
	},
	{
		ID: "rccl_host_setting", Source: Plugin, Kind: Note, Harmless: true,
		Forms: []Form{
			{Text: "from kernel command line which can lead to system instab", File: rcclInit},
			{Text: "NUMA auto balancing enabled", File: rcclInit},
			{Text: "from environment which can lead to low RCCL performance", File: rcclInit},
			{Text: "which can cause performance degradation", File: rcclInit},
		},
		Cause:  "RCCL misses a setting of the kernel that AMD recommends (iommu=pt, numa_balancing=0). Kernels whose IOMMU passes through by default do not need it.",
		Remedy: "Look at cat /proc/cmdline and /sys/class/iommu, and follow AMD's guide for the platform where the job is slow.",
	},
	{
		ID: "setting_ignored", Source: Plugin, Kind: Note, Harmless: true,
		Forms:  []Form{{Text: "is ignored due to", File: rcclInit}, {Text: " will be ignored", File: rcclInit}},
		Cause:  "RCCL or NCCL ignores a setting, and says why.",
		Remedy: "None: the setting has no effect on this job.",
	},
	{
		ID: "hip_sharing_failed", Source: Plugin, Kind: Cause,
		Forms: []Form{
			{Text: "hipIpcGetMemHandle failed", File: "rccl src/transport/p2p.cc"},
			{Text: "hipIpcOpenMemHandle failed", File: "rccl src/transport/p2p.cc"},
		},
		Cause:  "RCCL could not share memory of a GPU with another process of the host (P2P).",
		Remedy: "Look at the environment of HSA and the releases of ROCm.",
		Reasons: []Reason{
			{
				Cause:  "HSA_ENABLE_IPC_MODE_LEGACY or another variable of HSA is set, as in some images, and does not work with these GPUs or this driver.",
				Remedy: "Unset HSA_ENABLE_IPC_MODE_LEGACY, and others of HSA_*.",
				Test:   "env | grep HSA in the job; without them for one run",
			},
			{
				Cause:  "ROCm of the container does not fit the driver of the host, or the container may not share memory (ipc, seccomp, /dev/kfd).",
				Remedy: "Use an image of the ROCm of the host; --ipc=host, --security-opt seccomp=unconfined, --device=/dev/kfd --device=/dev/dri.",
				Test:   "rocm-smi --showdriverversion; NCCL_P2P_DISABLE=1 for one run",
			},
		},
	},
	{
		ID: "hip_failed", Source: Plugin, Kind: Cause, Generic: true,
		Forms: []Form{
			{Text: "HIP failure", File: "rccl src/include/checks.h"},
		},
		Cause:  "A call of HIP failed. Many are consequences: a GPU in error, a kernel of the job that crashed, or no memory left.",
		Remedy: "Look for amdgpu in the messages of the kernel; HSA_NO_SCRATCH_RECLAIM=1 and iommu=pt are AMD's advice for RCCL.",
		Reasons: []Reason{
			{
				Cause:  "The GPU has no memory left.",
				Remedy: "Lower the batch or the share of memory of the program; end other processes on the GPU (rocm-smi).",
				Test:   "rocm-smi --showmeminfo vram while the job starts",
				If:     []Fact{"text:out of memory"}, Likely: []Fact{"text:out of memory"},
			},
			{
				Cause:  "The process does not see the GPU: HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES, the container (/dev/kfd, /dev/dri), or the binding of Slurm.",
				Remedy: "Let each process see all GPUs of the host, and choose by the local rank.",
				Test:   "rocminfo in the job; env | grep VISIBLE",
				If:     []Fact{"text:invalid device ordinal|no ROCm-capable"}, Likely: []Fact{"!text:out of memory"},
			},
			{
				Cause:  "The GPU does not do PCIe atomics there, which kernels of RCCL with a hostcall need: the slot, a switch or the VM does not pass AtomicOps on, or the build of RCCL needs them without use.",
				Remedy: "Use a slot, BIOS setting or VM that completes AtomicOps, or the RCCL of another release of ROCm.",
				Test:   "dmesg | grep -i atomic; lspci -vvv | grep -i AtomicOps",
				If:     []Fact{"text:cannot be performed in the present state"},
			},
			{
				Cause:  "This build has no code for the GPU.",
				Remedy: "Use a build of RCCL and framework for this gfx architecture.",
				Test:   "rocminfo | grep gfx",
				If:     []Fact{"text:invalid device function|no kernel image|shared object initialization"},
				Likely: []Fact{"text:invalid device function|no kernel image"},
			},
			{
				Cause:  "A call of HIP failed, and the line does not say which.",
				Remedy: "Look for amdgpu in the messages of the kernel, and at the first failure of the other ranks.",
				Test:   "dmesg | grep -i amdgpu; AMD_LOG_LEVEL=1 for one run",
			},
		},
	},
}
