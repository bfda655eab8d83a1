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
	for i := range n.HCAs {
		h := &n.HCAs[i]
		if h.Driver.State == fabric.Unknown {
			continue // a name means one thing to one driver and another to the next
		}
		driver := h.Driver.Or("")
		for k := range h.Ports {
			p := &h.Ports[k]
			c := counting{emit: emit, driver: driver, device: h.Name, port: strconv.Itoa(p.Number), meant: map[fabric.Meaning]bool{}}
			c.mean(p.Counters.PMA, fabric.PMASpecOf)
			c.pass(c.mean(p.Counters.HW, fabric.CounterSpecOf), fabric.CounterSpecOf)
			if d, ok := p.Counters.Lifespan.Get(); ok {
				emit(hwCountersLifespan, d.Seconds(), c.device, c.port)
			}
		}
		// The device as a whole is in the families of its ports, with an empty port. What a driver counts for
		// both, its table passes through for the device, so that sums over ports are right.
		c := counting{emit: emit, driver: driver, device: h.Name, meant: map[fabric.Meaning]bool{}}
		c.pass(c.mean(h.HWCounters, fabric.DeviceCounterSpecOf), fabric.DeviceCounterSpecOf)
	}
}

// specOf is one of fabric's counter tables.
type specOf func(driver, name string) (fabric.CounterSpec, bool)

// counting turns the counters of one port, or of a device, into series.
type counting struct {
	emit                 emit
	driver, device, port string
	meant                map[fabric.Meaning]bool // have their series; a second would cost the whole scrape
}

// tally is what a list has of one meaning.
type tally struct {
	names, known int
	sum          float64
	done         bool
}

// mean emits the counters of a list that have a meaning, and returns the others. Kernel names that mean the
// same add up if they are exactly those of the driver's table, and to nothing while one of them is unknown.
func (c *counting) mean(list fabric.Fact[[]fabric.Counter], specOf specOf) (rest []fabric.Counter) {
	counters := distinct(list.Or(nil))
	tallies := map[fabric.Meaning]*tally{}
	for _, v := range counters {
		spec, _ := specOf(c.driver, v.Name)
		t := tallies[spec.Meaning]
		if t == nil {
			t = &tally{}
			tallies[spec.Meaning] = t
		}
		t.names++
		if n, ok := reading(v); ok {
			t.known++
			t.sum += float64(n) * spec.Scale
		}
	}
	for _, v := range counters {
		spec, _ := specOf(c.driver, v.Name)
		if n, ok := reading(v); ok && spec.Saturates && n >= spec.Max() {
			c.emit(counterSaturated, 1, c.device, c.port, label(v.Name))
		}
		t := tallies[spec.Meaning]
		if spec.Meaning == "" || t.names != spec.Parts || c.meant[spec.Meaning] {
			rest = append(rest, v)
		} else if t.known == t.names && !t.done {
			c.emit(countFamilies[spec.Meaning], t.sum, c.device, c.port)
			t.done = true
		}
	}
	for m, t := range tallies {
		c.meant[m] = c.meant[m] || t.done
	}
	return rest
}

// pass emits counters under their own names.
func (c *counting) pass(rest []fabric.Counter, specOf specOf) {
	counters, dropped := 0, 0
	for _, v := range rest {
		n, ok := reading(v)
		spec, _ := specOf(c.driver, v.Name)
		switch {
		case !ok:
		case spec.Gauge: // known to a table, hence few
			c.emit(hwCountersValue, float64(n), c.device, c.port, label(v.Name))
		case counters == maxRaw:
			dropped++
		default:
			counters++
			c.emit(hwCountersTotal, float64(n), c.device, c.port, label(v.Name))
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

// distinct leaves out counters whose labels would be those of an earlier one.
func distinct(list []fabric.Counter) []fabric.Counter {
	seen := map[string]bool{}
	var out []fabric.Counter
	for _, c := range list {
		if l := label(c.Name); !seen[l] {
			seen[l] = true
			out = append(out, c)
		}
	}
	return out
}

// label makes a label value of a name that a driver, or firmware, chose. No name of a table changes.
func label(name string) string {
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
