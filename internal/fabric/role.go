// SPDX-License-Identifier: Apache-2.0

package fabric

import "slices"

// deriveRoles gives each port its role. Ports without evidence for another role are compute; of these, those of DPUs are
// management (withoutDPUs), those are storage that stand beside the rails (standBeside), and of the rest those of NICs that are out
// of the way of all GPUs (outOfTheWay). Where the bus could not be read, slower NICs have no role.
func (n *Node) deriveRoles() {
	var open []openPort
	virtual := n.virtualRails()
	for i := range n.HCAs {
		h := &n.HCAs[i]
		for k := range h.Ports {
			p := &h.Ports[k]
			var settled bool
			if p.Role, settled = n.roleOf(h, p, virtual); !settled {
				open = append(open, openPort{h, p})
			}
		}
	}
	open = n.withoutDPUs(open)
	beside := n.standBeside(open)
	open = slices.DeleteFunc(open, func(o openPort) bool {
		source, found := beside[o.p]
		if found {
			o.p.Role = Known(RoleStorage, source, n.At)
		}
		return found
	})
	var candidates []*HCA
	for _, o := range open {
		if !slices.Contains(candidates, o.h) {
			candidates = append(candidates, o.h)
		}
	}
	far, unread := n.outOfTheWay(candidates), n.busUnread()
	for _, o := range open {
		switch {
		case slices.Contains(far, o.h):
			o.p.Role = Known(RoleStorage, "bus/pci/devices", n.At)
		case unread != nil && n.slowerThanAny(o.h, candidates):
			o.p.Role = unknownLike[Role](*unread)
		}
	}
}

// busUnread says why nothing is known of the PCI bus; nil: it was read once.
func (n *Node) busUnread() *Meta {
	i := slices.IndexFunc(n.Sources, func(s Source) bool { return s.Name == SourcePCI && !s.Up })
	if i < 0 || len(n.PCI.Functions) > 0 {
		return nil
	}
	return &Meta{Reason: n.Sources[i].Reason, Source: "bus/pci/devices", At: n.At}
}

// slowerThanAny reports whether a device of another board is faster than the board of this one: its place would say whether it stands
// beside the rails.
func (n *Node) slowerThanAny(h *HCA, others []*HCA) bool {
	b := railside{n: n}
	return slices.ContainsFunc(others, func(o *HCA) bool { return b.otherBoard(h, o) && n.speed(o) > n.speed(h) })
}

// roleOf applies the site's rule, else what the port itself shows. A role that is not settled is only where nothing
// else is known: compute. Virtual are functions that are rails (virtualRails).
func (n *Node) roleOf(h *HCA, p *Port, virtual []*HCA) (role Fact[Role], settled bool) {
	is := func(r Role, source string) Fact[Role] { return Known(r, source, n.At) }
	if r, ok := n.Policy.RoleOf(h.Name); ok {
		return is(r, "config roles"), true
	}
	if h.Restricted.Or(false) {
		return is(RoleManagement, h.Restricted.Source), true
	}
	if own := slices.Contains(virtual, h); h.Lent() && !own || n.physicalOf(h, virtual) {
		return is(RoleUnused, h.Function.Source), true
	}
	layer, known := p.LinkLayer.Get()
	if !known {
		return UnknownFact[Role](p.LinkLayer.Meta().Reason, p.LinkLayer.Source, n.At), !isBlueField(h)
	}
	if layer == LinkInfiniBand {
		return is(RoleCompute, p.LinkLayer.Source), false
	}
	if d := n.NetDev(p.NetDev.Or("")); d != nil && d.DefaultRoute.Or(false) && !n.NCCL.names(h, p) {
		return is(RoleManagement, d.DefaultRoute.Source), true
	}
	return is(RoleCompute, p.LinkLayer.Source), false
}

// outOfTheWay returns those of the candidates that no training traffic has a reason to take:
//
//   - other compute NICs are near GPUs, which is to say below a common switch (PIX, PXB), and this one is near none;
//   - each GPU has one of those near NICs at least as near as this one. Where a GPU's only NIC of its own socket is far
//     from it, that one stays compute;
//   - NICs of the same board as the near ones stay compute unless there are more of them than GPUs without a near NIC to
//     itself: one that is missed by a GPU is plugged in wrong rather than meant for storage.
//
// Distances are those of the PCI bus alone, so that roles do not change when the GPU driver comes or goes. One that is
// not known, and a node without GPUs, is evidence for compute.
func (n *Node) outOfTheWay(candidates []*HCA) []*HCA {
	gpus := n.PCI.GPUs()
	var near, far []*HCA
	distances := map[string][]Distance{} // by device, in the order of gpus
	for i := range n.HCAs {
		h := &n.HCAs[i]
		f := n.PCI.NIC(h.Name)
		if f == nil || !n.mayCompute(h, f) {
			continue
		}
		row := make([]Distance, 0, len(gpus))
		for _, g := range gpus {
			if d, ok := DistanceOf(g, f, n.Host.Hypervisor, n.At).Get(); ok {
				row = append(row, d)
			}
		}
		switch {
		case len(row) < len(gpus) || len(row) == 0:
		case slices.Min(row) <= DistancePXB:
			near = append(near, h)
		case slices.Contains(candidates, h):
			far = append(far, h)
		}
		distances[h.Name] = row
	}
	if len(near) == 0 || len(far) == 0 {
		return nil
	}
	nearest := slices.Repeat([]Distance{DistanceSYS}, len(gpus))
	for _, h := range near {
		for g, d := range distances[h.Name] {
			nearest[g] = min(nearest[g], d)
		}
	}
	alike := func(h *HCA) bool {
		return h.BoardID.State == Unknown || h.Type.State == Unknown || slices.ContainsFunc(near, func(o *HCA) bool { return sameBoard(h, o) })
	}
	spare := 0
	for _, h := range far {
		if alike(h) {
			spare++
		}
	}
	missed := n.withoutOwn(near) >= spare
	return slices.DeleteFunc(far, func(h *HCA) bool {
		for g, d := range distances[h.Name] {
			if d < nearest[g] {
				return true
			}
		}
		return missed && alike(h)
	})
}

// eachHasItsOwn reports whether each GPU can have one of these NICs to itself, and a near one.
func (n *Node) eachHasItsOwn(nics []*HCA) bool { return n.withoutOwn(nics) == 0 }

// withoutOwn counts the GPUs that cannot.
func (n *Node) withoutOwn(nics []*HCA) (count int) {
	taken := map[string]bool{}
	for _, r := range n.dealOnBus(nics) {
		if r.Distance.Or(DistanceSYS) > DistancePXB || taken[r.NIC] {
			count++
			continue
		}
		taken[r.NIC] = true
	}
	return count
}

// dealOnBus deals NICs out to the GPUs by the PCI bus alone.
func (n *Node) dealOnBus(nics []*HCA) []Rail {
	var names []string
	for _, h := range nics {
		names = append(names, h.Name)
	}
	return n.deal(names, func(gpu, nic *PCIFunction) Fact[Distance] { return DistanceOf(gpu, nic, n.Host.Hypervisor, n.At) })
}
