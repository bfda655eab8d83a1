// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"iter"
	"time"
)

// Metas iterates over everything that is read of the device and its ports, by name, without values. Derived
// facts are not among them, nor is PortCounters.BeforeHW: it was read when it was HW.
func (h *HCA) Metas() iter.Seq2[string, Meta] {
	return func(yield func(string, Meta) bool) {
		ok := yield("node_type", h.NodeType.Meta()) && yield("driver", h.Driver.Meta()) && yield("fw_ver", h.Firmware.Meta()) &&
			yield("board_id", h.BoardID.Meta()) && yield("hca_type", h.Type.Meta()) && yield("hw_rev", h.Revision.Meta()) &&
			yield("node_guid", h.NodeGUID.Meta()) && yield("sys_image_guid", h.ImageGUID.Meta()) && yield("pci", h.PCI.Meta()) &&
			yield("numa_node", h.NUMANode.Meta()) && yield("function", h.Function.Meta()) && yield("restricted", h.Restricted.Meta()) && yield("hw_counters", h.HWCounters.Meta()) &&
			yield("netlink", h.Netlink.Meta())
		for i := range h.Ports {
			p := &h.Ports[i]
			ok = ok && yield("state", p.State.Meta()) && yield("phys_state", p.PhysState.Meta()) &&
				yield("link_layer", p.LinkLayer.Meta()) && yield("rate", p.Rate.Meta()) && yield("lid", p.LID.Meta()) &&
				yield("sm_lid", p.SMLID.Meta()) && yield("pkeys", p.PKeys.Meta()) && yield("netdev", p.NetDev.Meta()) &&
				yield("gid_table_size", p.GIDs.Size.Meta()) && yield("gids", p.GIDs.Entries.Meta()) &&
				yield("counters", p.Counters.PMA.Meta()) && yield("port_hw_counters", p.Counters.HW.Meta()) &&
				yield("cm", p.Counters.CM.Meta()) && yield("lifespan", p.Counters.Lifespan.Meta()) &&
				yield("traffic_class", p.TrafficClass.Meta()) && yield("default_roce_tos", p.DefaultToS.Meta())
		}
	}
}

// WithoutFacts returns a device of the same name with the same ports of which nothing is known now, for the
// given reason.
func (h *HCA) WithoutFacts(r Reason, at time.Time) HCA {
	const src = ""
	u := HCA{
		Name:     h.Name,
		NodeType: NotKnown[NodeType](r, src, at), Driver: NotKnown[string](r, src, at), Firmware: NotKnown[string](r, src, at),
		BoardID: NotKnown[string](r, src, at), Type: NotKnown[string](r, src, at), Revision: NotKnown[string](r, src, at),
		NodeGUID: NotKnown[string](r, src, at), ImageGUID: NotKnown[string](r, src, at), PCI: NotKnown[string](r, src, at),
		NUMANode: NotKnown[int](r, src, at), Function: NotKnown[Function](r, src, at), Restricted: NotKnown[bool](r, src, at),
		HWCounters: NotKnown[[]Counter](r, src, at), Netlink: NotKnown[bool](r, src, at),
	}
	for _, p := range h.Ports {
		u.Ports = append(u.Ports, Port{
			Number: p.Number, Seen: p.Seen,
			State: NotKnown[PortState](r, src, at), PhysState: NotKnown[PhysState](r, src, at),
			LinkLayer: NotKnown[LinkLayer](r, src, at), Rate: NotKnown[Rate](r, src, at), LID: NotKnown[int](r, src, at),
			SMLID: NotKnown[int](r, src, at), PKeys: NotKnown[int](r, src, at), NetDev: NotKnown[string](r, src, at),
			GIDs: GIDTable{Size: NotKnown[int](r, src, at), Entries: NotKnown[[]GID](r, src, at)},
			Counters: PortCounters{
				PMA: NotKnown[[]Counter](r, src, at), HW: NotKnown[[]Counter](r, src, at), BeforeHW: NotKnown[[]Counter](r, src, at),
				CM: NotKnown[[]Counter](r, src, at), Lifespan: NotKnown[time.Duration](r, src, at),
			},
			TrafficClass: NotKnown[TrafficClass](r, src, at), DefaultToS: NotKnown[int](r, src, at),
		})
	}
	return u
}

// Elsewhere returns the device as it is known while it is in another network namespace: what cannot change while a driver
// has it, and else nothing.
func (h *HCA) Elsewhere(at time.Time) HCA {
	u := h.WithoutFacts(ReasonMoved, at)
	u.Moved = true
	u.NodeType, u.Driver, u.Firmware, u.BoardID, u.Type, u.Revision = h.NodeType, h.Driver, h.Firmware, h.BoardID, h.Type, h.Revision
	u.NodeGUID, u.ImageGUID, u.PCI, u.NUMANode, u.Function, u.Restricted = h.NodeGUID, h.ImageGUID, h.PCI, h.NUMANode, h.Function, h.Restricted
	for i := range u.Ports {
		u.Ports[i].LinkLayer = h.Ports[i].LinkLayer
	}
	return u
}

// CountChanges returns how many entries differ between two readings of one table.
func CountChanges(before, after []GID) uint64 {
	var n uint64
	i, k := 0, 0
	for i < len(before) || k < len(after) {
		switch {
		case k == len(after) || i < len(before) && before[i].Index < after[k].Index:
			i++
			n++
		case i == len(before) || after[k].Index < before[i].Index:
			k++
			n++
		default:
			if before[i] != after[k] {
				n++
			}
			i++
			k++
		}
	}
	return n
}
