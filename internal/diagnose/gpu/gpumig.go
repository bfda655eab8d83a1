// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"fmt"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// judgeDivided fails GPUs with MIG on where most GPUs of the same name have it off. What is not known of a peer
// counts for neither side.
func judgeDivided(n *fabric.Node, v *verdict.Verdicts) {
	all := v.GPUs(n)
	for _, g := range all {
		if g.Driver == nil || g.Lost() || g.Driver.MIG.State == fabric.Absent {
			continue
		}
		s := g.Subject()
		divided, known := g.Driver.MIG.Get()
		switch {
		case !known:
			v.Hidden(s, g.Driver.MIG.Meta(), "Whether MIG is on for the GPU")
			continue
		case !divided:
			v.OK(s)
			continue
		}
		parted, whole, hidden := 0, 0, 0
		var unread fabric.Meta
		for _, p := range all {
			if p.Driver == nil || p.Lost() || p.Driver.MIG.State == fabric.Absent {
				continue
			}
			mig, known := p.Driver.MIG.Get()
			same := sameName(g.Driver, p.Driver)
			switch {
			case same.State == fabric.OK && !same.Value:
			case same.State != fabric.OK:
				hidden, unread = hidden+1, same.Meta()
			case !known:
				hidden, unread = hidden+1, p.Driver.MIG.Meta()
			case mig:
				parted++
			default:
				whole++
			}
		}
		switch {
		case whole > parted+hidden:
			v.Failed(s, verdict.Verdict{
				Evidence:    fmt.Sprintf("MIG is on for %d of %d GPUs of this model.", parted, parted+whole+hidden),
				Consequence: "MIG instances have no peer-to-peer access to other GPUs and no NVLink: jobs that need all GPUs of the node cannot run.",
				Remedy: fmt.Sprintf("If the MIG instances are not needed: drain the node, run nvidia-smi -i %d -mig 0, and reset the GPU (nvidia-smi --gpu-reset -i %d) "+
					"if the change stays pending.", g.Driver.Index, g.Driver.Index),
			})
		case whole+hidden <= parted:
			v.OK(s)
		default:
			v.Hidden(s, unread, "Whether MIG is on for its peers")
		}
	}
}

// sameName reports whether two GPUs are of one model.
func sameName(a, b *fabric.GPU) fabric.Fact[bool] {
	own, known := a.Name.Get()
	other, also := b.Name.Get()
	switch {
	case a == b || a.Index == b.Index:
		return fabric.Known(true, "index", a.Name.At)
	case !known:
		return fabric.UnknownFact[bool](a.Name.Meta().Reason, a.Name.Source, a.Name.At)
	case !also:
		return fabric.UnknownFact[bool](b.Name.Meta().Reason, b.Name.Source, b.Name.At)
	}
	return fabric.Known(own == other, a.Name.Source, a.Name.At)
}
