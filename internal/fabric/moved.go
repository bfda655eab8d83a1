// SPDX-License-Identifier: Apache-2.0

package fabric

import "slices"

// LocateMoved sets what the PCI bus shows of devices in other network namespaces that were never seen in this one.
func (n *Node) LocateMoved() {
	for i := range n.HCAs {
		h := &n.HCAs[i]
		f := n.PCI.NIC(h.Name)
		if !h.Moved || f == nil || h.Driver.State == OK {
			continue
		}
		h.Driver, h.NUMANode = f.Driver, f.NUMANode
		if f.PF.State == OK {
			h.Function = Known(FunctionVF, f.PF.Source, n.At)
		}
	}
}

// MayBeElsewhere reports whether a network namespace that is not seen from here may have the RDMA device of a
// function: where each has devices of its own, a container without any sees none of the host's. The host sees those of
// all namespaces: one that it does not see is gone.
func (n *Node) MayBeElsewhere(address string) bool {
	f := n.PCI.Function(address)
	return len(n.HCAs) == 0 && n.Host.RDMANetNS.Or("") == NetNSExclusive && f != nil && f.Driver.State != Absent
}

// MovedCompute counts the devices in other network namespaces whose ports were never seen and may be for
// training: likely are those near a GPU, or all where none is, and those of which the site says so; virtual
// functions and subfunctions are not counted, as on the host.
func (n *Node) MovedCompute() (likely, all int) {
	near, every := n.movedCompute()
	if len(near) == 0 {
		near = every
	}
	return len(near), len(every)
}

// LikelyMoved returns the devices among them, in the order of devices, that may be taken for rails: those near a GPU,
// or all where no rail is, and those of which the site says so. NCCL_IB_HCA excludes those that it does not take.
func (n *Node) LikelyMoved() []*HCA {
	likely, all := n.movedCompute()
	if len(likely) == 0 && !n.railNearGPU() {
		likely = all
	}
	list, listed := n.NCCL.Devices()
	return slices.DeleteFunc(likely, func(h *HCA) bool {
		_, said := n.Policy.RoleOf(h.Name)
		return listed && !said && !list.Takes(h.Name, 1)
	})
}

func (n *Node) railNearGPU() bool {
	for h, p := range n.Ports {
		if f := n.PCI.NIC(h.Name); p.Serves(RoleCompute) && f != nil && n.nearGPU(f) {
			return true
		}
	}
	return false
}

// movedCompute returns those near a GPU or of which the site says so, and all.
func (n *Node) movedCompute() (likely, all []*HCA) {
	for i := range n.HCAs {
		h := &n.HCAs[i]
		if !h.Moved || len(h.Ports) > 0 || h.Restricted.Or(false) || h.Lent() {
			continue
		}
		role, said := n.Policy.RoleOf(h.Name)
		if said && role != RoleCompute {
			continue
		}
		all = append(all, h)
		if f := n.PCI.NIC(h.Name); said || f != nil && n.nearGPU(f) {
			likely = append(likely, h)
		}
	}
	return likely, all
}

// Away is what is in another network namespace than the node's own, because a pod has it: an RDMA device as a whole, or
// the network interface of one of its ports.
type Away struct {
	Device string
	Port   int // 0: the whole device
}

// Elsewhere returns what is in other network namespaces, in the order of devices.
func (n *Node) Elsewhere() []Away {
	var list []Away
	for i := range n.HCAs {
		h := &n.HCAs[i]
		if h.Moved {
			list = append(list, Away{Device: h.Name})
			continue
		}
		for k := range h.Ports {
			if h.Ports[k].NetDevMoved() {
				list = append(list, Away{h.Name, h.Ports[k].Number})
			}
		}
	}
	return list
}
