// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// HasNVIDIA reports whether there is any GPU that NVML would know.
func HasNVIDIA(gpus []verdict.GPU) bool { return slices.ContainsFunc(gpus, verdict.GPU.IsNVIDIA) }

// DriverText says whether there is a GPU driver to ask, and which.
func DriverText(d *fabric.GPUDriver) string {
	loaded, known := d.Loaded.Get()
	why, unreached := d.Unreached()
	switch {
	case d.Released != "":
		return "The exporter has released the GPUs: " + d.Released + "."
	case unreached:
		return "The GPU driver is loaded, but " + why + "."
	case !known:
		return "The GPU driver could not be queried: " + verdict.ReasonText(d.Loaded.Meta().Reason) + "."
	case !loaded:
		return "No GPU driver responds."
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

// Notes are what is worth knowing of how the node is built, and no trouble.
func Notes(n *fabric.Node, gpus []verdict.GPU) []string {
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
	if spare, _ := spareNICs(n); len(spare) > 0 { // a trouble
		nics = nil
	}
	for _, nic := range nics {
		notes = append(notes, fmt.Sprintf("%s share %s: the node has fewer NICs than GPUs, so they share its bandwidth.",
			strings.Join(shared[nic], ", "), nic))
	}
	far := slices.ContainsFunc(gpus, func(g verdict.GPU) bool {
		block, blocked := g.Blocked()
		return blocked && block == fabric.GDRDistance
	})
	if far && noneNear(gpus).Or(false) {
		notes = append(notes,
			"No GPU is near enough to a NIC for GPUDirect RDMA by NCCL's default; this is the design of the machine. "+
				"NCCL_NET_GDR_LEVEL=PHB or SYS enables it; measure whether that is faster.")
	}
	return notes
}
