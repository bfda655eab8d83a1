// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"math"
	"slices"

	"gpufabric_exporter/internal/fabric"
)

// odometers continue the 32-bit counters of a device, which wrap (the queue counters of mlx5), to 64 bits. They
// live as long as the device is open: a device that is registered again counts from zero.
type odometers map[panel][]dial

// panel is a list of counters: a name means one thing to one driver and another to the next.
type panel struct {
	driver string
	port   int // 0: of the device
}

// dial is the odometer of a counter, in the place that the counter has in its list. Those of counters that are not in
// the list for now come after all others.
type dial struct {
	name  string
	wraps bool // else it has none
	odometer
}

type odometer struct {
	last  uint32
	turns uint64
}

// read returns the continued value. A counter that falls from its upper to its lower half has wrapped; any
// other fall is a reset, which is passed on for Prometheus to see.
func (o odometer) read(v uint64) (uint64, odometer) {
	if v > math.MaxUint32 {
		return v, o
	}
	const half = 1 << 31
	if o.last >= half && v < half {
		o.turns++
	}
	o.last = uint32(v)
	return o.turns<<32 | v, o
}

// advance continues the counters of h. The lists were not handed out yet.
func (o odometers) advance(h *fabric.HCA) {
	driver := h.Driver.Or("")
	o.list(h.HWCounters.Or(nil), panel{driver: driver}, func(name string) (fabric.CounterSpec, bool) {
		return fabric.DeviceCounterSpecOf(driver, name)
	})
	for i := range h.Ports {
		o.list(h.Ports[i].Counters.HW.Or(nil), panel{driver, h.Ports[i].Number}, func(name string) (fabric.CounterSpec, bool) {
			return fabric.CounterSpecOf(driver, name)
		})
	}
}

// list continues a list of counters. What they are is looked up when the names are not those of the last time.
func (o odometers) list(list []fabric.Counter, p panel, spec func(name string) (fabric.CounterSpec, bool)) {
	same := func(d dial, c fabric.Counter) bool { return d.name == c.Name }
	if len(o[p]) < len(list) || !slices.EqualFunc(o[p][:len(list)], list, same) {
		o[p] = rearranged(o[p], list, spec)
	}
	dials := o[p]
	for k := range list {
		value := &list[k].Value
		if v, known := value.Get(); known && dials[k].wraps {
			value.Value, dials[k].odometer = dials[k].read(v)
		}
	}
}

func rearranged(dials []dial, list []fabric.Counter, spec func(name string) (fabric.CounterSpec, bool)) []dial {
	rest := slices.Clone(dials)
	next := make([]dial, 0, len(list))
	for _, c := range list {
		k := slices.IndexFunc(rest, func(d dial) bool { return d.name == c.Name })
		if k >= 0 {
			next, rest = append(next, rest[k]), slices.Delete(rest, k, k+1)
			continue
		}
		s, ok := spec(c.Name)
		next = append(next, dial{name: c.Name, wraps: ok && s.Wraps && s.Bits == 32})
	}
	return append(next, slices.DeleteFunc(rest, func(d dial) bool { return !d.wraps })...)
}
