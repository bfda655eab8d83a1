// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"math"
	"slices"
	"time"

	"gpufabric_exporter/internal/counters"
	"gpufabric_exporter/internal/fabric"
)

// wrapTrackers continue the 32-bit counters of a device, which wrap (the queue counters of mlx5), to 64 bits. They
// exist as long as the device is open: a device that is registered again counts from zero.
type wrapTrackers map[counterListKey][]trackedCounter

// counterListKey identifies a list of counters: the meaning of a name depends on the driver.
type counterListKey struct {
	driver string
	port   int // 0: of the device
}

// trackedCounter is a counter and its wrapTracker, at the index that the counter has in its list. Those that are not in
// the list for now come after all others.
type trackedCounter struct {
	name  string
	wraps bool // else it has none
	wrapTracker
}

// wrapTracker continues one counter. The kernel does not say why a counter fell. A wrap that is taken for a
// reset costs the events between the last reading and the end of the register; a reset that is taken for a
// wrap adds up to 2^32 events that never were. So a fall is a wrap only if the counter may have wrapped in
// the time since the last reading, at the speed that was seen of it; any other fall is a reset, and the
// series starts again from what the register shows.
type wrapTracker struct {
	last      uint32
	at        time.Time // of last; zero before the first reading
	wrapCount uint64    // since the last reset
	fastest   float64   // events a second: the most between two readings between which it did not fall
	wide      bool      // it has had more than 32 bits: it does not wrap
}

const (
	register = 1 << 32
	// maxAdvance is the most that a counter may have counted since the last reading to be taken to have wrapped. In more
	// time than that takes, it may have wrapped several times or have been reset.
	maxAdvance = register / 2
	// speedMargin is how much faster than ever before a counter may have been while it wrapped.
	speedMargin = 4
	// alwaysPlausible is what a counter may always have counted since the last reading. One that is reset at a
	// random value stands that close to its end in one of 65,536 cases.
	alwaysPlausible = 1 << 16
)

// read returns the continued value of a register that showed v at a time.
func (o wrapTracker) read(v uint64, at time.Time) (uint64, wrapTracker) {
	if o.wide || v > math.MaxUint32 {
		return v, wrapTracker{wide: true}
	}
	elapsed := at.Sub(o.at).Seconds()
	switch {
	case o.at.IsZero(), v == uint64(o.last):
	case v > uint64(o.last):
		if elapsed > 0 {
			o.fastest = max(o.fastest, float64(v-uint64(o.last))/elapsed)
		}
	case float64(register-uint64(o.last)+v) <= min(maxAdvance, max(alwaysPlausible, speedMargin*o.fastest*elapsed)):
		o.wrapCount++
	default:
		o.wrapCount = 0
	}
	o.last, o.at = uint32(v), at
	return o.wrapCount*register + v, o
}

// advance continues the counters of h. The lists were not handed out yet.
func (o wrapTrackers) advance(h *fabric.HCA) {
	driver := h.Driver.Or("")
	o.list(h.HWCounters.Or(nil), counterListKey{driver: driver}, func(name string) (counters.Spec, bool) {
		return counters.DeviceSpec(driver, name)
	})
	for i := range h.Ports {
		o.list(h.Ports[i].Counters.HW.Or(nil), counterListKey{driver, h.Ports[i].Number},
			func(name string) (counters.Spec, bool) {
				return counters.PortSpec(driver, name)
			})
	}
}

// list continues a list of counters. What they are is looked up when the names are not those of the last time.
func (o wrapTrackers) list(list []fabric.Counter, p counterListKey, spec func(name string) (counters.Spec, bool)) {
	same := func(d trackedCounter, c fabric.Counter) bool { return d.name == c.Name }
	if len(o[p]) < len(list) || !slices.EqualFunc(o[p][:len(list)], list, same) {
		o[p] = rearranged(o[p], list, spec)
	}
	dials := o[p]
	for k := range list {
		value := &list[k].Value
		if v, known := value.Get(); known && dials[k].wraps {
			value.Value, dials[k].wrapTracker = dials[k].read(v, value.At)
		}
	}
}

func rearranged(dials []trackedCounter, list []fabric.Counter,
	spec func(name string) (counters.Spec, bool),
) []trackedCounter {
	rest := slices.Clone(dials)
	next := make([]trackedCounter, 0, len(list))
	for _, c := range list {
		k := slices.IndexFunc(rest, func(d trackedCounter) bool { return d.name == c.Name })
		if k >= 0 {
			next, rest = append(next, rest[k]), slices.Delete(rest, k, k+1)
			continue
		}
		s, ok := spec(c.Name)
		next = append(next, trackedCounter{name: c.Name, wraps: ok && s.Wraps && s.Bits == 32})
	}
	return append(next, slices.DeleteFunc(rest, func(d trackedCounter) bool { return !d.wraps })...)
}
