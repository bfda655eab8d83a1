// SPDX-License-Identifier: Apache-2.0

package signature

const (
	openMPI    = "openmpi, of orte, prte and opal"
	slurm      = "Slurm src/srun, src/sbatch"
	containers = "docker, podman, kubelet"
	reducer    = "pytorch torch/csrc/distributed/c10d/reducer.cpp, torch/nn/parallel/distributed.py"
	nvshmem    = "nvshmem src/host, deep_ep csrc"
)

// frameworks are lines of what starts a job, or moves data beside NCCL.
var frameworks = []Signature{
	{
		ID: "launcher_refused", Source: Program, Kind: Cause, Generic: true, Sure: true,
		Forms: []Form{
			{Text: "There are not enough slots available", File: openMPI},
			{Text: "allocated for this job are already filled", File: openMPI},
			{Text: "srun: error: Unable to ", File: slurm},
			{Text: "srun: error: Invalid ", File: slurm},
			{Text: "sbatch: error: ", File: slurm},
			{Text: "could not select device driver", File: containers},
			{Text: "unresolvable CDI devices", File: containers},
			{Text: "nvidia-container-cli: ", File: "libnvidia-container"},
			{Text: "Insufficient nvidia.com/gpu", File: containers},
			{Text: "Insufficient vpc.amazonaws.com/efa", File: containers},
			{Text: "Insufficient rdma/", File: containers},
			{Text: "FailedScheduling", File: containers},
			{Text: "ErrImagePull", File: containers},
			{Text: "ImagePullBackOff", File: containers},
			{Text: "has detected an attempt to run as root", File: openMPI},
		},
		Cause:  "The launcher, the scheduler or the container runtime does not start the processes, for the reason that the line names: NCCL did not begin.",
		Remedy: "Correct what the line names.",
		Reasons: []Reason{
			{
				Cause:  "The launcher has fewer slots than the processes that it shall start: the hostfile, or the number of tasks that the scheduler gave.",
				Remedy: "Give slots=N for each host in the hostfile (-H host:8), or ask the scheduler for as many tasks; --oversubscribe only for tests.",
				Test:   "mpirun --display-allocation",
				If:     []Fact{"text:slots available|already filled"}, Certain: []Fact{"text:slots available|already filled"},
			},
			{
				Cause:  "mpirun refuses to run as root, as it does by default, in containers too.",
				Remedy: "mpirun --allow-run-as-root, or OMPI_ALLOW_RUN_AS_ROOT=1 with OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; or another user.",
				Test:   "the same with --allow-run-as-root",
				If:     []Fact{"text:run as root"}, Certain: []Fact{"text:run as root"},
			},
			{
				Cause:  "The container runtime does not give the container GPUs: the NVIDIA Container Toolkit is not installed or not configured, or the driver of the host does not answer.",
				Remedy: "Install nvidia-container-toolkit, nvidia-ctk runtime configure, and restart the runtime; look at nvidia-smi on the host.",
				Test:   "nvidia-smi on the host; docker run --rm --gpus all IMAGE nvidia-smi",
				If:     []Fact{"text:device driver|cdi devices|nvidia-container-cli"}, Certain: []Fact{"text:device driver|cdi devices"},
				Likely: []Fact{"text:nvidia-container-cli"},
			},
			{
				Cause:   "No node has what the pod asks for: GPUs, RDMA or EFA devices that are taken or not announced by a device plugin, or labels that no node has.",
				Remedy:  "Compare kubectl describe node (Allocatable, Allocated) with the requests of the pod; look at the pods of the device plugins.",
				Test:    "kubectl describe pod; kubectl describe node",
				If:      []Fact{"text:insufficient|failedscheduling"},
				Certain: []Fact{"text:insufficient"},
				Likely:  []Fact{"text:failedscheduling"},
			},
		},
	},
	{
		ID: "mpi_unreachable", Source: Program, Kind: Cause, Remote: true,
		Forms: []Form{
			{Text: "unable to complete a TCP connection", File: openMPI},
			{Text: "failed to TCP connect to a peer MPI process", File: openMPI},
			{Text: "btl_tcp_endpoint.c", File: openMPI},
		},
		Cause:  "Processes of MPI do not reach each other over TCP: NCCL is not involved.",
		Remedy: "Name the network that the hosts share (--mca btl_tcp_if_include and oob_tcp_if_include, or exclude docker0,lo), and open its ports.",
		Reasons: []Reason{
			{
				Cause:  "MPI takes an interface that the hosts do not share (a bridge of containers, a VPN), or a firewall is between them.",
				Remedy: "Name the network that the hosts share (--mca btl_tcp_if_include and oob_tcp_if_include, or exclude docker0,lo), and open its ports.",
				Test:   "mpirun --mca btl_tcp_if_include INTERFACE --mca oob_tcp_if_include INTERFACE hostname; nc -vz between the hosts",
				Likely: []Fact{"text:tcp"},
			},
			{
				Cause:  "A host, or the daemon of MPI on it, ended: it may have failed first.",
				Remedy: "Look at that host: its kernel, its memory, the scheduler.",
				Test:   "dmesg and the scheduler's log of that host",
			},
		},
	},
	{
		ID: "mpi_without_pmi", Source: Program, Kind: Cause, Sure: true,
		Forms: []Form{
			{Text: "OMPI was not built with SLURM", File: openMPI},
			{Text: "appears to have been direct launched using", File: openMPI},
			{Text: "PMI2_Init failed", File: "mpich, openmpi"},
		},
		Cause:  "srun started the processes, and the MPI of the program does not know Slurm's PMI: they do not find each other, or each is a world of its own.",
		Remedy: "Start with srun --mpi=pmix (srun --mpi=list), an MPI that is built with it, or mpirun in the allocation.",
	},
	{
		ID: "ddp_misused", Source: Program, Kind: Cause, Sure: true,
		Forms: []Form{
			{Text: "Expected to have finished reduction in the prior iteration", File: reducer},
			{Text: "Expected to mark a variable ready only once", File: reducer},
			{Text: "DDP expects same model across all ranks", File: reducer},
			{Text: "appears not to match sizes of the same param in process 0", File: reducer},
			{Text: "Default process group has not been initialized", File: "pytorch torch/distributed/distributed_c10d.py"},
			{Text: "Invalid scalar type", File: "pytorch torch/csrc/distributed/c10d"},
			{Text: "built without libuv support", File: "pytorch torch/csrc/distributed/c10d/TCPStore.cpp"},
		},
		Cause:  "The program uses PyTorch's distributed functions in a way that they refuse: neither NCCL nor the network is at fault.",
		Remedy: "Correct the program at the place of the stack.",
		Reasons: []Reason{
			{
				Cause:  "Parameters took no part in the loss of a step, so that DDP waits for their gradients{at}.",
				Remedy: "Use all parameters in each step on all ranks, or DistributedDataParallel(find_unused_parameters=True).",
				Test:   "TORCH_DISTRIBUTED_DEBUG=DETAIL for one run: it names the parameters",
				If:     []Fact{"text:finished reduction"}, Certain: []Fact{"text:finished reduction"},
			},
			{
				Cause:  "A parameter took part twice in one backward, as with gradient checkpointing that is reentrant, or modules that are shared{at}.",
				Remedy: "Use gradient checkpointing with use_reentrant=False, static_graph=True, or no shared parameters over several forwards.",
				Test:   "TORCH_DISTRIBUTED_DEBUG=DETAIL for one run",
				If:     []Fact{"text:ready only once"}, Certain: []Fact{"text:ready only once"},
			},
			{
				Cause:  "The ranks built different models{at}: other numbers or sizes of parameters.",
				Remedy: "Build the same model on all ranks: the same configuration, checkpoint and release.",
				Test:   "the number of parameters on each rank",
				If:     []Fact{"text:same model|not to match sizes"}, Certain: []Fact{"text:same model|not to match sizes"},
			},
			{
				Cause:  "This PyTorch has no libuv, as on Windows, and its store asks for it.",
				Remedy: "Set USE_LIBUV=0.",
				Test:   "USE_LIBUV=0 for one run",
				If:     []Fact{"text:libuv"}, Certain: []Fact{"text:libuv"},
			},
		},
	},
	{
		ID: "one_sided_library_failed", Source: Program, Kind: Cause,
		Forms: []Form{
			{Text: "nvshmem initialization failed", File: nvshmem},
			{Text: "nvshmemi_common_init failed", File: nvshmem},
			{Text: "nvshmem_transport", File: nvshmem},
			{Text: "nvshmem setup connections failed", File: nvshmem},
			{Text: "DeepEP timeout", File: nvshmem},
			{Text: "DeepEP error: ", File: nvshmem},
			{Text: "DeepEP combine", File: nvshmem},
			{Text: "DeepEP dispatch", File: nvshmem},
		},
		Cause:  "NVSHMEM, or a library on it (DeepEP), by which GPUs write to others without NCCL, failed.",
		Remedy: "Look at the lines of NVSHMEM before it (NVSHMEM_DEBUG=INFO); NCCL is not involved.",
		Reasons: []Reason{
			{
				Cause:  "NVSHMEM could not set up its way over the NICs: IBGDA is not allowed (driver option PeerMappingOverride, GDRCopy), the devices or GIDs are not those that it takes, or /dev/shm and the bootstrap do not work.",
				Remedy: "Set NVreg_EnableStreamMemOPs=1 and PeerMappingOverride=1 for the driver, or NVSHMEM_IB_ENABLE_IBGDA=0; set NVSHMEM_HCA_LIST, NVSHMEM_IB_GID_INDEX and NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME.",
				Test:   "NVSHMEM_DEBUG=INFO for one run; NVSHMEM_IB_ENABLE_IBGDA=0; an example of NVSHMEM on the same hosts",
				If:     []Fact{"!text:timeout"}, Likely: []Fact{"text:init|transport|setup"},
			},
			{
				Cause:  "GPUs wait for data of others that does not come: a rank that is not in the same call or failed, or a way over the NICs (IBGDA, GID, rails) that does not work.",
				Remedy: "Look at the other ranks first; then test NVSHMEM between the same hosts (test_internode.py of DeepEP).",
				Test:   "the logs of all ranks, by time; tests/test_internode.py of DeepEP on the same hosts",
				If:     []Fact{"text:timeout"}, Likely: []Fact{"text:timeout"},
			},
		},
	},
	{
		ID: "gpu_without_p2p", Source: Program, Kind: Cause, Sure: true,
		Forms:  []Form{{Text: "doesn't support faster communication broadband via P2P or IB", File: "accelerate state.py"}},
		Cause:  "The framework refuses GPUs that have no P2P (RTX 4000 and the like), unless the settings for them are made: NCCL is not started.",
		Remedy: "Set NCCL_P2P_DISABLE=1 and NCCL_IB_DISABLE=1 before the program, or start it with accelerate launch, which does.",
	},
	{
		ID: "members_announced", Source: Program, Kind: Note, Harmless: true,
		Forms:  []Form{{Text: "Initializing distributed: GLOBAL_RANK: ", File: "lightning fabric/utilities/distributed.py"}},
		Cause:  "A process announces its rank, and waits for all others.",
		Remedy: "None if all come.",
	},
	{
		ID: "name_lookup_failed", Source: Program, Kind: Cause, Generic: true, Sure: true,
		Forms:  []Form{{Text: "socket.gaierror: ", File: "python socket"}},
		Cause:  "A program fails because the name of a host is not resolved: DNS of its container or host, /etc/hosts, or a name that is not there yet.",
		Remedy: "Use an address (MASTER_ADDR), or make the name resolve: DNS, /etc/hosts, a headless service for pods.",
	},
	{
		ID: "nvml_lost", Source: Program, Kind: Cause,
		Forms:  []Form{{Text: "Failed to initialize NVML: Unknown Error", File: "nvidia-smi, NVML"}},
		Cause:  "The container lost its access to the GPUs: the host reloaded systemd, which took the rights of device nodes from running containers, or the GPUs failed.",
		Remedy: "Start the container again; use the cgroup driver systemd with CDI, or device nodes under /dev/char (nvidia-ctk system create-dev-char-symlinks).",
	},
}
