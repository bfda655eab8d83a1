// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// specOf looks a counter up as the exporter does.
func specOf(place Place, driver, name string) (Spec, bool) {
	switch place {
	case PlacePMA, PlacePMAExt:
		return PMASpec(driver, name)
	case PlaceDevice:
		return DeviceSpec(driver, name)
	default:
		return PortSpec(driver, name)
	}
}

// namesFile is the file of testdata/rdma with the names that the kernel has for a table: a driver's as the
// kernel calls it, ".device" for counters of the device as a whole. Beside it, ".later" has names of firmware
// and kernels that the file is not of.
func namesFile(t *Table) string {
	name := t.Drivers[0]
	switch {
	case t.Place == PlacePMAExt:
		return "pma_ext"
	case t.Place == PlacePMA: // a standard
		return "pma"
	case name == "":
		return "rxe"
	case t.Place == PlaceDevice && name == mlx5.names[0]: // as its ports
		return name
	case t.Place == PlaceDevice:
		return name + ".device"
	}
	return name
}

// kernelNames reads a file of names.
func kernelNames(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' }) // some have spaces
}

// fileOf is the file that a table is in.
func fileOf(t *testing.T, name string) string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), fmt.Sprintf("Name: %q", name)) {
			return file
		}
	}
	return "<driver>.go"
}

// Without a name of its kernel module nothing finds the table of a driver.
func TestDriversHaveNames(t *testing.T) {
	for i, d := range drivers() {
		if len(d.names) == 0 {
			t.Errorf("the driver in place %d of drivers() in internal/counters/counters.go has no names: add those of its kernel modules to its file", i+1)
		}
	}
}

// The tables have each name that the kernel's drivers show, and no other.
func TestTablesAreComplete(t *testing.T) {
	used := map[string]bool{}
	for _, table := range Tables() {
		file := filepath.Join("testdata/rdma", namesFile(&table))
		used[file], used[file+".later"] = true, true
		names := kernelNames(t, file)
		if len(names) == 0 {
			t.Errorf("%s %s: there is no file internal/counters/%s: list there the names that the kernel's source has, one a line", table.Name, table.Place, file)
			continue
		}
		names = append(names, kernelNames(t, file+".later")...)
		for name := range table.Counters() {
			if !slices.Contains(names, name) {
				t.Errorf("%s %s: internal/counters/%s lacks %s: add it there if the kernel's source has it", table.Name, table.Place, file, name)
			}
		}
		for _, name := range names {
			if _, ok := specOf(table.Place, table.Drivers[0], name); !ok {
				t.Errorf("%s %s: the table lacks %s, which internal/counters/%s has: add its row to internal/counters/%s, with the meaning passed if it has none", table.Name, table.Place, name, file, fileOf(t, table.Name))
			}
		}
	}
	files, err := filepath.Glob("testdata/rdma/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if !used[file] {
			t.Errorf("internal/counters/%s is of no table: add the driver to drivers() in internal/counters/counters.go", file)
		}
	}
}

func TestTablesAreSound(t *testing.T) {
	plain := regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)
	seen := map[key]bool{}
	for _, table := range Tables() {
		parts := map[Meaning][]Spec{}
		for name, s := range table.Counters() {
			for _, driver := range table.Drivers {
				key := key{table.Place, driver, name}
				if seen[key] {
					t.Errorf("%v is there twice", key)
				}
				seen[key] = true
				if found, ok := specOf(table.Place, driver, name); !ok || found != s {
					t.Errorf("%v: found %+v, want %+v", key, found, s)
				}
			}
			switch {
			case !plain.MatchString(name):
				t.Errorf("%s %s: not a kernel name", table.Name, name)
			case s.Wraps && s.Saturates, s.Gauge && (s.Wraps || s.Saturates):
				t.Errorf("%s %s: ends in two ways", table.Name, name)
			case (s.Wraps || s.Saturates) && (s.Bits <= 0 || s.Bits > 32):
				t.Errorf("%s %s: no counter of %d bits comes to its end", table.Name, name, s.Bits)
			case s.Gauge && s.Meaning != passed:
				t.Errorf("%s %s: no meaning is a gauge", table.Name, name)
			case s.Scale != 1 && s.Meaning.Unit() != UnitBytes:
				t.Errorf("%s %s: a scale without bytes", table.Name, name)
			case (table.Place == PlacePMA || table.Place == PlacePMAExt) != (s.Saturates || s.Bits == 64 && strings.Contains(string(table.Place), "/counters")):
				t.Errorf("%s %s: PMA counters of less than 64 bits stick, and no others do", table.Name, name)
			}
			if s.Meaning != passed {
				parts[s.Meaning] = append(parts[s.Meaning], s)
			}
		}
		for m, specs := range parts {
			for _, s := range specs {
				if s.Parts != len(specs) || s.Scale != specs[0].Scale {
					t.Errorf("%s %s: %+v is not a part of %d", table.Name, m, s, len(specs))
				}
			}
			if sum := table.Name == "irdma" || table.Name == "ionic"; len(specs) > 1 && !sum {
				t.Errorf("%s: %d names mean %s in internal/counters/%s: give all but one another meaning or passed, or add the driver here if they add up", table.Name, len(specs), m, fileOf(t, table.Name))
			}
		}
	}
}

