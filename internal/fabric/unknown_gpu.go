// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"iter"
	"time"
)

// Metas iterates over everything that is read of the driver and of pairs of its GPUs, by name, without values; GPU.Metas
// does over what is read of each.
func (d *GPUDriver) Metas() iter.Seq2[string, Meta] {
	return func(yield func(string, Meta) bool) {
		ok := yield("driver_loaded", d.Loaded.Meta()) && yield("driver_version", d.Version.Meta()) && yield("cuda_version", d.CUDA.Meta())
		for i := range d.P2P {
			ok = ok && yield("p2p_write", d.P2P[i].Write.Meta()) && yield("p2p_ancestor", d.P2P[i].Ancestor.Meta())
		}
	}
}

// WithoutFacts returns a driver with GPUs at the same places of which nothing is known, for the given reason.
func (d *GPUDriver) WithoutFacts(r Reason, at time.Time) GPUDriver {
	const src = ""
	u := GPUDriver{
		Released: d.Released,
		Loaded:   NotKnown[bool](r, src, at), Version: NotKnown[string](r, src, at), CUDA: NotKnown[string](r, src, at),
	}
	for i := range d.GPUs {
		u.GPUs = append(u.GPUs, d.GPUs[i].WithoutFacts(r, at))
	}
	for _, p := range d.P2P {
		u.P2P = append(u.P2P, GPUPair{A: p.A, B: p.B, Write: NotKnown[P2PStatus](r, src, at), Ancestor: NotKnown[Distance](r, src, at)})
	}
	return u
}

// Metas iterates over everything that is read of the GPU, its processes and its NVLinks, by name, without values.
func (g *GPU) Metas() iter.Seq2[string, Meta] {
	return func(yield func(string, Meta) bool) {
		for _, m := range []struct {
			name string
			meta Meta
		}{
			{"lost", g.Lost.Meta()},
			{"name", g.Name.Meta()},
			{"memory_numa_node", g.NUMANode.Meta()},
			{"compute_capability", g.ComputeCap.Meta()},
			{"processes", g.Processes.Meta()},
			{"utilization", g.Utilization.Meta()},
			{"memory", g.Memory.Meta()},
			{"bar1", g.BAR1.Meta()},
			{"compute_mode", g.ComputeMode.Meta()},
			{"mig", g.MIG.Meta()},
			{"persistence", g.Persistence.Meta()},
			{"clock_reasons", g.ClockReasons.Meta()},
			{"pcie_generation", g.PCIeGeneration.Meta()},
			{"pcie_max_generation", g.PCIeMaxGen.Meta()},
			{"pcie_width", g.PCIeWidth.Meta()},
			{"pcie_max_width", g.PCIeMaxWidth.Meta()},
			{"pcie_replays", g.PCIeReplays.Meta()},
			{"nvlinks", g.NVLinks.Meta()},
			{"fabric", g.Fabric.Meta()},
		} {
			if !yield(m.name, m.meta) {
				return
			}
		}
		ok := true
		for _, p := range g.Processes.Or(nil) {
			ok = ok && yield("process_memory", p.Memory.Meta())
		}
		for _, l := range g.NVLinks.Or(nil) {
			ok = ok && yield("nvlink_active", l.Active.Meta()) && yield("nvlink_remote", l.Remote.Meta()) &&
				yield("nvlink_remote_kind", l.RemoteKind.Meta()) && yield("nvlink_speed", l.Speed.Meta())
			for _, e := range l.Errors {
				ok = ok && yield("nvlink_errors", e.Count.Meta())
			}
		}
	}
}

// WithoutFacts returns the same GPU at the same place of which nothing is known, for the given reason.
func (g *GPU) WithoutFacts(r Reason, at time.Time) GPU {
	const src = ""
	number, flag, memory := NotKnown[int](r, src, at), NotKnown[bool](r, src, at), NotKnown[GPUMemory](r, src, at)
	return GPU{
		Index: g.Index, UUID: g.UUID, Address: g.Address,
		Lost: flag, Name: NotKnown[string](r, src, at), NUMANode: number, ComputeCap: number, Processes: NotKnown[[]GPUProcess](r, src, at),
		Utilization: NotKnown[float64](r, src, at), Memory: memory, BAR1: memory, ComputeMode: NotKnown[ComputeMode](r, src, at),
		MIG: flag, Persistence: flag, ClockReasons: NotKnown[ClockReasons](r, src, at),
		PCIeGeneration: number, PCIeMaxGen: number, PCIeWidth: number, PCIeMaxWidth: number, PCIeReplays: NotKnown[uint64](r, src, at),
		NVLinks: NotKnown[[]NVLink](r, src, at), Fabric: NotKnown[GPUFabric](r, src, at),
	}
}

// Metas iterates over everything that is read of GPUDirect RDMA, by name, without values.
func (d *GPUDirect) Metas() iter.Seq2[string, Meta] {
	return func(yield func(string, Meta) bool) {
		ok := yield("peermem", d.Peermem.Meta()) && yield("open_module", d.OpenModule.Meta()) && yield("module_version", d.Driver.Meta()) &&
			yield("topology_override", d.TopologyOverride.Meta())
		if p, loaded := d.Peermem.Get(); ok && loaded {
			_ = yield("peermem_version", p.Version.Meta()) && yield("peermem_bound", p.Bound.Meta()) && yield("peermem_registered", p.Registered.Meta())
		}
	}
}

// UnknownGPUDirect is GPUDirect RDMA of which nothing is known, for the given reason.
func UnknownGPUDirect(r Reason, at time.Time) GPUDirect {
	const src = ""
	return GPUDirect{
		Peermem: NotKnown[Peermem](r, src, at), OpenModule: NotKnown[bool](r, src, at), Driver: NotKnown[string](r, src, at),
		TopologyOverride: NotKnown[int](r, src, at),
	}
}
