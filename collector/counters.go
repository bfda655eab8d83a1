// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"math"
	"strconv"

	"gpufabric_exporter/internal/counters"
	"gpufabric_exporter/internal/fabric"
)

const (
	maxRaw     = 64  // counters that pass through, a port: what a driver, or firmware, can add to a scrape
	maxRawName = 100 // bytes of their names; the longest of the kernel's has 34
)

// collectCounters returns the collector, which keeps its plans from scrape to scrape.
func collectCounters() func(*fabric.Node, emit) {
	plans := &plans{}
	places := 0
	for _, f := range countFamilies {
		places = max(places, f.place+1)
	}
	return func(n *fabric.Node, emit emit) {
		c := counting{emit: emit, plans: plans, emitted: make([]bool, places)}
		for i := range n.HCAs {
			c.device(&n.HCAs[i])
		}
	}
}

// counting turns the counters of one port, or of a device, into series.
type counting struct {
	emit   emit
	plans  *plans
	driver string
	at     []string // device and port
	// ethernet says that the port is one.
	ethernet bool
	emitted  []bool  // families that have their series, by place; a second would cost the whole scrape
	rest     []count // mean nothing to us, under their own names
	sums     []sum   // scratch of mean
}

// count is a counter with what is known about it.
type count struct {
	name  string // as a label
	spec  counters.Spec
	value uint64
	known bool
}

// sum is the value of a family.
type sum struct {
	value         float64
	unknown, done bool
}

func (c *counting) device(h *fabric.HCA) {
	if h.Driver.State == fabric.Unknown {
		return // a name means one thing to one driver and another to the next
	}
	c.driver = h.Driver.Or("")
	for k := range h.Ports {
		p := &h.Ports[k]
		c.begin(h.Name, strconv.Itoa(p.Number))
		c.ethernet = p.LinkLayer.Or("") == fabric.LinkEthernet
		c.emitKnown(p.Counters.PMA, counters.PlacePMA)
		c.rest = c.rest[:0] // a standard: what it does not have is not worth a name
		c.emitKnown(p.Counters.HW, counters.PlacePort)
		c.emitOthers()
		if d, ok := p.Counters.Lifespan.Get(); ok {
			c.emit(hwCountersLifespan, d.Seconds(), c.at...)
		}
	}
	// The device as a whole is in the families of its ports, with an empty port. What a driver counts for
	// both, its table passes through for the device, so that sums over ports are right.
	c.begin(h.Name, "")
	c.emitKnown(h.HWCounters, counters.PlaceDevice)
	c.emitOthers()
}

// begin begins a port, or the device for an empty one.
func (c *counting) begin(device, port string) {
	c.at, c.rest = []string{device, port}, c.rest[:0]
	clear(c.emitted)
}

// emitKnown emits the counters of a list that have a meaning, and keeps the others for pass. Kernel names
// that emitKnown the same add up if they are exactly those of the driver's table, and to nothing while one of
// them is unknown.
func (c *counting) emitKnown(fact fabric.Fact[[]fabric.Counter], place counters.Place) {
	list := fact.Or(nil)
	p := c.plans.of(place, c.driver, list)
	c.sums = append(c.sums[:0], make([]sum, len(p.families))...)
	for i := range p.counts {
		n := &p.counts[i]
		if n.part < 0 {
			continue
		}
		if v, known := reading(&list[n.at]); known {
			c.sums[n.part].value += float64(v) * n.spec.Scale
		} else {
			c.sums[n.part].unknown = true
		}
	}
	for i := range p.counts {
		n := &p.counts[i]
		v, known := reading(&list[n.at])
		if known && n.spec.Saturates && v >= n.spec.Max() {
			c.named(counterSaturated, 1, n.name)
		}
		if n.part < 0 || c.emitted[p.families[n.part].place] && !c.sums[n.part].done {
			c.rest = append(c.rest, count{n.name, n.spec, v, known})
			continue
		}
		if s, f := &c.sums[n.part], p.families[n.part]; !s.unknown && !s.done {
			if s.value != 0 || !c.ethernet || !ofInfiniBand(n.spec.Meaning) {
				c.emit(f, s.value, c.at...)
			}
			s.done, c.emitted[f.place] = true, true
		}
	}
}

// emitOthers emits counters under their own names.
func (c *counting) emitOthers() {
	shown, dropped := 0, 0
	for _, n := range c.rest {
		switch {
		case !n.known:
		case n.spec.Gauge: // known to a table, so there are few
			c.named(hwCountersValue, float64(n.value), n.name)
		case shown == maxRaw:
			dropped++
		default:
			shown++
			c.named(hwCountersTotal, float64(n.value), n.name)
		}
	}
	if dropped > 0 {
		c.emit(hwCountersDropped, float64(dropped), c.at...)
	}
}

// named emits a series that a kernel name is a label of.
func (c *counting) named(f *Family, v float64, name string) { c.emit(f, v, c.at[0], c.at[1], name) }

// reading is the value of a counter. All ones in 64 bits is how drivers report that they do not know.
func reading(c *fabric.Counter) (uint64, bool) {
	n, ok := c.Value.Get()
	return n, ok && n != math.MaxUint64
}

// label makes a label value of a name that a driver, or firmware, chose. No name of a table changes.
func label(name string) string {
	return fabric.Printable(name, maxRawName)
}
