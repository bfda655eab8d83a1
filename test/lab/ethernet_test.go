// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// statisticOf is what ethtool -S calls a metric of mlx5, where * is the priority, and how many of its units
// are one of the metric's.
var statisticOf = map[string]struct {
	name string
	unit float64
}{
	"roce_received_pause_frames_total":              {"rx_prio*_pause", 1},
	"roce_transmitted_pause_frames_total":           {"tx_prio*_pause", 1},
	"roce_received_pause_seconds_total":             {"rx_prio*_pause_duration", 1e6},
	"roce_transmitted_pause_seconds_total":          {"tx_prio*_pause_duration", 1e6},
	"roce_received_pauses_total":                    {"rx_prio*_pause_transition", 1},
	"roce_received_discards_total":                  {"rx_prio*_discards", 1},
	"roce_received_congestion_discards_total":       {"rx_prio*_cong_discard", 1},
	"roce_received_host_buffer_discards_total":      {"rx_prio*_buf_discard", 1},
	"roce_received_ecn_marks_total":                 {"rx_prio*_marked", 1},
	"roce_priority_transmitted_bytes_total":         {"tx_prio*_bytes", 1},
	"roce_priority_received_bytes_total":            {"rx_prio*_bytes", 1},
	"roce_priority_transmitted_packets_total":       {"tx_prio*_packets", 1},
	"roce_priority_received_packets_total":          {"rx_prio*_packets", 1},
	"ethernet_received_discards_total":              {"rx_discards_phy", 1},
	"ethernet_transmitted_discards_total":           {"tx_discards_phy", 1},
	"ethernet_symbol_errors_total":                  {"rx_pcs_symbol_err_phy", 1},
	"ethernet_fec_bit_corrections_total":            {"rx_corrected_bits_phy", 1},
	"ethernet_link_down_events_total":               {"link_down_events_phy", 1},
	"ethernet_pause_storm_warnings_total":           {"tx_pause_storm_warning_events", 1},
	"ethernet_pause_storm_errors_total":             {"tx_pause_storm_error_events", 1},
	"ethernet_received_pause_seconds_total":         {"rx_global_pause_duration", 1e6},
	"ethernet_transmitted_pause_seconds_total":      {"tx_global_pause_duration", 1e6},
	"ethernet_received_pauses_total":                {"rx_global_pause_transition", 1},
	"ethernet_pcie_read_stalled_ratio":              {"outbound_pci_stalled_rd", 100},
	"ethernet_pcie_write_stalled_ratio":             {"outbound_pci_stalled_wr", 100},
	"ethernet_out_of_buffer_total":                  {"rx_out_of_buffer", 1},
	"ethernet_transmitted_rdma_unicast_bytes_total": {"tx_vport_rdma_unicast_bytes", 1},
	"ethernet_received_rdma_unicast_bytes_total":    {"rx_vport_rdma_unicast_bytes", 1},
}

// What /metrics shows of an interface is what ethtool -S and dcb -j show at that moment, before and after PFC moves to
// other priorities and 802.3x flow control comes and goes; and so is what the user asks for beside that.
func testEthernet(t *testing.T, _ *exporter) {
	number(t)
	x := startWith(t, "--observer.fast-interval=200ms", "--observer.medium-interval=500ms", "--observer.slow-interval=1s",
		"--collector.device-include=fakehca_0", "--collector.netdev.stats-include=rx_symbol_err_phy|[rt]x_global_pause")
	t.Cleanup(func() {
		pfc(t, "3:on")
		command(t, "ethtool -A hca0 rx off tx off autoneg off")
	})
	for _, c := range []struct{ pfc, pause string }{{"3:on", "off"}, {"4:on", "off"}, {"", "on"}, {"3:on 5:on", "off"}, {"3:on", "off"}} {
		pfc(t, c.pfc)
		command(t, "ethtool -A hca0 rx "+c.pause+" tx "+c.pause+" autoneg off")
		x.agrees(t, func(s scrape) error { return errors.Join(sameStatistics(s), samePFC(s)) })
	}
}

// sameStatistics compares with ethtool -S.
func sameStatistics(s scrape) error {
	shown := map[string]uint64{}
	for _, line := range says("-S", "hca0") {
		name, value, _ := strings.Cut(line, ": ")
		if v, err := strconv.ParseUint(value, 10, 64); err == nil {
			shown[name] = v
		}
	}
	var errs []error
	compared := map[string]bool{}
	for _, m := range s {
		of, known := statisticOf[m.name]
		name := strings.Replace(of.name, "*", m.labels["priority"], 1)
		if m.name == "ethernet_statistic_total" {
			known, name, of.unit = true, m.labels["statistic"], 1
		}
		if !known || m.labels["netdev"] != "hca0" {
			continue
		}
		v, there := shown[name]
		if !there || m.value != float64(v)/of.unit {
			errs = append(errs, fmt.Errorf("%v is %v, ethtool says %s: %d (there: %t)", m, m.value, name, v, there))
		}
		compared[name] = true
	}
	for name := range shown { // at most so many series are shown of an interface: losses and pauses always are
		if (strings.HasSuffix(name, "_pause") || strings.Contains(name, "_pause_") || strings.HasSuffix(name, "_phy")) && !compared[name] {
			errs = append(errs, fmt.Errorf("ethtool says %s: %d, and no metric does", name, shown[name]))
		}
	}
	return errors.Join(errs...)
}

// samePFC compares with dcb -j: each priority that has PFC shows, and no other one but that which RoCE uses.
func samePFC(s scrape) error {
	list, err := twice(func() (json.RawMessage, error) {
		var v map[string]json.RawMessage
		err := answer(&v, "dcb", "-j", "-s", "pfc", "show", "dev", "hca0")
		return v["prio_pfc"], err
	})
	var shown [fabric.NumPriorities]bool
	if err = errors.Join(err, json.Unmarshal(list, &shown)); err != nil {
		return err
	}
	var errs []error
	for p, on := range shown {
		found := s.find("roce_pfc_enabled", "netdev", "hca0", "priority", strconv.Itoa(p))
		if len(found) == 0 && on || len(found) == 1 && (found[0].value == 1) != on || len(found) > 1 {
			errs = append(errs, fmt.Errorf("priority %d: %v, dcb says %t", p, found, on))
		}
	}
	return errors.Join(errs...)
}
