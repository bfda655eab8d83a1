// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Limits on what is looked at below an interface. The kernel stacks eight interfaces (MAX_NEST_DEV of
// linux/netdevice.h); a bridge may have hundreds of ports, and each one read takes the rtnl lock.
const (
	maxNesting  = 8
	maxBelow    = 128 // interfaces that were not asked for by name
	lowerPrefix = "lower_"
	memberEntry = "bonding_slave" // a directory of what is in a bond (drivers/net/bonding/bond_sysfs_slave.c)
)

// NetDevs reads these network interfaces, the bonds that they are in, and those below: the members of a bond,
// what a VLAN sits on. Each is read once, and they are sorted by name. The default routes are those of
// proc.FS.DefaultRoutes; nil says that they are not known. A speed comes from speed, or where that is nil
// from its file, reading which takes the kernel's rtnl lock, and a processor while another process has it
// (speed_show of net/core/net-sysfs.c). The MTU and the driver are read
// if detailed is set.
func (f *FS) NetDevs(names []string, defaultRoutes map[string]bool, speed func(netdev string) fabric.Fact[float64],
	detailed bool, now time.Time,
) []fabric.NetDev {
	r := f.reader()
	t := netTree{fs: f, listed: map[string]netEntries{}}
	defer t.close()
	names = t.withBelow(names)
	routed, routedFailed := t.belowRoutes(maps.Keys(defaultRoutes))
	preferred, preferredFailed := t.belowRoutes(lowest(defaultRoutes))
	devs := make([]fabric.NetDev, len(names))
	for i, name := range names {
		n := t.netDev(r, name, speed, now)
		if detailed {
			t.readDetails(r, &n, now)
		}
		const source = "net/route and net/ipv6_route"
		carries := func(below map[string]bool, failed reading) fabric.Fact[bool] {
			switch is := below[name] || below[n.Upper.Or("")]; {
			case defaultRoutes == nil:
				return fabric.UnknownFact[bool](fabric.ReasonNotRead, source, now)
			case !is && failed.err != nil:
				return fabric.UnknownFact[bool](fabric.ReasonOf(failed.err), failed.source, now)
			default:
				return fabric.Known(is, source, now)
			}
		}
		n.DefaultRoute, n.PreferredRoute = carries(routed, routedFailed), carries(preferred, preferredFailed)
		devs[i] = n
	}
	return devs
}

// netTree is how the network interfaces lie above each other. Each directory is listed once.
type netTree struct {
	fs     *FS
	listed map[string]netEntries
}

// netEntries is the directory of an interface, and the names in it as far as they say how it lies among others.
type netEntries struct {
	*dir
	names []string
	err   error
}

func (t netTree) of(name string) netEntries {
	e, ok := t.listed[name]
	if ok {
		return e
	}
	e.dir = &dir{fs: t.fs, path: netClass + "/" + name}
	if validNetDevName(name) {
		e.names, e.err = e.relations()
	} else {
		e.err = fmt.Errorf("%s: %w: interface name %q", netClass, errMalformed, name)
	}
	t.listed[name] = e
	return e
}

// close closes the directories.
func (t netTree) close() {
	for _, e := range t.listed {
		e.close()
	}
}

