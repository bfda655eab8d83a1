// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// specOf looks a counter up as the exporter does.
func specOf(place CounterPlace, driver, name string) (CounterSpec, bool) {
	switch place {
	case PlacePMA, PlacePMAExt:
		return PMASpecOf(driver, name)
	case PlaceDevice:
		return DeviceCounterSpecOf(driver, name)
	default:
		return CounterSpecOf(driver, name)
	}
}

// testdata/counters has the names that the kernel's drivers show, one file a driver and place. The tables know
// each of them and, except for optional hardware, no other.
func TestTablesAreComplete(t *testing.T) {
	files, err := filepath.Glob("testdata/counters/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	known := map[counterKey]bool{}
	for _, file := range files {
		driver, device := strings.CutSuffix(filepath.Base(file), ".device")
		place := PlacePort
		switch {
		case device:
			place = PlaceDevice
		case driver == "pma":
			place, driver = PlacePMA, AnyDriver
		case driver == "pma_ext":
			place, driver = PlacePMAExt, AnyDriver
		case driver == "rxe":
			driver = ""
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for name := range strings.FieldsSeq(string(text)) {
			known[counterKey{place, driver, name}] = true
			if _, ok := specOf(place, driver, name); !ok {
				t.Errorf("%s: neither mapped nor passed through: %s", file, name)
			}
		}
	}
	for _, table := range CounterTables() {
		if table.Name == "hfi1" || table.Name == "mlx5" && table.Place == PlaceDevice { // as another table
			continue
		}
		for name := range table.Counters() {
			if !known[counterKey{table.Place, table.Drivers[0], name}] && !laterFirmware(name) {
				t.Errorf("%s %s: the kernel has no counter %s", table.Name, table.Place, name)
			}
		}
	}
}

// laterFirmware tells names of ionic that the captured firmware did not have.
func laterFirmware(name string) bool {
	return slices.Contains([]string{"tx_rdma_ack_timeout", "tx_rdma_retx_pkts", "tx_rdma_retx_bytes", "rx_rdma_mtu_discard_pkts"}, name)
}

func TestTablesAreSound(t *testing.T) {
	plain := regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)
	seen := map[counterKey]bool{}
	for _, table := range CounterTables() {
		parts := map[Meaning][]CounterSpec{}
		for name, s := range table.Counters() {
			for _, driver := range table.Drivers {
				key := counterKey{table.Place, driver, name}
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
				t.Errorf("%s: %d names mean %s", table.Name, len(specs), m)
			}
		}
	}
}

func TestMeanings(t *testing.T) {
	list := Meanings()
	if len(list) < 50 {
		t.Errorf("only %d meanings", len(list))
	}
	units := map[CounterUnit]int{}
	for i, m := range list {
		if slices.Index(list, m) != i {
			t.Errorf("%s is there twice", m)
		}
		units[m.Unit()]++
		if strings.HasSuffix(string(m), "_bytes") != (m.Unit() == UnitBytes) || strings.HasSuffix(string(m), "_packets") && m.Unit() != UnitPackets {
			t.Errorf("%s counts %s", m, m.Unit())
		}
	}
	if units[UnitBytes] != 3 || units[UnitTicks] != 1 {
		t.Errorf("units: %v", units)
	}
}

// The registers that others depend on, as the kernel source has them.
func TestSpecs(t *testing.T) {
	mlx5 := CounterSpec{Meaning: CountOutOfBuffer, Parts: 1, Scale: 1, Bits: 32, Wraps: true}
	for _, c := range []struct {
		place        CounterPlace
		driver, name string
		want         CounterSpec
		ok           bool
	}{
		{PlacePort, "mlx5_core", "out_of_buffer", mlx5, true},
		{PlacePort, "mlx5_core", "vport_out_of_buffer", mlx5, true},
		{PlacePort, "mlx5_core.sf", "out_of_buffer", mlx5, true},
		{PlaceDevice, "mlx5_core", "out_of_buffer", mlx5, true},
		{PlaceDevice, "mlx5_core", "vport_out_of_buffer", CounterSpec{}, false},
		{PlacePort, "mlx5_core", "np_cnp_sent", CounterSpec{Meaning: CountCNPSent, Parts: 1, Scale: 1, Bits: 64}, true},
		{PlacePort, "mlx5_core", "lifespan", CounterSpec{}, false}, // configuration
		{PlacePort, "bnxt_en", "out_of_buffer", CounterSpec{}, false},
		{PlacePort, "bnxt_en", "recoverable_errors", CounterSpec{Scale: 1, Bits: 64}, true},
		{PlacePort, "bnxt_en", "active_qps", CounterSpec{Scale: 1, Bits: 32, Gauge: true}, true},
		{PlacePort, "i40e", "ip6OutOctets", CounterSpec{Meaning: CountTransmittedBytes, Parts: 2, Scale: 1, Bits: 64}, true},
		{PlacePort, "ionic", "resp_rx_outouf_seq", CounterSpec{Meaning: CountOutOfSequence, Parts: 1, Scale: 1}, true},
		{PlacePort, "", "rcvd_pkts", CounterSpec{Meaning: CountReceivedPackets, Parts: 1, Scale: 1, Bits: 64}, true},
		{PlaceDevice, "mana", "sent_cnps", CounterSpec{Meaning: CountCNPSent, Parts: 1, Scale: 1, Bits: 64}, true},
		{PlacePort, "nosuch", "rx_bytes", CounterSpec{}, false},
		{PlacePort, AnyDriver, "rx_bytes", CounterSpec{}, false},
		{PlacePMA, "mlx5_core", "port_xmit_data", CounterSpec{Meaning: CountTransmittedBytes, Parts: 1, Scale: 4, Bits: 64}, true},
		{PlacePMA, "nosuch", "symbol_error", CounterSpec{Meaning: CountSymbolErrors, Parts: 1, Scale: 1, Bits: 16, Saturates: true}, true},
		{PlacePMA, "hfi1", "port_xmit_data", CounterSpec{Meaning: CountTransmittedBytes, Parts: 1, Scale: 8, Bits: 64}, true},
		{PlacePMAExt, "mlx5_core", "port_rcv_data_64", CounterSpec{Meaning: CountReceivedBytes, Parts: 1, Scale: 4, Bits: 64}, true},
		{PlacePMAExt, "mlx4_core", "port_unicast_xmit_packets", CounterSpec{Meaning: CountTransmittedUnicastPackets, Parts: 1, Scale: 1, Bits: 64}, true},
		{PlacePMA, "mlx5_core", "nosuch", CounterSpec{}, false},
	} {
		if got, ok := specOf(c.place, c.driver, c.name); got != c.want || ok != c.ok {
			t.Errorf("%s %s %s: %+v %v, want %+v", c.place, c.driver, c.name, got, ok, c.want)
		}
	}
	for bits, max := range map[int]uint64{4: 15, 8: 255, 16: 65535, 32: 1<<32 - 1, 64: 1<<64 - 1} {
		if got := (CounterSpec{Bits: bits}).Max(); got != max {
			t.Errorf("%d bits hold %d, want %d", bits, got, max)
		}
	}
}
