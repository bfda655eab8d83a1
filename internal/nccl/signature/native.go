// SPDX-License-Identifier: Apache-2.0

package signature

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
	crashedNVLS = Reason{
		Cause:  "NCCL crashed in the set-up or use of NVLS, in {crashed}: the driver, the fabric manager, or an error of this release.",
		Remedy: "Set NCCL_NVLS_ENABLE=0, or use a newer NCCL and driver.",
		Test:   "NCCL_NVLS_ENABLE=0 for one run",
		If:     []Fact{"crash:nvls"}, Likely: []Fact{"crash:nvls"},
	}
	crashedProxy = Reason{
		Cause:  "NCCL crashed in its proxy, in {crashed}, the thread that connects ranks and moves data over the network: a rank that ended, a plugin, or an error of this release.",
		Remedy: "Look at the other ranks first; use a newer NCCL, and run without plugins (NCCL_NET_PLUGIN=none).",
		Test:   "NCCL_NET_PLUGIN=none, then NCCL_NET=Socket, for one run each",
		If:     []Fact{"crash:ncclproxy"}, Likely: []Fact{"crash:ncclproxy"},
	}
)
