// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// The chain from NCCL's traffic class to the lossless buffer follows what is set with dcb and ethtool, names the step
// at which it breaks, and no other port.
func testRoCE(t *testing.T, _ *exporter) {
	policy := roceSite(t, "dscp: 26, priority: 3, lossless: true")
	x := startWith(t, "--observer.fast-interval=200ms", "--observer.medium-interval=500ms", "--observer.slow-interval=1s",
		policy, "--collector.device-include=fakehca_[01]|rxe0")
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

	// Of a port whose interface has no DCB nothing is said, as of a virtual function's: it is neither lossy nor fine.
	x.agrees(t, is(1, "roce_chain_unknown", "device", "rxe0", "step", "priority", "reason", "unsupported"), none("roce_chain_consistent", "device", "rxe0"),
		none("roce_chain_broken", "device", "rxe0"), none("roce_pfc_enabled", "device", "rxe0"))

	// A priority where NCCL takes a traffic class leads all ports out of the lossless class.
	write(t, ncclConf, "NCCL_IB_TC=5\n")
	for _, device := range []string{"fakehca_0", "fakehca_1"} {
		x.agrees(t, is(5, "roce_traffic_class", "device", device), is(1, "roce_dscp", "device", device), is(0, "roce_priority", "device", device),
			is(1, "roce_chain_broken", "device", device, "step", "dscp"))
	}
	write(t, ncclConf, "NCCL_IB_TC=106\n")
	x.agrees(t, healthy("fakehca_0", "hca0"), healthy("fakehca_1", "hca1"))

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

const ncclConf = "/etc/nccl.conf"

// roceSite sets two ports up for RoCE with traffic class 106, until the test ends. It returns the flag that states what
// the site expects.
func roceSite(t *testing.T, expected string) string {
	t.Helper()
	const config = "/tmp/roce.yml"
	for path, text := range map[string]string{ncclConf: "NCCL_IB_TC=106\n", config: "expected:\n  roce: {" + expected + "}\n"} {
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
	return "--config.file=" + config
}

// A fabric that is lossy by design is fine without PFC, and not with it; one that goes by the VLAN tag needs the right
// service level.
func testRoCEDesigns(t *testing.T, _ *exporter) {
	site := func(t *testing.T, expected string) *exporter {
		return startWith(t, "--observer.fast-interval=200ms", "--observer.medium-interval=500ms", "--observer.slow-interval=1s",
			roceSite(t, expected), "--collector.device-include=fakehca_[01]")
	}
	broken := func(step string) func(scrape) error {
		return func(s scrape) error {
			return errors.Join(is(0, "roce_chain_consistent", "device", "fakehca_0")(s), is(1, "roce_chain_broken", "device", "fakehca_0", "step", step)(s))
		}
	}
	fine := func(device string) func(scrape) error {
		return func(s scrape) error {
			return errors.Join(is(1, "roce_chain_consistent", "device", device)(s), none("roce_chain_broken", "device", device)(s))
		}
	}
	t.Run("lossy", func(t *testing.T) {
		x := site(t, "dscp: 26, priority: 3, lossless: false")
		for _, dev := range []string{"hca0", "hca1"} {
			t.Cleanup(dcb(t, "pfc set dev "+dev+" prio-pfc all:off 3:on"))
			setDCB(t, "pfc set dev "+dev+" prio-pfc all:off")
		}
		x.agrees(t, fine("fakehca_0"), fine("fakehca_1"), is(0, "roce_pfc_enabled", "device", "fakehca_0", "priority", "3"))
		setDCB(t, "pfc set dev hca0 prio-pfc all:off 3:on")
		x.agrees(t, broken("pfc"), fine("fakehca_1"))
	})
	t.Run("vlan", func(t *testing.T) {
		x := site(t, "priority: 3, lossless: true")
		s := x.agrees(t, fine("fakehca_0"))
		vlan := s.find("gid_info", "device", "fakehca_0", "netdev", "hca0.7", "type", "roce_v2", "family", "ipv4")
		if len(vlan) != 1 {
			t.Fatalf("GIDs of the VLAN: %v", vlan)
		}
		t.Cleanup(dcb(t, "app replace dev hca0 dscp-prio 26:3"))
		setDCB(t, "app flush dev hca0")
		for level, holds := range map[string]func(scrape) error{"3": fine("fakehca_0"), "2": broken("priority")} {
			write(t, ncclConf, "NCCL_IB_TC=106\nNCCL_IB_GID_INDEX="+vlan[0].labels["index"]+"\nNCCL_IB_SL="+level+"\n")
			x.agrees(t, holds, is(1, "roce_trust", "device", "fakehca_0", "mode", "pcp"), func(s scrape) error {
				p, err := s.one("roce_priority", "device", "fakehca_0")
				if err == nil && fmt.Sprint(p) != level {
					err = fmt.Errorf("service level %s has priority %v", level, p)
				}
				return err
			})
		}
	})
}

// A device over a bond has a chain for each of its ports, and the worse one speaks.
func testRoCEBond(t *testing.T, _ *exporter) {
	policy := roceSite(t, "dscp: 26, priority: 3, lossless: true")
	t.Cleanup(func() { command(t, "sh -e ./fakehca.sh") }) // the ports as they were
	command(t, "modprobe bonding max_bonds=0")
	t.Cleanup(func() { command(t, "modprobe -r bonding") })
	undone(t, "ip link add bond0 type bond mode active-backup miimon 100", "ip link del bond0")
	for _, dev := range []string{"hca0", "hca1"} {
		command(t, "ip link set "+dev+" down")
		command(t, "ip addr flush dev "+dev)
		command(t, "ip link set "+dev+" master bond0")
	}
	command(t, "ip link set bond0 up")
	command(t, "ip addr add 192.168.200.1/24 dev bond0")
	x := startWith(t, "--observer.fast-interval=200ms", "--observer.medium-interval=500ms", "--observer.slow-interval=1s", policy, "--collector.device-include=fakehca_0")
	lossless := func(netdev string, on float64) func(scrape) error {
		return is(on, "roce_pfc_enabled", "device", "fakehca_0", "netdev", netdev, "priority", "3")
	}
	x.agrees(t, is(1, "roce_chain_consistent", "device", "fakehca_0"), lossless("hca0", 1), lossless("hca1", 1))
	setDCB(t, "pfc set dev hca1 prio-pfc all:off")
	x.agrees(t, is(1, "roce_chain_broken", "device", "fakehca_0", "step", "pfc"), lossless("hca0", 1), lossless("hca1", 0))
	setDCB(t, "pfc set dev hca1 prio-pfc all:off 3:on")
	x.agrees(t, is(1, "roce_chain_consistent", "device", "fakehca_0"), none("roce_chain_broken", "device", "fakehca_0"))
}

// With the files of MLNX_OFED the chain follows what they say of congestion control, and the traffic class
// that the driver sets for a whole port goes over NCCL's.
func testRoCEOFED(t *testing.T, _ *exporter) {
	policy := roceSite(t, "dscp: 26, priority: 3, lossless: true")
	undone(t, "modprobe fakeofed netdev=hca0 rdma=fakehca_0", "modprobe -r fakeofed")
	x := startWith(t, "--observer.fast-interval=200ms", "--observer.medium-interval=500ms", "--observer.slow-interval=1s",
		policy, "--collector.device-include=fakehca_0")
	healthy := []func(scrape) error{
		is(106, "roce_traffic_class", "device", "fakehca_0"), is(1, "roce_congestion_control", "device", "fakehca_0", "mode", "pfc_ecn"),
		is(1, "roce_chain_consistent", "device", "fakehca_0"), none("roce_chain_broken", "device", "fakehca_0"),
	}
	x.agrees(t, healthy...)
	for _, c := range []struct {
		parameter, value, back, step string
		also                         func(scrape) error
	}{
		{"np", "247", "255", "ecn_notification", is(1, "roce_congestion_control", "device", "fakehca_0", "mode", "pfc")},
		{"rp", "247", "255", "ecn_reaction", is(1, "roce_congestion_control", "device", "fakehca_0", "mode", "pfc")},
		{"tclass", "20", "-1", "dscp", is(20, "roce_traffic_class", "device", "fakehca_0")},
	} {
		file := "/sys/module/fakeofed/parameters/" + c.parameter
		write(t, file, c.value)
		x.agrees(t, is(1, "roce_chain_broken", "device", "fakehca_0", "step", c.step), is(0, "roce_chain_consistent", "device", "fakehca_0"), c.also)
		write(t, file, c.back)
		x.agrees(t, healthy...)
	}
}

// Where only traffic shows what is wrong, two readings do: each trouble is reported for its port, and nothing else is.
func testRoCETraffic(t *testing.T, _ *exporter) {
	args := []string{roceSite(t, "dscp: 26, priority: 3, lossless: true"), "--collector.device-include=fakehca_[01]", "--interval=3s"}
	for _, id := range []string{"roce_traffic_priority", "roce_lossless", "roce_pause_sent", "roce_pause_received", "roce_congestion_answered"} {
		args = append(args, "--only="+id)
	}
	const rdma = "tx_vport_rdma_unicast_bytes"
	for _, c := range []struct {
		what     string
		each     map[string]float64 // second
		want     []string
		evidence string
	}{
		{"as it should be", map[string]float64{rdma: 1e9, "tx_prio3_bytes": 1.02e9, "np_ecn_marked_roce_packets": 2000, "np_cnp_sent": 90}, nil, ""},
		{"traffic on another priority", map[string]float64{rdma: 1e9, "tx_prio0_bytes": 1.02e9}, []string{"roce_traffic_priority fakehca_0 failed"}, "none of it with priority 3"},
		{"marked, and no notification", map[string]float64{"np_ecn_marked_roce_packets": 2000}, []string{"roce_congestion_answered fakehca_0 failed"}, "0 notifications went out"},
		{"PFC storm", map[string]float64{"tx_prio3_pause_duration": 900_000}, []string{"roce_pause_sent fakehca_0 failed"}, "this host paused priority 3 of the network"},
		{"PFC storm that the NIC noticed", map[string]float64{"tx_pause_storm_error_events": 1}, []string{"roce_pause_sent fakehca_0 failed"}, "PFC storms"},
		{"paused by the network", map[string]float64{"rx_prio3_pause_duration": 350_000}, []string{"roce_pause_received fakehca_0 failed"}, "the network paused priority 3 of this host"},
		{"lossless drops", map[string]float64{"rx_prio3_discards": 300}, []string{"roce_lossless fakehca_0 failed"}, "of the lossless priority 3"},
	} {
		t.Run(c.what, func(t *testing.T) {
			grow(t, "fakehca_0", c.each)
			found, list, _ := judge(t, 0, args...)
			if err := diff(c.what, c.want, found); err != nil {
				t.Errorf("%v\n%+v", err, list)
			}
			if !slices.ContainsFunc(list, func(v verdict) bool {
				return c.want == nil || v.Status == "failed" && strings.Contains(v.Evidence, c.evidence)
			}) {
				t.Errorf("no %q in %+v", c.evidence, list)
			}
		})
	}
}

// grow lets counters of a device grow by so much each second, until the test ends.
func grow(t *testing.T, device string, each map[string]float64) {
	t.Helper()
	for name := range each {
		set(t, debug(device, name), "1000")
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	begin := time.Now()
	go func() {
		for {
			for name, rate := range each {
				if err := os.WriteFile(debug(device, name), fmt.Appendf(nil, "%.0f", 1000+rate*time.Since(begin).Seconds()), 0o600); err != nil {
					done <- err
					return
				}
			}
			select {
			case <-stop:
				done <- nil
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// dcb returns what runs the dcb tool.
func dcb(t *testing.T, line string) func() { return func() { setDCB(t, line) } }
