// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// GPUDriver is NVIDIA's driver and the modules that go with it. The zero GPUDriver is none: GPUs of NVIDIA are on the
// bus, unbound.
type GPUDriver struct {
	Version string // "580.65.06"; empty: none is loaded
	CUDA    string // the newest that it supports, "13.0"
	Open    bool   // its kernel modules are the open ones, which export memory as dma-buf
	// TopologyOverride is GrdmaPciTopoCheckOverride: 0 the driver decides, 1 allows, 2 forbids.
	TopologyOverride int
	Released         string // why the exporter released the GPUs; empty: it may ask
	Peermem          Peermem
}

// Peermem is what lets RDMA drivers pin memory of GPUs.
type Peermem struct {
	Module  string // "nvidia_peermem", "nv_peer_mem"; empty: none is loaded
	Version string
	// Clients says that ib_core has peer memory (MLNX_OFED, Ubuntu) and shows who registered with it; Bound that the
	// module did.
	Clients, Bound bool
	Registered     uint64  // memory regions of GPUs now
	Allocated      Counter // memory regions so far
}

// GPU is a GPU, in the order of the driver's indices. NVML knows those of NVIDIA; of others only PCI and Name count.
type GPU struct {
	PCI  string // address
	Name string // product name, as the driver gives it
	UUID string

	Lost          bool   // the driver lost it
	MemoryNode    int    // NUMA node of its memory, on coherent platforms; noNUMA elsewhere
	Capability    int    // compute capability times ten
	Memory, BAR1  uint64 // bytes
	Load          int    // percent of the time in which a kernel runs
	Processes     []Process
	Mode          fabric.ComputeMode
	Divisible     bool // MIG can be switched on
	MIG           bool
	Persistence   bool
	ClockReasons  fabric.ClockReasons
	Replays       Counter // of the PCIe link
	Links         []NVLink
	NVSwitch      fabric.GPUFabric // registration with fabric manager; without a state there is none
	UnknownMemory uint64           // bytes in use that belong to no process
}

// Process is a process with a context on a GPU.
type Process struct {
	PID    int
	Kind   fabric.GPUProcessKind
	Memory uint64 // bytes
}

// NVLink is one NVLink of a GPU.
type NVLink struct {
	Active bool
	Kind   fabric.NVLinkEnd // empty: nothing is plugged in
	Remote string           // PCI address; empty: NVML does not report it
	Speed  float64          // bytes per second in each direction
	Errors []NVLinkErrors
}

// NVLinkErrors counts one kind of error.
type NVLinkErrors struct {
	Kind fabric.NVLinkError
	Counter
}

// GPU returns the GPU at that PCI address, or nil.
func (n *Node) GPU(address string) *GPU {
	return lookup(n.GPUs, func(g GPU) bool { return g.PCI == address })
}

// Count returns the counter of one kind of error, or nil.
func (l *NVLink) Count(kind fabric.NVLinkError) *NVLinkErrors {
	return lookup(l.Errors, func(e NVLinkErrors) bool { return e.Kind == kind })
}

// Idle takes all work from a GPU: it lowers its clocks and the speed of its PCIe link.
func (n *Node) Idle(address string) {
	g := n.GPU(address)
	g.Load, g.Processes, g.ClockReasons = 0, nil, clocksIdle
	n.Function(address).Link.Speed = gen1
}

// Bits of fabric.ClockReasons, nvmlClocksEventReason* of nvml.h.
const (
	clocksIdle       fabric.ClockReasons = 0x01
	clocksHWSlowdown fabric.ClockReasons = 0x08
	clocksPowerBrake fabric.ClockReasons = 0x80
)

// LoseGPU has the driver lose a GPU, as after Xid 79: its processes are gone, and its links down at the other end too.
func (n *Node) LoseGPU(address string) {
	g := n.GPU(address)
	g.Lost, g.Processes = true, nil
	for i := range n.GPUs {
		for k := range n.GPUs[i].Links {
			if l := &n.GPUs[i].Links[k]; l.Remote == address {
				l.Active = false
			}
		}
	}
}

func (g GPU) clone() GPU {
	g.Processes = slices.Clone(g.Processes)
	g.NVSwitch.Unhealthy = slices.Clone(g.NVSwitch.Unhealthy)
	g.Links = slices.Clone(g.Links)
	for i := range g.Links {
		g.Links[i].Errors = slices.Clone(g.Links[i].Errors)
	}
	return g
}

// at moves a GPU to a step. The load varies by a few percent, which is what training looks like.
func (g *GPU) at(index, step int) {
	if g.Load > 0 {
		g.Load = max(1, g.Load-(7*step+3*index)%5)
	}
	g.Replays = g.Replays.at(step)
	for i := range g.Links {
		for k := range g.Links[i].Errors {
			c := &g.Links[i].Errors[k].Counter
			*c = c.at(step)
		}
	}
}

