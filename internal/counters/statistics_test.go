// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// testdata/ethernet has the names that the kernel's drivers show, those of queues cut short, and in ".older"
// those that they had once. No table has a name that its driver has not.
func TestStatNamesExist(t *testing.T) {
	used := map[string]bool{}
	for _, table := range StatTables() {
		file := filepath.Join("testdata/ethernet", table.Drivers[0])
		used[file], used[file+".older"] = true, true
		names := append(kernelNames(t, file), kernelNames(t, file+".older")...)
		if len(names) == 0 {
			t.Errorf("%s: there is no file internal/counters/%s: list there the names that the kernel's source has, one a line", table.Name, file)
			continue
		}
		for name := range table.Stats() {
			if !slices.Contains(names, name) {
				t.Errorf("%s: internal/counters/%s lacks %s: add it there if the kernel's source has it", table.Name, file, name)
			}
		}
		wanted := StatWanted(table.Drivers[0])
		for _, name := range names {
			if _, ok := StatSpecOf(table.Drivers[0], name); ok != (wanted != nil && wanted(name)) {
				t.Errorf("%s %s: known %v", table.Name, name, ok)
			}
		}
	}
	files, err := filepath.Glob("testdata/ethernet/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if !used[file] {
			t.Errorf("internal/counters/%s is of no table: add the driver to drivers() in internal/counters/counters.go", file)
		}
	}
}

// A driver whose statistics mean nothing to us is not asked for them.
func TestNothingIsReadWithoutATable(t *testing.T) {
	for _, driver := range []string{"", "veth", "ena"} {
		if StatWanted(driver) != nil {
			t.Errorf("statistics of %q are wanted", driver)
		}
	}
}

func TestStatTablesAreSound(t *testing.T) {
	drivers := map[string]bool{}
	for _, table := range StatTables() {
		for _, d := range table.Drivers {
			if drivers[d] {
				t.Errorf("two tables for %s", d)
			}
			drivers[d] = true
		}
		seen := map[string]bool{}
		type key struct {
			meaning  Meaning
			priority int
			older    bool
		}
		parts := map[key]int{}
		for name, s := range table.Stats() {
			switch {
			case seen[name]:
				t.Errorf("%s: %s is there twice", table.Name, name)
			case s.Meaning == passed:
				t.Errorf("%s: %s means nothing", table.Name, name)
			case len(name) > 31: // ETH_GSTRING_LEN
				t.Errorf("%s: ethtool has no room for %s", table.Name, name)
			case s.Wraps && s.Bits != 32, s.Saturates, s.Bits == 0:
				t.Errorf("%s %s: %+v", table.Name, name, s)
			case s.Gauge != (s.Meaning.Unit() == UnitRatio), s.Gauge && s.Wraps:
				t.Errorf("%s %s: a ratio is a gauge, and nothing else is", table.Name, name)
			case s.OfClass && !s.Meaning.PerPriority():
				t.Errorf("%s %s: classes have priorities", table.Name, name)
			case !slices.Contains([]float64{1, 1e-6, 0.01, 0.5}, s.Scale):
				t.Errorf("%s %s: scale %g", table.Name, name, s.Scale)
			case (s.Scale == 1e-6) != (s.Meaning.Unit() == UnitSeconds && s.Bits == 64):
				t.Errorf("%s %s: time is in microseconds, but for PCIe", table.Name, name)
			case s.Meaning.PerPriority() != (s.Priority >= 0 && s.Priority < priorities):
				t.Errorf("%s %s: priority %d", table.Name, name, s.Priority)
			}
			seen[name] = true
			parts[key{s.Meaning, s.Priority, s.Older}]++
			if !StatMeans(table.Drivers[0], s.Meaning) || StatMeans("nosuch", s.Meaning) {
				t.Errorf("%s: who has %s?", table.Name, s.Meaning)
			}
			for _, d := range table.Drivers {
				if got, ok := StatSpecOf(d, name); !ok || got != s {
					t.Errorf("%s %s: found %+v, want %+v", d, name, got, s)
				}
			}
		}
		for name, s := range table.Stats() {
			n := parts[key{s.Meaning, s.Priority, s.Older}]
			if s.Parts != n {
				t.Errorf("%s %s: %d parts, want %d", table.Name, name, s.Parts, n)
			}
			if sum := strings.Contains(name, "xo") || strings.Contains(name, "_cos"); n > 1 && !sum {
				t.Errorf("%s %s: %d names mean %s", table.Name, name, n, s.Meaning)
			}
			for _, tx := range []string{"tx_", "_tx"} {
				if strings.Contains(name, tx) && strings.Contains(string(s.Meaning), "received") && !strings.Contains(name, "rx") {
					t.Errorf("%s %s means %s", table.Name, name, s.Meaning)
				}
			}
		}
	}
}

