// SPDX-License-Identifier: Apache-2.0

package signature

import "slices"

// areas are what warnings without a row of their own are about, by the file of the source. The last row has the others.
var areas = []Signature{
	area("verbs_call_failed", "in calls of InfiniBand and RoCE", "Run check on the host, and look at the error that the line names.", "misc/ibvwrap.cc", "include/ibvwrap.h", "misc/mlx5dv", "transport/net_ib"),
	area("socket_call_failed", "in connections over TCP", "Look at the address that the line names, and at the log of the rank there.", "misc/socket.cc", "os/linux.cc", "transport/net_socket.cc", "bootstrap.cc", "include/socket.h"),
	area("gpu_sharing_failed", "while GPUs of a host shared memory", "Look for Xids and at containers that share the host; NCCL_P2P_DISABLE=1 and NCCL_CUMEM_ENABLE=0 are tests.", "transport/p2p.cc", "misc/ipcsocket.cc", "misc/cudawrap.cc", "mnnvl.cc"),
	area("host_memory_failed", "with memory that the ranks of a host share", "Look at df /dev/shm and at the limits of the container.", "transport/shm.cc", "misc/shmutils.cc", "include/shm.h"),
	area("topology_failed", "in the topology of the host", "Unset NCCL_TOPO_FILE and NCCL_GRAPH_FILE, and mount /sys without hiding devices.", "graph/"),
	area("program_call_failed", "in calls of the program", "Look at what the program calls: order, arguments, release of the framework.", "enqueue.cc", "misc/argcheck.cc", "group.cc", "dev_runtime", "rma/", "gin/", "ce_coll.cc", "register", "scheduler/", "mem_manager.cc", "allocator.cc"),
	area("warning_unknown", "of something that is not known here", "Look the text up in the issues of NCCL or of the plugin that printed it."),
}

func area(id, about, remedy string, files ...string) Signature {
	return Signature{
		ID: id, Source: NCCL, Kind: Cause, Files: files,
		Cause: "NCCL or its plugin warned " + about + ", and the call failed.", Remedy: remedy, Reasons: errnoReasons,
	}
}

// IsArea reports whether a signature is of warnings without a row.
func IsArea(s *Signature) bool {
	return slices.ContainsFunc(areas, func(a Signature) bool { return a.ID == s.ID })
}

// Area is what a warning without a row is about, if it made a call fail.
func Area(file, message string) *Signature {
	if Writer(file, message) != "" {
		return &areas[len(areas)-1]
	}
	for i := range areas {
		if areas[i].in(file) {
			return &areas[i]
		}
	}
	return &areas[len(areas)-1]
}

// errnoReasons are what errors of the system mean in calls that no row has.
var errnoReasons = []Reason{
	{
		Cause:  "The limit of open files is reached.",
		Remedy: "Raise ulimit -n to 65536 or more, in the unit of the scheduler or of the container runtime too.",
		Test:   "ulimit -n in the job",
		If:     []Fact{"errno:23,24"}, Certain: []Fact{"errno:24"},
	},
	{
		Cause:  "/dev/shm, or another file system that the line names, is full.",
		Remedy: "Give the container more shared memory (--shm-size=16g, --ipc=host, an emptyDir of medium Memory), and remove /dev/shm/nccl-* of ended jobs.",
		Test:   "df -h /dev/shm in the container",
		If:     []Fact{"errno:28"}, Likely: []Fact{"errno:28"},
	},
	{
		Cause:  "The container or user may not do this: device nodes, capabilities (IPC_LOCK, SYS_ADMIN), seccomp, or rights of a file.",
		Remedy: "Give the container the devices and capabilities; run it privileged for one test.",
		Test:   "the same with --privileged; ls -l of what the line names",
		If:     []Fact{"errno:1,13"}, Likely: []Fact{"errno:1,13"},
	},
	{
		Cause:  "A limit of memory is reached: locked memory (ulimit -l), the control group, or the host.",
		Remedy: "Set ulimit -l to unlimited, and raise the memory of the job.",
		Test:   "ulimit -l; free -g and memory.max of the control group",
		If:     []Fact{"errno:11,12"}, Likely: []Fact{"errno:12"},
	},
	{
		Cause:  "A device, interface or file that the line names is not there, or not in the container.",
		Remedy: "Give it to the container (/dev/infiniband, the network of the host, /dev/shm); correct names in NCCL_* settings.",
		Test:   "ls /dev/infiniband /sys/class/infiniband; ip -br addr in the container",
		If:     []Fact{"errno:2,6,19"}, Likely: []Fact{"errno:2,6,19"},
	},
	{
		Cause:  "This host has no route to the address, or no protocol for it (IPv6): an interface that hosts do not share was chosen.",
		Remedy: "Set NCCL_SOCKET_IFNAME to the network that the hosts share, and NCCL_SOCKET_FAMILY=AF_INET.",
		Test:   "ip route get ADDRESS; ip -br addr",
		If:     []Fact{"errno:97,99,101"}, Likely: []Fact{"errno:97,99,101"},
	},
	{
		Cause:  "The other side does not answer: a firewall, a link or VLAN, an address of another network, or a host that is down.",
		Remedy: "Open all ports between the hosts; compare addresses, subnets and VLANs of both sides.",
		Test:   "ping and nc -vz between the two addresses",
		If:     []Fact{"errno:110,113"}, Likely: []Fact{"errno:110,113"},
	},
	{
		Cause:  "The process of the other side is gone or does not listen: it failed first.",
		Remedy: "Look at its log, and at the daemon that the plugin needs.",
		Test:   "the log of the other side",
		If:     []Fact{"errno:32,103,104,107,111"}, Likely: []Fact{"errno:32,104,111"},
	},
	{
		Cause:  "The plugin aws-ofi-nccl failed: libfabric, plugin and driver are not of one EFA installer, devices are not in the container, or a limit of memory is too small.",
		Remedy: "Use the EFA software of one installer in image and host; --device=/dev/infiniband/uverbs*, --ulimit memlock=-1.",
		Test:   "fi_info -p efa in the container; FI_LOG_LEVEL=warn for one run",
		If:     []Fact{"text:NET/OFI"},
	},
	{
		Cause:  "The driver, the kernel or the device does not support this call.",
		Remedy: "Use a newer driver, kernel or rdma-core, or turn off the feature that the line names.",
		Test:   "the releases of driver, kernel and rdma-core on a host where it works",
		If:     []Fact{"errno:38,95,524"}, Likely: []Fact{"errno:38,95,524"},
	},
}
