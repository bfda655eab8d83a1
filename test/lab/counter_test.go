// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Metrics of counters by their names in the kernel; what is not here has none of its own.
var (
	pmaMetrics = map[string]string{
		"port_xmit_data": "hca_port_transmitted_data_bytes_total", "port_rcv_data": "hca_port_received_data_bytes_total",
		"port_xmit_packets": "hca_port_transmitted_packets_total", "port_rcv_packets": "hca_port_received_packets_total",
		"unicast_xmit_packets": "hca_port_transmitted_unicast_packets_total", "unicast_rcv_packets": "hca_port_received_unicast_packets_total",
		"multicast_xmit_packets": "hca_port_transmitted_multicast_packets_total", "multicast_rcv_packets": "hca_port_received_multicast_packets_total",
		"port_xmit_wait": "hca_port_transmit_wait_ticks_total", "symbol_error": "hca_port_symbol_errors_total",
		"link_error_recovery": "hca_port_link_error_recoveries_total", "link_downed": "hca_port_link_downed_total",
		"port_rcv_errors": "hca_port_receive_errors_total", "port_rcv_remote_physical_errors": "hca_port_receive_remote_physical_errors_total",
		"port_rcv_switch_relay_errors": "hca_port_receive_switch_relay_errors_total", "port_xmit_discards": "hca_port_transmit_discards_total",
		"port_xmit_constraint_errors": "hca_port_transmit_constraint_errors_total", "port_rcv_constraint_errors": "hca_port_receive_constraint_errors_total",
		"local_link_integrity_errors": "hca_port_local_link_integrity_errors_total", "VL15_dropped": "hca_port_vl15_dropped_total",
		"excessive_buffer_overrun_errors": "hca_port_excessive_buffer_overrun_errors_total",
	}
	hwMetrics = map[string]string{
		"rx_write_requests": "hca_received_write_requests_total", "out_of_sequence": "hca_out_of_sequence_total",
		"packet_seq_err": "hca_packet_sequence_errors_total", "out_of_buffer": "hca_out_of_buffer_total",
		"local_ack_timeout_err": "hca_ack_timeouts_total", "rnr_nak_retry_err": "hca_rnr_naks_received_total",
		"implied_nak_seq_err": "hca_implied_nak_sequence_errors_total", "duplicate_request": "hca_duplicate_requests_total",
		"np_cnp_sent": "hca_cnp_sent_total", "np_ecn_marked_roce_packets": "hca_ecn_marked_total",
		"rp_cnp_handled": "hca_cnp_handled_total", "rp_cnp_ignored": "hca_cnp_ignored_total",
		"roce_adp_retrans": "hca_adaptive_retransmissions_total", "roce_slow_restart": "hca_slow_restarts_total",
		"rx_icrc_encapsulated": "hca_icrc_errors_total",
		// rxe
		"sent_pkts": "hca_port_transmitted_packets_total", "rcvd_pkts": "hca_port_received_packets_total",
		"out_of_seq_request": "hca_out_of_sequence_total", "rcvd_rnr_err": "hca_rnr_naks_received_total", "send_rnr_err": "hca_rnr_naks_sent_total",
		"rcvd_seq_err": "hca_packet_sequence_errors_total", "retry_exceeded_err": "hca_retries_exceeded_total",
		"retry_rnr_exceeded_err": "hca_rnr_retries_exceeded_total", "completer_retry_err": "hca_retransmissions_total",
		"link_downed": "hca_port_link_downed_total",
	}
)

// ofInfiniBand are counters that an Ethernet port has and does not use: the exporter shows them only if they are not 0.
var ofInfiniBand = []string{
	"port_xmit_wait", "symbol_error", "link_error_recovery", "port_rcv_errors", "port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors",
	"port_rcv_constraint_errors", "port_xmit_discards", "port_xmit_constraint_errors", "local_link_integrity_errors", "excessive_buffer_overrun_errors", "VL15_dropped",
}

