// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"encoding/binary"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpufabric_exporter/internal/fabric"
)

// linkPlan is how the NVLinks of a GPU are asked: found out when all facts are read, followed until they are again.
type linkPlan struct {
	numbers []int // of the links that the board has
	single  bool  // states come from nvmlDeviceGetNvLinkState, one by one: drivers before 510
	kinds   []linkError
	values  []nvml.FieldValue // scratch
}

// linkError is how a kind of errors is asked for.
type linkError struct {
	kind  fabric.NVLinkError
	field uint32
}

// linkErrorFields are all kinds with their fields. A GPU answers "not supported" for those of other generations; two
// fields have one meaning in different generations.
var linkErrorFields = []linkError{
	{fabric.NVLinkReplay, nvml.FI_DEV_NVLINK_ERROR_DL_REPLAY},
	{fabric.NVLinkRecovery, nvml.FI_DEV_NVLINK_ERROR_DL_RECOVERY},
	{fabric.NVLinkRecovery, nvml.FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS},
	{fabric.NVLinkCRC, nvml.FI_DEV_NVLINK_ERROR_DL_CRC},
	{fabric.NVLinkRecoveryFailed, nvml.FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS},
	{fabric.NVLinkReceive, nvml.FI_DEV_NVLINK_COUNT_RCV_ERRORS},
	{fabric.NVLinkLocalIntegrity, nvml.FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS},
	{fabric.NVLinkTransmitDiscards, nvml.FI_DEV_NVLINK_COUNT_XMIT_DISCARDS},
	{fabric.NVLinkEffectiveErrors, nvml.FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS},
}

// maxFields is how many fields are asked for with one call. NVML names no limit; this is far below any known.
const maxFields = 64

const symbolFields = "nvmlDeviceGetFieldValues"

// fields asks for one field of each scope. Entries that do not answer have the reason in NvmlReturn, all of
// them when the call itself fails. The result is good until the next call.
func (g *gpu) fields(ids []uint32, scopes []int) []nvml.FieldValue {
	v := g.links.values[:0]
	for _, s := range scopes {
		for _, id := range ids {
			v = append(v, nvml.FieldValue{FieldId: id, ScopeId: uint32(s), NvmlReturn: uint32(nvml.ERROR_UNKNOWN)})
		}
	}
	g.links.values = v
	for chunk := range slices.Chunk(v, maxFields) {
		ret := nvml.ERROR_FUNCTION_NOT_FOUND
		if g.lost {
			ret = nvml.ERROR_GPU_IS_LOST
		} else if g.r.has(symbolFields) {
			ret = g.dev.GetFieldValues(chunk)
			g.heard(ret)
		}
		for i := range chunk {
			if ret != nvml.SUCCESS {
				chunk[i].NvmlReturn = uint32(ret)
			} else if nvml.Return(chunk[i].NvmlReturn) == nvml.ERROR_GPU_IS_LOST {
				g.lost = true
			}
		}
	}
	return v
}

// number decodes a value by its type.
func number(v *nvml.FieldValue) fabric.Fact[uint64] {
	if ret := nvml.Return(v.NvmlReturn); ret != nvml.SUCCESS {
		return fabric.Fact[uint64]{Reason: reasonOf(ret)}
	}
	bad := fabric.Fact[uint64]{Reason: fabric.ReasonMalformed}
	var n uint64
	switch nvml.ValueType(v.ValueType) {
	case nvml.VALUE_TYPE_UNSIGNED_INT:
		n = uint64(binary.NativeEndian.Uint32(v.Value[:]))
	case nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG:
		n = binary.NativeEndian.Uint64(v.Value[:])
	case nvml.VALUE_TYPE_SIGNED_LONG_LONG:
		if n = binary.NativeEndian.Uint64(v.Value[:]); n>>63 != 0 {
			return bad
		}
	case nvml.VALUE_TYPE_SIGNED_INT:
		if n = uint64(binary.NativeEndian.Uint32(v.Value[:])); n>>31 != 0 {
			return bad
		}
	case nvml.VALUE_TYPE_UNSIGNED_SHORT:
		n = uint64(binary.NativeEndian.Uint16(v.Value[:]))
	default: // a double counts nothing
		return bad
	}
	return fabric.Fact[uint64]{State: fabric.OK, Value: n}
}

