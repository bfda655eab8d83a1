// SPDX-License-Identifier: Apache-2.0

package signature

import "slices"

// crashedElsewhere: the place of the crash says more than that a set-up went on.
const crashedElsewhere Fact = "crash:libtoolsinjection|nsys_|nccltopo|libvgpu"

// busError: a page of memory that is mapped cannot be had.
const busError Fact = "text:bus error|sigbus|-7|signal 7|code 135"

// crashReasons are where a process crashed, by its stack and by how far it came.
var crashReasons = slices.Concat(crashedFirst, []Reason{crashedHostMemory, crashedRAS}, crashedParts(),
	[]Reason{crashedProxy}, crashedRest)

// crashedFirst are those that a signal, a tool or a library outside of NCCL shows.
var crashedFirst = []Reason{
	{
		Cause:  "/dev/shm is full: a page of shared memory cannot be had.",
		Remedy: "Give the container more: --shm-size=16g, or an emptyDir of medium Memory at /dev/shm.",
		Test:   "df -h /dev/shm in the container",
		If:     []Fact{busError}, Likely: []Fact{busError}, Certain: []Fact{NoSharedGiven},
	},
	{
		Cause:  "A tool of NVIDIA that is injected into the process (Nsight Systems) crashed, in {crashed}; neither NCCL nor RDMA is at fault.",
		Remedy: "Run the job without nsys, or with a newer Nsight Systems.",
		Test:   "the same without nsys profile",
		If:     []Fact{"crash:libtoolsinjection|nsys_|libnvtx"}, Likely: []Fact{"crash:libtoolsinjection|nsys_"},
	},
	{
		Cause:  "A library that is between the program and CUDA (HAMi, LD_PRELOAD) crashed, in {crashed}.",
		Remedy: "Run the job without it: CUDA_DISABLE_CONTROL=true, or unset LD_PRELOAD.",
		Test:   "env -u LD_PRELOAD, or CUDA_DISABLE_CONTROL=true for one run",
		If:     []Fact{"crash:libvgpu"}, Likely: []Fact{"crash:libvgpu"},
	},
	{
		Cause:  "NCCL crashed while it searched for ways through the topology of this host, in {crashed}: a device of another kind or place than the others (a NIC, a GPU), what a container or VM hides, or an error of this release.",
		Remedy: "Set NCCL_IB_HCA to the NICs that belong to GPUs, or use a newer NCCL; keep NCCL_TOPO_DUMP_FILE for a report.",
		Test:   "NCCL_IB_HCA with the NICs of the GPUs alone for one run; NCCL_TOPO_DUMP_FILE=/tmp/topo.xml and lspci -tv, compared with a host where it works",
		If:     []Fact{"crash:nccltopo"}, Likely: []Fact{"crash:nccltopo"},
	},
	{
		Cause:  "A plugin of NCCL or a library of it crashed, in {crashed}.",
		Remedy: "Use plugin, NCCL and image of one release; run without it: NCCL_NET_PLUGIN=none, NCCL_TUNER_PLUGIN=none.",
		Test:   "NCCL_NET_PLUGIN=none NCCL_TUNER_PLUGIN=none for one run",
		If:     []Fact{"crash:libnccl-|librccl-|libfabric|libefa|libucp|libuct|nccl_net_ofi|libsharp"},
		Likely: []Fact{"crash:libnccl-|librccl-|libfabric|libefa|libucp|libuct|nccl_net_ofi|libsharp"},
	},
	{
		Cause:  "A library of verbs crashed, in {crashed}: rdma-core of the image does not fit the driver of the host.",
		Remedy: "Use rdma-core of the release of the host in the image; do not mount its libraries.",
		Test:   "ibv_devinfo in the job; NCCL_IB_DISABLE=1 for one run",
		If:     []Fact{"crash:libibverbs|libmlx5|libbnxt|libhns|librdmacm"},
		Likely: []Fact{"crash:libibverbs|libmlx5|libbnxt|libhns|librdmacm"},
	},
	{
		Cause:  "The driver of the GPU crashed in the process, in {crashed}, or was handed something wrong.",
		Remedy: "Look at Xids; use another release of the driver.",
		Test:   "dmesg | grep -i xid; a program of CUDA without NCCL",
		If:     []Fact{"crash:libcuda.so|libnvidia-|libamdhip|libhsa"},
		Likely: []Fact{"crash:libcuda.so|libnvidia-|libamdhip|libhsa"},
	},
}

