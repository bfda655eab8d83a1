// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"slices"
	"strconv"

	"gpufabric_exporter/internal/fabric"
)

// GPU is all that is known of one GPU: where it is, what its driver says, and what follows for its traffic.
type GPU struct {
	Name     string              // "GPU3" as NVML counts, or the PCI address of one that NVML leaves out
	Function *fabric.PCIFunction // nil: not on the bus that the exporter sees
	Driver   *fabric.GPU         // nil: NVML does not list it, or was not asked
	Rail     *fabric.Rail        // nil without a place on the bus
	GDR      *fabric.GDR         // nil when nothing was derived
}

// GPUs returns the GPUs on the PCI bus in its order, then those that only NVML knows.
func GPUs(n *fabric.Node) []GPU {
	functions, driver := n.PCI.GPUs(), &n.GPUDriver
	list := make([]GPU, 0, max(len(functions), len(driver.GPUs)))
	placed := map[int]bool{} // indices of NVML
	for i, f := range functions {
		v := GPU{Name: f.Address, Function: f, Driver: driver.At(f.Address)}
		if v.Driver != nil {
			placed[v.Driver.Index] = true
		}
		if len(driver.GPUs) == 0 || !f.NVIDIA() { // NVML counts in this order
			v.Name = "GPU" + strconv.Itoa(i)
		}
		if k := slices.IndexFunc(n.PCI.Rails, func(r fabric.Rail) bool { return r.GPU == f.Address }); k >= 0 {
			v.Rail = &n.PCI.Rails[k]
		}
		if k := slices.IndexFunc(n.GDR, func(g fabric.GDR) bool { return g.GPU == f.Address }); k >= 0 {
			v.GDR = &n.GDR[k]
		}
		list = append(list, v)
	}
	var rest []fabric.GPU // few: every check of GPUs comes here, and they are large
	for i := range driver.GPUs {
		if !placed[driver.GPUs[i].Index] {
			rest = append(rest, driver.GPUs[i])
		}
	}
	list = append(list, placeLost(list, rest)...)
	for i := range list {
		if d := list[i].Driver; d != nil {
			list[i].Name = "GPU" + strconv.Itoa(d.Index)
		}
	}
	return list
}

// placeLost gives GPUs that NVML lists without saying where they are, because it lost them, to the functions that it
// shows nothing at. Where there are as many of both, its order, which is that of the bus, decides which is which. The
// rest is returned.
func placeLost(list []GPU, rest []fabric.GPU) []GPU {
	var empty []*GPU
	for i := range list {
		if list[i].Driver == nil && list[i].Function.NVIDIA() {
			empty = append(empty, &list[i])
		}
	}
	isLost := func(g fabric.GPU) bool { return g.Address == "" }
	var lost, elsewhere []GPU
	for i := range rest {
		if isLost(rest[i]) {
			lost = append(lost, GPU{Driver: &rest[i]})
		} else {
			elsewhere = append(elsewhere, GPU{Driver: &rest[i]})
		}
	}
	if len(lost) != len(empty) {
		return append(lost, elsewhere...)
	}
	slices.SortStableFunc(lost, func(a, b GPU) int { return cmp.Compare(a.Driver.Index, b.Driver.Index) })
	for i, v := range empty {
		v.Driver = lost[i].Driver
	}
	return elsewhere
}

// IsNVIDIA reports whether NVML would know the GPU. One of unknown vendor is taken for one: most are.
func (g GPU) IsNVIDIA() bool { return g.Driver != nil || g.Function == nil || g.Function.NVIDIA() }

// Subject names the GPU: by its UUID where NVML reports it, else by its PCI address.
func (g GPU) Subject() Subject {
	s := Subject{GPU: g.Name, Name: g.Name}
	switch {
	case g.Driver != nil && g.Driver.UUID != "":
		s.GPU = g.Driver.UUID
	case g.Function != nil:
		s.GPU = g.Function.Address
	}
	return s
}

// NUMANode is that of the PCI function: that of the memory of coherent GPUs is another one.
func (g GPU) NUMANode() fabric.Fact[int] {
	if g.Function == nil {
		return fabric.Fact[int]{}
	}
	return g.Function.NUMANode
}

// NVLinks returns how many NVLinks of a GPU are active, and how many it has.
func (g GPU) NVLinks() (active fabric.Fact[int], total int) {
	if g.Driver == nil {
		return fabric.Fact[int]{}, 0
	}
	return g.Driver.Active(), len(g.Driver.NVLinks.Or(nil))
}

// Lost reports whether the driver is known to have lost the GPU: nothing else is known of it.
func (g GPU) Lost() bool { return g.Driver != nil && g.Driver.Lost.Or(false) }

// Listable reports whether NVML answers and should list the GPU. Virtual functions, and what was given to
// virtual machines, Listable not its to list.
func (g GPU) Listable(n *fabric.Node) bool {
	return n.GPUDriver.Loaded.Or(false) && n.GPUDriver.Released == "" && n.SourceUp(fabric.SourceGPU) &&
		g.Function != nil && g.Function.NVIDIA() && g.Function.PF.State != fabric.OK && !g.Function.PassedThrough()
}

// Blocked reports whether GPUDirect RDMA is known not to be usable, and what is in the way.
func (g GPU) Blocked() (fabric.GDRBlock, bool) {
	if g.GDR == nil {
		return "", false
	}
	usable, known := g.GDR.Usable.Get()
	return g.GDR.Block, known && !usable
}
