// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"fmt"
	"syscall"
)

// Descriptors that are not counted one by one: standard streams, workers' pipes, netlink, files that are read
// and closed.
const otherDescriptors = 96

// descriptors is how the open files that the process may have (RLIMIT_NOFILE, whose soft limit Go raises to
// the hard one) are divided: some are for clients, some for files of devices that stay open, and the rest for
// everything else.
type descriptors struct{ limit, clients, files int }

// shareDescriptors divides a limit. If it is very small, a few clients are served and no file stays open.
func shareDescriptors(limit int) descriptors {
	d := descriptors{limit: limit, clients: min(maxConnections, max(8, limit/4))}
	d.files = max(1, limit-d.clients-otherDescriptors)
	return d
}

// ownDescriptors divides the limit of this process.
func ownDescriptors() descriptors {
	const plenty = 1 << 20
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil || l.Cur > plenty {
		return shareDescriptors(plenty)
	}
	return shareDescriptors(int(l.Cur))
}

// shortage is the message that files of devices are opened anew for each read; empty: they are not.
func (d descriptors) shortage(uncached uint64) string {
	if uncached == 0 {
		return ""
	}
	return fmt.Sprintf("the limit of %d open files is too low to keep those of all devices open, which makes scrapes more expensive: raise LimitNOFILE of the unit, or ulimit -n", d.limit)
}
