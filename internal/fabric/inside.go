// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"
	"strconv"
	"strings"
)

// Inside is what a program finds that runs where this one does: in the container of a job, or in its task
// prolog. What it says holds for that place alone, never for the node.
type Inside struct {
	Memlock Fact[Memlock] // RLIMIT_MEMLOCK of this process, which its children inherit
	// LocksAll says that the limit does not apply: CAP_IPC_LOCK in the first user namespace (kernel: ib_umem_get).
	LocksAll Fact[bool]
	Verbs    Fact[[]VerbsNode] // /dev/infiniband/uverbs*, by name; empty without that folder
	GPUs     Fact[[]GPUNode]   // GPUs with a device node here, by minor number
	// Libverbs is libibverbs.so.1 as the dynamic loader finds it; absent: it finds none.
	Libverbs Fact[Library]
	// Providers are the drivers of libibverbs: mlx5 of libmlx5-rdmav34.so.
	Providers Fact[[]string]
	// Plugins are paths of network plugins of NCCL: libnccl-net*.so* where the loader looks, and the file that
	// NCCL_NET_PLUGIN of the environment names.
	Plugins Fact[[]string]
	// Environment has what schedulers and container runtimes report about the job's size and GPUs, by the names
	// in InsideVariables.
	Environment map[string]string
	// Expected is what the launcher of the job says of this place.
	Expected InsideExpected
}

// InsideExpected is what a place should have; its zero value says nothing.
type InsideExpected struct {
	RDMA bool // an RDMA device that NCCL would use
	GPUs *int
}

// Variables that Inside.Environment has.
const (
	VarCUDADevices   = "CUDA_VISIBLE_DEVICES"
	VarNVIDIADevices = "NVIDIA_VISIBLE_DEVICES"
	VarStepGPUs      = "SLURM_STEP_GPUS"
	VarJobGPUs       = "SLURM_JOB_GPUS"
	VarStepNodes     = "SLURM_STEP_NUM_NODES"
	VarJobNodes      = "SLURM_JOB_NUM_NODES"

	VarFabricProvider = "FI_PROVIDER" // of libfabric, through which NCCL uses EFA
)

// InsideVariables returns the names of variables of the environment that matter.
func InsideVariables() []string {
	return []string{
		VarCUDADevices, VarNVIDIADevices, VarStepGPUs, VarJobGPUs, VarStepNodes, VarJobNodes,
		VarFabricProvider,
	}
}

// VerbsNode is a device node of libibverbs.
type VerbsNode struct {
	Name   string // uverbs0
	Device string // RDMA device; empty: not in sysfs
	// Usable says that this process may open it. Permissions, the device control group and, in exclusive mode, the network
	// namespace decide.
	Usable Fact[bool]
}

// GPUNode is a device node of a GPU with what the driver reports about it.
type GPUNode struct {
	Minor   int    // of /dev/nvidia<minor>
	Address string // on the PCI bus; empty: the driver does not report it
	UUID    string // empty: the driver does not report it
}

// OneNode reports whether the scheduler gave the job a single node, where nothing needs the fabric.
func (in *Inside) OneNode() bool {
	for _, name := range []string{VarStepNodes, VarJobNodes} { // the step counts before the job
		if v, set := in.Environment[name]; set {
			return v == "1"
		}
	}
	return false
}

// GivenGPUs are the GPUs that the job may use: those with a device node, fewer where SLURM_STEP_GPUS or
// SLURM_JOB_GPUS, else CUDA_VISIBLE_DEVICES, else NVIDIA_VISIBLE_DEVICES says so. It is unknown where these
// name GPUs that the driver does not report.
func (in *Inside) GivenGPUs() Fact[[]GPUNode] {
	nodes, known := in.GPUs.Get()
	if !known || len(nodes) == 0 {
		return in.GPUs
	}
	given := func(name, value string, of func([]string) ([]GPUNode, bool)) Fact[[]GPUNode] {
		list, ok := of(strings.Split(value, ","))
		if !ok {
			return UnknownFact[[]GPUNode](ReasonMalformed, name, in.GPUs.At)
		}
		return Known(list, name, in.GPUs.At)
	}
	for _, name := range []string{VarStepGPUs, VarJobGPUs} {
		if v := in.Environment[name]; v != "" {
			return given(name, v, func(items []string) ([]GPUNode, bool) { return byMinor(nodes, items) })
		}
	}
	if v, set := in.Environment[VarCUDADevices]; set {
		if v == "" || v == "NoDevFiles" || strings.HasPrefix(v, "-") {
			return Known([]GPUNode(nil), VarCUDADevices, in.GPUs.At)
		}
		return given(VarCUDADevices, v, func(items []string) ([]GPUNode, bool) { return byName(nodes, items) })
	}
	if v := in.Environment[VarNVIDIADevices]; v != "" && v != "all" && v != "none" && v != "void" {
		if items := strings.Split(v, ","); len(items) < len(nodes) { // else the runtime made nodes of these alone
			return given(VarNVIDIADevices, v, func(items []string) ([]GPUNode, bool) { return byName(nodes, items) })
		}
	}
	return in.GPUs
}

// byMinor takes numbers and ranges as Slurm writes them, which count the devices of the node.
func byMinor(nodes []GPUNode, items []string) (list []GPUNode, ok bool) {
	for _, item := range items {
		low, high, ranged := strings.Cut(item, "-")
		from, err := strconv.Atoi(low)
		to := from
		if ranged && err == nil {
			to, err = strconv.Atoi(high)
		}
		if err != nil {
			return nil, false
		}
		for _, n := range nodes {
			if from <= n.Minor && n.Minor <= to {
				list = append(list, n)
			}
		}
	}
	return list, true
}

// byName takes UUIDs, or their beginning, and indices in the order of PCI addresses.
func byName(nodes []GPUNode, items []string) (list []GPUNode, ok bool) {
	ordered := slices.SortedFunc(slices.Values(nodes),
		func(a, b GPUNode) int { return strings.Compare(a.Address, b.Address) })
	placed := ordered[0].Address != ""
	for _, item := range items {
		i, err := strconv.Atoi(item)
		if err != nil {
			i = slices.IndexFunc(ordered, func(n GPUNode) bool {
				return strings.HasPrefix(item, "GPU-") && strings.HasPrefix(n.UUID, item)
			})
		} else if !placed {
			return nil, false
		}
		if i < 0 || i >= len(ordered) {
			return nil, false
		}
		list = append(list, ordered[i])
	}
	return list, true
}
