// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"slices"
)

// bluefield are the hca_type values of BlueField-1 to 4 (PCI device ids 0xa2d2, 0xa2d6, 0xa2dc and 0xa2df of mlx5_core).
var bluefield = map[string]bool{"MT41682": true, "MT41686": true, "MT41692": true, "MT41695": true}

func isBlueField(h *HCA) bool { return bluefield[h.Type.Or("")] }

// withoutDPUs gives the ports of BlueFields that are no rails the role management, and returns the other open ports. A DPU beside
// the rails carries management and storage, while a SuperNIC is a rail: NVIDIA's Spectrum-X has one for each GPU. Both have the same
// chip, so that ports, places and numbers decide. Boards do not: a SuperNIC is sold with several PSIDs, with encryption and without.
func (n *Node) withoutDPUs(open []openPort) []openPort {
	var fields, others []*HCA
	for _, o := range open {
		of := &others
		if isBlueField(o.h) {
			of = &fields
		}
		if !slices.Contains(*of, o.h) {
			*of = append(*of, o.h)
		}
	}
	if len(fields) == 0 {
		return open
	}
	var rails []*HCA
	for _, kind := range n.blueFieldKinds(fields) {
		if n.areRails(kind, slices.Concat(others, rails), open) {
			rails = append(rails, kind...)
		}
	}
	rail := func(h *HCA) bool {
		return slices.ContainsFunc(rails, func(r *HCA) bool { return r == h || sameBoard(r, h) })
	}
	return slices.DeleteFunc(open, func(o openPort) bool {
		dpu := isBlueField(o.h) && !rail(o.h)
		if dpu {
			o.p.Role = Known(RoleManagement, o.h.Type.Source, n.At)
		}
		return dpu
	})
}

// blueFieldKinds divides BlueFields by chip, number of devices of the card, and whether they are near a GPU. A bond of the ports of
// a card is one device, and of a kind of its own. Kinds with the most cards come first.
func (n *Node) blueFieldKinds(fields []*HCA) (kinds [][]*HCA) {
	type kind struct {
		chip    string
		devices int
		bond    bool
		near    bool
	}
	gpus, at, widths := n.PCI.GPUs(), map[kind]int{}, map[*HCA]int{}
	for _, h := range fields {
		for _, o := range fields {
			if sameCard(o, h) {
				widths[h]++
			}
		}
	}
	for _, h := range fields {
		k := kind{chip: h.Type.Or(""), bond: slices.ContainsFunc(h.Ports, n.isBond)}
		if f := n.PCI.NIC(h.Name); f != nil {
			k.near = n.nearAny(gpus, f)
		}
		for _, o := range fields {
			if o == h || sameBoard(o, h) { // one of two devices may have left
				k.devices = max(k.devices, widths[o])
			}
		}
		i, found := at[k]
		if !found {
			i, kinds = len(kinds), append(kinds, nil)
			at[k] = i
		}
		kinds[i] = append(kinds[i], h)
	}
	slices.SortStableFunc(kinds, func(a, b []*HCA) int { return cmp.Compare(cards(b), cards(a)) })
	return kinds
}

func (n *Node) isBond(p Port) bool {
	d := n.NetDev(p.NetDev.Or(""))
	return d != nil && d.Bond.Or(false)
}

// cards counts the cards of these devices.
func cards(nics []*HCA) (count int) {
	for i, h := range nics {
		if !slices.ContainsFunc(nics[:i], func(o *HCA) bool { return sameCard(o, h) }) {
			count++
		}
	}
	return count
}

// areRails reports whether BlueFields of one kind are SuperNICs, beside other NICs that may be rails:
//
//   - NCCL_IB_HCA names a device of theirs as a whole ("="), or
//   - NCCL_IB_HCA takes a port of theirs, leaves other devices out and takes none of the others, or
//   - most GPUs have one of them near, or more than two where there are more than two cards, shared by two GPUs at most; and most
//     GPUs have none of the others near, or
//   - no NIC is near a GPU, there is a card for most GPUs, and there are none of the others.
//
// Others with less than half of their rate, or at most two thirds as many cards, do not count in the last two. Two cards that are near
// half of the GPUs are not enough: a rail that left the bus makes no rail of a DPU.
func (n *Node) areRails(kind, others []*HCA, open []openPort) bool {
	list, listed := n.NCCL.Devices()
	b := railside{n: n, list: list}
	leaves := slices.ContainsFunc(open, func(o openPort) bool { return !b.takes(o.h) })
	named := list.Exact && !list.Exclude
	if listed && slices.ContainsFunc(kind, b.takes) && (named || leaves && !slices.ContainsFunc(others, b.takes)) {
		return true
	}
	gpus, count := n.PCI.GPUs(), cards(kind)
	var own float64
	for _, h := range kind {
		own = max(own, n.speed(h))
	}
	others = slices.DeleteFunc(slices.Clone(others), func(h *HCA) bool { speed := n.speed(h); return speed > 0 && 2*speed < own })
	if 3*cards(others) <= 2*count {
		others = nil
	}
	if near := n.served(kind); 2*near > len(gpus) || count > 2 && near > 2 {
		return !b.serve(others, 0, false)
	}
	near := func(h *HCA) bool { f := n.PCI.NIC(h.Name); return f != nil && n.nearAny(gpus, f) }
	return len(gpus) > 0 && count > 1 && 2*count > len(gpus) && len(others) == 0 && !slices.ContainsFunc(kind, near)
}

// served counts the GPUs that have one of these NICs near, and share it with one other such GPU at most.
func (n *Node) served(nics []*HCA) (count int) {
	users := map[string]int{}
	for _, r := range n.dealOnBus(nics) {
		if r.NIC != "" && r.Distance.Or(DistanceSYS) <= DistancePXB {
			users[r.NIC]++
		}
	}
	for _, gpus := range users {
		if gpus <= 2 {
			count += gpus
		}
	}
	return count
}