// statistics is what `rdma -j statistic` prints of a port.
func (p port) statistics() (map[string]uint64, error) {
	var list []map[string]any
	if err := answer(&list, "rdma", "-j", "statistic", "show", "link", p.name()); err != nil {
		return nil, err
	}
	counters := make(map[string]uint64)
	for _, entry := range list {
		for name, v := range entry {
			if n, ok := v.(float64); ok && name != "port" { // the tests set no counter that a float64 does not hold
				counters[name] = uint64(n)
			}
		}
	}
	return counters, nil
}

// values reads the numbers in a folder of the port.
func (p port) values(folder string) map[string]uint64 {
	files, _ := filepath.Glob(filepath.Join(class, p.Device, "ports", strconv.Itoa(p.Number), folder, "*"))
	numbers := make(map[string]uint64)
	for _, file := range files {
		if n, err := strconv.ParseUint(read(file), 10, 64); err == nil && filepath.Base(file) != "lifespan" {
			numbers[filepath.Base(file)] = n
		}
	}
	return numbers
}

// counters: the exporter has every counter that the kernel has, with the value of rdma and sysfs, and no other.
func counters(s scrape) error {
	kernel, err := kernelPorts()
	if err != nil {
		return err
	}
	line := func(metric, port, name string, v float64) string {
		return fmt.Sprintf("%s %s %s %.0f", metric, port, name, v)
	}
	var want, got []string
	var errs []error
	for _, p := range kernel {
		fromSysfs := p.values("hw_counters")
		if len(fromSysfs) > 0 { // rdma fails where there are none
			if fromRDMA, err := p.statistics(); err != nil || !maps.Equal(fromRDMA, fromSysfs) {
				errs = append(errs, err, fmt.Errorf("%s: rdma says %v, sysfs %v", p.name(), fromRDMA, fromSysfs))
			}
		}
		for name, v := range fromSysfs {
			if metric := hwMetrics[name]; metric != "" {
				want = append(want, line(metric, p.name(), "", float64(v)))
			} else {
				want = append(want, line("hca_hw_counters_total", p.name(), name, float64(v)))
			}
		}
		for name, v := range p.values("counters") {
			if v == 0 && p.file("link_layer") == "Ethernet" && slices.Contains(ofInfiniBand, name) {
				continue
			}
			if name == "port_xmit_data" || name == "port_rcv_data" {
				v *= 4
			}
			want = append(want, line(pmaMetrics[name], p.name(), "", float64(v)))
		}
	}
	metrics := map[string]bool{"hca_hw_counters_total": true, "hca_hw_counters_value": true}
	for _, names := range []map[string]string{pmaMetrics, hwMetrics} {
		for _, metric := range names {
			metrics[metric] = true
		}
	}
	for _, m := range s {
		if metrics[m.name] {
			got = append(got, line(m.name, m.port(), m.labels["counter"], m.value))
		}
	}
	return errors.Join(append(errs, diff("counter", want, got))...)
}

// debug is a file of a fakehca device.
func debug(device, name string) string {
	return filepath.Join("/sys/kernel/debug/fakehca", device[len("fakehca_"):], name)
}

// setCounters gives all counters of a device values of their own, until the test ends.
func setCounters(t *testing.T, device string) {
	t.Helper()
	p := port{Device: device, Number: 1}
	var names []string
	for name := range p.values("hw_counters") {
		names = append(names, name)
	}
	for _, name := range []string{"xmit_data", "rcv_data", "xmit_packets", "rcv_packets", "xmit_wait", "symbol_error", "rcv_errors"} {
		names = append(names, "port_"+name)
	}
	slices.Sort(names)
	for i, name := range names {
		set(t, debug(device, name), strconv.Itoa(1001+7*i))
	}
	set(t, debug(device, "np_cnp_sent"), "9007199254740992")   // 1<<53
	set(t, debug(device, "port_xmit_data"), "562949953421312") // 1<<49
}

