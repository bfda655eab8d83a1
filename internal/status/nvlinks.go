// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"

	"gpufabric_exporter/internal/fabric"
)

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
				return fabric.UnknownFact[int](l.Active.Meta().Reason, l.Active.Source, l.Active.At)
			}
			if !active {
				continue
			}
			kind, ok := l.RemoteKind.Get()
			if !ok {
				return fabric.UnknownFact[int](l.RemoteKind.Meta().Reason, l.RemoteKind.Source, l.RemoteKind.At)
			}
			switch remote, known := l.Remote.Get(); {
			case kind == fabric.NVLinkToSwitch:
				switched[i]++
			case kind == fabric.NVLinkToGPU && !known:
				return fabric.UnknownFact[int](l.Remote.Meta().Reason, l.Remote.Source, l.Remote.At)
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
