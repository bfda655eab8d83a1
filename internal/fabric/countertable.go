// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"iter"
	"slices"
)

// CounterSpec is what is known about one counter under its kernel name.
type CounterSpec struct {
	Meaning   Meaning // empty: nothing is known that holds for several drivers; the counter passes through
	Parts     int     // how many kernel names of the driver add up to the meaning
	Scale     float64 // what the kernel's value is multiplied with to get the unit of the meaning
	Bits      int     // width of the register; 0: only the firmware knows
	Wraps     bool    // goes on from 0 after its maximum; readers continue it to 64 bits
	Saturates bool    // sticks at its maximum until somebody clears it
	Gauge     bool    // goes up and down
	OfClass   bool    // of the traffic class of a priority: priorities of one class show the same number
}

// Max is the largest value the register holds.
func (s CounterSpec) Max() uint64 { return 1<<s.Bits - 1 }

// CounterPlace is where the kernel shows a counter, below /sys/class/infiniband/<device>.
type CounterPlace string

// Places.
const (
	PlacePMA    CounterPlace = "ports/<port>/counters"
	PlacePMAExt CounterPlace = "ports/<port>/counters_ext"
	PlacePort   CounterPlace = "ports/<port>/hw_counters"
	PlaceDevice CounterPlace = "hw_counters"
)

// CounterTable is what one driver counts in one place. A row is one counter under its kernel name, in the
// kernel's order; the table of a driver is complete as of its source.
type CounterTable struct {
	Name    string   // of the driver, for humans
	Drivers []string // HCA.Driver of its devices; "": software devices
	Place   CounterPlace
	Source  string // kernel file that the names come from
	Note    string // what one should know before trusting it

	rows  []counterRow
	vport bool // ports of representors prefix the names with "vport_"
}

type counterRow struct {
	name    string
	meaning Meaning
	spec    CounterSpec // of the register; Meaning and Parts follow from the table
}

// passed is the meaning of counters that mean nothing to us, or not for certain the same as another driver's.
const passed Meaning = ""

// Registers.
var (
	bits64     = CounterSpec{Bits: 64}
	words64    = CounterSpec{Bits: 64, Scale: 4} // in units of four octets
	flits64    = CounterSpec{Bits: 64, Scale: 8} // of Omni-Path, eight octets
	wraps32    = CounterSpec{Bits: 32, Wraps: true}
	sticks4    = CounterSpec{Bits: 4, Saturates: true}
	sticks8    = CounterSpec{Bits: 8, Saturates: true}
	sticks16   = CounterSpec{Bits: 16, Saturates: true}
	sticks32   = CounterSpec{Bits: 32, Saturates: true}
	gauge32    = CounterSpec{Bits: 32, Gauge: true}
	gauge64    = CounterSpec{Bits: 64, Gauge: true}
	asFirmware = CounterSpec{}
)

// AnyDriver is the driver of a table that is a standard and holds wherever no other table does.
const AnyDriver = "*"

// CounterTables returns all tables, in the order of documentation. They must not be modified.
func CounterTables() []CounterTable { return slices.Clone(counterTables) }

var counterTables = []CounterTable{
	pmaTable, pmaExtTable, hfi1PMATable,
	mlx5Table, mlx5DeviceTable, mlx4Table, mlx4DeviceTable,
	bnxtTable, irdmaTable, efaTable, efaDeviceTable, ionicTable, manaTable, manaDeviceTable, erdmaTable, hnsTable, rxeTable,
}

// Counters iterates over the kernel names of the table and what is known about them.
func (t *CounterTable) Counters() iter.Seq2[string, CounterSpec] {
	parts := map[Meaning]int{}
	for _, r := range t.rows {
		parts[r.meaning]++
	}
	return func(yield func(string, CounterSpec) bool) {
		for _, r := range t.rows {
			spec := r.spec
			spec.Meaning = r.meaning
			if spec.Scale == 0 {
				spec.Scale = 1
			}
			if r.meaning != passed {
				spec.Parts = parts[r.meaning]
			}
			if !yield(r.name, spec) {
				return
			}
		}
	}
}

// counterKey finds a counter; driver and name are the kernel's.
type counterKey struct {
	place        CounterPlace
	driver, name string
}

var counterIndex = indexCounters()

func indexCounters() map[counterKey]CounterSpec {
	index := map[counterKey]CounterSpec{}
	for _, t := range counterTables {
		for name, spec := range t.Counters() {
			for _, driver := range t.Drivers {
				index[counterKey{t.Place, driver, name}] = spec
				if t.vport {
					index[counterKey{t.Place, driver, "vport_" + name}] = spec
				}
			}
		}
	}
	return index
}

// CounterSpecOf tells what is known about a hardware counter of a port. driver is HCA.Driver: the driver of
// the PCI device, or empty for a software device.
func CounterSpecOf(driver, name string) (CounterSpec, bool) {
	spec, ok := counterIndex[counterKey{PlacePort, driver, name}]
	return spec, ok
}

// DeviceCounterSpecOf tells what is known about a hardware counter of a device as a whole.
func DeviceCounterSpecOf(driver, name string) (CounterSpec, bool) {
	spec, ok := counterIndex[counterKey{PlaceDevice, driver, name}]
	return spec, ok
}

// PMASpecOf tells what is known about a performance management counter of a port. They are a standard, but
// not every driver keeps to it.
func PMASpecOf(driver, name string) (CounterSpec, bool) {
	for _, key := range []counterKey{{PlacePMA, driver, name}, {PlacePMA, AnyDriver, name}, {PlacePMAExt, AnyDriver, name}} {
		if spec, ok := counterIndex[key]; ok {
			return spec, true
		}
	}
	return CounterSpec{}, false
}
