// SPDX-License-Identifier: Apache-2.0

// Package counters describes each driver, in one file per driver: the meaning of its counters, in a table for
// each place, and its traits.
//
// A row is one counter under its kernel name. Where counters of several drivers count the same thing in one
// unit they share a Meaning, which is a metric; what has none passes through under its own name. Everything
// here is data that never changes and that any number of goroutines may read. There are no errors: what is
// not in a table is reported as not known.
package counters

import (
	"cmp"
	"iter"
	"slices"
)

// Spec is what is known about one counter under its kernel name.
type Spec struct {
	Meaning   Meaning // empty: nothing is known that holds for several drivers; the counter passes through
	Parts     int     // how many kernel names of the driver add up to the meaning
	Scale     float64 // what the kernel's value is multiplied with to get the unit of the meaning
	Bits      int     // width of the register; 0: only the firmware knows
	Wraps     bool    // goes on from 0 after its maximum; readers continue it to 64 bits
	Saturates bool    // keeps its maximum until it is cleared
	Gauge     bool    // goes up and down
	OfClass   bool    // of the traffic class of a priority: priorities of one class show the same number
}

// Max is the largest value the register holds.
func (s Spec) Max() uint64 { return 1<<s.Bits - 1 }

// Place is where the kernel shows a counter, below /sys/class/infiniband/<device>.
type Place string

// Places.
const (
	PlacePMA    Place = "ports/<port>/counters"
	PlacePMAExt Place = "ports/<port>/counters_ext"
	PlacePort   Place = "ports/<port>/hw_counters"
	PlaceDevice Place = "hw_counters"
)

// Table is what one driver counts in one place. A row is one counter under its kernel name, in the
// kernel's order; the table of a driver is complete as of its source.
type Table struct {
	Name    string   // of the driver, for humans
	Drivers []string // HCA.Driver of its devices; "": software devices. Follows from the list of drivers
	Place   Place
	Source  string // kernel file that the names come from
	Note    string // what one should know before trusting it

	rows  []row
	vport bool // ports of representors prefix the names with "vport_"
}

type row struct {
	name    string
	meaning Meaning
	spec    Spec // of the register; what is left out here follows from the row and its table
}

// passed is the meaning of counters that mean nothing to us, or not for certain the same as another driver's.
const passed Meaning = ""

// Registers.
var (
	bits64     = Spec{Bits: 64}
	words64    = Spec{Bits: 64, Scale: 4} // in units of four octets
	flits64    = Spec{Bits: 64, Scale: 8} // of Omni-Path, eight octets
	wraps32    = Spec{Bits: 32, Wraps: true}
	sticks4    = Spec{Bits: 4, Saturates: true}
	sticks8    = Spec{Bits: 8, Saturates: true}
	sticks16   = Spec{Bits: 16, Saturates: true}
	sticks32   = Spec{Bits: 32, Saturates: true}
	gauge32    = Spec{Bits: 32, Gauge: true}
	gauge64    = Spec{Bits: 64, Gauge: true}
	asFirmware = Spec{}
)

// AnyDriver is the driver of a table that is a standard and holds wherever no other table does.
const AnyDriver = "*"

// driver is what is known about the driver of a family of devices. Each has a file of its own.
type driver struct {
	names      []string // HCA.Driver and NetDev.Driver of its devices; "": software devices
	traits     Traits
	counters   []Table    // of RDMA devices
	statistics *StatTable // of network interfaces
}

// drivers has all of them, in the order of documentation. It is the only list of drivers.
func drivers() []driver {
	return []driver{
		infiniband, // the standard
		hfi1,
		mlx5,
		mlx4,
		bnxt,
		irdma,
		ice,
		i40e,
		efa,
		ena,
		ionic,
		mana,
		erdma,
		hns,
		rxe,
	}
}

// Tables returns the tables of counters of RDMA devices, in the order of documentation. They must not be modified.
func Tables() []Table { return slices.Clone(tables) }

var tables = func() (list []Table) {
	for _, d := range drivers() {
		if len(d.names) == 0 {
			continue // it has no devices; a test says so
		}
		for _, t := range d.counters {
			t.Drivers = d.names
			for i := range t.rows {
				r := &t.rows[i]
				r.spec.Meaning, r.spec.Scale = r.meaning, cmp.Or(r.spec.Scale, 1)
				if r.meaning != passed {
					r.spec.Parts = partsOf(t.rows, r.meaning)
				}
			}
			list = append(list, t)
		}
	}
	return list
}()

// Counters iterates over the kernel names of the table and what is known about them.
func (t *Table) Counters() iter.Seq2[string, Spec] {
	return func(yield func(string, Spec) bool) {
		for _, r := range t.rows {
			if !yield(r.name, r.spec) {
				return
			}
		}
	}
}

// key finds a counter; driver and name are the kernel's.
type key struct {
	place        Place
	driver, name string
}

var index = func() map[key]*Spec {
	index := map[key]*Spec{}
	for _, t := range tables {
		for i := range t.rows {
			r := &t.rows[i]
			for _, driver := range t.Drivers {
				index[key{t.Place, driver, r.name}] = &r.spec
				if t.vport {
					index[key{t.Place, driver, "vport_" + r.name}] = &r.spec
				}
			}
		}
	}
	return index
}()

func find(k key) (Spec, bool) {
	if spec, ok := index[k]; ok {
		return *spec, true
	}
	return Spec{}, false
}

// PortSpec returns what is known about a hardware counter of a port. driver is HCA.Driver: the driver of
// the PCI device, or empty for a software device.
func PortSpec(driver, name string) (Spec, bool) {
	return find(key{PlacePort, driver, name})
}

// DeviceSpec returns what is known about a hardware counter of a device as a whole.
func DeviceSpec(driver, name string) (Spec, bool) {
	return find(key{PlaceDevice, driver, name})
}

// PMASpec returns what is known about a performance management counter of a port. They are a standard, but
// not every driver keeps to it.
func PMASpec(driver, name string) (Spec, bool) {
	for _, key := range []key{{PlacePMA, driver, name}, {PlacePMA, AnyDriver, name}, {PlacePMAExt, AnyDriver, name}} {
		if spec, ok := find(key); ok {
			return spec, true
		}
	}
	return Spec{}, false
}
