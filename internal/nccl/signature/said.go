// SPDX-License-Identifier: Apache-2.0

package signature

import "slices"

// What programs say in lines that no row has.
var (
	Exception = Signature{
		ID: "program_exception", Source: Program, Kind: Cause, Generic: true,
		Forms:   []Form{{Text: "Traceback (most recent call last)", File: "python Python/traceback.c"}},
		Cause:   "The program ended with an exception that is not of NCCL.",
		Remedy:  "Look at the exception and its stack; the other ranks only lost this one.",
		Reasons: slices.Concat(exceptionReasons, programReasons),
	}
	ProgramError = Signature{
		ID: "program_error", Source: Program, Kind: Cause, Generic: true,
		Cause:   "This is the first error that a program reports in the log, in words that no row has.",
		Remedy:  "Look at the lines before it, and run with NCCL_DEBUG=WARN: it shows whether NCCL failed before.",
		Reasons: slices.Concat(errnosBut(ofFiles), exceptionReasons, programReasons),
	}
	ProgramWarned = Signature{
		ID: "program_warned", Source: Program, Kind: Note, Harmless: true,
		Cause:  "A program warns in words that no row has, and went on after it.",
		Remedy: "None if the job does what it should.",
	}
)

// ofFiles are errors of the system that programs have with files of any kind.
var ofFiles = []Reason{{If: []Fact{"errno:13"}}, {If: []Fact{"errno:2"}}}

// LauncherFailed is that a program did not reach a host by ssh, in a log without a line of NCCL.
var LauncherFailed = Signature{
	ID: "launcher_failed", Source: Program, Kind: Cause,
	Forms:  []Form{{Text: "ssh: connect to host ", File: "openssh sshconnect.c"}},
	Cause:  "The launcher (mpirun, DeepSpeed) does not start processes on the other hosts, and NCCL did not begin: ssh, its keys or name, or the launcher's daemon there.",
	Remedy: "Run ssh HOST hostname from the first host, without a password; look at sshd, its port and PATH there; with Slurm start with srun or --mca plm slurm.",
	Reasons: []Reason{{
		Cause:  "The name of a host is not resolved where the launcher runs, so that it starts nothing there: the DNS of its container or host (resolv.conf, dnsPolicy), or the name is not there yet.",
		Remedy: "Make the name resolve there: dnsPolicy ClusterFirst and a headless service for pods, else DNS or /etc/hosts; start the launcher after the others.",
		Test:   "getent hosts NAME and cat /etc/resolv.conf where the launcher runs",
		If:     []Fact{"text:could not resolve hostname"}, Certain: []Fact{"text:could not resolve hostname"},
	}, {
		Cause:  "A command that a script of the launcher or of the job calls is not there, where this script runs: the line names it.",
		Remedy: "Install it in the image of that host, or correct PATH or the path; where Open MPI starts its daemons from worker to worker (tree-spawn), OMPI_MCA_plm_rsh_no_tree_spawn=1 keeps that to the launcher.",
		Test:   "command -v NAME on that host, in the container",
		If:     []Fact{"text:command not found|: not found"}, Certain: []Fact{"text:command not found|: not found"},
	}, {
		Cause:  "The launcher (mpirun, DeepSpeed) does not start processes on the other hosts, and NCCL did not begin: ssh, its keys or name, or the launcher's daemon there.",
		Remedy: "Run ssh HOST hostname from the first host, without a password; look at sshd, its port and PATH there; with Slurm start with srun or --mca plm slurm.",
		Test:   "ssh HOST hostname",
		If:     []Fact{"!text:could not resolve hostname|not found"}, Likely: []Fact{"!" + InSetup},
	}},
}

