// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"math"
	"strconv"
	"strings"
	"unicode"

	"gpufabric_exporter/internal/fabric"
)

const (
	maxRaw     = 64  // counters that pass through, a port: what a driver, or firmware, can add to a scrape
	maxRawName = 100 // bytes of their names; the longest of the kernel's has 34
)

func collectCounters(n *fabric.Node, emit emit) {
	c := counting{emit: emit, tallies: map[fabric.Meaning]tally{}, seen: map[string]bool{}, meant: map[fabric.Meaning]bool{}}
	for i := range n.HCAs {
		h := &n.HCAs[i]
		if h.Driver.State == fabric.Unknown {
			continue // a name means one thing to one driver and another to the next
		}
		c.driver, c.device = h.Driver.Or(""), h.Name
		for k := range h.Ports {
			p := &h.Ports[k]
			c.begin(strconv.Itoa(p.Number))
			c.mean(p.Counters.PMA, fabric.PMASpecOf)
			c.rest = c.rest[:0] // a standard: what it does not have is not worth a name
			c.mean(p.Counters.HW, fabric.CounterSpecOf)
			c.pass()
			if d, ok := p.Counters.Lifespan.Get(); ok {
				emit(hwCountersLifespan, d.Seconds(), c.device, c.port)
			}
		}
		// The device as a whole is in the families of its ports, with an empty port. What a driver counts for
		// both, its table passes through for the device, so that sums over ports are right.
		c.begin("")
		c.mean(h.HWCounters, fabric.DeviceCounterSpecOf)
		c.pass()
	}
}

// specOf is one of fabric's counter tables.
type specOf func(driver, name string) (fabric.CounterSpec, bool)

// counting turns the counters of one port, or of a device, into series.
type counting struct {
	emit                 emit
	driver, device, port string
	meant                map[fabric.Meaning]bool // have their series; a second would cost the whole scrape
	rest                 []count                 // mean nothing to us, under their own names
	// Scratch of mean.
	tallies map[fabric.Meaning]tally
	seen    map[string]bool
	counts  []count
}

// count is a counter with what is known about it.
type count struct {
	name  string // as a label
	spec  fabric.CounterSpec
	value uint64
	known bool
}

// tally is what a list has of one meaning.
type tally struct {
	names, known int
	sum          float64
	done         bool
}

// begin begins a port, or the device for an empty one.
func (c *counting) begin(port string) {
	c.port, c.rest = port, c.rest[:0]
	clear(c.meant)
}

// mean emits the counters of a list that have a meaning, and keeps the others for pass. Kernel names that mean the same add up if they are exactly those of the driver's table, and
// to nothing while one of them is unknown.
func (c *counting) mean(list fabric.Fact[[]fabric.Counter], specOf specOf) {
	c.counts = c.counts[:0]
	clear(c.tallies)
	clear(c.seen)
	for _, v := range list.Or(nil) {
		n := count{name: label(v.Name)}
		if c.seen[n.name] {
			continue
		}
		c.seen[n.name] = true
		n.spec, _ = specOf(c.driver, v.Name)
		n.value, n.known = reading(v)
		c.counts = append(c.counts, n)
		t := c.tallies[n.spec.Meaning]
		t.names++
		if n.known {
			t.known++
			t.sum += float64(n.value) * n.spec.Scale
		}
		c.tallies[n.spec.Meaning] = t
	}
	for _, n := range c.counts {
		if n.known && n.spec.Saturates && n.value >= n.spec.Max() {
			c.emit(counterSaturated, 1, c.device, c.port, n.name)
		}
		m := n.spec.Meaning
		t := c.tallies[m]
		switch {
		case m == "" || t.names != n.spec.Parts || c.meant[m] && !t.done:
			c.rest = append(c.rest, n)
		case t.known == t.names && !t.done:
			c.emit(countFamilies[m], t.sum, c.device, c.port)
			t.done, c.meant[m] = true, true
			c.tallies[m] = t
		}
	}
}

// pass emits counters under their own names.
func (c *counting) pass() {
	counters, dropped := 0, 0
	for _, n := range c.rest {
		switch {
		case !n.known:
		case n.spec.Gauge: // known to a table, hence few
			c.emit(hwCountersValue, float64(n.value), c.device, c.port, n.name)
		case counters == maxRaw:
			dropped++
		default:
			counters++
			c.emit(hwCountersTotal, float64(n.value), c.device, c.port, n.name)
		}
	}
	if dropped > 0 {
		c.emit(hwCountersDropped, float64(dropped), c.device, c.port)
	}
}

// reading is the value of a counter. All ones in 64 bits is how drivers say that they cannot tell.
func reading(c fabric.Counter) (uint64, bool) {
	n, ok := c.Value.Get()
	return n, ok && n != math.MaxUint64
}

// label makes a label value of a name that a driver, or firmware, chose. No name of a table changes.
func label(name string) string {
	if len(name) <= maxRawName && plain(name) {
		return name
	}
	name = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, name)
	if len(name) > maxRawName {
		name = strings.ToValidUTF8(name[:maxRawName], "")
	}
	return name
}

func plain(name string) bool {
	for _, b := range []byte(name) {
		if b < ' ' || b > '~' {
			return false
		}
	}
	return true
}