// crashedRest are those of which the place says less.
var crashedRest = []Reason{
	{
		Cause:  "NCCL crashed, in {crashed}, or a NCCL of another release than the program was built with was called.",
		Remedy: "Use a newer NCCL, and the one that the framework was built with; look for a second copy.",
		Test:   "grep nccl /proc/PID/maps: which libnccl.so; another release of NCCL",
		If:     []Fact{"crash:libnccl.so|librccl.so|nccl", "!" + partsCrashed()},
		Likely: []Fact{"crash:libnccl.so|librccl.so|nccl", "!" + InSetup},
	},
	{
		Cause:  "A library that is between the program and CUDA (HAMi, LD_PRELOAD) crashed.",
		Remedy: "Run the job without it: CUDA_DISABLE_CONTROL=true, or unset LD_PRELOAD.",
		Test:   "env -u LD_PRELOAD, or CUDA_DISABLE_CONTROL=true for one run",
		If:     []Fact{"seen:interceptor"}, Likely: []Fact{"seen:interceptor"},
	},
	{
		Cause:  "The set-up of NCCL overran its stack: its search of the topology of a large NVLink domain needs more than threads get where ulimit -s is unlimited (2 MiB then).",
		Remedy: "Set ulimit -s 8192 in the job (in the unit of the scheduler or container too), or use NCCL 2.28 or later; NCCL_MNNVL_ENABLE=0 avoids the search.",
		Test:   "ulimit -s in the job; ulimit -s 8192 for one run",
		If:     []Fact{InSetup, Clique}, Likely: []Fact{InSetup, Clique, "release<2.28"},
	},
	{
		Cause:  "NCCL, a plugin of it or the driver crashed in the set-up of a communicator.",
		Remedy: "Run without plugins (NCCL_NET_PLUGIN=none, NCCL_TUNER_PLUGIN=none), with another release of NCCL, and with ulimit -s 8192.",
		Test:   "NCCL_NET_PLUGIN=none for one run",
		If:     []Fact{InSetup}, Likely: []Fact{InSetup, "!" + Clique, "!" + crashedElsewhere},
	},
	{
		Cause:  "The process crashed while it registered symmetric memory (a window): NCCL at run time is of another release than the program was built with, or the platform does not support it.",
		Remedy: "Use the NCCL that the program was built with (ldd, grep nccl /proc/PID/maps, pip list), or turn symmetric memory off.",
		Test:   "the release of libnccl.so.2 that is loaded, and the one of the headers; the job without symmetric memory",
		If:     []Fact{"stack:commwindow|symmetric|symm_mem"}, Likely: []Fact{"stack:ncclcommwindow"},
	},
	{
		Cause:  "A plugin of NCCL or a library of it crashed (libfabric, UCX, tuner).",
		Remedy: "Use plugin, NCCL and image of one release; run without it: NCCL_NET_PLUGIN=none, NCCL_TUNER_PLUGIN=none.",
		Test:   "NCCL_NET_PLUGIN=none NCCL_TUNER_PLUGIN=none for one run",
		If:     []Fact{"stack:libnccl-net|libfabric|libefa|libucp|libuct|nccl-tuner|nccl_net_ofi|librccl-net"},
		Likely: []Fact{"stack:libnccl-net|libfabric|libefa|libucp|libuct|nccl-tuner|nccl_net_ofi|librccl-net"},
	},
	{
		Cause:  "A library of verbs crashed: rdma-core of the image does not fit the driver of the host.",
		Remedy: "Use rdma-core of the release of the host in the image; do not mount its libraries.",
		Test:   "ibv_devinfo in the job; NCCL_IB_DISABLE=1 for one run",
		If:     []Fact{"stack:libibverbs|libmlx5|libbnxt|libhns"},
		Likely: []Fact{"stack:libibverbs|libmlx5|libbnxt|libhns"},
	},
	{
		Cause:  "NCCL crashed, or a library of another release than the program was built with was called.",
		Remedy: "Use a newer NCCL, and the one that the framework was built with; look for a second copy.",
		Test:   "grep nccl /proc/PID/maps: which libnccl.so; another release of NCCL",
		If:     []Fact{"stack:libnccl|in nccl|pnccl|librccl", "!stack:ncclcommwindow", "!" + Crashed},
		Likely: []Fact{"stack:libnccl.so|librccl.so|in nccl"},
	},
	{
		Cause:  "The driver of the GPU crashed in the process.",
		Remedy: "Look at Xids; use another release of the driver.",
		Test:   "dmesg | grep -i xid; a program of CUDA without NCCL",
		If:     []Fact{"stack:libcuda.so|libamdhip|libhsa"},
	},
	{
		Cause:  "The program, or a library of it, crashed, in {crashed}.",
		Remedy: "Look at the whole stack (a core file), and at the release of that library.",
		Test:   "the job without what loads the library, or with another release of it",
		If:     []Fact{Crashed, "!crash:nccl|libtoolsinjection|nsys_|libvgpu|libfabric|libefa|libuc|libibverbs|libmlx5|libcuda.so|libnvidia-"},
		Likely: []Fact{Crashed},
	},
	{
		Cause:  "The program, or a library of it, crashed: its stack says where.",
		Remedy: "Look at its stack (PYTHONFAULTHANDLER=1, or a core file): in which library it is.",
		Test:   "PYTHONFAULTHANDLER=1 for one run; gdb on a core file; the kernel's line segfault at ... in LIBRARY",
		If:     []Fact{"!" + Crashed},
	},
}