// refused reports whether an answer means "there is no such link", or no such field on this driver.
func refused(ret nvml.Return) bool {
	return ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_INVALID_ARGUMENT
}

// readLinks reads the NVLinks: their states always, errors and speeds when slow, and what they lead to once.
func (g *gpu) readLinks(t tier) {
	if t == all {
		g.f.NVLinks = to(once(g.r, g.planLinks()), func(numbers []int) ([]fabric.NVLink, bool) {
			links := make([]fabric.NVLink, len(numbers))
			for i, n := range numbers {
				links[i].Number = n
			}
			return links, true
		})
	}
	links, ok := g.f.NVLinks.Get()
	if !ok {
		return
	}
	g.readStates(links)
	if t >= slow {
		g.readSpeedsAndErrors(links, t == all)
	}
	if t == all {
		for i := range links {
			g.readRemote(&links[i])
		}
	}
	for i := range links {
		// A link that came up leads somewhere now.
		if l := &links[i]; l.Active.Or(false) && (l.Remote.Reason == fabric.ReasonUnsupported ||
			l.Remote.Reason == fabric.ReasonIO) && t != all {
			g.r.again = true
		}
	}
}

// planLinks finds the links that the board has.
func (g *gpu) planLinks() fabric.Fact[[]int] {
	p := &g.links
	p.kinds = nil
	v := g.fields([]uint32{nvml.FI_DEV_NVLINK_LINK_COUNT}, []int{0})[0]
	count, known := maxLinks, false
	switch ret := nvml.Return(v.NvmlReturn); {
	case ret == nvml.SUCCESS:
		n := number(&v)
		if n.State != fabric.OK || n.Value > maxLinks {
			return fabric.Fact[[]int]{Reason: fabric.ReasonMalformed}
		}
		count, known = int(n.Value), true
	case !refused(ret) && ret != nvml.ERROR_FUNCTION_NOT_FOUND:
		return fabric.Fact[[]int]{Reason: reasonOf(ret)}
	}
	if count == 0 {
		return fabric.Fact[[]int]{State: fabric.Absent}
	}
	p.numbers = p.numbers[:0]
	for n := range count {
		p.numbers = append(p.numbers, n)
	}
	p.single = false
	if known {
		values := g.fields([]uint32{nvml.FI_DEV_NVLINK_GET_STATE}, p.numbers)
		p.numbers = slices.DeleteFunc(p.numbers, func(n int) bool { return refused(nvml.Return(values[n].NvmlReturn)) })
		if len(p.numbers) > 0 {
			return fabric.Fact[[]int]{State: fabric.OK, Value: p.numbers}
		}
	}
	return g.planSingle(count)
}

// planSingle finds the links by asking for each until there are no more.
func (g *gpu) planSingle(count int) fabric.Fact[[]int] {
	if !g.r.has("nvmlDeviceGetNvLinkState") {
		return fabric.Fact[[]int]{Reason: fabric.ReasonMissing}
	}
	p := &g.links
	p.single = true
	p.numbers = p.numbers[:0]
	for n := range count {
		_, ret := g.dev.GetNvLinkState(n)
		g.heard(ret)
		if ret == nvml.ERROR_INVALID_ARGUMENT { // beyond the last
			break
		}
		if ret != nvml.ERROR_NOT_SUPPORTED {
			p.numbers = append(p.numbers, n)
		}
	}
	if len(p.numbers) == 0 {
		return fabric.Fact[[]int]{State: fabric.Absent}
	}
	return fabric.Fact[[]int]{State: fabric.OK, Value: p.numbers}
}