// The name of a meaning agrees with its unit, where it has one.
func TestMeanings(t *testing.T) {
	list := Meanings()
	if len(list) == 0 {
		t.Fatal("no driver counts anything")
	}
	for i, m := range list {
		if slices.Index(list, m) != i {
			t.Errorf("%s is there twice", m)
		}
		for suffix, unit := range map[string]Unit{"_bytes": UnitBytes, "_packets": UnitPackets} {
			if strings.HasSuffix(string(m), suffix) && m.Unit() != unit {
				t.Errorf("%s counts %s: add it to %s in Unit() in internal/counters/meaning.go", m, m.Unit(), unit)
			}
		}
		if m.Unit() == UnitBytes && !strings.HasSuffix(string(m), "_bytes") {
			t.Errorf("%s counts bytes: let its name in internal/counters/meaning.go end in _bytes, or take it out of Unit()", m)
		}
	}
	if got := TransmitWait.Unit(); got != UnitTicks { // neither time nor events: alerts divide it by the link's clock
		t.Errorf("%s counts %s", TransmitWait, got)
	}
}

// The registers that others depend on, as the kernel source has them.
func TestSpecs(t *testing.T) {
	mlx5 := Spec{Meaning: OutOfBuffer, Parts: 1, Scale: 1, Bits: 32, Wraps: true}
	for _, c := range []struct {
		place        Place
		driver, name string
		want         Spec
		ok           bool
	}{
		{PlacePort, "mlx5_core", "out_of_buffer", mlx5, true},
		{PlacePort, "mlx5_core", "vport_out_of_buffer", mlx5, true},
		{PlacePort, "mlx5_core.sf", "out_of_buffer", mlx5, true},
		{PlaceDevice, "mlx5_core", "out_of_buffer", mlx5, true},
		{PlaceDevice, "mlx5_core", "vport_out_of_buffer", Spec{}, false},
		{PlacePort, "mlx5_core", "np_cnp_sent", Spec{Meaning: CNPSent, Parts: 1, Scale: 1, Bits: 64}, true},
		{PlacePort, "mlx5_core", "lifespan", Spec{}, false}, // configuration
		{PlacePort, "bnxt_en", "out_of_buffer", Spec{}, false},
		{PlacePort, "bnxt_en", "recoverable_errors", Spec{Scale: 1, Bits: 64}, true},
		{PlacePort, "bnxt_en", "active_qps", Spec{Scale: 1, Bits: 32, Gauge: true}, true},
		{PlacePort, "i40e", "ip6OutOctets", Spec{Meaning: TransmittedBytes, Parts: 2, Scale: 1, Bits: 64}, true},
		{PlacePort, "ionic", "resp_rx_outouf_seq", Spec{Meaning: OutOfSequence, Parts: 1, Scale: 1}, true},
		{PlacePort, "", "rcvd_pkts", Spec{Meaning: ReceivedPackets, Parts: 1, Scale: 1, Bits: 64}, true},
		{PlaceDevice, "mana", "sent_cnps", Spec{Meaning: CNPSent, Parts: 1, Scale: 1, Bits: 64}, true},
		{PlacePort, "nosuch", "rx_bytes", Spec{}, false},
		{PlacePort, AnyDriver, "rx_bytes", Spec{}, false},
		{PlacePMA, "mlx5_core", "port_xmit_data", Spec{Meaning: TransmittedBytes, Parts: 1, Scale: 4, Bits: 64}, true},
		{PlacePMA, "nosuch", "symbol_error", Spec{Meaning: SymbolErrors, Parts: 1, Scale: 1, Bits: 16, Saturates: true}, true},
		{PlacePMA, "hfi1", "port_xmit_data", Spec{Meaning: TransmittedBytes, Parts: 1, Scale: 8, Bits: 64}, true},
		{PlacePMAExt, "mlx5_core", "port_rcv_data_64", Spec{Meaning: ReceivedBytes, Parts: 1, Scale: 4, Bits: 64}, true},
		{PlacePMAExt, "mlx4_core", "port_unicast_xmit_packets", Spec{Meaning: TransmittedUnicastPackets, Parts: 1, Scale: 1, Bits: 64}, true},
		{PlacePMA, "mlx5_core", "nosuch", Spec{}, false},
	} {
		if got, ok := specOf(c.place, c.driver, c.name); got != c.want || ok != c.ok {
			t.Errorf("%s %s %s: %+v %v, want %+v", c.place, c.driver, c.name, got, ok, c.want)
		}
	}
	for bits, max := range map[int]uint64{4: 15, 8: 255, 16: 65535, 32: 1<<32 - 1, 64: 1<<64 - 1} {
		if got := (Spec{Bits: bits}).Max(); got != max {
			t.Errorf("%d bits hold %d, want %d", bits, got, max)
		}
	}
}
