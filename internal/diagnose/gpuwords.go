// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// HasNVIDIA tells whether there is any GPU that NVML would know.
func HasNVIDIA(gpus []GPU) bool { return slices.ContainsFunc(gpus, GPU.IsNVIDIA) }

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

// DriverText says whether there is a GPU driver to ask, and which.
func DriverText(d *fabric.GPUDriver) string {
	loaded, known := d.Loaded.Get()
	switch {
	case d.Released != "":
		return "The exporter has let go of the GPUs: " + d.Released + "."
	case !known:
		return "The GPU driver could not be asked: " + ReasonText(d.Loaded.Meta().Reason) + "."
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

// GPUNotes are what is worth knowing of how the node is built, and no trouble.
func GPUNotes(n *fabric.Node, gpus []GPU) []string {
	var notes []string
	shared := map[string][]string{}
	var nics []string
	for _, g := range gpus {
		if g.Rail != nil && g.Rail.Shared {
			if shared[g.Rail.NIC] == nil {
				nics = append(nics, g.Rail.NIC)
			}
			shared[g.Rail.NIC] = append(shared[g.Rail.NIC], g.Name)
		}
	}
	if spare, _ := SpareNICs(n); len(spare) > 0 { // a trouble
		nics = nil
	}
	for _, nic := range nics {
		notes = append(notes, fmt.Sprintf("%s share %s: the node has fewer NICs than GPUs, and each gets its part of the bandwidth.", strings.Join(shared[nic], ", "), nic))
	}
	far := slices.ContainsFunc(gpus, func(g GPU) bool {
		block, blocked := g.Blocked()
		return blocked && block == fabric.GDRDistance
	})
	if far && FarByDesign(gpus).Or(false) {
		notes = append(notes, "No GPU is near enough to a NIC for GPUDirect RDMA by NCCL's default: so the machine is built. "+
			"NCCL_NET_GDR_LEVEL=PHB or SYS makes NCCL try; measure whether that is faster.")
	}
	return notes
}
