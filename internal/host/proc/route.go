// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
)

// DefaultRoutes returns the network interfaces that a default route leaves through, each with whether it is
// known that none has a lower metric. The map is nil when there is an error, and only then: routes that were
// read in part would say that an interface has none.
//
// The tables are those of the network namespace of process 1, the host's where the host's procfs is mounted;
// else those of the reader. IPv6 counts only on nodes without an IPv4 default route: net/ipv6_route lists the
// main table together with all others, and router advertisements give every interface a default route, so that
// on a fabric of routed rails each compute NIC would seem to have one. For the same reason a metric says nothing
// there: the lowest may be that of a table for a single rail.
func (f *FS) DefaultRoutes() (map[string]bool, error) {
	var failed error
	for _, net := range []string{"1/net/", "net/"} {
		v4, err := f.routes(net+"route", parseRoutes)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if len(v4) > 0 {
			return v4, nil
		}
		v6, err := f.routes(net+"ipv6_route", parseRoutes6)
		if errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6
			return v4, nil
		}
		for name := range v6 {
			v6[name] = len(v6) == 1
		}
		return v6, err
	}
	if f.isNone() {
		return nil, fmt.Errorf("%s: %w: it has neither self nor stat", f.root.Name(), errMalformed)
	}
	return nil, failed
}

// isNone reports whether the root is some folder, and neither procfs nor a copy of one: one of these files is
// in all of them.
func (f *FS) isNone() bool {
	for _, name := range []string{"self", "stat"} {
		if _, err := f.root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

func (f *FS) routes(name string, parse func([]byte) ([]route, bool)) (map[string]bool, error) {
	b, err := f.read(name)
	if err != nil {
		return nil, fmt.Errorf("default routes: %w", err)
	}
	routes, ok := parse(b)
	if !ok {
		return nil, fmt.Errorf("default routes: %s: %w: expected a routing table", name, errMalformed)
	}
	lowest := uint64(math.MaxUint64)
	for _, r := range routes {
		lowest = min(lowest, r.metric)
	}
	interfaces := make(map[string]bool, len(routes))
	for _, r := range routes {
		interfaces[r.iface] = interfaces[r.iface] || r.metric == lowest
	}
	return interfaces, nil
}