// The specs that others depend on, as the kernel source has them.
func TestStatSpecs(t *testing.T) {
	spec := func(m Meaning, parts, priority int, s Spec) StatSpec {
		s.Meaning, s.Parts = m, parts
		if s.Scale == 0 {
			s.Scale = 1
		}
		return StatSpec{Spec: s, Priority: priority}
	}
	older := func(s StatSpec) StatSpec {
		s.Older = true
		return s
	}
	for _, c := range []struct {
		driver, name string
		want         StatSpec
		ok           bool
	}{
		{"mlx5_core", "rx_prio3_pause_duration", spec(StatReceivedPauseSeconds, 1, 3, Spec{Bits: 64, Scale: 1e-6}), true},
		{"mlx5_core", "tx_prio7_pause", spec(StatTransmittedPauseFrames, 1, 7, bits64), true},
		{"mlx5_core", "rx_prio8_pause", StatSpec{}, false},
		{"mlx5_core", "rx_prio_pause", StatSpec{}, false},
		{"mlx5_core", "rx_prio%d_pause", StatSpec{}, false},
		{"mlx5_core", "rx_out_of_buffer", spec(StatOutOfBuffer, 1, NoPriority, Spec{Bits: 32, Wraps: true}), true},
		{"mlx5_core.sf", "rx_out_of_buffer", spec(StatOutOfBuffer, 1, NoPriority, Spec{Bits: 32, Wraps: true}), true},
		{"mlx5_core", "outbound_pci_stalled_wr", spec(StatPCIeWriteStalledRatio, 1, NoPriority, Spec{Bits: 32, Scale: 0.01, Gauge: true}), true},
		{"mlx5_core", "outbound_pci_stalled_wr_events", spec(StatPCIeWriteStalledSeconds, 1, NoPriority, Spec{Bits: 32}), true},
		{"mlx5_core", "rx_ecn_mark", StatSpec{}, false},
		{"mlx5_core", "rx_symbol_err_phy", StatSpec{}, false},
		{"mlx5_core", "rx0_packets", StatSpec{}, false},
		{"bnxt_en", "pfc_pri5_tx_duration_us", spec(StatTransmittedPauseSeconds, 1, 5, micros64), true},
		{"bnxt_en", "rx_discard_packets_cos7", spec(StatReceivedDiscards, 8, NoPriority, bits64), true},
		{"bnxt_en", "rx_bytes_pri3", spec(StatPriorityReceivedBytes, 1, 3, Spec{Bits: 64, OfClass: true}), true},
		{"bnxt_en", "pfc_pri3_tx_transitions", spec(StatTransmittedPauses, 1, 3, Spec{Bits: 64, Scale: 0.5}), true},
		{"bnxt_en", "rx_prio3_pause", StatSpec{}, false},
		{"ice", "rx_priority_3_xoff.nic", spec(StatReceivedPauseFrames, 2, 3, bits64), true},
		{"ice", "rx_dropped", StatSpec{}, false}, // of the function, without .nic
		{"ice", "tx_dropped_link_down.nic", spec(StatTransmittedDiscards, 1, NoPriority, bits64), true},
		{"i40e", "port.tx_priority_0_xon_tx", spec(StatTransmittedPauseFrames, 2, 0, wraps32), true},
		{"i40e", "port.rx_priority_3_xon_2_xoff", spec(StatReceivedPauses, 1, 3, wraps32), true},
		{"i40e", "port.tx_dropped_link_down", spec(StatTransmittedDiscards, 1, NoPriority, wraps32), true},
		{"i40e", "port.rx_discards", spec(StatReceivedDiscards, 1, NoPriority, wraps32), true},
		{"i40e", "port.rx_dropped", older(spec(StatReceivedDiscards, 1, NoPriority, wraps32)), true},
		{"i40e", "port.rx_priority_3_xon", older(spec(StatReceivedPauseFrames, 2, 3, wraps32)), true},
		{"i40e", "port.tx_priority_3_xoff", older(spec(StatTransmittedPauseFrames, 2, 3, wraps32)), true},
		{"i40e", "rx_dropped", StatSpec{}, false}, // of the interface, without port.
		{"i40e", "port.rx_crc_errors", spec(StatCRCErrors, 1, NoPriority, wraps32), true},
		{"i40e", "rx_crc_errors", StatSpec{}, false}, // the same number once more
		{"ice", "rx_crc_errors.nic", spec(StatCRCErrors, 1, NoPriority, bits64), true},
		{"mlx5_core", "rx_crc_errors_phy", spec(StatCRCErrors, 1, NoPriority, bits64), true},
		{"mlx4_core", "rx_crc_errors", spec(StatCRCErrors, 1, NoPriority, bits32), true},
		{"bnxt_en", "rx_fcs_err_frames", spec(StatCRCErrors, 1, NoPriority, bits64), true},
		{"ionic", "frames_rx_bad_fcs", spec(StatCRCErrors, 1, NoPriority, bits64), true},
		{"ionic", "frames_rx_stomped_crc", StatSpec{}, false}, // may be among those of bad_fcs
		{"hns3", "mac_rx_fcs_err_pkt_num", spec(StatCRCErrors, 1, NoPriority, bits64), true},
		{"ice", "mac_local_faults.nic", spec(StatLocalFaults, 1, NoPriority, bits64), true},
		{"i40e", "port.mac_remote_faults", spec(StatRemoteFaults, 1, NoPriority, wraps32), true},
		{"bnxt_en", "rx_total_ring_discards", spec(StatOutOfBuffer, 1, NoPriority, bits64), true},
		{"bnxt_en", "rx_total_discard_pkts", older(spec(StatOutOfBuffer, 1, NoPriority, bits64)), true},
		{"bnxt_en", "rx_stat_discard", spec(StatReceivedDrops, 1, NoPriority, bits64), true},
		{"bnxt_en", "tx_stat_discard", spec(StatTransmittedDrops, 1, NoPriority, bits64), true},
		{"ionic", "hw_rx_dropped", spec(StatReceivedDrops, 1, NoPriority, bits64), true},
		{"ionic", "hw_rx_over_errors", spec(StatOutOfBuffer, 1, NoPriority, bits64), true},
		{"ionic", "hw_rx_missed_errors", spec(StatReceivedDeliveryErrors, 1, NoPriority, bits64), true},
		{"ionic", "rx_pripause_2_1us_count", spec(StatReceivedPauseSeconds, 1, 2, micros64), true},
		{"hns3", "mac_rx_pfc_pri4_pkt_num", spec(StatReceivedPauseFrames, 1, 4, bits64), true},
		{"mana", "hc_rx_discards_no_wqe", spec(StatOutOfBuffer, 1, NoPriority, bits64), true},
		{"mana", "hc_tc3_rx_pause_phy", StatSpec{}, false},
		{"ena", "wd_expired", StatSpec{}, false},
		{"", "rx_prio3_pause", StatSpec{}, false},
		{"nosuch", "rx_prio3_pause", StatSpec{}, false},
	} {
		got, ok := StatSpecOf(c.driver, c.name)
		if got != c.want || ok != c.ok {
			t.Errorf("%s %s: %+v %v, want %+v", c.driver, c.name, got, ok, c.want)
		}
	}
}