func (g *gpu) readStates(links []fabric.NVLink) {
	if g.links.single {
		for i := range links {
			links[i].Active = to(get(g, unsupported, func() (nvml.EnableState,
				nvml.Return,
			) {
				return g.dev.GetNvLinkState(links[i].Number)
			},
				"nvmlDeviceGetNvLinkState"), func(s nvml.EnableState) (bool, bool) { return enabled(int(s)) })
		}
		return
	}
	values := g.fields([]uint32{nvml.FI_DEV_NVLINK_GET_STATE}, g.links.numbers)
	for i := range links {
		links[i].Active = to(number(&values[i]), active)
	}
}

// active decodes NVML_NVLINK_STATE_*. A link that sleeps to save power is up: it wakes with the first packet. One whose
// traffic is disabled carries nothing.
func active(state uint64) (bool, bool) {
	return state == nvml.NVLINK_STATE_ACTIVE || state == nvml.NVLINK_STATE_SLEEP,
		state <= nvml.NVLINK_STATE_ACTIVE_TRAFFIC_DISABLED
}

// readSpeedsAndErrors asks for all kinds of errors first, and then for those that some link counts.
func (g *gpu) readSpeedsAndErrors(links []fabric.NVLink, first bool) {
	p := &g.links
	if first || len(p.kinds) == 0 {
		p.kinds = linkErrorFields
	}
	ids := make([]uint32, 0, 1+len(linkErrorFields))
	ids = append(ids, nvml.FI_DEV_NVLINK_GET_SPEED)
	for _, k := range p.kinds {
		ids = append(ids, k.field)
	}
	values := g.fields(ids, p.numbers)
	counted := make([]bool, len(p.kinds))
	for i := range links {
		l, v := &links[i], values[i*len(ids):(i+1)*len(ids)]
		l.Speed = to(number(&v[0]), func(n uint64) (float64, bool) { return float64(n) * 1e6, n > 0 && n < 1e6 })
		l.Errors = l.Errors[:0]
		for k := range p.kinds {
			if refused(nvml.Return(v[1+k].NvmlReturn)) || slices.ContainsFunc(l.Errors,
				func(e fabric.NVLinkErrors) bool { return e.Kind == p.kinds[k].kind }) {
				continue
			}
			counted[k] = true
			l.Errors = append(l.Errors, fabric.NVLinkErrors{Kind: p.kinds[k].kind, Count: number(&v[1+k])})
		}
	}
	if kept := keep(p.kinds, counted); first && !g.lost {
		p.kinds = kept
	}
}

// keep returns the kinds that are counted, or all when none is: then the answer was no good.
func keep(kinds []linkError, counted []bool) []linkError {
	var kept []linkError
	for i, c := range counted {
		if c {
			kept = append(kept, kinds[i])
		}
	}
	if kept == nil {
		return kinds
	}
	return kept
}

// readRemote reads what a link leads to. Links that are down do not say.
func (g *gpu) readRemote(l *fabric.NVLink) {
	l.Remote = to(once(g.r, get(g, unsupported, func() (nvml.PciInfo,
		nvml.Return,
	) {
		return g.dev.GetNvLinkRemotePciInfo(l.Number)
	},
		"nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemotePciInfo")),
		func(p nvml.PciInfo) (string, bool) { return addressOf(&p), true })
	l.RemoteKind = to(once(g.r, get(g, unsupported, func() (nvml.IntNvLinkDeviceType,
		nvml.Return,
	) {
		return g.dev.GetNvLinkRemoteDeviceType(l.Number)
	},
		"nvmlDeviceGetNvLinkRemoteDeviceType")), func(t nvml.IntNvLinkDeviceType) (fabric.NVLinkEnd,
		bool,
	) {
		return valueOf(linkEnds, int(t))
	})
}
