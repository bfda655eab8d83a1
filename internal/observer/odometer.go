// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"math"
	"strconv"

	"gpufabric_exporter/internal/fabric"
)

// odometers continue the 32-bit counters of a device, which wrap (the queue counters of mlx5), to 64 bits. They
// live as long as the device is open: a device that is registered again counts from zero.
type odometers map[string]odometer

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
	o.list(h.HWCounters.Or(nil), "", func(name string) (fabric.CounterSpec, bool) {
		return fabric.DeviceCounterSpecOf(h.Driver.Or(""), name)
	})
	for i := range h.Ports {
		o.list(h.Ports[i].Counters.HW.Or(nil), strconv.Itoa(h.Ports[i].Number)+" ", func(name string) (fabric.CounterSpec, bool) {
			return fabric.CounterSpecOf(h.Driver.Or(""), name)
		})
	}
}

func (o odometers) list(list []fabric.Counter, prefix string, spec func(name string) (fabric.CounterSpec, bool)) {
	for k := range list {
		c := &list[k]
		v, known := c.Value.Get()
		if s, ok := spec(c.Name); known && ok && s.Wraps && s.Bits == 32 {
			c.Value.Value, o[prefix+c.Name] = o[prefix+c.Name].read(v)
		}
	}
}
