// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// IsKernel reports whether the root is a mounted sysfs, and not a copy of one.
func (f *FS) IsKernel() bool {
	magic, err := f.root.FileSystem()
	return err == nil && magic == unix.SYSFS_MAGIC
}

// The methods below read parts of what the others read together, for a caller who gets the rest from netlink.

// ReadRate reads the rate of one port, whose physical state is known.
func (d *Device) ReadRate(h *fabric.HCA, q *fabric.Port, now time.Time) {
	q.Rate = d.rate(h, q, d.port(q.Number), now)
}

// ReadNetDev reads which network interface a port has.
func (d *Device) ReadNetDev(q *fabric.Port, now time.Time) {
	q.NetDev = d.netDev(d.port(q.Number), now)
}

// HasHWCounters reports whether a port has hardware counters, and reads their lifespan. No driver is asked.
func (d *Device) HasHWCounters(q *fabric.Port, now time.Time) bool {
	c := &d.port(q.Number).hw
	d.prepareHW(c, now)
	q.Counters.Lifespan = c.lifespan
	if len(c.files) == 0 {
		q.Counters.HW = publish(c.dir.path, now, &c.counterDir)
	}
	return len(c.files) > 0
}
