// SPDX-License-Identifier: Apache-2.0

package signature

// Reasons of rows whose line says by a value which of them it is.
var (
	endReasons = []Reason{
		{
			Cause:  "The scheduler ended the job at its time limit.",
			Remedy: "Ask for more time (--time), or write checkpoints before it; what other lines say later comes from it.",
			Test:   "sacct -j JOB --format=State,Elapsed,Timelimit",
			If:     []Fact{"text:time limit"}, Certain: []Fact{"text:time limit"},
		},
		{
			Cause:  "The scheduler ended the job because a node failed or did not answer.",
			Remedy: "Look at the node that the line names: sinfo -R, its kernel and its network; start the job again without it.",
			Test:   "sinfo -R; dmesg of the node",
			If:     []Fact{"text:node failure"}, Certain: []Fact{"text:node failure"},
		},
		{
			Cause:  "The scheduler ended the job for another one (preemption).",
			Remedy: "Use a partition or QOS that is not preempted, or write checkpoints and --requeue.",
			Test:   "sacct -j JOB --format=State,Reason",
			If:     []Fact{"text:preemption"}, Certain: []Fact{"text:preemption"},
		},
		{
			Cause:  "The job was cancelled: by a user (scancel), or by srun after a task of it failed.",
			Remedy: "Look for the task that failed first; else nothing, if a user did it.",
			Test:   "sacct -j JOB --format=State,ExitCode,User; the first failure in the log",
			If:     []Fact{"!text:time limit|node failure|preemption"},
			Likely: []Fact{"!text:time limit|node failure|preemption"},
		},
	}
	mismatchReasons = []Reason{
		{
			Cause:   "The program runs with another NCCL than it was built with: the one that the loader finds has not the function that the line names, so that it is older.",
			Remedy:  "Leave one libnccl.so.2 in the environment (pip list | grep nccl, LD_LIBRARY_PATH, LD_PRELOAD), of the release that the framework was built with.",
			Test:    "ldd of the library that the line names: which libnccl.so.2; pip list | grep nccl",
			If:      []Fact{"text:undefined symbol: nccl|undefined symbol: pnccl"},
			Certain: []Fact{"text:undefined symbol: nccl|undefined symbol: pnccl"},
		},
		{
			Cause:  "The program, or a plugin, finds a libibverbs of another release of rdma-core than it was built with.",
			Remedy: "Install one release of rdma-core in the image, and do not mount libraries of the host.",
			Test:   "ldd of the library that the line names: which libibverbs.so.1",
			If:     []Fact{"text:ibverbs_|symbol: ibv_"}, Certain: []Fact{"text:ibverbs_|symbol: ibv_"},
		},
	}
	noneReasons = []Reason{
		{
			Cause:  "The process finds no driver of NVIDIA: the container is not started with the NVIDIA runtime, or the host has none that runs.",
			Remedy: "Start the container with the NVIDIA runtime and GPUs (--gpus all, nvidia.com/gpu); look at nvidia-smi on the host.",
			Test:   "nvidia-smi in the job and on the host",
			If:     []Fact{"text:no nvidia driver|communicate with the nvidia driver|nvidia-container-cli"},
			Likely: []Fact{"text:no nvidia driver|communicate with the nvidia driver|nvidia-container-cli"},
		},
		{
			Cause:  "The process sees no GPU: its container or task was given none, CUDA_VISIBLE_DEVICES is empty or wrong, or the driver failed.",
			Remedy: "Start the container with the NVIDIA runtime and GPUs (--gpus all, nvidia.com/gpu); ask Slurm for them; look at nvidia-smi -L and CUDA_VISIBLE_DEVICES in the job.",
			Test:   "nvidia-smi -L and echo $CUDA_VISIBLE_DEVICES in the job",
			If:     []Fact{"!text:no nvidia driver|communicate with the nvidia driver|nvidia-container-cli"},
			Likely: []Fact{"!text:no nvidia driver|communicate with the nvidia driver|nvidia-container-cli"},
		},
	}
)
