// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// everything is all that holds at any time, whatever changes.
var everything = []func(scrape) error{identity, ports, rates, gids, strangers}

// is checks the value of one series.
func is(value float64, name string, labels ...string) func(scrape) error {
	return func(s scrape) error {
		got, err := s.one(name, labels...)
		if err == nil && got != value {
			err = fmt.Errorf("%s%q is %v, want %v", name, labels, got, value)
		}
		return err
	}
}

// none checks that there is no such series.
func none(name string, labels ...string) func(scrape) error {
	return func(s scrape) error {
		if found := s.find(name, labels...); len(found) != 0 {
			return fmt.Errorf("unexpected %v", found)
		}
		return nil
	}
}

func testLinkDown(t *testing.T, x *exporter) {
	undone(t, "ip link set rdma0 down", "ip link set rdma0 up")
	x.agrees(t, append(everything,
		is(1, "hca_port_state", "device", "rxe0", "state", "down"),
		is(1, "hca_port_physical_state", "device", "rxe0", "state", "disabled"),
		is(1, "hca_port_physical_state", "device", "rxe1", "state", "polling"), // its peer is gone
		none("hca_port_rate_bytes_per_second", "device", "rxe0"),
		none("hca_port_rate_bytes_per_second", "device", "rxe1"))...)
	command(t, "ip link set rdma0 up")
	x.agrees(t, append(everything, addresses,
		is(1, "hca_port_state", "device", "rxe0", "state", "active"),
		is(1, "hca_port_state", "device", "rxe1", "state", "active"))...)
}

// A port may be down while its netdev is up.
func testPortDown(t *testing.T, x *exporter) {
	const down = "/sys/kernel/debug/fakehca/2/down"
	set(t, down, "1")
	x.agrees(t, append(everything,
		is(1, "hca_port_state", "device", "fakehca_2", "state", "down"),
		none("hca_port_rate_bytes_per_second", "device", "fakehca_2"))...)
	write(t, down, "0")
	x.agrees(t, append(everything, is(1, "hca_port_state", "device", "fakehca_2", "state", "active"))...)
}

func testDegradedRate(t *testing.T, x *exporter) {
	const speed, width = "/sys/kernel/debug/fakehca/3/speed", "/sys/kernel/debug/fakehca/3/width"
	mismatch := func(v float64) func(scrape) error { return is(v, "hca_port_rate_mismatch", "device", "fakehca_3") }
	for _, degraded := range []struct {
		speed, width string
		rate         string
		gbps         float64
	}{
		{"64", "2", "200 Gb/sec (4X HDR)", 200},
		{"128", "16", "200 Gb/sec (2X NDR)", 200},
		{"128", "1", "100 Gb/sec (1X NDR)", 100},
		{"256", "2", "10 Gb/sec (4X SDR)", 10}, // XDR: this kernel does not know it
	} {
		t.Run(degraded.rate, func(t *testing.T) {
			set(t, speed, degraded.speed)
			set(t, width, degraded.width)
			if rate := read(class, "fakehca_3/ports/1/rate"); rate != degraded.rate {
				t.Fatalf("the kernel says %q", rate)
			}
			x.agrees(t, append(everything, mismatch(1),
				is(degraded.gbps*1e9/8, "hca_port_rate_bytes_per_second", "device", "fakehca_3"),
				is(50e9, "hca_port_expected_rate_bytes_per_second", "device", "fakehca_3"))...) // what it had
		})
	}
	x.agrees(t, append(everything, mismatch(0))...)
}

func testAddressChanges(t *testing.T, x *exporter) {
	changes := func(s scrape) float64 {
		v, err := s.one("gid_changes_total", "device", "rxe0", "port", "1")
		if err != nil {
			t.Error(err)
		}
		return v
	}
	before := changes(x.agrees(t, gids, addresses))
	undone(t, "ip addr add 10.0.0.99/24 dev rdma0", "ip addr flush dev rdma0 to 10.0.0.99")
	added := x.agrees(t, gids, addresses)
	if len(added.find("gid_info", "device", "rxe0", "gid", "::ffff:10.0.0.99")) != 1 {
		t.Error("no GID of the new address")
	}
	command(t, "ip addr del 10.0.0.99/24 dev rdma0")
	removed := x.agrees(t, gids, addresses, none("gid_info", "gid", "::ffff:10.0.0.99"))
	if a, r := changes(added), changes(removed); a <= before || r <= a {
		t.Errorf("gid_changes_total %v, %v with the address, %v without it again", before, a, r)
	}
}

