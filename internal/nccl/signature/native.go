// SPDX-License-Identifier: Apache-2.0

package signature

import "strings"

// Crashes by the part of NCCL that a stack names, each with the setting that turns the part off.
var (
	crashedHostMemory = Reason{
		Cause:  "The driver crashed, in {crashed}, when NCCL asked it for memory of the host (cuMem): an error of the driver, as on hosts whose NUMA nodes differ.",
		Remedy: "Set NCCL_CUMEM_HOST_ENABLE=0 for all ranks, or use a newer driver.",
		Test:   "NCCL_CUMEM_HOST_ENABLE=0 for one run; numactl -H",
		If:     []Fact{"stack:ncclcumemhost", "crash:cumem|libcuda.so"},
		Likely: []Fact{"stack:ncclcumemhost"},
	}
	crashedRAS = Reason{
		Cause:  "NCCL crashed in its RAS thread, in {crashed}: most likely something that is no rank came to its port (a scanner, a monitor), or an error of this release.",
		Remedy: "Set NCCL_RAS_ENABLE=0, or use a newer NCCL; keep scanners of ports away from the hosts of jobs.",
		Test:   "NCCL_RAS_ENABLE=0 for one run",
		If:     []Fact{"crash:rasmsg|rasnet|rascoll|rasclient|(ras"},
		Likely: []Fact{"crash:rasmsg|rasnet|rascoll|rasclient|(ras"},
	}
	crashedProxy = Reason{
		Cause:  "NCCL crashed in its proxy, in {crashed}, the thread that connects ranks and moves data over the network: a rank that ended, a plugin, or an error of this release.",
		Remedy: "Look at the other ranks first; use a newer NCCL, and run without plugins (NCCL_NET_PLUGIN=none).",
		Test:   "NCCL_NET_PLUGIN=none, then NCCL_NET=Socket, for one run each",
		If:     []Fact{"crash:ncclproxy"}, Likely: []Fact{"crash:ncclproxy"},
	}
)

// part is a part of NCCL that a setting turns off.
type part struct{ names, is, off string }

// parts are known by names of functions, in lower case.
var parts = []part{
	{"nvls", "NVLS (sums in NVSwitches)", "NCCL_NVLS_ENABLE=0"},
	{"nccltuner|tunerplugin", "its tuner plugin", "NCCL_TUNER_PLUGIN=none"},
	{"ncclprofiler|profilerplugin", "its profiler plugin", "NCCL_PROFILER_PLUGIN=none"},
	{"collnet|sharp_", "CollNet (sums in the network)", "NCCL_COLLNET_ENABLE=0"},
	{"mnnvl", "NVLink between hosts", "NCCL_MNNVL_ENABLE=0"},
	{"ncclgin|ncclrma", "transfers that GPUs start", "NCCL_GIN_ENABLE=0"},
	{"ncclshm|shmsend|shmrecv|shmproxy", "shared memory between the ranks of a host", "NCCL_SHM_DISABLE=1"},
	{"p2psend|p2precv|p2pproxy|p2pmap|ncclp2p", "P2P between GPUs", "NCCL_P2P_DISABLE=1"},
	{"ncclib|wrap_ibv|ibv_", "InfiniBand or RoCE", "NCCL_IB_DISABLE=1"},
	{"ncclcommregister|ncclreg|ncclcommgraphreg", "the registration of buffers of the program", "NCCL_LOCAL_REGISTER=0 NCCL_GRAPH_REGISTER=0"},
}

// crashedParts are crashes in parts of NCCL.
func crashedParts() (list []Reason) {
	for _, p := range parts {
		list = append(list, Reason{
			Cause:  "NCCL crashed in " + p.is + ", in {crashed}: the driver, what this part works with, or an error of this release.",
			Remedy: "Set " + p.off + ", or use a newer NCCL and driver.",
			Test:   p.off + " for one run",
			If:     []Fact{Fact("crash:" + p.names)}, Likely: []Fact{Fact("crash:" + p.names)},
		})
	}
	return list
}

// partsCrashed is that one of these parts crashed, or another that has a reason of its own.
func partsCrashed() Fact {
	names := []string{
		"nccltopo", "libnccl-", "librccl-", "commwindow", "nccl_net_ofi", "rasmsg|rasnet|rascoll|rasclient|(ras", "ncclproxy",
	}
	for _, p := range parts {
		names = append(names, p.names)
	}
	return Fact("crash:" + strings.Join(names, "|"))
}
