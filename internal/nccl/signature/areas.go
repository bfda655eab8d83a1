// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"slices"
	"strings"
)

// areas are what warnings and failed calls without a row of their own are about, by the file of the source: the first
// that fits. The last row has the others.
var areas = []Signature{
	area("one_sided_failed", "of one-sided transfers that GPUs start (GIN, RMA)", gin,
		"gin/", "rma/", "transport/net_ib/gin", "transport/net_ib/gdaki", "transport/gdaki", "plugin/gin",
		"plugin/rma"),
	area("verbs_call_failed", "of InfiniBand or RoCE", verbsCalls,
		"misc/ibvwrap.cc", "include/ibvwrap.h", "misc/mlx5dv", "transport/net_ib", "ibvwrap.c", "ib_plugin.c"),
	area("bootstrap_failed", "by which ranks find each other (bootstrap)", bootstrapCalls, "bootstrap.cc"),
	area("socket_call_failed", "of TCP", socketCalls,
		"misc/socket.cc", "os/linux.cc", "transport/net_socket.cc", "include/socket.h",
		"os/linux_socket_pair.cc"),
	area("nvls_call_failed", "of sums in NVSwitches (NVLS)", nvlsCalls, "transport/nvls.cc"),
	area("collnet_failed", "of sums in the network (CollNet, SHARP)", collnetCalls, "transport/coll_net.cc"),
	area("gpu_sharing_failed", "by which GPUs of a host or an NVLink domain share memory (P2P)", sharingCalls,
		"transport/p2p.cc", "misc/ipcsocket.cc", "os/linux_ipcsocket.cc", "mnnvl.cc", "transport/generic.cc"),
	area("gpu_library_failed", "of the driver of the GPU", driverCalls,
		"misc/cudawrap.cc", "include/cudawrap.h", "misc/nvmlwrap.cc", "include/nvmlwrap.h", "include/alloc.h",
		"include/checks.h", "misc/strongstream.cc", "misc/rocmwrap.cc"),
	area("host_memory_failed", "of memory that the ranks of a host share", shmCalls,
		"transport/shm.cc", "misc/shmutils.cc", "include/shm.h"),
	area("topology_failed", "of the topology of the host", topologyCalls, "graph/"),
	area("registration_failed", "by which the program registers memory (user buffers, windows)", registrationCalls,
		"dev_runtime", "register", "mem_manager.cc", "allocator.cc", "sym_kernels.cc", "symmetric"),
	area("launch_failed", "by which the program starts a collective", launchCalls,
		"enqueue.cc", "scheduler/", "ce_coll.cc", "misc/argcheck.cc"),
	area("plugin_failed", "of a plugin", pluginCalls, "plugin/", "net.cc", "misc/tuner.cc", "misc/profiler.cc"),
	area("proxy_call_failed", "of NCCL's own threads (proxy), which connect ranks and move data", proxyCalls,
		"proxy.cc", "transport/net.cc", "transport.cc", "channel.cc"),
	area("gdrcopy_failed", "of GDRCopy", gdrcopyCalls, "misc/gdrwrap.cc", "include/gdrwrap.h"),
	area("setup_call_failed", "of the set-up of a communicator", setupCalls,
		"init.cc", "group.cc", "init_nvtx.cc", "misc/param.cc", "misc/utils.cc", "include/utils.h", "param/",
		"include/param"),
	{
		ID: "ras_failed", Source: NCCL, Kind: Note, Harmless: true, Files: []string{"ras/"},
		Cause:  "RAS, which answers questions about running jobs, failed. The job goes on without it.",
		Remedy: "None; NCCL_RAS_ENABLE=0 leaves it out.",
	},
	area("warning_unknown", "that is not known here", otherCalls),
}