func testManyAddresses(t *testing.T, x *exporter) {
	var batch strings.Builder
	for i := range 40 {
		fmt.Fprintf(&batch, "addr add 10.0.1.%d/24 dev rdma1\n", i+1)
	}
	write(t, "addresses", batch.String())
	undone(t, "ip -batch addresses", "ip addr flush dev rdma1 to 10.0.1.0/24")
	s := x.agrees(t, gids, addresses)
	if n := len(s.find("gid_info", "device", "rxe1", "netdev", "rdma1", "family", "ipv4")); n != 41 {
		t.Errorf("%d GIDs, want 41", n)
	}
	command(t, "ip addr flush dev rdma1 to 10.0.1.0/24")
	x.agrees(t, gids, addresses)
}

func testVLANChanges(t *testing.T, x *exporter) {
	command(t, "ip link add link hca1 name hca1.9 type vlan id 9")
	t.Cleanup(func() { // fails if it is gone, as it should be
		if _, err := os.Stat("/sys/class/net/hca1.9"); err == nil {
			command(t, "ip link del hca1.9")
		}
	})
	command(t, "ip link set hca1.9 up")
	command(t, "ip addr add 192.168.109.1/24 dev hca1.9")
	s := x.agrees(t, gids, addresses)
	if n := len(s.find("gid_info", "device", "fakehca_1", "netdev", "hca1.9")); n != 4 { // v1 and v2
		t.Errorf("%d GIDs on the VLAN, want 4", n)
	}
	command(t, "ip link del hca1.9")
	x.agrees(t, append(everything, addresses, none("gid_info", "netdev", "hca1.9"))...)
}

func testNewDevice(t *testing.T, x *exporter) {
	undone(t, "ip link add new0 type dummy", "ip link del new0")
	undone(t, "rdma link add new type siw netdev new0", "ip link set new0 down")
	x.agrees(t, append(everything, is(1, "hca_port_state", "device", "new", "state", "down"))...)
	command(t, "rdma link del new")
	x.agrees(t, everything...)
}

// Five devices vanish and return: the exporter says so, nothing else changes, and it does not fill the log.
func testUnplug(t *testing.T, x *exporter) {
	others := func(s scrape) (lines []string) {
		for _, m := range s {
			if !strings.HasPrefix(m.labels["device"], "fakehca_") && strings.HasPrefix(m.name, "hca_") && !m.counts() {
				lines = append(lines, fmt.Sprint(m, m.value))
			}
		}
		return lines
	}
	before := x.agrees(t, everything...)
	files, log := x.files(t), len(x.lines())
	gone := false
	t.Cleanup(func() {
		if gone {
			command(t, "sh -e ./fakehca.sh")
		}
	})

	command(t, "rmmod fakehca")
	gone = true
	after := x.agrees(t, everything...)
	if err := diff("series of the other devices", others(before), others(after)); err != nil {
		t.Error(err)
	}
	healthy := func(s scrape) error {
		return errors.Join(is(1, "scrape_collector_success", "collector", "hca")(s),
			is(1, "scrape_collector_success", "collector", "gid")(s))
	}
	for range 20 {
		x.agrees(t, healthy)
	}
	loud := regexp.MustCompile(`level="?(warn|error)`)
	complaints := 0
	for _, line := range x.lines()[log:] {
		if loud.MatchString(line) {
			complaints++
		}
	}
	if complaints > 10 {
		t.Errorf("%d complaints about 5 devices\n%s", complaints, strings.Join(x.lines()[log:], "\n"))
	}

	command(t, "sh -e ./fakehca.sh")
	gone = false
	x.agrees(t, append(everything, addresses, healthy)...)
	eventually(t, "no file is left open", func() error {
		if n := x.files(t); n > files {
			return fmt.Errorf("%d open files, %d before", n, files)
		}
		return nil
	})
}