func TestStatInUnit(t *testing.T) {
	for _, c := range []struct {
		driver, name string
		value        uint64
		want         float64
	}{
		{"mlx5_core", "rx_prio3_pause_duration", 5, 5e-06},
		{"mlx5_core", "rx_prio3_pause_duration", 1_234_567, 1.234567},
		{"mlx5_core", "outbound_pci_stalled_rd", 29, 0.29},
		{"mlx5_core", "rx_prio3_pause", 7, 7},
		{"bnxt_en", "pfc_pri3_rx_transitions", 7, 3.5},
	} {
		spec, _ := StatSpecOf(c.driver, c.name)
		if got := spec.InUnit(c.value); got != c.want {
			t.Errorf("%s %d: %g, want %g", c.name, c.value, got, c.want)
		}
	}
}

func TestStatRows(t *testing.T) {
	for _, table := range StatTables() {
		var names []string
		for pattern, s := range table.Rows() {
			first := strings.Replace(pattern, "<n>", "0", 1)
			if got, ok := StatSpecOf(table.Drivers[0], first); !ok || got != s {
				t.Errorf("%s %s: %+v, want %+v", table.Name, pattern, s, got)
			}
			names = append(names, pattern)
		}
		if want := len(table.rows) + len(table.older); len(names) != want {
			t.Errorf("%s: %d rows, want %d", table.Name, len(names), want)
		}
		for range table.Rows() { // an iterator can be left
			break
		}
		for range table.Stats() {
			break
		}
	}
}
