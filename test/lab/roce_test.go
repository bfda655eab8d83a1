// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"errors"
	"fmt"
	"os"
	"testing"
)

// The chain from NCCL's traffic class to the lossless buffer follows what is set with dcb and ethtool, names the step
// at which it breaks, and no other port.
func testRoCE(t *testing.T, _ *exporter) {
	for path, text := range map[string]string{
		"/etc/nccl.conf": "NCCL_IB_TC=106\n",
		"/tmp/roce.yml":  "expected:\n  roce: {dscp: 26, priority: 3, lossless: true}\n",
	} {
		if _, err := os.Stat(path); err == nil {
			t.Fatalf("%s is there already", path)
		}
		write(t, path, text)
		t.Cleanup(func() { os.Remove(path) })
	}
	for _, dev := range []string{"hca0", "hca1"} {
		t.Cleanup(func() {
			setDCB(t, "buffer set dev "+dev+" prio-buffer 0:0 1:1 2:2 3:3 4:4 5:5 6:6 7:7 buffer-size all:0")
		})
		setDCB(t, "buffer set dev "+dev+" prio-buffer all:0 3:3 buffer-size all:0 0:65536 3:262144")
	}
	x := startWith(t, "--observer.fast-interval=200ms", "--observer.medium-interval=500ms", "--observer.slow-interval=1s",
		"--config.file=/tmp/roce.yml", "--collector.device-include=fakehca_[01]")
	healthy := func(device, netdev string) func(scrape) error {
		return func(s scrape) error {
			return errors.Join(
				is(106, "roce_traffic_class", "device", device)(s), is(26, "roce_dscp", "device", device)(s), is(3, "roce_priority", "device", device)(s),
				is(1, "roce_pfc_enabled", "device", device, "netdev", netdev, "priority", "3")(s), is(262144, "roce_lossless_buffer_bytes", "device", device)(s),
				is(1, "roce_trust", "device", device, "mode", "dscp")(s), is(1, "roce_chain_consistent", "device", device)(s), none("roce_chain_broken", "device", device)(s))
		}
	}
	x.agrees(t, healthy("fakehca_0", "hca0"), healthy("fakehca_1", "hca1"))

	for _, c := range []struct {
		what, step string
		do, undo   func()
		also       func(scrape) error
	}{
		{
			"PFC off", "pfc", dcb(t, "pfc set dev hca0 prio-pfc all:off"), dcb(t, "pfc set dev hca0 prio-pfc all:off 3:on"),
			is(0, "roce_pfc_enabled", "device", "fakehca_0", "priority", "3"),
		},
		{
			"PFC on another priority", "pfc", dcb(t, "pfc set dev hca0 prio-pfc all:off 4:on"), dcb(t, "pfc set dev hca0 prio-pfc all:off 3:on"),
			is(1, "roce_pfc_enabled", "device", "fakehca_0", "priority", "4"),
		},
		{
			"another DSCP map", "priority", dcb(t, "app replace dev hca0 dscp-prio 26:5"), dcb(t, "app replace dev hca0 dscp-prio 26:3"),
			is(5, "roce_priority", "device", "fakehca_0"),
		},
		{
			"no DSCP map: mlx5 trusts the PCP", "priority", dcb(t, "app flush dev hca0"), dcb(t, "app replace dev hca0 dscp-prio 26:3"),
			is(1, "roce_trust", "device", "fakehca_0", "mode", "pcp"),
		},
		{
			"802.3x flow control beside PFC", "global_pause", func() { command(t, "ethtool -A hca0 rx on tx on") }, func() { command(t, "ethtool -A hca0 rx off tx off") },
			is(1, "roce_global_pause_enabled", "device", "fakehca_0", "direction", "receive"),
		},
		{
			"no buffer", "buffer", dcb(t, "buffer set dev hca0 buffer-size 3:0"), dcb(t, "buffer set dev hca0 buffer-size 3:262144"), nil,
		},
	} {
		c.do()
		broken := func(s scrape) error {
			errs := []error{
				is(0, "roce_chain_consistent", "device", "fakehca_0")(s), is(1, "roce_chain_broken", "device", "fakehca_0", "step", c.step)(s),
				healthy("fakehca_1", "hca1")(s),
			}
			if c.also != nil {
				errs = append(errs, c.also(s))
			}
			if err := errors.Join(errs...); err != nil {
				return fmt.Errorf("%s: %w", c.what, err)
			}
			return nil
		}
		x.agrees(t, broken)
		c.undo()
		x.agrees(t, healthy("fakehca_0", "hca0"))
	}

	// What the driver counts arrives in the units of the families.
	for name, value := range map[string]string{
		"rx_prio3_pause": "7", "rx_prio3_pause_duration": "2500000", "tx_prio3_pause_duration": "500000", "rx_prio3_discards": "11", "link_down_events_phy": "2",
	} {
		set(t, debug("fakehca_0", name), value)
	}
	x.agrees(t, func(s scrape) error {
		of := func(value float64, name string, labels ...string) error {
			return is(value, name, append([]string{"device", "fakehca_0", "netdev", "hca0"}, labels...)...)(s)
		}
		return errors.Join(
			of(7, "roce_received_pause_frames_total", "priority", "3"), of(2.5, "roce_received_pause_seconds_total", "priority", "3"),
			of(0.5, "roce_transmitted_pause_seconds_total", "priority", "3"), of(11, "roce_received_discards_total", "priority", "3"),
			of(2, "ethernet_link_down_events_total"))
	})
}

// dcb returns what runs the dcb tool.
func dcb(t *testing.T, line string) func() { return func() { setDCB(t, line) } }
