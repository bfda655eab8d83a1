// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"crypto/sha256"
	"fmt"
	"slices"

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
