// SPDX-License-Identifier: Apache-2.0

package fabric

import "slices"

// bluefield are the hca_type values of BlueField-1 to 4 (PCI device ids 0xa2d2, 0xa2d6, 0xa2dc and 0xa2df of mlx5_core).
var bluefield = map[string]bool{"MT41682": true, "MT41686": true, "MT41692": true, "MT41695": true}

func isBlueField(h *HCA) bool { return bluefield[h.Type.Or("")] }

// withoutDPUs gives the ports of BlueFields that are no rails the role management, and returns the other open ports. A DPU beside
// the rails carries management and storage, while a SuperNIC is a rail: NVIDIA's Spectrum-X has one for each GPU. Both have the same
// chip, so that boards and places decide.
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
	for len(fields) > 0 {
		board := slices.DeleteFunc(slices.Clone(fields), func(h *HCA) bool { return h != fields[0] && !sameBoard(h, fields[0]) })
		if n.areRails(board, others, open) {
			rails = append(rails, board...)
		}
		fields = slices.DeleteFunc(fields, func(h *HCA) bool { return slices.Contains(board, h) })
	}
	return slices.DeleteFunc(open, func(o openPort) bool {
		dpu := isBlueField(o.h) && !slices.Contains(rails, o.h)
		if dpu {
			o.p.Role = Known(RoleManagement, o.h.Type.Source, n.At)
		}
		return dpu
	})
}

// areRails reports whether BlueFields of one board are SuperNICs, beside NICs with other chips that may be rails:
//
//   - NCCL_IB_HCA takes a port of theirs, leaves other devices out and takes none of the others, or
//   - most GPUs have one of them near, shared by two GPUs at most, and none of the others that has at least half their rate, or
//   - no NIC is near a GPU, there is a card for most GPUs, and none of the others has at least half their rate.
//
// Half of the GPUs are not enough: a rail that left the bus makes no rail of a DPU.
func (n *Node) areRails(board, others []*HCA, open []openPort) bool {
	list, listed := n.NCCL.Devices()
	b := railside{n: n, list: list}
	leaves := slices.ContainsFunc(open, func(o openPort) bool { return !b.takes(o.h) })
	if listed && leaves && slices.ContainsFunc(board, b.takes) && !slices.ContainsFunc(others, b.takes) {
		return true
	}
	own := n.speed(board[0])
	others = slices.DeleteFunc(slices.Clone(others), func(h *HCA) bool { speed := n.speed(h); return speed > 0 && 2*speed < own })
	gpus := n.PCI.GPUs()
	if n.nearMost(gpus, board) {
		return !b.serve(others, 0, false)
	}
	var cards []*HCA
	for _, h := range board {
		if !slices.ContainsFunc(cards, func(c *HCA) bool { return sameCard(c, h) }) {
			cards = append(cards, h)
		}
	}
	near := func(h *HCA) bool { f := n.PCI.NIC(h.Name); return f != nil && n.nearAny(gpus, f) }
	return len(gpus) > 0 && len(cards) > 1 && 2*len(cards) > len(gpus) && len(others) == 0 && !slices.ContainsFunc(board, near)
}

// nearMost reports whether most GPUs have one of these NICs near, and share it with one other GPU at most.
func (n *Node) nearMost(gpus []*PCIFunction, nics []*HCA) bool {
	dealt := n.dealOnBus(nics)
	users := map[string]int{}
	for _, r := range dealt {
		users[r.NIC]++
	}
	served := 0
	for _, r := range dealt {
		if r.NIC != "" && r.Distance.Or(DistanceSYS) <= DistancePXB && users[r.NIC] <= 2 {
			served++
		}
	}
	return 2*served > len(gpus)
}
