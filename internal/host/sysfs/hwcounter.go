// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// lifespanName is the one file of hw_counters/ that is not a counter.
const lifespanName = "lifespan"

const (
	defaultLifespan = 10 * time.Millisecond // RDMA_HW_STATS_DEFAULT_LIFESPAN of include/rdma/ib_verbs.h
	// of one round: a driver that is slower than its lifespan is not asked for each file
	maxRefills       = 3
	shortestLifespan = time.Millisecond // the kernel serves reads of one jiffy from its cache in any case
)

// hwCounters is one hw_counters directory. Behind it, the kernel has one cache of all values: a read of any file
// asks the driver for all of them, unless that was done within the lifespan (update_hw_stats of
// drivers/infiniband/core/sysfs.c).
type hwCounters struct {
	counterDir
	lifespan fabric.Fact[time.Duration]
}

func newHWCounters(parent *dir) hwCounters {
	return hwCounters{counterDir: newCounterDir(parent, "hw_counters", "", "")}
}

// ReadHWCounters reads hw_counters/ of the device and of every port of h. It asks the driver once for each
// directory, and again when the reads took longer than the kernel keeps the answer; that is how it counts. A
// kernel that has counters bound to queue pairs ("rdma statistic qp set") asks for each of those on top, with
// each file (rdma_counter_get_hwstat_value of drivers/infiniband/core/counters.c), which cannot be seen here.
func (d *Device) ReadHWCounters(h *fabric.HCA, now time.Time) error {
	if err := d.ReadDeviceHWCounters(h, now); err != nil {
		return err
	}
	for i := range h.Ports {
		d.ReadPortHWCounters(&h.Ports[i], now)
	}
	return d.verdict()
}

// ReadDeviceHWCounters reads hw_counters/ of the device itself.
func (d *Device) ReadDeviceHWCounters(h *fabric.HCA, now time.Time) error {
	if h.Restricted.Or(false) {
		d.hw.close()
		h.HWCounters = fabric.UnknownFact[[]fabric.Counter](fabric.ReasonRestricted, d.hw.dir.path, now)
		return nil
	}
	d.readHW(&d.hw, now)
	h.HWCounters = publish(d.hw.dir.path, now, &d.hw.counterDir)
	return d.verdict()
}

// ReadPortHWCounters reads hw_counters/ of one port. The next method reports whether the device is gone.
func (d *Device) ReadPortHWCounters(q *fabric.Port, now time.Time) {
	c := &d.port(q.Number).hw
	d.readHW(c, now)
	q.Counters.HW = publish(c.dir.path, now, &c.counterDir)
	q.Counters.Lifespan = c.lifespan
}

// readHW reads the file that fills the cache, and then the others while the cache lasts. When the driver refuses
// to fill it, the others are not read: each would ask the driver the same again.
func (d *Device) readHW(c *hwCounters, now time.Time) {
	d.prepareHW(c, now)
	if len(c.files) == 0 {
		return
	}
	first, others := &c.files[0], c.files[1:]
	var filled time.Time // before the driver answers: better one read too many, from the cache, than a cache that ran out
	refills := 0
	fill := func() {
		filled = time.Now()
		d.readCounter(&c.counterDir, first, now)
	}
	lifespan := max(c.lifespan.Or(defaultLifespan), shortestLifespan)
	fill()
	for i := range others {
		f := &others[i]
		if time.Since(filled) > lifespan && refills < maxRefills {
			refills++
			fill()
		}
		if first.backoff.active(now) {
			f.fact = fabric.UnknownFact[uint64](first.fact.Reason, f.source, first.fact.At)
		} else {
			d.readCounter(&c.counterDir, f, now)
		}
	}
}

// prepareHW lists the counters and reads their lifespan, which can be set, where these are due.
func (d *Device) prepareHW(c *hwCounters, now time.Time) {
	if c.due(now) {
		d.listHW(c, now)
	}
	if at := c.lifespan.At; at.IsZero() || now.Sub(at) >= listEvery {
		c.lifespan = optional(factOf(d.readOnce(c.dir, lifespanName), now, parseLifespan))
	}
}

// listHW puts the file first that fills the cache. With mlx5 it is only this one: get_hw_stats counts the optional
// counters, which sysfs does not show, in its answer to the first counter but in no other, and an answer that is
// not complete is not kept (mlx5_ib_get_hw_stats of drivers/infiniband/hw/mlx5/counters.c). Read in the order of
// their names, each of its 30 counters costs as many firmware commands as all together.
func (d *Device) listHW(c *hwCounters, now time.Time) {
	d.list(&c.counterDir, now)
	if k := slices.IndexFunc(c.files, func(f counter) bool { return f.name == "rx_write_requests" }); k > 0 {
		first := c.files[k]
		copy(c.files[1:k+1], c.files[:k])
		c.files[0] = first
	}
	for i := range c.files {
		c.files[i].asks = ""
	}
	if len(c.files) > 0 {
		c.files[0].asks = fabric.CommandHWStats
	}
}
