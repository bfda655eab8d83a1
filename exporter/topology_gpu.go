// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// gpuView is all that is known of one GPU: where it is, what its driver says, and what follows for its traffic.
type gpuView struct {
	Name     string              // "GPU3" as NVML counts, or the PCI address of one that NVML leaves out
	Function *fabric.PCIFunction // nil: not on the bus that the exporter sees
	Driver   *fabric.GPU         // nil: NVML does not list it, or was not asked
	Rail     *fabric.Rail        // nil without a place on the bus
	GDR      *fabric.GDR         // nil when nothing was derived
}

const (
	nvidiaVendor = 0x10de
)

// gpusOf returns the GPUs on the PCI bus in its order, then those that only NVML knows.
func gpusOf(n *fabric.Node) []gpuView {
	functions, driver := n.PCI.GPUs(), &n.GPUDriver
	list := make([]gpuView, 0, max(len(functions), len(driver.GPUs)))
	placed := map[int]bool{} // indices of NVML
	for i, f := range functions {
		v := gpuView{Name: f.Address, Function: f, Driver: driver.At(f.Address)}
		if v.Driver != nil {
			placed[v.Driver.Index] = true
		}
		if len(driver.GPUs) == 0 || !isNVIDIA(f) { // NVML counts in this order
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
	rest := slices.DeleteFunc(slices.Clone(driver.GPUs), func(g fabric.GPU) bool { return placed[g.Index] })
	list = append(list, placeLost(list, rest)...)
	for i := range list {
		if d := list[i].Driver; d != nil {
			list[i].Name = "GPU" + strconv.Itoa(d.Index)
		}
	}
	return list
}

// placeLost gives GPUs that NVML lists without saying where they are, because it lost them, to the functions that it
// shows nothing at. Where there are as many of both, its order, which is that of the bus, tells which is which. The
// rest is returned.
func placeLost(list []gpuView, rest []fabric.GPU) []gpuView {
	var empty []*gpuView
	for i := range list {
		if list[i].Driver == nil && isNVIDIA(list[i].Function) {
			empty = append(empty, &list[i])
		}
	}
	isLost := func(g fabric.GPU) bool { return g.Address == "" }
	var lost, elsewhere []gpuView
	for i := range rest {
		if isLost(rest[i]) {
			lost = append(lost, gpuView{Driver: &rest[i]})
		} else {
			elsewhere = append(elsewhere, gpuView{Driver: &rest[i]})
		}
	}
	if len(lost) != len(empty) {
		return append(lost, elsewhere...)
	}
	slices.SortStableFunc(lost, func(a, b gpuView) int { return cmp.Compare(a.Driver.Index, b.Driver.Index) })
	for i, v := range empty {
		v.Driver = lost[i].Driver
	}
	return elsewhere
}

// isNVIDIA tells whether NVML would know a GPU. One of unknown vendor is taken for one: most are.
func isNVIDIA(f *fabric.PCIFunction) bool {
	vendor, known := f.Vendor.Get()
	return !known || vendor == nvidiaVendor
}

// hasNVIDIA tells whether there is any GPU that NVML would know.
func hasNVIDIA(gpus []gpuView) bool {
	return slices.ContainsFunc(gpus, func(g gpuView) bool { return g.Driver != nil || isNVIDIA(g.Function) })
}

// numaNode is that of the PCI function: that of the memory of coherent GPUs is another one.
func (g gpuView) numaNode() fabric.Fact[int] {
	if g.Function == nil {
		return fabric.Fact[int]{}
	}
	return g.Function.NUMANode
}

// nvLinks returns how many NVLinks of a GPU are active, and how many it has.
func (g gpuView) nvLinks() (active fabric.Fact[int], total int) {
	if g.Driver == nil {
		return fabric.Fact[int]{}, 0
	}
	return g.Driver.Active(), len(g.Driver.NVLinks.Or(nil))
}

// linksBetween counts the active NVLinks between two GPUs: those that lead from one to the other, else what both have
// into switches. It is absent where one has no NVLinks at all.
func linksBetween(a, b *fabric.GPU) fabric.Fact[int] {
	if a == nil || b == nil {
		return fabric.Fact[int]{}
	}
	var switched [2]int
	direct := 0
	for i, ends := range [2][2]*fabric.GPU{{a, b}, {b, a}} {
		from, to := ends[0], ends[1]
		links, ok := from.NVLinks.Get()
		if !ok {
			m := from.NVLinks.Meta()
			return fabric.Fact[int]{State: m.State, Reason: m.Reason, Source: m.Source, At: m.At}
		}
		for k := range links {
			l := &links[k]
			active, ok := l.Active.Get()
			if !ok {
				return fabric.NotKnown[int](l.Active.Meta().Reason, l.Active.Source, l.Active.At)
			}
			if !active {
				continue
			}
			kind, ok := l.RemoteKind.Get()
			if !ok {
				return fabric.NotKnown[int](l.RemoteKind.Meta().Reason, l.RemoteKind.Source, l.RemoteKind.At)
			}
			switch remote, known := l.Remote.Get(); {
			case kind == fabric.NVLinkToSwitch:
				switched[i]++
			case kind == fabric.NVLinkToGPU && !known:
				return fabric.NotKnown[int](l.Remote.Meta().Reason, l.Remote.Source, l.Remote.At)
			case kind == fabric.NVLinkToGPU && i == 0 && strings.EqualFold(remote, to.Address):
				direct++
			}
		}
	}
	if direct == 0 {
		direct = min(switched[0], switched[1])
	}
	return fabric.Known(direct, a.NVLinks.Source, a.NVLinks.At)
}

// driverText says whether there is a GPU driver to ask, and which.
func driverText(d *fabric.GPUDriver) string {
	loaded, known := d.Loaded.Get()
	switch {
	case d.Released != "":
		return "The exporter has let go of the GPUs: " + d.Released + "."
	case !known:
		return "The GPU driver could not be asked: " + reasonText(d.Loaded.Meta().Reason) + "."
	case !loaded:
		return "No GPU driver answers."
	}
	text := "GPU driver"
	if v, ok := d.Version.Get(); ok {
		text += " " + v
	}
	if v, ok := d.CUDA.Get(); ok {
		text += ", CUDA up to " + v
	}
	return text + "."
}
