// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"

	"gpufabric_exporter/internal/fabric"
)

func hasGPUDirect(n *fabric.Node) (bool, string) {
	if len(n.PCI.GPUs()) == 0 {
		return false, "no GPU is on the PCI bus"
	}
	for i := range n.GDR {
		if n.GDR[i].NIC != "" {
			return true, ""
		}
	}
	return false, "no compute NIC is on the PCI bus"
}

func collectGPUDirect(n *fabric.Node, emit emit) {
	known, unusable := false, 0
	for i := range n.GDR {
		d := &n.GDR[i]
		collectGDR(n, d, emit)
		if usable, told := d.Usable.Get(); told && d.NIC != "" {
			known = true
			if !usable {
				unusable++
			}
		}
	}
	if known {
		emit(gpudirectUnusable, float64(unusable))
	}
	d := &n.GPUDirect
	switch peermem, ok := d.Peermem.Get(); {
	case ok:
		emit(gpudirectPeermemLoaded, 1)
		boolean(emit, gpudirectPeermemBound, peermem.Bound)
		number(emit, gpudirectPeermemRegions, peermem.Registered)
	case d.Peermem.State == fabric.Absent:
		emit(gpudirectPeermemLoaded, 0)
	}
	boolean(emit, gpudirectOpenModule, d.OpenModule)
}

// collectGDR is about one GPU and the NIC that it is dealt.
func collectGDR(n *fabric.Node, d *fabric.GDR, emit emit) {
	uuid := ""
	if g := n.GPUDriver.At(d.GPU); g != nil {
		uuid = label(g.UUID)
	}
	if d.NIC == "" {
		return
	}
	at := []string{d.GPU, uuid, d.NIC}
	and := func(more string) []string { return append(slices.Clip(at), more) }
	if d.Path != "" {
		emit(gpudirectPath, 1, and(string(d.Path))...)
	}
	switch usable, known := d.Usable.Get(); {
	case known:
		emit(gpudirectUsable, bit(usable), at...)
		if d.Block != "" {
			emit(gpudirectBlocked, 1, and(string(d.Block))...)
		}
	case d.Usable.State == fabric.Unknown:
		emit(gpudirectUnknown, 1, and(string(d.Usable.Meta().Reason))...)
	}
}
