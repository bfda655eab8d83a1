// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// GPUs answers for NVIDIA's driver of a tree what NVML would. It always speaks of the node as it is laid out at that
// moment, and may be used by any number of goroutines. It has no errors: a node without a driver is an answer.
type GPUs struct{ tree *Tree }

// GPUs returns a source for the GPUs of the tree.
func (t *Tree) GPUs() *GPUs { return &GPUs{t} }

// Close does nothing.
func (*GPUs) Close() error { return nil }

// Read reads what changes; the rest it takes from last, unless slow is set, there is no last, or the driver or the GPUs
// are not those of last.
func (s *GPUs) Read(last fabric.GPUDriver, slow bool, now time.Time) (fabric.GPUDriver, error) {
	s.tree.mu.Lock()
	defer s.tree.mu.Unlock()
	next := s.tree.now.nvml(now)
	if slow || next.Version.Value != last.Version.Value || !slices.EqualFunc(next.GPUs, last.GPUs, sameGPU) {
		return next, nil
	}
	next.Version, next.CUDA, next.P2P = last.Version, last.CUDA, last.P2P
	for i := range next.GPUs {
		g, was := &next.GPUs[i], &last.GPUs[i]
		g.Name, g.NUMANode, g.ComputeCap, g.ComputeMode = was.Name, was.NUMANode, was.ComputeCap, was.ComputeMode
		g.MIG, g.Persistence, g.PCIeMaxGen, g.PCIeMaxWidth = was.MIG, was.Persistence, was.PCIeMaxGen, was.PCIeMaxWidth
	}
	return next, nil
}

func sameGPU(a, b fabric.GPU) bool { return a.UUID == b.UUID && a.Address == b.Address }

// nvml is everything that NVML would report about the node.
func (n *Node) nvml(now time.Time) fabric.GPUDriver {
	const initialise = "nvmlInit_v2"
	d := &n.Driver
	switch {
	case d.Released != "": // the driver is not asked
		return fabric.GPUDriver{Released: d.Released}
	case d.Version == "":
		return fabric.GPUDriver{
			Loaded: fabric.Known(false, initialise, now), Version: fabric.AbsentFact[string](initialise, now), CUDA: fabric.AbsentFact[string](initialise, now),
		}
	}
	next := fabric.GPUDriver{
		Loaded:  fabric.Known(true, initialise, now),
		Version: fabric.Known(d.Version, "nvmlSystemGetDriverVersion", now),
		CUDA:    fabric.Known(d.CUDA, "nvmlSystemGetCudaDriverVersion_v2", now),
	}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if n.Function(g.PCI).Chip.Vendor != nvidia {
			continue
		}
		if g.Lost {
			next.GPUs = append(next.GPUs, lostGPU(i, now))
			continue
		}
		next.GPUs = append(next.GPUs, n.nvmlGPU(i, now))
		for k := i + 1; k < len(n.GPUs); k++ {
			if !n.GPUs[k].Lost {
				next.P2P = append(next.P2P, n.pair(i, k, now))
			}
		}
	}
	return next
}

// lostGPU has its index and nothing else.
func lostGPU(index int, now time.Time) fabric.GPU {
	const source = "nvmlDeviceGetHandleByIndex_v2"
	return fabric.GPU{
		Index: index, Lost: fabric.Known(true, source, now),
		Name: gone[string](now), NUMANode: gone[int](now), ComputeCap: gone[int](now), Processes: gone[[]fabric.GPUProcess](now),
		Utilization: gone[float64](now), Memory: gone[fabric.GPUMemory](now), BAR1: gone[fabric.GPUMemory](now),
		ComputeMode: gone[fabric.ComputeMode](now), MIG: gone[bool](now), Persistence: gone[bool](now),
		ClockReasons: gone[fabric.ClockReasons](now), PCIeGeneration: gone[int](now), PCIeMaxGen: gone[int](now), PCIeWidth: gone[int](now),
		PCIeMaxWidth: gone[int](now), PCIeReplays: gone[uint64](now), NVLinks: gone[[]fabric.NVLink](now), Fabric: gone[fabric.GPUFabric](now),
	}
}

func gone[T any](now time.Time) fabric.Fact[T] {
	return fabric.UnknownFact[T](fabric.ReasonGone, "nvmlDeviceGetHandleByIndex_v2", now)
}