func testCounters(t *testing.T, x *exporter) {
	setCounters(t, "fakehca_1")
	setCounters(t, "fakehca_5")
	s := x.agrees(t, counters, strangers, is(1<<51, "hca_port_transmitted_data_bytes_total", "device", "fakehca_1"),
		is(1<<53, "hca_cnp_sent_total", "device", "fakehca_5"))
	for device, want := range map[string]int{"fakehca_1": 36, "rxe0": 15, "siw0": 0} { // as many as the kernel has files
		p := port{Device: device, Number: 1}
		if n := len(p.values("counters")) + len(p.values("hw_counters")); n != want {
			t.Errorf("%s has %d counters, want %d", device, n, want)
		}
	}
	if found := s.find("hca_hw_counters_total", "device", "rxe0"); len(found) != 4 {
		t.Errorf("%v pass through, want 4 counters", found)
	}
}

// Counters of 32 bits go on after they wrap, a reset shows as one, those that stick say so, and all ones are no value.
func testCounterLimits(t *testing.T, _ *exporter) {
	x := start(t, 0) // it forgets what it has continued when it ends
	const device = "fakehca_1"
	sequence := func(v float64) func(scrape) error { return is(v, "hca_out_of_sequence_total", "device", device) }
	cnp := func(v float64) func(scrape) error { return is(v, "hca_cnp_sent_total", "device", device) }
	for _, step := range []struct {
		kernel string
		want   float64
	}{
		{"4294967290", 1<<32 - 6},
		{"5", 1<<32 + 5},
		{"3000000000", 1<<32 + 3000000000},
		{"0", 2 << 32},
		{"700", 2<<32 + 700},
		{"30", 2<<32 + 30}, // a reset
	} {
		set(t, debug(device, "out_of_sequence"), step.kernel)
		set(t, debug(device, "np_cnp_sent"), step.kernel) // 64 bits: falls when the kernel's falls
		v, err := strconv.ParseFloat(step.kernel, 64)
		if err != nil {
			t.Fatal(err)
		}
		x.agrees(t, sequence(step.want), cnp(v))
	}
	set(t, debug(device, "port_symbol_error"), "65535")
	x.agrees(t, is(1, "hca_counter_saturated", "device", device, "counter", "symbol_error"), is(65535, "hca_port_symbol_errors_total", "device", device))
	set(t, debug(device, "port_symbol_error"), "65534")
	x.agrees(t, none("hca_counter_saturated"), is(65534, "hca_port_symbol_errors_total", "device", device))
	set(t, debug(device, "rx_icrc_encapsulated"), "18446744073709551615")
	x.agrees(t, none("hca_icrc_errors_total", "device", device))
}

// Where netlink does not show a device, sysfs shows the same, at no more than its price. In the exporter's mount
// namespace two devices have another GUID than netlink says: so look those of another network namespace.
func testCountersFromSysfs(t *testing.T, _ *exporter) {
	setCounters(t, "fakehca_1")
	set(t, filepath.Join(class, "fakehca_1/ports/1/hw_counters/lifespan"), "500") // longer than slow emulation reads 15 files
	write(t, "guid", "0200:00ff:fe00:ffff\n")
	write(t, "hide.sh", `set -e
for device in fakehca_1 rxe0; do mount --bind guid /sys/class/infiniband/$device/node_guid; done
exec ./gpufabric_exporter "$@"
`)
	const fast = time.Second
	x := startCommand(t, exporterCommand("unshare", "-m", "sh", "./hide.sh", "--observer.fast-interval="+fast.String()))
	x.agrees(t, counters)
	before := calls(t)
	const rounds = 3
	for range rounds {
		time.Sleep(fast + 100*time.Millisecond)
		if _, err := x.scrape(); err != nil {
			t.Fatal(err)
		}
	}
	did := calls(t).since(before)
	for kind, want := range map[string]map[string]int{
		"query_port":   {"fakehca_1": 2 * rounds, "fakehca_2": rounds}, // a file for each state
		"get_hw_stats": {"fakehca_1": rounds, "fakehca_2": rounds},     // though each file but one would ask anew
	} {
		for device, n := range want {
			if got := did[device][kind]; got != n {
				t.Errorf("%d calls of %s of %s in %d rounds, want %d", got, kind, device, rounds, n)
			}
		}
	}
	x.agrees(t, counters)
	if err := exec.Command("mountpoint", "-q", filepath.Join(class, "rxe0/node_guid")).Run(); err == nil {
		t.Error("the guest itself has the other GUID")
	}
}
