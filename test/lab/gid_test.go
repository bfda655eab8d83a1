// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func testGIDs(t *testing.T, x *exporter) { x.agrees(t, gids, strangers) }

// gids: the exporter has every occupied slot of every GID table and no empty one.
func gids(s scrape) error {
	kernel, err := kernelPorts()
	if err != nil {
		return err
	}
	var want, tables []string
	entries := make(map[string]int)
	for _, p := range kernel {
		occupied, slots, err := p.gids()
		if err != nil {
			return err
		}
		tables = append(tables, fmt.Sprint(p.name(), " ", slots))
		for _, g := range occupied {
			want = append(want, fmt.Sprint(p.name(), " ", g.index, " ", g.addr, " ", g.kind, " ", g.family, " ", g.netdev))
			entries[fmt.Sprint(p.name(), "/", g.kind, "/", g.family)]++
		}
	}
	var counts []string
	for key, n := range entries {
		counts = append(counts, fmt.Sprint(key, " ", n))
	}
	var got []string
	var errs []error
	for _, m := range s.find("gid_info") {
		l := m.labels
		got = append(got, fmt.Sprint(m.port(), " ", l["index"], " ", l["gid"], " ", l["type"], " ", l["family"], " ", l["netdev"]))
		if m.value != 1 {
			errs = append(errs, fmt.Errorf("%v is %v", m, m.value))
		}
	}
	isZero := func(line string) bool { return strings.HasSuffix(line, " 0") }
	return errors.Join(append(errs, diff("gid_info", want, got),
		diff("gid_entries", counts, slices.DeleteFunc(values(s, "gid_entries", "device", "port", "type", "family"), isZero)),
		diff("gid_table_entries", tables, values(s, "gid_table_entries", "device", "port")))...)
}

func testAddresses(t *testing.T, x *exporter) { x.agrees(t, addresses) }

// addresses: the RoCE GIDs of a port are the addresses of its netdev and of the VLANs on it.
func addresses(s scrape) error {
	kernel, err := kernelPorts()
	if err != nil {
		return err
	}
	configured, err := kernelAddresses()
	if err != nil {
		return err
	}
	var want, got []string
	for _, p := range kernel {
		if len(s.find("gid_info", "device", p.Device, "type", "roce_v2")) == 0 {
			continue
		}
		for _, a := range configured {
			if a.netdev == p.Netdev || strings.HasPrefix(a.netdev, p.Netdev+".") {
				want = append(want, fmt.Sprint(p.name(), " ", netip.AddrFrom16(a.addr.As16()), " ", a.netdev))
			}
		}
	}
	for _, m := range s.find("gid_info", "type", "roce_v2") {
		got = append(got, fmt.Sprint(m.port(), " ", m.labels["gid"], " ", m.labels["netdev"]))
	}
	return diff("address", want, got)
}

// The link-local GID of a port and of the VLAN on it are the same: only the netdev distinguishes them.
func testDuplicateGIDs(t *testing.T, x *exporter) {
	s := x.agrees(t, gids)
	for device, want := range map[string][]string{
		"rxe0":      {"roce_v2 rdma0", "roce_v2 rdma0.100"},
		"fakehca_1": {"roce_v1 hca1", "roce_v1 hca1.7", "roce_v2 hca1", "roce_v2 hca1.7"},
	} {
		var got []string
		gids := make(map[string]bool)
		for _, m := range s.find("gid_info", "device", device, "family", "link_local") {
			got = append(got, m.labels["type"]+" "+m.labels["netdev"])
			gids[m.labels["gid"]] = true
		}
		if err := diff("link-local GID", want, got); err != nil {
			t.Error(device, err)
		}
		if len(gids) != 1 {
			t.Errorf("%s: link-local GIDs %v, want 1", device, gids)
		}
	}
}

// The GID that a library would choose by itself is RoCE v2 over IPv4, on each RoCE port of this guest.
func testSelectedGID(t *testing.T, x *exporter) {
	x.agrees(t, func(s scrape) error {
		var errs []error
		for _, p := range s.find("gid_entries", "type", "roce_v2", "family", "ipv4") {
			device, port := p.labels["device"], p.labels["port"]
			index, err := s.one("gid_selected_index", "device", device, "port", port)
			if err == nil && len(s.find("gid_info", "device", device, "port", port, "index", fmt.Sprint(index),
				"type", "roce_v2", "family", "ipv4")) != 1 {
				err = fmt.Errorf("GID %v of %s is not RoCE v2 over IPv4", index, p.port())
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

// The kernel says "IB/RoCE v1" of the GID of an iWARP device.
func testIWARP(t *testing.T, x *exporter) {
	s := x.agrees(t, gids, ports)
	for _, device := range []string{"siw0", "siw1"} {
		if text := read(class, device, "ports/1/gid_attrs/types/0"); text != "IB/RoCE v1" {
			t.Fatalf("the kernel says %q, this test is of no use", text)
		}
		if got := s.find("gid_info", "device", device); len(got) != 1 || got[0].labels["type"] != "iwarp" {
			t.Errorf("GIDs of %s: %v, want one of type iwarp", device, got)
		}
		for _, m := range s.find("gid_entries", "device", device) {
			if m.labels["type"] != "iwarp" && m.value != 0 {
				t.Errorf("%v is %v", m, m.value)
			}
		}
	}
}
