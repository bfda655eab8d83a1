// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/pci"
	"gpufabric_exporter/internal/host/sysfs"
)

// classList is what the kernel lists below class/infiniband, and which devices it has in other network namespaces.
type classList struct {
	present bool
	names   []string
	moved   []sysfs.Moved
	odd     error // what could not be listed beside these
}

func (l *look) listDevices() {
	l.class.refresh(l.half, since[classList](l.now, l.o.FastInterval), l.readClass(l.want&fabric.WantInside != 0))
	l.listed(l.now) // what left has its place on the bus still, if it is in another network namespace
}

// readClass lists the devices. A kernel without RDMA is an answer, not an error. Where nothing can be listed, the last
// list stands. A job wants to know of the devices that its container lacks.
func (ob *Observer) readClass(inside bool) func(classList, time.Time) (classList, error) {
	return func(last classList, _ time.Time) (classList, error) {
		names, err := ob.rdma.Devices()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return classList{}, nil
		case err != nil && len(names) == 0:
			return last, err
		}
		moved, movedErr := ob.rdma.Moved(names, inside)
		return classList{present: true, names: names, moved: moved, odd: errors.Join(err, movedErr)}, nil
	}
}

// called is a moved device by the name that it has on this host: the one that it was last seen with, else the one that
// it has now. Two namespaces may each have a device of one name: then it is that of its PCI function.
type called struct {
	sysfs.Moved
	name string
	last *fabric.HCA // as it left; nil: it was never seen
}

// called names the moved devices that may be looked at. It needs ob.mu.
func (ob *Observer) called(class classList) []called {
	var list []called
	known := make([]bool, len(ob.left))
	// since before it left
	hangs := func(name string) bool { return ob.devices[name] != nil && !slices.Contains(class.names, name) }
	taken := slices.Clone(class.names)
	for _, exact := range []bool{true, false} { // a pod may rename what it has
		for _, m := range class.moved {
			if slices.ContainsFunc(list, func(c called) bool { return c.Link == m.Link }) {
				continue
			}
			c := called{Moved: m, name: m.Device}
			i := slices.IndexFunc(ob.left, func(h fabric.HCA) bool {
				return h.PCI.Or("") == m.Address &&
					(h.Name == m.Device || !exact)
			})
			if i >= 0 && !known[i] {
				c.last, c.name, known[i] = &ob.left[i], ob.left[i].Name, true
			} else if exact {
				continue
			}
			list = append(list, c)
		}
	}
	for i := range list {
		c := &list[i]
		if slices.Contains(taken, c.name) {
			c.name = cmp.Or(c.Address, c.Link)
		}
		taken = append(taken, c.name)
	}
	list = slices.DeleteFunc(list, func(c called) bool {
		return !ob.o.Devices.Allows(c.name) || c.last == nil &&
			hangs(c.Device)
	})
	return list[:min(len(list), maxDevices)]
}

// forgetLeft keeps those of the devices that left which are in other network namespaces. It needs ob.mu.
func (ob *Observer) forgetLeft(moved []sysfs.Moved) {
	ob.left = slices.DeleteFunc(ob.left, func(h fabric.HCA) bool {
		return !slices.ContainsFunc(moved, func(m sysfs.Moved) bool { return m.Address == h.PCI.Or("") })
	})
	if more := len(ob.left) - maxDevices; more > 0 {
		ob.left = slices.Delete(ob.left, 0, more)
	}
}

// elsewhere returns the devices that are in other network namespaces.
func (ob *Observer) elsewhere(class classList, policy *fabric.Policy, now time.Time) []fabric.HCA {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	var list []fabric.HCA
	for _, c := range ob.called(class) {
		last := fabric.HCA{}
		if c.last != nil {
			last = *c.last
		} else {
			last = last.WithoutFacts(fabric.ReasonMoved, now)
			last.PCI = fabric.Known(c.Address, c.Link, now)
			if c.Address == "" {
				last.PCI = fabric.AbsentFact[string](c.Link, now)
			}
		}
		h := last.Elsewhere(now)
		if h.Name = c.name; policy.IsRestricted(h.Name) {
			h.Restricted, h.Ports = fabric.Known(true, "config restricted", now), nil
		}
		list = append(list, h)
	}
	return list
}

// nics are the RDMA devices that the PCI bus is looked at for.
func (ob *Observer) nics(policy *fabric.Policy) []pci.NIC {
	class, _ := ob.class.peek(func(classList, time.Time) bool { return true })
	var list []pci.NIC
	for _, name := range class.names {
		if ob.o.Devices.Allows(name) && !policy.IsRestricted(name) {
			list = append(list, pci.NIC{Device: name, Link: "class/infiniband/" + name})
		}
	}
	ob.mu.Lock()
	defer ob.mu.Unlock()
	for _, c := range ob.called(class) {
		if !policy.IsRestricted(c.name) {
			list = append(list, pci.NIC{Device: c.name, Link: c.Link})
		}
	}
	return list
}
