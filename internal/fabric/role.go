// SPDX-License-Identifier: Apache-2.0

package fabric

import "slices"

// deriveRoles gives each port its role: that of the first source that says one, else a simple guess
// (docs/ROLES.md). No rule counts NICs, compares boards, rates or distances, or lets a port take the place of
// one that is gone.
func (n *Node) deriveRoles() {
	list, listed := n.NCCL.Devices()
	silent := n.routesSayNothing()
	for i := range n.HCAs {
		h := &n.HCAs[i]
		for k := range h.Ports {
			p := &h.Ports[k]
			role, by, source := n.roleStated(h, p)
			switch {
			case by != "":
			case n.NCCL.names(h, p), listed && list.Takes(h.Name, p.Number) && !h.Part() && !h.Software() &&
				!n.byChance(list, h):
				v, _ := n.NCCL.Lookup("NCCL_IB_HCA")
				role, by, source = RoleCompute, ByNCCL, v.Source
			default:
				role, by, source = n.roleOfProfile(h, p)
				if by == "" {
					role, source = n.roleGuessed(h, p, silent)
					by = ByNobody
				}
				if by == ByNobody && role == RoleCompute && n.outsideProfile(h, p) {
					role, by, source = RoleStorage, ByProfile, "profile "+n.Profile.Name
				}
				if role == RoleCompute && listed { // whatever it is for, NCCL does not use it
					v, _ := n.NCCL.Lookup("NCCL_IB_HCA")
					role, by, source = RoleStorage, ByNCCL, v.Source
				}
			}
			p.Role, p.RoleBy = Known(role, source, n.At), by
		}
	}
}

// byChance reports whether NCCL_IB_HCA takes a device only because its name begins with that of another one:
// mlx5_1 takes mlx5_11. Check nccl_devices_prefix reports it.
func (n *Node) byChance(list NameFilter, h *HCA) bool {
	return !list.Exclude && !slices.ContainsFunc(list.Items, func(i NameItem) bool {
		return list.Matches(i, h.Name, -1) && (i.Name == h.Name || n.HCA(i.Name) == nil)
	})
}

// roleStated is what configuration, kernel, manifest or profile say of a port; empty where none does.
func (n *Node) roleStated(h *HCA, p *Port) (role Role, by Authority, source string) {
	if r, ok := n.Policy.RoleOf(h.Name); ok {
		return r, ByConfiguration, "config roles"
	}
	if h.Restricted.Or(false) {
		return RoleManagement, ByKernel, h.Restricted.Source
	}
	if r, ok := n.Policy.Manifest.roleOf(h, p); ok {
		return r, ByManifest, "manifest"
	}
	return "", "", ""
}

// roleOfProfile is what the profile of the platform says of a port; empty: nothing.
func (n *Node) roleOfProfile(h *HCA, p *Port) (Role, Authority, string) {
	if e := n.inProfile(h, p); e != nil {
		return e.Role, ByProfile, "profile " + n.Profile.Name
	}
	return "", "", ""
}

// inProfile is the entry of the profile that a port belongs to; nil: none. Where rails are virtual functions,
// the physical ones are none.
func (n *Node) inProfile(h *HCA, p *Port) *ProfileNIC {
	e := n.Profile.NICOf(n, h, p)
	if e == nil || h.Part() && !h.Lent() || h.Function.State == OK && e.VirtualFunctions != h.Lent() {
		return nil
	}
	return e
}

// outsideProfile reports whether the profile says what NICs are for training, and this is none of them.
func (n *Node) outsideProfile(h *HCA, p *Port) bool {
	f := n.PCI.NIC(h.Name)
	if n.Profile == nil || len(n.Profile.Rails) == 0 || f == nil {
		return false
	}
	_, kind := f.ID()
	_, layer := p.LinkLayer.Get()
	return kind && layer
}

// roleGuessed is the role of a port that no source names.
func (n *Node) roleGuessed(h *HCA, p *Port, silent bool) (Role, string) {
	d := n.NetDev(p.NetDev.Or(""))
	switch {
	case h.Part() && !n.alone(h):
		return RoleUnused, h.Function.Source
	case p.Representor:
		return RoleUnused, p.NetDev.Source
	case h.Software():
		return RoleUnused, h.PCI.Source
	case !silent && d != nil && d.PreferredRoute.Or(false):
		return RoleManagement, d.PreferredRoute.Source
	}
	return RoleCompute, p.State.Source
}

// routesSayNothing reports whether default routes do not tell what a port is for: one leaves through each
// port that may be for training, or the preferred ones through several, as where rails get their addresses by
// DHCP or router advertisements. Ports of one bond are one, and those of which a source says that they are
// for something else do not matter.
func (n *Node) routesSayNothing() bool {
	ports, others, without, preferred := 0, 0, false, map[string]bool{}
	for h, p := range n.Ports {
		if h.Part() || h.Software() || h.Restricted.Or(false) {
			continue
		}
		if n.statedElsewhere(h, p) {
			others++
			continue
		}
		d := n.NetDev(p.NetDev.Or(""))
		ports++
		without = without || d == nil || !d.DefaultRoute.Or(false)
		if d != nil && d.PreferredRoute.Or(false) {
			preferred[d.Upper.Or(d.Name)] = true
		}
	}
	return !without && (ports > 1 || ports == 1 && others == 0) || len(preferred) > 1
}

// statedElsewhere reports whether a source says that a port is not for training.
func (n *Node) statedElsewhere(h *HCA, p *Port) bool {
	role, by, _ := n.roleStated(h, p)
	if by == "" {
		role, by, _ = n.roleOfProfile(h, p)
	}
	return by != "" && role != RoleCompute
}

// Part reports whether the device is a part of another one: a virtual function, a subfunction, or a device
// for subnet management.
func (h *HCA) Part() bool { return h.Lent() || h.Function.Or("") == FunctionSMI }

// alone reports whether the device is a virtual function whose physical function has no RDMA device: then no
// other can be for training.
func (n *Node) alone(h *HCA) bool {
	f := n.PCI.NIC(h.Name)
	if f == nil || h.Function.Or("") != FunctionVF {
		return false
	}
	physical, known := f.PF.Get()
	for i := range n.HCAs {
		known = known && n.HCAs[i].PCI.Or("") != physical
	}
	return known
}

// Software reports whether the device has no hardware, as those of soft-RoCE.
func (h *HCA) Software() bool { return h.PCI.State == Absent && h.Function.State == Absent }
