// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"time"

	"gpufabric_exporter/internal/fabric"
)

// maxInterfaces is more than a node of containers has, each of which brings one.
const maxInterfaces = 4096

// Interfaces lists all network interfaces of the network namespace that sysfs was mounted in, and whether
// they run. Reading that asks no driver and does not take the rtnl lock (operstate_show of
// net/core/net-sysfs.c).
func (f *FS) Interfaces(now time.Time) fabric.Fact[[]fabric.Interface] {
	names, err := f.list(netClass)
	if err != nil {
		return fabric.UnknownFact[[]fabric.Interface](fabric.ReasonOf(err), netClass, now)
	}
	if len(names) > maxInterfaces {
		return fabric.UnknownFact[[]fabric.Interface](fabric.ReasonMalformed, netClass, now)
	}
	r := f.reader()
	list := []fabric.Interface{}
	for _, name := range names {
		if !validNetDevName(name) || name == "bonding_masters" { // the one file among them
			continue
		}
		d := dir{fs: f, path: netClass + "/" + name}
		list = append(list, fabric.Interface{Name: name, OperState: factOf(r.readOnce(&d, "operstate"), now, parseOperState)})
		d.close()
	}
	return fabric.Known(list, netClass, now)
}