func area(id, about string, reasons []Reason, files ...string) Signature {
	return Signature{
		ID: id, Source: NCCL, Kind: Cause, Files: files,
		Cause:  "A call of NCCL or of its plugin failed: one " + about + ".",
		Remedy: reasons[0].Remedy, Reasons: slices.Concat(errnosBut(reasons), reasons, resultReasons),
	}
}

// errnosBut are what errors of the system mean, but those that the reasons of a row speak of.
func errnosBut(reasons []Reason) []Reason {
	own := func(r Reason) bool {
		return slices.ContainsFunc(reasons, func(of Reason) bool { return shareErrno(r, of) })
	}
	return slices.DeleteFunc(slices.Clone(errnoReasons), own)
}

// shareErrno reports whether two reasons are of one error of the system.
func shareErrno(a, b Reason) bool {
	for _, fact := range b.If {
		numbers, is := strings.CutPrefix(string(fact), "errno:")
		if !is {
			continue
		}
		for _, other := range a.If {
			for number := range strings.SplitSeq(strings.TrimPrefix(string(other), "errno:"), ",") {
				if slices.Contains(strings.Split(numbers, ","), number) {
					return true
				}
			}
		}
	}
	return false
}

// IsArea reports whether a signature is of warnings without a row.
func IsArea(s *Signature) bool {
	return slices.ContainsFunc(areas, func(a Signature) bool { return a.ID == s.ID })
}

// Errnos returns what errors of the system mean where the reasons of a row do not say.
func Errnos(s *Signature) []Reason { return errnosBut(s.Reasons) }

// subjects are words that warnings begin with, and the files that print such.
var subjects = []struct{ words, file string }{
	{"Bootstrap", "bootstrap.cc"},
	{"bootstrap", "bootstrap.cc"},
	{"NET/IB", "transport/net_ib"},
	{"Call to ibv_", "misc/ibvwrap.cc"},
	{"NET/Socket", "transport/net_socket.cc"},
	{"socket", "misc/socket.cc"},
	{"Socket", "misc/socket.cc"},
	{"ncclSocket", "misc/socket.cc"},
	{"NVLS", "transport/nvls.cc"},
	{"MNNVL", "mnnvl.cc"},
	{"P2P", "transport/p2p.cc"},
	{"SHM", "transport/shm.cc"},
	{"TOPO", "graph/"},
	{"XML", "graph/"},
	{"CollNet", "transport/coll_net.cc"},
	{"GIN", "gin/"},
	{"RMA", "rma/"},
	{"Proxy", "proxy.cc"},
	{"[Proxy", "proxy.cc"},
	{"NET/Plugin", "plugin/"},
	{"TUNER", "plugin/"},
	{"NVML", "misc/nvmlwrap.cc"},
	{"nvml", "misc/nvmlwrap.cc"},
	{"MemManager", "mem_manager.cc"},
	{"Window", "dev_runtime"},
	{"GDRCOPY", "misc/gdrwrap.cc"},
}

// Area is what a warning without a row is about, if it made a call fail: by its file, or where that is not known, by
// its first words.
func Area(file, message string) *Signature {
	if Writer(file, message) != "" {
		return &areas[len(areas)-1]
	}
	for _, s := range subjects {
		if file == "" && strings.HasPrefix(message, s.words) {
			file = s.file
		}
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
		Cause:  "The process of the other side is gone or does not listen: it may have failed first.",
		Remedy: "Look at its log, and at the daemon that the plugin needs.",
		Test:   "the log of the other side",
		If:     []Fact{"errno:32,103,104,107,111"}, Likely: []Fact{"errno:32,104,111", "!" + ChoseLoopback},
	},
	{
		Cause:  "The driver, the kernel or the device does not support this call.",
		Remedy: "Use a newer driver, kernel or rdma-core, or turn off the feature that the line names.",
		Test:   "the releases of driver, kernel and rdma-core on a host where it works",
		If:     []Fact{"errno:38,95,524"}, Likely: []Fact{"errno:38,95,524"},
	},
}