// SetupStalls is a set-up that did not end on all ranks, without a line that says why.
var SetupStalls = Signature{
	ID: "setup_stalls", Source: NCCL, Kind: Cause,
	Forms:   []Form{{Text: "Init START", File: "NCCL src/init.cc"}},
	Cause:   "The set-up of NCCL or of a communicator began, did not end on all ranks, and no line says why: it hangs, or the log is cut.",
	Remedy:  "Look at the ranks that did not end it, and at those that did not begin.",
	Runbook: "check-nccl.md",
	Reasons: []Reason{
		intercepted,
		interfacesApart,
		{
			Cause:  "NCCL uses the loopback interface first (lo, 127.0.0.1), so that ranks of other hosts connect to themselves: NCCL_SOCKET_IFNAME takes it, or this release chose it (NCCL_COMM_ID).",
			Remedy: "Set NCCL_SOCKET_IFNAME on all hosts to the interface that they share (^lo excludes it); also in nccl.conf; with NCCL_COMM_ID use a newer NCCL, or leave it unset.",
			Test:   "the lines Bootstrap and NET/Socket : Using of each host",
			If:     []Fact{ChoseLoopback, SeveralHosts}, Likely: []Fact{ChoseLoopback, SeveralHosts},
		},
		{
			Cause:  "The ranks do not reach one another over {interface}: a firewall or network policy, also between processes of one host or pod, or an interface that hosts do not share.",
			Remedy: "Open all ports between the hosts and within them; set NCCL_SOCKET_IFNAME to an interface that all reach, on one host to lo.",
			Test:   "nc -l PORT and nc -vz ADDRESS PORT between the addresses of {interface}; on one host NCCL_SOCKET_IFNAME=lo for one run",
			If:     []Fact{Starting, "!" + ChoseLoopback},
		},
		{
			Cause:  "{NCCL_COMM_ID} is an address that the interface does not reach, or its process is not started.",
			Remedy: "Leave NCCL_COMM_ID unset, or give it an address of the network of {interface}.",
			Test:   "ip route get ADDRESS; nc -vz ADDRESS PORT",
			If:     []Fact{Starting, "set:NCCL_COMM_ID"},
		},
		{
			Cause:  "Not all ranks were started, or one failed or is late before it comes to NCCL, and the others wait for it.",
			Remedy: "Look at the logs of all ranks, and at what each process does.",
			Test:   "the logs of all ranks: which have no line Bootstrap; py-spy dump of each process",
			If:     []Fact{Starting},
		},
		{
			Cause:  "The set-up of NVLS stalls, the last that NCCL logged: hosts with different numbers of ranks, the fabric manager or an NVSwitch.",
			Remedy: "Set NCCL_NVLS_ENABLE=0 to go on; give all hosts the same number of ranks; look at Fabric in nvidia-smi -q.",
			Test:   "NCCL_NVLS_ENABLE=0 for one run",
			If:     []Fact{"text:last line of NCCL: NVLS", "!text:support is"}, Likely: []Fact{"text:last line of NCCL: NVLS"},
		},
		{
			Cause:  "Not all ranks began, or their logs are not here: those that did wait for a rank that was not started, failed before, or does not reach the others.",
			Remedy: "Look at the logs of the ranks that are missing: processes that did not start, ended, or chose an interface that the others do not reach (NCCL_SOCKET_IFNAME, firewall).",
			Test:   "the logs of all ranks: which have no Init START; the line Bootstrap : Using of each",
			If:     []Fact{RanksNotBegun}, Likely: []Fact{RanksNotBegun, "!" + Connecting, "!text:last line of NCCL: NVLS"},
		},
		{
			Cause:  "The IOMMU or ACS redirects P2P between the GPUs of the host, which hangs the first use of it.",
			Remedy: "Turn off ACS on the PCIe switches and the IOMMU (iommu=pt or off), or set NCCL_P2P_DISABLE=1, slower.",
			Test:   "NCCL_P2P_DISABLE=1 for one run",
			If:     []Fact{UsesP2P, "!" + SeveralHosts}, Likely: []Fact{UsesP2P, OneHost},
		},
		{
			Cause:  "The connections between hosts do not come about: devices that do not reach each other (rails, GID, VLAN), a firewall, or interfaces that hosts do not share.",
			Remedy: "Run check on all hosts; compare the lines NET/ and Bootstrap of all ranks; set NCCL_SOCKET_IFNAME and NCCL_IB_HCA.",
			Test:   "NCCL_IB_DISABLE=1 for one run; ib_write_bw and nc -vz between the hosts",
			If:     []Fact{"!" + OneHost, "!" + Starting}, Likely: []Fact{SeveralHosts, Connecting, "!" + RanksNotBegun},
		},
		{
			Cause:  "Hosts use different numbers of RDMA devices: connections by a device that the other side does not have wait for ever.",
			Remedy: "Give all hosts and containers the same devices, or name those that all have in NCCL_IB_HCA.",
			Test:   "the lines NET/IB : Using of all hosts",
			If:     []Fact{DevicesDiffer}, Likely: []Fact{DevicesDiffer},
		},
		{
			Cause:  "A rank waits for the processes of its own host: /dev/shm, containers that do not share it, NVLS or another feature that stalls.",
			Remedy: "Run the ranks of a host in one container with a large /dev/shm; leave out one feature after the other.",
			Test:   "NCCL_NVLS_ENABLE=0, then NCCL_SHM_DISABLE=1, then NCCL_CUMEM_ENABLE=0, for one run each; gdb or py-spy dump --native of the rank",
			If:     []Fact{"!" + Starting},
		},
	},
}

