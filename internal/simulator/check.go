// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
)

// check returns what of the node refers to something that it does not have.
func (n *Node) check() error {
	errs := slices.Clone(n.unsound)
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	need(n.Host.HZ > 0, "host: %d ticks per second", n.Host.HZ)
	for _, f := range n.Functions {
		need(f.PF == "" || n.Function(f.PF) != nil, "PCI function %s: no physical function %q", f.Address(), f.PF)
	}
	for _, h := range n.HCAs {
		need(n.Function(h.PCI) != nil, "hca %s: no PCI function %q", h.Name, h.PCI)
		for _, p := range h.Ports {
			need(p.NetDev == "" || n.NetDev(p.NetDev) != nil, "hca %s port %d: no interface %q", h.Name, p.Number, p.NetDev)
			for _, g := range p.GIDs {
				need(g.Index >= 0 && g.Index < p.GIDSlots, "hca %s port %d: no GID slot %d", h.Name, p.Number, g.Index)
			}
		}
	}
	for _, m := range n.Moved {
		need(n.Function(m.PCI) != nil, "moved device %s: no PCI function %q", m.Device, m.PCI)
	}
	for _, d := range n.NetDevs {
		_, err := net.ParseMAC(d.Address)
		need(d.Address == "" || err == nil, "interface %s: address %q: expected a MAC address", d.Name, d.Address)
		need(d.PCI == "" || n.Function(d.PCI) != nil, "interface %s: no PCI function %q", d.Name, d.PCI)
		need(d.Master == "" || n.NetDev(d.Master) != nil, "interface %s: no master %q", d.Name, d.Master)
		need(d.VLAN.Lower == "" || n.NetDev(d.VLAN.Lower) != nil, "interface %s: no interface %q below", d.Name, d.VLAN.Lower)
		d.checkQoS(need)
	}
	for _, f := range n.Flaps {
		need(n.HCA(f.Device) != nil, "flap: no hca %q", f.Device)
		need(f.Period > 0 && f.Down >= 0 && f.Down <= f.Period, "flap of %s: down for %d of %d steps", f.Device, f.Down, f.Period)
	}
	n.checkGPUs(need)
	for name := range n.Files {
		need(filepath.IsLocal(name), "file %q: not a path below the root", name)
	}
	for _, l := range n.Logs {
		need(filepath.IsLocal(l.Path), "log %q: not a path below the root", l.Path)
	}
	return errors.Join(errs...)
}