// relations lists those names in the directory of an interface, sorted.
func (d *dir) relations() ([]string, error) {
	var names []string
	err := d.each(func(name []byte, _ uint64) {
		switch s := string(name); {
		case s == "master", s == "bonding", s == memberEntry, s == "device", strings.HasPrefix(s, lowerPrefix):
			names = append(names, strings.Clone(s))
		}
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

func (e netEntries) has(name string) bool {
	_, found := slices.BinarySearch(e.names, name)
	return found
}

// lower returns the names of the interfaces below, sorted (netdev_adjacent_sysfs_add of net/core/dev.c).
func (e netEntries) lower() ([]string, error) {
	names := []string{}
	for _, s := range e.names {
		lower, ok := strings.CutPrefix(s, lowerPrefix)
		switch {
		case ok && validNetDevName(lower):
			names = append(names, lower)
		case ok:
			return nil, fmt.Errorf("%s: %w: %q names no interface", e.path, errMalformed, s)
		}
	}
	return names, e.err
}

// withBelow adds to these interfaces their bonds and what is below, as far as the limits allow.
func (t netTree) withBelow(names []string) []string {
	all := slices.Clone(names)
	for _, name := range names {
		if e := t.of(name); e.has(memberEntry) {
			if bond, err := t.fs.linkBase(e.path + "/master"); err == nil && validNetDevName(bond) {
				all = append(all, bond)
			}
		}
	}
	level := all
	for depth := 0; depth < maxNesting && len(level) > 0; depth++ {
		var next []string
		for _, name := range level {
			lower, _ := t.of(name).lower()
			for _, l := range lower {
				if len(all) < len(names)+maxBelow && !slices.Contains(all, l) {
					all, next = append(all, l), append(next, l)
				}
			}
		}
		level = next
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// netDev reads one interface. What its directory does not name is not looked for.
func (t netTree) netDev(r *reader, name string, speed func(string) fabric.Fact[float64], now time.Time) fabric.NetDev {
	e := t.of(name)
	if e.err != nil {
		return fabric.NetDev{
			Name:  name,
			Speed: notListed[float64](e, "speed", now),
			Upper: notListed[string](e, "master", now),
			Bond:  notListed[bool](e, "bonding", now),
			Lower: notListed[[]string](e, lowerPrefix+"*", now),
			PCI:   notListed[string](e, "device", now),
		}
	}
	if speed == nil {
		speed = func(string) fabric.Fact[float64] { return speedFact(r.readOnce(e.dir, "speed"), now) }
	}
	lower := fabric.UnknownFact[[]string](fabric.ReasonMalformed, e.path, now)
	if names, err := e.lower(); err == nil {
		lower = fabric.Known(names, e.path, now)
	}
	return fabric.NetDev{
		Name:  name,
		Speed: speed(name),
		Upper: t.linked(e, "master", "master", now, parseNetDev),
		// A bond has a directory of that name (drivers/net/bonding/bond_sysfs.c).
		Bond:  fabric.Known(e.has("bonding"), e.path+"/bonding", now),
		Lower: lower,
		PCI:   t.function(e, now),
	}
}

// function returns the PCI function that an interface is on: its link leads there, and below net. Devices of
// other buses are none.
func (t netTree) function(e netEntries, now time.Time) fabric.Fact[string] {
	target, err := t.fs.root.Readlink(e.path)
	switch address := path.Base(path.Dir(path.Dir(target))); {
	case err != nil:
		return fabric.UnknownFact[string](fabric.ReasonOf(err), e.path, now)
	case !isPCIAddress(address):
		return fabric.AbsentFact[string](e.path, now)
	default:
		return fabric.Known(address, e.path, now)
	}
}

// readDetails reads what few ask for.
func (t netTree) readDetails(r *reader, n *fabric.NetDev, now time.Time) {
	e := t.of(n.Name)
	if e.err != nil {
		n.MTU, n.Driver = notListed[int](e, "mtu", now), notListed[string](e, "device/driver", now)
		return
	}
	n.MTU = factOf(r.readOnce(e.dir, "mtu"), now, parseInt(0, 1<<31-1))
	// The device is a PCI function, a virtio device or one of another bus; virtual interfaces have none.
	n.Driver = t.linked(e, "device", "device/driver", now, parseText)
}

func notListed[T any](e netEntries, name string, now time.Time) fabric.Fact[T] {
	return fabric.UnknownFact[T](fabric.ReasonOf(e.err), e.path+"/"+name, now)
}

// linked returns what a symbolic link points to, if the interface has the entry that the link is or lies in.
func (t netTree) linked(e netEntries, entry, link string, now time.Time,
	parse func([]byte) (string, bool),
) fabric.Fact[string] {
	source := e.path + "/" + link
	if !e.has(entry) {
		return fabric.AbsentFact[string](source, now)
	}
	name, err := t.fs.linkBase(source)
	return optional(factOf(reading{source: source, data: []byte(name), err: err}, now, parse))
}

// speedFact returns the speed. An interface that is down, or has no speed, answers EINVAL or -1; SPEED_UNKNOWN was
// once printed without its sign.
func speedFact(got reading, now time.Time) fabric.Fact[float64] {
	const (
		unknown = 1<<32 - 1
		fastest = 100_000_000 // Mb/s
	)
	fact := factOf(got, now, parseInt(-1, unknown))
	n, ok := fact.Get()
	switch {
	case !ok:
		return fabric.UnknownFact[float64](fact.Reason, fact.Source, now)
	case n <= 0 || n == unknown:
		return fabric.UnknownFact[float64](fabric.ReasonUnsupported, fact.Source, now)
	case n > fastest:
		return fabric.UnknownFact[float64](fabric.ReasonMalformed, fact.Source, now)
	}
	return fabric.Known(float64(n)*1e6/8, fact.Source, now)
}

// lowest are the interfaces of the default routes with the lowest metric.
func lowest(defaultRoutes map[string]bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name, is := range defaultRoutes {
			if is && !yield(name) {
				return
			}
		}
	}
}

// belowRoutes returns the interfaces that traffic of the default routes leaves through: those of the routes
// themselves and all below them. A reading that failed may have named more.
func (t netTree) belowRoutes(interfaces iter.Seq[string]) (below map[string]bool, failed reading) {
	below = map[string]bool{}
	todo := slices.Collect(interfaces)
	for len(todo) > 0 {
		name := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if below[name] {
			continue
		}
		below[name] = true
		e := t.of(name)
		lower, err := e.lower()
		if err != nil {
			// Routes and interfaces may be those of different network namespaces.
			failed = reading{source: e.path, err: err}
			continue
		}
		todo = append(todo, lower...)
	}
	return below, failed
}
