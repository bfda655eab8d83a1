// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// priorities is how many IEEE 802.1Q has.
const priorities = 8

// NoPriority is the priority of statistics that have none.
const NoPriority = -1

// StatSpec is what is known about one statistic of a network interface under its kernel name.
type StatSpec struct {
	Spec
	Priority int  // NoPriority unless the meaning is per priority
	Older    bool // a name that drivers had once, and have no more
}

// InUnit returns a value in the unit of the meaning.
func (s StatSpec) InUnit(v uint64) float64 {
	if s.Scale < 1 { // no power of ten below 1 is exact, and its reciprocal is: 5 µs shall not be 4.9999999999999996e-06
		return float64(v) / math.Round(1/s.Scale)
	}
	return float64(v) * s.Scale
}

// StatTable maps the statistics of one driver ("ethtool -S") that have a meaning. The other names of a driver, by
// the hundred and some by queue, are nothing to us.
type StatTable struct {
	Name    string   // of the driver, for humans
	Drivers []string // NetDev.Driver of its interfaces
	Source  string   // kernel file that the names come from
	Note    string   // what one should know before trusting it

	rows []row // eachPriority in a name stands for 0 to 7
	// older are names of former versions of the driver for what rows count. They count where the current name is
	// missing, so that a driver that shows both counts nothing twice.
	older []row
}

// eachPriority in the name of a row is the priority; where the meaning has none, the eight names add up.
const eachPriority = "%d"

// StatTables returns the tables of statistics of network interfaces, in the order of documentation. They must
// not be modified.
func StatTables() []StatTable { return slices.Clone(statTables) }

var statTables = func() (list []StatTable) {
	for _, d := range drivers() {
		if d.statistics != nil && len(d.names) > 0 {
			t := *d.statistics
			t.Drivers = d.names
			list = append(list, t)
		}
	}
	return list
}()

// Rows iterates over the rows of the table as they are written: a name has "<n>" where kernel names have a priority
// or another number from 0 to 7. The priority of their specs is that of the first.
func (t *StatTable) Rows() iter.Seq2[string, StatSpec] {
	return func(yield func(string, StatSpec) bool) {
		for r, spec := range t.specs() {
			if !yield(strings.Replace(r.name, eachPriority, "<n>", 1), spec) {
				return
			}
		}
	}
}

// Stats iterates over the kernel names of the table and what is known about them.
func (t *StatTable) Stats() iter.Seq2[string, StatSpec] {
	return func(yield func(string, StatSpec) bool) {
		for r, spec := range t.specs() {
			for n := range r.names() {
				if r.meaning.PerPriority() {
					spec.Priority = n
				}
				if !yield(strings.Replace(r.name, eachPriority, strconv.Itoa(n), 1), spec) {
					return
				}
			}
		}
	}
}

// specs iterates over the rows and what is known about the first name of each.
func (t *StatTable) specs() iter.Seq2[row, StatSpec] {
	return func(yield func(row, StatSpec) bool) {
		for k, rows := range [][]row{t.rows, t.older} {
			for _, r := range rows {
				spec := StatSpec{Spec: r.spec, Priority: NoPriority, Older: k == 1}
				spec.Meaning, spec.Scale, spec.Parts = r.meaning, cmp.Or(r.spec.Scale, 1), partsOf(rows, r.meaning)
				if r.meaning.PerPriority() {
					spec.Priority = 0
				}
				if !yield(r, spec) {
					return
				}
			}
		}
	}
}

// partsOf is how many names of some rows add up to a meaning, or to one priority of it.
func partsOf(rows []row, m Meaning) (parts int) {
	for _, r := range rows {
		switch {
		case r.meaning != m:
		case m.PerPriority():
			parts++
		default:
			parts += r.names()
		}
	}
	return parts
}

// names is how many kernel names a row of a StatTable stands for.
func (r row) names() int {
	if strings.Contains(r.name, eachPriority) {
		return priorities
	}
	return 1
}

// driverStats is a table as it is looked up.
type driverStats struct {
	names    map[string]StatSpec
	meanings map[Meaning]bool
}

var statIndex = func() map[string]driverStats {
	index := map[string]driverStats{}
	for _, t := range statTables {
		d := driverStats{maps.Collect(t.Stats()), map[Meaning]bool{}}
		for _, r := range t.rows {
			d.meanings[r.meaning] = true
		}
		for _, driver := range t.Drivers {
			index[driver] = d
		}
	}
	return index
}()

// StatSpecOf returns what is known about a statistic of a network interface. driver is NetDev.Driver.
func StatSpecOf(driver, name string) (StatSpec, bool) {
	spec, ok := statIndex[driver].names[name]
	return spec, ok
}

// StatMeans reports whether a driver has statistics of a meaning, though not every device may show them.
func StatMeans(driver string, m Meaning) bool { return statIndex[driver].meanings[m] }

// StatWanted returns which statistics of a driver's interfaces are worth reading: those that have a meaning. It is
// nil for a driver of which none are.
func StatWanted(driver string) func(name string) bool {
	names := statIndex[driver].names
	if len(names) == 0 {
		return nil
	}
	return func(name string) bool {
		_, ok := names[name]
		return ok
	}
}

// Registers of statistics.
var (
	micros64  = Spec{Bits: 64, Scale: 1e-6}
	halves64  = Spec{Bits: 64, Scale: 0.5}
	class64   = Spec{Bits: 64, OfClass: true}
	bits32    = Spec{Bits: 32} // not documented what they do at their maximum
	percent32 = Spec{Bits: 32, Scale: 0.01, Gauge: true}
)
