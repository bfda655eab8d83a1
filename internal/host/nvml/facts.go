// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpufabric_exporter/internal/fabric"
)

// readSystem reads what belongs to the driver. Nothing of it is said by a GPU.
func (r *reader) readSystem() {
	ask := &gpu{r: r}
	r.d.Version = once(r, get(ask, unsupported, r.lib.SystemGetDriverVersion, "nvmlSystemGetDriverVersion"))
	// The newer _v2 fails where libcuda.so.1 is not installed; this one then knows what the driver supports.
	r.d.CUDA = to(once(r, get(ask, unsupported, r.lib.SystemGetCudaDriverVersion, "nvmlSystemGetCudaDriverVersion")),
		func(v int) (string, bool) { return fmt.Sprintf("%d.%d", v/1000, v%1000/10), v >= 1000 && v < 1000000 })
}

// readCapabilities reads what does not change while the driver is loaded.
func (g *gpu) readCapabilities() {
	f, r := g.f, g.r
	g.identify()
	f.Name = once(r, get(g, unsupported, g.dev.GetName, "nvmlDeviceGetName"))
	f.NUMANode = to(once(r, get(g, absent, g.dev.GetNumaNodeId, "nvmlDeviceGetNumaNodeId")),
		func(n int) (int, bool) { return n, n >= 0 && n < 1<<16 })
	f.ComputeCap = once(r, get(g, unsupported, func() (int, nvml.Return) {
		major, minor, ret := g.dev.GetCudaComputeCapability()
		return 10*major + minor, ret
	}, "nvmlDeviceGetCudaComputeCapability"))
	f.PCIeMaxGen = once(r, get(g, unsupported, g.dev.GetMaxPcieLinkGeneration, "nvmlDeviceGetMaxPcieLinkGeneration"))
	f.PCIeMaxWidth = once(r, get(g, unsupported, g.dev.GetMaxPcieLinkWidth, "nvmlDeviceGetMaxPcieLinkWidth"))
}

// readModes reads what administrators and errors change.
func (g *gpu) readModes() {
	f := g.f
	f.ComputeMode = to(get(g, unsupported, g.dev.GetComputeMode, "nvmlDeviceGetComputeMode"),
		func(m nvml.ComputeMode) (fabric.ComputeMode, bool) { return valueOf(computeModes, int(m)) })
	f.MIG = to(get(g, absent, func() (int, nvml.Return) {
		current, _, ret := g.dev.GetMigMode()
		return current, ret
	}, "nvmlDeviceGetMigMode"), enabled)
	g.readInstances()
	f.Persistence = to(get(g, unsupported, g.dev.GetPersistenceMode, "nvmlDeviceGetPersistenceMode"),
		func(m nvml.EnableState) (bool, bool) { return enabled(int(m)) })
	f.PCIeReplays = to(get(g, unsupported, g.dev.GetPcieReplayCounter, "nvmlDeviceGetPcieReplayCounter"),
		func(n int) (uint64, bool) { return uint64(n), n >= 0 })
	f.Fabric = g.fabricFact()
}

// enabled decodes nvmlEnableState_t.
func enabled(v int) (bool, bool) { return v == int(nvml.FEATURE_ENABLED), v == 0 || v == 1 }

// valueOf is an enumeration whose numbers are those of a table.
func valueOf[T any](table []T, n int) (T, bool) {
	if n < 0 || n >= len(table) {
		var none T
		return none, false
	}
	return table[n], true
}

// memory asks the version that does not count what the driver keeps for itself as used, like nvidia-smi.
func (g *gpu) memory() fabric.Fact[fabric.GPUMemory] {
	if g.r.has("nvmlDeviceGetMemoryInfo_v2") {
		return to(get(g, unsupported, g.dev.GetMemoryInfo_v2, "nvmlDeviceGetMemoryInfo_v2"),
			func(m nvml.Memory_v2) (fabric.GPUMemory, bool) { return memoryOf(m.Total, m.Used) })
	}
	return to(get(g, unsupported, g.dev.GetMemoryInfo, "nvmlDeviceGetMemoryInfo"),
		func(m nvml.Memory) (fabric.GPUMemory, bool) { return memoryOf(m.Total, m.Used) })
}

func memoryOf(total, used uint64) (fabric.GPUMemory, bool) {
	return fabric.GPUMemory{Total: total, Used: used}, used <= total
}