// MembersMissing is that processes wait for others before NCCL begins, as far as a log shows it.
var MembersMissing = Signature{
	ID: "members_missing", Source: Program, Kind: Cause,
	Forms:  []Form{{Text: "All distributed processes registered", File: "lightning fabric/utilities/distributed.py"}},
	Cause:  "Processes of the job announced themselves, and wait for others that did not: NCCL did not begin.",
	Remedy: "Look at the processes that are missing.",
	Reasons: []Reason{
		{
			Cause:  "Not all processes of the job were started, or not with the number of hosts and tasks that the program expects.",
			Remedy: "Start as many tasks for each host as GPUs, on as many hosts as num_nodes (srun, --ntasks-per-node, --nnodes); look at the logs of those that are missing.",
			Test:   "the processes on each host; WORLD_SIZE, SLURM_NTASKS and num_nodes of each",
			Likely: []Fact{"text:announced"},
		},
		{
			Cause:  "The processes do not reach the first host: MASTER_ADDR, MASTER_PORT or a firewall.",
			Remedy: "Set MASTER_ADDR to an address that all hosts reach, and open its port.",
			Test:   "nc -vz MASTER_ADDR MASTER_PORT from the other hosts",
		},
	},
}

// exceptionReasons are what exceptions of Python are about, by their class.
var exceptionReasons = []Reason{
	renamedTwice,
	{
		Cause:  "The program takes GPUs for numbers{at}, and CUDA_VISIBLE_DEVICES names them by UUID, as those of MIG are: it cannot use such devices.",
		Remedy: "Give the job whole GPUs by number, or use a release or mode of the program that takes UUIDs.",
		Test:   "echo $CUDA_VISIBLE_DEVICES; nvidia-smi -L",
		If:     []Fact{"text:'mig-|'gpu-", "text:invalid literal for int|valueerror"},
		Likely: []Fact{"text:invalid literal for int"},
	},
	{
		Cause:  "A package is missing in the environment, or is of another release than the program expects.",
		Remedy: "Install the releases that the program asks for, in one environment.",
		Test:   "pip list; the import alone, without the job",
		If:     []Fact{"text:ImportError|ModuleNotFound|AttributeError: module|undefined symbol|does not match the version|mismatches the version"},
		Likely: []Fact{"text:ImportError|ModuleNotFound|AttributeError: module|undefined symbol|does not match the version|mismatches the version"},
	},
	{
		Cause:  "A file or a model that the program names is not there or not readable on this host.",
		Remedy: "Compare paths and mounts of all hosts.",
		Test:   "ls -l of the path in the job, on each host",
		If:     []Fact{"text:FileNotFound|PermissionError|NotADirectory|IsADirectory"},
		Likely: []Fact{"text:FileNotFound|PermissionError"},
	},
	{
		Cause:  "The memory of the host is full.",
		Remedy: "Raise the memory of the job, or lower what it takes.",
		Test:   "free -g; memory.max of the control group",
		If:     []Fact{"text:MemoryError"}, Likely: []Fact{"text:MemoryError"},
	},
}

// ofPython: an exception that Python has for errors of programs.
const ofPython Fact = "text:ValueError|KeyError|TypeError|IndexError|AssertionError|AttributeError|NameError|" +
	"NotImplemented|ZeroDivision|UnicodeDecode|JSONDecode|SyntaxError"

