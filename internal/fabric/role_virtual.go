// SPDX-License-Identifier: Apache-2.0

package fabric

import "slices"

// virtualRails returns the virtual functions and subfunctions that NCCL_IB_HCA of the host takes while it takes no other device: the
// host has them for its own training, as the one over all planes of each ConnectX-8 in Oracle's GB300. A list that takes physical
// functions, too, may match them by chance.
func (n *Node) virtualRails() (rails []*HCA) {
	list, listed := n.NCCL.Devices()
	if !listed || list.Exclude {
		return nil
	}
	for i := range n.HCAs {
		h := &n.HCAs[i]
		switch takes := slices.ContainsFunc(h.Ports, func(p Port) bool { return list.Takes(h.Name, p.Number) }); {
		case takes && !h.Lent():
			return nil
		case takes:
			rails = append(rails, h)
		}
	}
	return rails
}

// physicalOf reports whether one of these functions is a part of the device.
func (n *Node) physicalOf(h *HCA, parts []*HCA) bool {
	return slices.ContainsFunc(parts, func(part *HCA) bool {
		physical := part.PCI // of a subfunction
		if f := n.PCI.NIC(part.Name); f != nil && f.PF.State == OK {
			physical = f.PF
		}
		return part != h && physical.State == OK && physical.Value == h.PCI.Or("")
	})
}