// used is the memory in use.
func (g *GPU) used() uint64 {
	sum := g.UnknownMemory
	for _, p := range g.Processes {
		sum += p.Memory
	}
	return sum
}

// uuidOf makes up the UUID of the GPU that is built in at that place of a machine.
func uuidOf(host, address string) string {
	b := sha256.Sum256([]byte(host + " " + address))
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// checkGPUs returns what of the GPUs contradicts the rest of the node.
func (n *Node) checkGPUs(need func(ok bool, format string, args ...any)) {
	for _, g := range n.GPUs {
		f := n.Function(g.PCI)
		need(f != nil, "GPU %s: no such PCI function", g.PCI)
		need(!g.MIG || g.Divisible, "GPU %s: MIG is on, but it cannot be divided", g.PCI)
		need(g.used() <= g.Memory, "GPU %s: %d of %d bytes are in use", g.PCI, g.used(), g.Memory)
		for i, l := range g.Links {
			need(!l.Active || l.Kind != "", "GPU %s: NVLink %d is active and leads nowhere", g.PCI, i)
			need(l.Remote == "" || n.Function(l.Remote) != nil, "GPU %s: NVLink %d leads to %q", g.PCI, i, l.Remote)
		}
	}
	p := n.Driver.Peermem
	need(n.Driver.Version != "" || p.Module == "", "%s is loaded without the GPU driver", p.Module)
	need(!p.Bound || p.Clients && p.Module != "", "peer memory is bound, but there is no module or ib_core has none")
	need(p.Registered <= p.Allocated.Start, "%d memory regions are registered of %d", p.Registered, p.Allocated.Start)
}

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
			Loaded: fabric.Known(false, initialise, now), Version: fabric.AbsentFact[string](initialise, now),
			CUDA: fabric.AbsentFact[string](initialise, now),
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
		Name: gone[string](now), NUMANode: gone[int](now), ComputeCap: gone[int](now),
		Processes:   gone[[]fabric.GPUProcess](now),
		Utilization: gone[float64](now), Memory: gone[fabric.GPUMemory](now), BAR1: gone[fabric.GPUMemory](now),
		ComputeMode: gone[fabric.ComputeMode](now), MIG: gone[bool](now), Persistence: gone[bool](now),
		ClockReasons: gone[fabric.ClockReasons](now), PCIeGeneration: gone[int](now), PCIeMaxGen: gone[int](now),
		PCIeWidth:    gone[int](now),
		PCIeMaxWidth: gone[int](now), PCIeReplays: gone[uint64](now), NVLinks: gone[[]fabric.NVLink](now),
		Fabric: gone[fabric.GPUFabric](now),
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
		processes = append(processes, fabric.GPUProcess{
			PID: p.PID, Kind: p.Kind,
			Memory: fabric.Known(p.Memory, running, now),
		})
	}
	is.Processes = fabric.Known(processes, running, now)
	return is
}

// bar1Used is what of the window to its memory is in use: a little by the driver, and by each process what NICs may
// reach.
func (g *GPU) bar1Used() uint64 { return mebibyte * uint64(2+256*len(g.Processes)) }

func (g *GPU) nvlinks(now time.Time) fabric.Fact[[]fabric.NVLink] {
	const state, remote, end, fields = "nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkRemotePciInfo_v2",
		"nvmlDeviceGetNvLinkRemoteDeviceType", "nvmlDeviceGetFieldValues"
	if len(g.Links) == 0 {
		return fabric.AbsentFact[[]fabric.NVLink](state, now)
	}
	links := make([]fabric.NVLink, len(g.Links))
	for i, l := range g.Links {
		links[i] = fabric.NVLink{
			Number: i, Active: fabric.Known(l.Active, state, now),
			Remote: unsupported[string](remote, now), RemoteKind: unsupported[fabric.NVLinkEnd](end, now),
			Speed: fabric.AbsentFact[float64](fields, now),
		}
		if l.Active {
			links[i].RemoteKind = fabric.Known(l.Kind, end, now)
			links[i].Speed = fabric.Known(l.Speed, fields, now)
			if l.Remote != "" {
				links[i].Remote = fabric.Known(l.Remote, remote, now)
			}
		}
		for _, e := range l.Errors {
			links[i].Errors = append(links[i].Errors, fabric.NVLinkErrors{
				Kind:  e.Kind,
				Count: fabric.Known(e.value(), fields, now),
			})
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
	return fabric.GPUPair{
		A: a, B: b, Write: fabric.Known(write, status, now),
		Ancestor: fabric.Known(distance, ancestor, now),
	}
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
