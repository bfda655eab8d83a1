// SPDX-License-Identifier: Apache-2.0

package signature

// Reasons that several rows have.
var (
	memlock = Reason{
		Cause:  "The limit of locked memory is too small.",
		Remedy: "Set the limit of locked memory to unlimited: ulimit -l, LimitMEMLOCK= of slurmd or containerd, --ulimit memlock=-1, IPC_LOCK in a pod.",
		Test:   "ulimit -l in the job",
		If:     []Fact{"errno:0,1,11,12"}, Likely: []Fact{"errno:11,12", "!text:dmabuf", "!set:NCCL_BUFFSIZE"},
	}
	deviceAccess = Reason{
		Cause:  "The container or user has no access to the device nodes.",
		Remedy: "Give the container /dev/infiniband (a device plugin, --device=/dev/infiniband, privileged), and the user permission for uverbs*.",
		Test:   "ls -l /dev/infiniband in the job",
		If:     []Fact{"errno:0,1,2,13,19"}, Likely: []Fact{"errno:1,2,13"},
	}
)

// nvlsReasons are what makes the set-up of NVLink SHARP fail.
var nvlsReasons = []Reason{
	{
		Cause:  "The driver is too old for the multicast memory that this NCCL asks for (handles of the fabric are of CUDA 12.3 and later).",
		Remedy: "Use a driver of CUDA 12.4 or later, or set NCCL_NVLS_ENABLE=0.",
		Test:   "nvidia-smi: CUDA Version; NCCL_NVLS_ENABLE=0 for one run",
		If:     []Fact{"driver<12.3"}, Likely: []Fact{"driver<12.3"},
	},
	{
		Cause:  "The fabric manager was restarted, or failed, without a reset of the GPUs after it.",
		Remedy: "Drain the node, restart nvidia-fabricmanager and reset all GPUs together (nvidia-smi -r), or reboot. NCCL_NVLS_ENABLE=0 goes on meanwhile.",
		Test:   "nvidia-smi -q | grep -A3 Fabric, and the times of systemctl status nvidia-fabricmanager and of the boot",
		Likely: []Fact{"!driver<12.3", "!" + Clique},
	},
	{
		Cause:  "NVLink between hosts cannot be used: IMEX does not run, or its channels are missing in the container.",
		Remedy: "Run nvidia-imex on all hosts of the job, and give containers /dev/nvidia-caps-imex-channels (a ComputeDomain in Kubernetes).",
		Test:   "nvidia-imex-ctl -N; NCCL_MNNVL_ENABLE=0 for one run",
		If:     []Fact{Clique}, Likely: []Fact{Clique},
	},
	{
		Cause:  "The machine shares its NVSwitches (a VM, MIG, or a partition of the fabric), without multicast.",
		Remedy: "Set NCCL_NVLS_ENABLE=0.",
		Test:   "NCCL_NVLS_ENABLE=0 for one run",
	},
}