// programReasons are what errors of programs are about, by their words.
var programReasons = []Reason{
	{
		Cause:  "An engine or launcher reports that one of its workers failed, whose own error is not in the log, or in words that are not known here.",
		Remedy: "Look at the log of the worker and at the lines before; run with NCCL_DEBUG=WARN.",
		Test:   "the logs of all workers, by time; NCCL_DEBUG=WARN for one run",
		If: []Fact{"text:root cause|failed to start|initialization failed|background process|worker died|" +
			"exits with return code|exit code|exitcode|engine core|enginecore"},
		Likely: []Fact{"text:root cause|failed to start|initialization failed|background process|" +
			"exits with return code|exitcode"},
	},
	{
		Cause:  "A call of NCCL failed, and its warning is not in the log.",
		Remedy: "Run with NCCL_DEBUG=WARN: NCCL says which call and why.",
		Test:   "NCCL_DEBUG=WARN for one run",
		If:     []Fact{"text:nccl|rccl|collective|all-reduce|allreduce", "!" + Warned},
		Likely: []Fact{"text:nccl|rccl", "!text:nccl_p2p|nccl_ib|nccl_net|backend"},
	},
	{
		Cause:  "Memory of a GPU could not be shared with another process or host: ranks that are grouped as one NVLink domain and are not (clusterUuid and cliqueId), IMEX, or containers.",
		Remedy: "Compare clusterUuid and cliqueId of the hosts; start nvidia-imex on all; NCCL_MNNVL_ENABLE=0 and its like in the library go over the network.",
		Test:   "nvidia-smi -q | grep -i -e clique -e cluster on each host; the same without NVLink between hosts",
		If:     []Fact{"text:invalid resource handle|ipc|fabric handle|import"},
		Likely: []Fact{"text:ipc|fabric handle"},
	},
	{
		Cause:  "The memory of the GPU is full.",
		Remedy: "Lower the batch or the share of memory of the program; end other processes on the GPU.",
		Test:   "nvidia-smi while the job runs",
		If:     []Fact{"text:out of memory|outofmemory|free memory|kv cache|memory utilization", "!text:cgroup"},
		Likely: []Fact{"text:cuda|gpu|hip|device"},
	},
	{
		Cause:  "A call of CUDA or HIP failed: the GPU, its driver, or a kernel of the program.",
		Remedy: "Look at nvidia-smi and at Xids; run with CUDA_LAUNCH_BLOCKING=1.",
		Test:   "dmesg | grep -i -e xid -e amdgpu; CUDA_LAUNCH_BLOCKING=1 for one run",
		If:     []Fact{"text:cuda|cudnn|cublas|hip error|nvml|gpu"},
		Likely: []Fact{"text:cuda error|cuda failure|CUDA_ERROR|cudaError|cudnn|cublas"},
	},
	{
		Cause:  "Another process did not answer in time or ended: it failed first, is slow, or cannot be reached.",
		Remedy: "Look at the logs of the other ranks and of the launcher for an earlier failure.",
		Test:   "the logs of all ranks, by time; py-spy dump of those that still run",
		If: []Fact{"text:timed out|timeout|refused|reset|unreachable|closed|lost|heartbeat|disconnected|" +
			"died|connection"},
		Likely: []Fact{"text:timed out|timeout|refused|reset by|unreachable|heartbeat"},
	},
	{
		Cause:  "A library, file or device that the line names is missing or of another release.",
		Remedy: "Install it in the image, or mount it; compare with a host where it works.",
		Test:   "ldd and ls -l of what the line names, in the job",
		If:     []Fact{"text:not found|no such file|cannot open|undefined symbol|cannot load|import", "!errno:12,13,28"},
		Likely: []Fact{"text:not found|no such file|cannot open|undefined symbol"},
	},
	{
		Cause:  "The container or user may not do this.",
		Remedy: "Give the container the devices and capabilities; run it privileged for one test.",
		Test:   "the same with --privileged",
		If:     []Fact{"text:permission denied|not permitted|access denied"},
		Likely: []Fact{"text:permission denied|not permitted"},
	},
	{
		Cause:  "The program itself failed{at}: its configuration, data or code.",
		Remedy: "Look at the last frames of the stack; the other ranks only lost this one.",
		Test:   "the same on one rank",
		If:     []Fact{ofPython}, Likely: []Fact{ofPython, "!text:ncclU|ncclS|ncclI|CUDA"},
	},
	{
		Cause:  "The program itself failed{at}, for a reason that the line or its stack names.",
		Remedy: "Look at the line, the lines before it and the stack; run with NCCL_DEBUG=WARN to see whether NCCL failed before.",
		Test:   "NCCL_DEBUG=WARN for one run; the logs of all ranks, by time",
		If:     []Fact{"!" + ofPython}, Likely: []Fact{Placed, "!text:nccl|cuda|hip|timed out|timeout|connection"},
	},
}
