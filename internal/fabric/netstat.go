// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// NoPriority is the priority of statistics that have none.
const NoPriority = -1

// NetStatSpec is what is known about one statistic of a network interface under its kernel name.
type NetStatSpec struct {
	CounterSpec
	Priority int  // NoPriority unless the meaning is per priority
	Older    bool // a name that drivers had once, and have no more
}

// InUnit returns a value in the unit of the meaning.
func (s NetStatSpec) InUnit(v uint64) float64 {
	if s.Scale < 1 { // no power of ten below 1 is exact, and its reciprocal is: 5 µs shall not be 4.9999999999999996e-06
		return float64(v) / math.Round(1/s.Scale)
	}
	return float64(v) * s.Scale
}

// Tells says whether the statistic is about what its spec says it is: the count of a traffic class is that of a priority
// only where the class has no other.
func (s NetStatSpec) Tells(q *QoS) bool {
	if !s.OfClass {
		return true
	}
	ets, known := q.ETS.Get()
	alone := known
	for p, class := range ets.PriorityClass {
		alone = alone && (p == s.Priority) == (class == ets.PriorityClass[s.Priority])
	}
	return alone
}

// NetStatTable maps the statistics of one driver ("ethtool -S") that have a meaning. The other names of a driver, by
// the hundred and some by queue, are nothing to us.
type NetStatTable struct {
	Name    string   // of the driver, for humans
	Drivers []string // NetDev.Driver of its interfaces
	Source  string   // kernel file that the names come from
	Note    string   // what one should know before trusting it

	rows []counterRow // eachPriority in a name stands for 0 to 7
	// older are names of former versions of the driver for what rows count. They count where no name of today is there, so that
	// a driver that shows both counts nothing twice.
	older []counterRow
}

// eachPriority in the name of a row is the priority; where the meaning has none, the eight names add up.
const eachPriority = "%d"

// NetStatTables returns all tables, in the order of documentation. They must not be modified.
func NetStatTables() []NetStatTable { return slices.Clone(netStatTables) }

var netStatTables = []NetStatTable{
	mlx5NetStats, mlx4NetStats, bnxtNetStats, iceNetStats, i40eNetStats, ionicNetStats, hns3NetStats, manaNetStats, enaNetStats,
}

// Rows iterates over the rows of the table as they are written: a name has "<n>" where kernel names have a priority
// or another number from 0 to 7. The priority of their specs is that of the first.
func (t *NetStatTable) Rows() iter.Seq2[string, NetStatSpec] {
	return func(yield func(string, NetStatSpec) bool) {
		for r, spec := range t.specs() {
			if !yield(strings.Replace(r.name, eachPriority, "<n>", 1), spec) {
				return
			}
		}
	}
}

// Stats iterates over the kernel names of the table and what is known about them.
func (t *NetStatTable) Stats() iter.Seq2[string, NetStatSpec] {
	return func(yield func(string, NetStatSpec) bool) {
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
func (t *NetStatTable) specs() iter.Seq2[counterRow, NetStatSpec] {
	return func(yield func(counterRow, NetStatSpec) bool) {
		for k, rows := range [][]counterRow{t.rows, t.older} {
			for _, r := range rows {
				spec := NetStatSpec{CounterSpec: r.spec, Priority: NoPriority, Older: k == 1}
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
func partsOf(rows []counterRow, m Meaning) (parts int) {
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

// names is how many kernel names a row of a NetStatTable stands for.
func (r counterRow) names() int {
	if strings.Contains(r.name, eachPriority) {
		return NumPriorities
	}
	return 1
}

// netStatDriver is a table as it is looked up.
type netStatDriver struct {
	names    map[string]NetStatSpec
	meanings map[Meaning]bool
}

var netStatIndex = indexNetStats()

func indexNetStats() map[string]netStatDriver {
	index := map[string]netStatDriver{}
	for _, t := range netStatTables {
		d := netStatDriver{maps.Collect(t.Stats()), map[Meaning]bool{}}
		for _, r := range t.rows {
			d.meanings[r.meaning] = true
		}
		for _, driver := range t.Drivers {
			index[driver] = d
		}
	}
	return index
}

// NetStatSpecOf tells what is known about a statistic of a network interface. driver is NetDev.Driver.
func NetStatSpecOf(driver, name string) (NetStatSpec, bool) {
	spec, ok := netStatIndex[driver].names[name]
	return spec, ok
}

// NetStatMeans tells whether a driver has statistics of a meaning, though not every device may show them.
func NetStatMeans(driver string, m Meaning) bool { return netStatIndex[driver].meanings[m] }

// NetStatWanted tells which statistics of a driver's interfaces are worth reading: those that have a meaning. It is
// nil for a driver of which none are.
func NetStatWanted(driver string) func(name string) bool {
	names := netStatIndex[driver].names
	if len(names) == 0 {
		return nil
	}
	return func(name string) bool {
		_, ok := names[name]
		return ok
	}
}
