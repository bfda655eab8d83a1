// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"io/fs"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// NetDevs reads these network interfaces. The default routes are those of proc.FS.DefaultRoutes; nil says that
// they are not known. Reading a speed takes the kernel's rtnl lock (speed_show of net/core/net-sysfs.c).
func (f *FS) NetDevs(names []string, defaultRoutes map[string]bool, now time.Time) []fabric.NetDev {
	r := &reader{pread: f.pread}
	below, failed := f.belowRoutes(defaultRoutes)
	devs := make([]fabric.NetDev, len(names))
	for i, name := range names {
		n := f.netDev(r, name, now)
		const source = "net/route and net/ipv6_route"
		switch carries := below[name] || below[n.Upper.Or("")]; {
		case defaultRoutes == nil:
			n.DefaultRoute = fabric.NotKnown[bool](fabric.ReasonNotRead, source, now)
		case !carries && failed.err != nil:
			n.DefaultRoute = fabric.NotKnown[bool](ReasonOf(failed.err), failed.source, now)
		default:
			n.DefaultRoute = fabric.Known(carries, source, now)
		}
		devs[i] = n
	}
	return devs
}

func (f *FS) netDev(r *reader, name string, now time.Time) fabric.NetDev {
	at := &dir{fs: f, path: netClass + "/" + name}
	defer at.close()
	return fabric.NetDev{
		Name:      name,
		Speed:     speedFact(r.readOnce(at, "speed"), now),
		MTU:       factOf(r.readOnce(at, "mtu"), now, parseInt(0, 1<<31-1)),
		OperState: factOf(r.readOnce(at, "operstate"), now, parseOperState),
		Upper:     f.upper(at, now),
		Bond:      f.bond(at, now),
	}
}

// speedFact tells the speed. An interface that is down, or has no speed, answers EINVAL or -1; SPEED_UNKNOWN was
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
		return fabric.NotKnown[float64](fact.Reason, fact.Source, now)
	case n <= 0 || n == unknown:
		return fabric.NotKnown[float64](fabric.ReasonUnsupported, fact.Source, now)
	case n > fastest:
		return fabric.NotKnown[float64](fabric.ReasonMalformed, fact.Source, now)
	}
	return fabric.Known(float64(n)*1e6/8, fact.Source, now)
}

// upper follows the link to the bond or bridge that the interface is enslaved to.
func (f *FS) upper(at *dir, now time.Time) fabric.Fact[string] {
	if _, err := at.fd(); err != nil {
		return fabric.NotKnown[string](ReasonOf(err), at.path, now)
	}
	source := at.path + "/master"
	name, err := f.linkBase(source)
	return optional(factOf(reading{source: source, data: []byte(name), err: err}, now, parseNetDev))
}

// bond tells whether the interface is a bond: then it has a directory of that name (drivers/net/bonding/bond_sysfs.c).
func (f *FS) bond(at *dir, now time.Time) fabric.Fact[bool] {
	if _, err := at.fd(); err != nil {
		return fabric.NotKnown[bool](ReasonOf(err), at.path, now)
	}
	source := at.path + "/bonding"
	switch _, err := f.root.Lstat(source); {
	case err == nil:
		return fabric.Known(true, source, now)
	case errors.Is(err, fs.ErrNotExist):
		return fabric.Known(false, source, now)
	default:
		return fabric.NotKnown[bool](ReasonOf(err), source, now)
	}
}

// belowRoutes returns the interfaces that traffic of the default routes leaves through: those of the routes
// themselves and all below them (the slaves of a bond, what a VLAN sits on). A reading that failed may have
// named more.
func (f *FS) belowRoutes(defaultRoutes map[string]bool) (below map[string]bool, failed reading) {
	below = map[string]bool{}
	var todo []string
	for name, is := range defaultRoutes {
		if is {
			todo = append(todo, name)
		}
	}
	for len(todo) > 0 {
		name := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if below[name] {
			continue
		}
		below[name] = true
		at := netClass + "/" + name
		entries, err := f.list(at)
		if err != nil {
			// Routes and interfaces may be those of different network namespaces.
			failed = reading{source: at, err: err}
			continue
		}
		for _, e := range entries {
			if lower, ok := strings.CutPrefix(e, "lower_"); ok {
				todo = append(todo, lower)
			}
		}
	}
	return below, failed
}