// clockReasons are called so since driver 535, and throttle reasons before.
func (g *gpu) clockReasons() fabric.Fact[fabric.ClockReasons] {
	ask, symbol := g.dev.GetCurrentClocksEventReasons, "nvmlDeviceGetCurrentClocksEventReasons"
	if !g.r.has(symbol) {
		ask, symbol = g.dev.GetCurrentClocksThrottleReasons, "nvmlDeviceGetCurrentClocksThrottleReasons"
	}
	return to(get(g, unsupported, ask, symbol), func(m uint64) (fabric.ClockReasons,
		bool,
	) {
		return fabric.ClockReasons(m), true
	})
}

// processes lists all kinds; it is unknown when one of them is. A GPU or driver that does not know a kind has
// none of it, but for compute processes, which all know.
func (g *gpu) processes(list []fabric.GPUProcess) fabric.Fact[[]fabric.GPUProcess] {
	if g.r.processes == nil {
		return unknown[[]fabric.GPUProcess](fabric.ReasonMissing)
	}
	for _, l := range processLists {
		if g.lost {
			break
		}
		var ret nvml.Return
		var err error
		list, ret, err = g.r.processes(g.handle, l.kind, l.names, g.instances, list)
		if err != nil {
			return unknown[[]fabric.GPUProcess](fabric.ReasonOf(err))
		}
		none := ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_FUNCTION_NOT_FOUND
		g.heard(ret)
		if ret != nvml.SUCCESS && (!none || l.kind == fabric.GPUCompute) {
			return unknown[[]fabric.GPUProcess](reasonOf(ret))
		}
	}
	return fabric.Fact[[]fabric.GPUProcess]{State: fabric.OK, Value: list}
}

// readPairs reads how GPUs reach each other.
func (r *reader) readPairs() {
	r.d.P2P = r.d.P2P[:0]
	for i, a := range r.gpus {
		for k, b := range r.gpus[i+1:] {
			r.d.P2P = append(r.d.P2P, r.pair(i, i+1+k, a, b))
		}
	}
}

func (r *reader) pair(i, k int, a, b *gpu) fabric.GPUPair {
	p := fabric.GPUPair{A: i, B: k}
	for _, g := range []*gpu{a, b} {
		if g.dev == nil || g.lost {
			why := g.trouble
			if g.lost {
				why = fabric.ReasonGone
			}
			p.Write, p.Ancestor = unknown[fabric.P2PStatus](why), unknown[fabric.Distance](why)
			return p
		}
	}
	ask := &gpu{r: r} // an error of a pair says nothing of one GPU
	// Of the capabilities, NVML_P2P_CAPS_INDEX_READ is not NVLink (that is 2), and the status of a way that works is 0.
	p.Write = to(once(r, get(ask, unsupported, func() (nvml.GpuP2PStatus,
		nvml.Return,
	) {
		return a.dev.GetP2PStatus(b.dev, nvml.P2P_CAPS_INDEX_WRITE)
	},
		"nvmlDeviceGetP2PStatus")), func(s nvml.GpuP2PStatus) (fabric.P2PStatus,
		bool,
	) {
		return valueOf(p2pStatuses, int(s))
	})
	p.Ancestor = to(once(r, get(ask, unsupported, func() (nvml.GpuTopologyLevel,
		nvml.Return,
	) {
		return a.dev.GetTopologyCommonAncestor(b.dev)
	},
		"nvmlDeviceGetTopologyCommonAncestor")), distanceOf)
	return p
}

func distanceOf(l nvml.GpuTopologyLevel) (fabric.Distance, bool) {
	d, ok := map[nvml.GpuTopologyLevel]fabric.Distance{
		// two GPUs of one board are below the switch on it
		nvml.TOPOLOGY_INTERNAL: fabric.DistancePIX, nvml.TOPOLOGY_SINGLE: fabric.DistancePIX,
		nvml.TOPOLOGY_MULTIPLE: fabric.DistancePXB, nvml.TOPOLOGY_HOSTBRIDGE: fabric.DistancePHB,
		nvml.TOPOLOGY_NODE: fabric.DistanceNODE, nvml.TOPOLOGY_SYSTEM: fabric.DistanceSYS,
	}[l]
	return d, ok
}