func (n *Node) nvmlGPU(index int, now time.Time) fabric.GPU {
	g := &n.GPUs[index]
	link, best := n.nvmlLink(g.PCI)
	is := fabric.GPU{
		Index: index, UUID: g.UUID, Address: g.PCI,
		Lost:           fabric.Known(false, "nvmlDeviceGetHandleByIndex_v2", now),
		Name:           fabric.Known(g.Name, "nvmlDeviceGetName", now),
		NUMANode:       fabric.AbsentFact[int]("nvmlDeviceGetNumaNodeId", now),
		ComputeCap:     fabric.Known(g.Capability, "nvmlDeviceGetCudaComputeCapability", now),
		Utilization:    fabric.Known(float64(g.Load)/100, "nvmlDeviceGetUtilizationRates", now),
		Memory:         fabric.Known(fabric.GPUMemory{Total: g.Memory, Used: g.used()}, "nvmlDeviceGetMemoryInfo_v2", now),
		BAR1:           fabric.Known(fabric.GPUMemory{Total: g.BAR1, Used: g.bar1Used()}, "nvmlDeviceGetBAR1MemoryInfo", now),
		ComputeMode:    fabric.Known(g.Mode, "nvmlDeviceGetComputeMode", now),
		MIG:            fabric.AbsentFact[bool]("nvmlDeviceGetMigMode", now),
		Persistence:    fabric.Known(g.Persistence, "nvmlDeviceGetPersistenceMode", now),
		ClockReasons:   fabric.Known(g.ClockReasons, "nvmlDeviceGetCurrentClocksEventReasons", now),
		PCIeGeneration: fabric.Known(generation(link), "nvmlDeviceGetCurrPcieLinkGeneration", now),
		PCIeMaxGen:     fabric.Known(generation(best), "nvmlDeviceGetMaxPcieLinkGeneration", now),
		PCIeWidth:      fabric.Known(link.Width, "nvmlDeviceGetCurrPcieLinkWidth", now),
		PCIeMaxWidth:   fabric.Known(best.Width, "nvmlDeviceGetMaxPcieLinkWidth", now),
		PCIeReplays:    fabric.Known(g.Replays.value(), "nvmlDeviceGetPcieReplayCounter", now),
		NVLinks:        g.nvlinks(now),
		Fabric:         fabric.AbsentFact[fabric.GPUFabric]("nvmlDeviceGetGpuFabricInfoV", now),
	}
	if g.MemoryNode != noNUMA {
		is.NUMANode.Value, is.NUMANode.State = g.MemoryNode, fabric.OK
	}
	if g.Divisible {
		is.MIG = fabric.Known(g.MIG, is.MIG.Source, now)
	}
	if g.MIG { // its parts are asked instead
		is.Utilization = unsupported[float64](is.Utilization.Source, now)
	}
	if g.NVSwitch.State != "" {
		registration := g.NVSwitch
		registration.Unhealthy = slices.Clone(registration.Unhealthy)
		is.Fabric = fabric.Known(registration, is.Fabric.Source, now)
	}
	const running = "nvmlDeviceGetComputeRunningProcesses_v3"
	processes := make([]fabric.GPUProcess, 0, len(g.Processes))
	for _, p := range g.Processes {
		processes = append(processes, fabric.GPUProcess{PID: p.PID, Kind: p.Kind, Memory: fabric.Known(p.Memory, running, now)})
	}
	is.Processes = fabric.Known(processes, running, now)
	return is
}

// bar1Used is what of the window to its memory is in use: a little by the driver, and by each process what NICs may
// reach.
func (g *GPU) bar1Used() uint64 { return mebibyte * uint64(2+256*len(g.Processes)) }

func (g *GPU) nvlinks(now time.Time) fabric.Fact[[]fabric.NVLink] {
	const state, remote, end, fields = "nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemoteDeviceType", "nvmlDeviceGetFieldValues"
	if len(g.Links) == 0 {
		return fabric.AbsentFact[[]fabric.NVLink](state, now)
	}
	links := make([]fabric.NVLink, len(g.Links))
	for i, l := range g.Links {
		links[i] = fabric.NVLink{
			Number: i, Active: fabric.Known(l.Active, state, now),
			Remote: unsupported[string](remote, now), RemoteKind: unsupported[fabric.NVLinkEnd](end, now), Speed: fabric.AbsentFact[float64](fields, now),
		}
		if l.Active {
			links[i].RemoteKind = fabric.Known(l.Kind, end, now)
			links[i].Speed = fabric.Known(l.Speed, fields, now)
			if l.Remote != "" {
				links[i].Remote = fabric.Known(l.Remote, remote, now)
			}
		}
		for _, e := range l.Errors {
			links[i].Errors = append(links[i].Errors, fabric.NVLinkErrors{Kind: e.Kind, Count: fabric.Known(e.value(), fields, now)})
		}
	}
	return fabric.Known(links, state, now)
}

// nvmlLink is the PCIe link of a GPU and the best that GPU and slot can do.
func (n *Node) nvmlLink(address string) (now, best Link) {
	f := n.Function(address)
	now, best = n.linkOf(*f)
	if above := n.above(f); above != nil {
		slot := above.Chip.Link
		best.Width = min(best.Width, slot.Width)
		if generation(slot) < generation(best) {
			best.Speed = slot.Speed
		}
	}
	return now, best
}

// generation is that of PCI Express; 0 for a speed that has none.
func generation(l Link) int {
	return slices.Index([]string{"", gen1, gen2, gen3, gen4, gen5, gen6}, l.Speed)
}

// pair is what NVML reports of two GPUs. Without NVLink it takes peer-to-peer writes as far as one socket reaches.
func (n *Node) pair(a, b int, now time.Time) fabric.GPUPair {
	const status, ancestor = "nvmlDeviceGetP2PStatus", "nvmlDeviceGetTopologyCommonAncestor"
	distance := n.ancestor(n.GPUs[a].PCI, n.GPUs[b].PCI)
	write := fabric.P2POK
	switch {
	case n.GPUs[a].MIG || n.GPUs[b].MIG:
		write = fabric.P2PNotSupported
	case distance == fabric.DistanceSYS && !n.linked(a, b):
		write = fabric.P2PChipsetNotSupported
	}
	return fabric.GPUPair{A: a, B: b, Write: fabric.Known(write, status, now), Ancestor: fabric.Known(distance, ancestor, now)}
}

// linked reports whether two GPUs reach each other over NVLink.
func (n *Node) linked(a, b int) bool {
	reaches := func(from, to int) bool {
		return slices.ContainsFunc(n.GPUs[from].Links, func(l NVLink) bool {
			return l.Active && (l.Kind == fabric.NVLinkToSwitch || l.Remote == n.GPUs[to].PCI)
		})
	}
	return reaches(a, b) && reaches(b, a)
}
