// SPDX-License-Identifier: Apache-2.0

package signature

const (
	heap    = "glibc malloc/malloc.c"
	guesses = "ray src/ray, and programs like it"
)

// heapCorrupted is that glibc finds the memory of a process corrupted, and aborts it.
var heapCorrupted = Signature{
	ID: "heap_corrupted", Source: Program, Kind: Cause, Generic: true,
	Forms: []Form{
		{Text: "malloc(): corrupted", File: heap},
		{Text: "malloc(): invalid", File: heap},
		{Text: "malloc(): memory corruption", File: heap},
		{Text: "malloc(): mismatching", File: heap},
		{Text: "malloc(): smallbin", File: heap},
		{Text: "malloc(): largebin", File: heap},
		{Text: "malloc(): unaligned", File: heap},
		{Text: "malloc(): unsorted", File: heap},
		{Text: "malloc_consolidate(): ", File: heap},
		{Text: "realloc(): invalid", File: heap},
		{Text: "free(): corrupted", File: heap},
		{Text: "free(): double", File: heap},
		{Text: "free(): invalid", File: heap},
		{Text: "free(): unaligned", File: heap},
		{Text: "double free or corruption", File: heap},
		{Text: "corrupted double-linked list", File: heap},
		{Text: "corrupted size vs", File: heap},
		{Text: "munmap_chunk(): invalid", File: heap},
		{Text: "stack smashing detected", File: "glibc debug/stack_chk_fail.c"},
	},
	Cause:  "The memory of the process is corrupted, and glibc aborted it: a library wrote beyond what it has, or freed something that is not its own.",
	Remedy: "Look at its stack (PYTHONFAULTHANDLER=1, or a core file), and leave out plugins and preloaded libraries one after the other.",
	Reasons: []Reason{
		{
			Cause:  "The memory of the process is corrupted. glibc noticed it in {where}, a plugin or library of the network of NCCL, which is the first to suspect.",
			Remedy: "Use plugin, NCCL and image of one release; run without it: NCCL_NET_PLUGIN=none, NCCL_TUNER_PLUGIN=none.",
			Test:   "NCCL_NET_PLUGIN=none NCCL_TUNER_PLUGIN=none for one run",
			If:     []Fact{networkCrashed}, Likely: []Fact{networkCrashed},
		},
		{
			Cause:  "The memory of the process is corrupted: a library wrote beyond what it has, or freed something twice. glibc noticed it in {where}, which need not be where it came from.",
			Remedy: "Look at the whole stack, and at the release of the libraries in it; leave out plugins and preloaded libraries one after the other.",
			Test:   "PYTHONFAULTHANDLER=1 or a core file for the stack; MALLOC_CHECK_=3, valgrind or a build with -fsanitize=address for what wrote",
			If:     []Fact{"!" + networkCrashed}, Likely: []Fact{"!" + networkCrashed},
		},
		{
			Cause:  "The process has two copies or releases of a library (NCCL, an allocator, the C++ library): what one allocated, the other frees.",
			Remedy: "Leave one of each in the environment; unset LD_PRELOAD of allocators.",
			Test:   "grep -e nccl -e stdc++ -e malloc /proc/PID/maps; echo $LD_PRELOAD",
			If:     []Fact{"text:free|munmap_chunk"},
		},
	},
}

// networkCrashed: the place of an abort is in a plugin or library of the network.
const networkCrashed Fact = "crash:libnccl-|librccl-|libfabric|libefa|libucp|libuct|nccl_net_ofi|libsharp|libibverbs|libmlx5"

// causesGuessed is a list of what may have happened, by a program that did not see it.
var causesGuessed = Signature{
	ID: "causes_guessed", Source: Program, Kind: Consequence, Generic: true,
	Forms: []Form{
		{Text: "otential root causes", File: guesses},
		{Text: "ossible reasons include", File: guesses},
		{Text: "ossible causes: (1)", File: guesses},
		{Text: "ossible reasons: (1)", File: guesses},
		{Text: "This can happen when a ", File: guesses},
		{Text: "(1) The process is killed by", File: guesses},
		{Text: "(3) The worker is crashed unexpectedly", File: guesses},
		{Text: "(1) SIGKILL by the user", File: guesses},
		{Text: "(2) Invalid memory access from", File: guesses},
		{Text: "is terminated expectedly", File: guesses},
		{Text: "was terminated expectedly", File: guesses},
		{Text: "was terminated unexpectedly", File: guesses},
		{Text: "ermination is unexpected", File: guesses},
	},
	Cause:  "A process or host of the job is gone, and the program that watches it lists what may be the reason: it saw none of them.",
	Remedy: "Look at what came before: the log of that process, and the messages of the kernel of its host.",
	Reasons: []Reason{
		{
			Cause:  "A process or host of the job is gone, and the program that watches it lists what may be the reason: it saw none of them. The process ended by an error of its own, which its own log has.",
			Remedy: "Look at the log of the process that is gone (Ray: worker-*.err, raylet.out) and of its host, by time.",
			Test:   "the end of that log",
		},
		{
			Cause:  "The memory of the host or of its control group was full, and the kernel killed the process.",
			Remedy: "Raise the memory of the job, or lower what it takes.",
			Test:   "dmesg | grep -i -e oom -e 'killed process'; kubectl describe pod: OOMKilled",
		},
		{
			Cause:  "The host itself, its pod or its scheduler ended, or the network to it is cut.",
			Remedy: "Look at the events of the host and of the scheduler.",
			Test:   "kubectl get events, sacct; ping of the host",
		},
	},
}

// PortFailed is that a port of RDMA failed, in a log where a set-up does not end and nothing else says why.
var PortFailed = Signature{
	ID: "port_failed", Source: NCCL, Kind: Cause,
	Forms:   []Form{{Text: ": port error", In: "Got non-fatal async event"}},
	Cause:   "A port of the device went down, and the set-up of a communicator did not end.",
	Remedy:  "Look at link_downed and the state of the port that the line names: cable, transceiver, switch.",
	Runbook: "GpuFabricLinkFlapping.md",
	Reasons: []Reason{
		{
			Cause:  "The port of a device went down, so that the set-up of a communicator does not end.",
			Remedy: "Look at link_downed and the state of the port that the line names: cable, transceiver, switch; NCCL_IB_HCA without the device goes on without it.",
			Test:   "the state of the port (rdma link), and the messages of the kernel at that time",
			Likely: []Fact{"text:port error"},
		},
		{
			Cause:  "Another rank or host is missing, and the port is one that the job does not need.",
			Remedy: "Look at the ranks that did not begin or end the set-up.",
			Test:   "the logs of all ranks; whether NCCL_IB_HCA has the device",
		},
	},
}
