// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"math"
	"slices"
	"time"

	"gpufabric_exporter/internal/counters"
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

// odometer continues one counter. The kernel does not say why a counter fell. A wrap that is taken for a reset costs the
// events between the last reading and the end of the register; a reset that is taken for a wrap adds up to 2^32 events
// that never were. So a fall is a wrap only if the counter may have come round in the time since the last reading, at the
// speed that was seen of it; any other fall is a reset, and the series starts again from what the register shows.
type odometer struct {
	last    uint32
	at      time.Time // of last; zero before the first reading
	turns   uint64    // since the last reset
	fastest float64   // events a second: the most between two readings between which it did not fall
	wide    bool      // it has had more than 32 bits: it does not wrap
}

const (
	register = 1 << 32
	// mostInTurn is the most that a counter may have counted since the last reading to be taken to have wrapped. In more
	// time than that takes, it may have come round several times or have been reset.
	mostInTurn = register / 2
	// headway is how much faster than ever before a counter may have been while it wrapped.
	headway = 4
	// leastInTurn is what a counter may always have counted since the last reading. One that is reset at a random value
	// stands that close to its end in one of 65,536 cases.
	leastInTurn = 1 << 16
)

// read returns the continued value of a register that showed v at a time.
func (o odometer) read(v uint64, at time.Time) (uint64, odometer) {
	if o.wide || v > math.MaxUint32 {
		return v, odometer{wide: true}
	}
	elapsed := at.Sub(o.at).Seconds()
	switch {
	case o.at.IsZero(), v == uint64(o.last):
	case v > uint64(o.last):
		if elapsed > 0 {
			o.fastest = max(o.fastest, float64(v-uint64(o.last))/elapsed)
		}
	case float64(register-uint64(o.last)+v) <= min(mostInTurn, max(leastInTurn, headway*o.fastest*elapsed)):
		o.turns++
	default:
		o.turns = 0
	}
	o.last, o.at = uint32(v), at
	return o.turns*register + v, o
}

// advance continues the counters of h. The lists were not handed out yet.
func (o odometers) advance(h *fabric.HCA) {
	driver := h.Driver.Or("")
	o.list(h.HWCounters.Or(nil), panel{driver: driver}, func(name string) (counters.Spec, bool) {
		return counters.DeviceSpec(driver, name)
	})
	for i := range h.Ports {
		o.list(h.Ports[i].Counters.HW.Or(nil), panel{driver, h.Ports[i].Number}, func(name string) (counters.Spec, bool) {
			return counters.PortSpec(driver, name)
		})
	}
}

// list continues a list of counters. What they are is looked up when the names are not those of the last time.
func (o odometers) list(list []fabric.Counter, p panel, spec func(name string) (counters.Spec, bool)) {
	same := func(d dial, c fabric.Counter) bool { return d.name == c.Name }
	if len(o[p]) < len(list) || !slices.EqualFunc(o[p][:len(list)], list, same) {
		o[p] = rearranged(o[p], list, spec)
	}
	dials := o[p]
	for k := range list {
		value := &list[k].Value
		if v, known := value.Get(); known && dials[k].wraps {
			value.Value, dials[k].odometer = dials[k].read(v, value.At)
		}
	}
}

func rearranged(dials []dial, list []fabric.Counter, spec func(name string) (counters.Spec, bool)) []dial {
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
