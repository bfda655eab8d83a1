// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	states = []string{"nop", "down", "init", "armed", "active", "active_defer"}
	phases = []string{
		"sleep", "polling", "disabled", "port_configuration_training", "link_up",
		"link_error_recovery", "phy_test",
	}
	roles = []string{"compute", "storage", "management", "unused"}
)

// devices are the RDMA devices of the guest.
func devices() ([]string, error) {
	entries, err := os.ReadDir(class)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func testHealth(t *testing.T, x *exporter) {
	x.agrees(t, func(s scrape) error {
		var errs []error
		for metric, want := range map[string]float64{"success": 1, "supported": 1, "timeout": 0} {
			for _, collector := range []string{"hca", "gid", "counters"} {
				v, err := s.one("scrape_collector_"+metric, "collector", collector)
				if err == nil && v != want {
					err = fmt.Errorf("scrape_collector_%s of %s is %v, want %v", metric, collector, v, want)
				}
				errs = append(errs, err)
			}
		}
		for metric, want := range map[string]float64{"exporter_source_up": 1, "hca_stuck": 0} {
			found := s.find(metric)
			if len(found) == 0 {
				errs = append(errs, fmt.Errorf("no %s", metric))
			}
			for _, m := range found {
				if m.value != want {
					errs = append(errs, fmt.Errorf("%v is %v, want %v", m, m.value, want))
				}
			}
		}
		return errors.Join(errs...)
	})
}

func testIdentity(t *testing.T, x *exporter) {
	s := x.agrees(t, identity, strangers)

	// What this guest has, so that the comparison above cannot hold for want of devices.
	for _, want := range []struct {
		n      int
		labels []string
	}{
		{6, []string{"node_type", "ca", "board_id", "FAKE0000000001", "hca_type", "MT4129", "firmware_version", "28.39.1002"}},
		{2, []string{"node_type", "rnic", "pci_address", "", "board_id", ""}},
		{2, []string{"node_type", "ca", "pci_address", "", "firmware_version", ""}},
		{1, []string{"device", "fakehca_0", "pci_address", "0000:23:00.0"}},
	} {
		if found := s.find("hca_info", want.labels...); len(found) != want.n {
			t.Errorf("%d devices %q, want %d", len(found), want.labels, want.n)
		}
	}
	if found := s.find("hca_numa_node"); len(found) != 4 { // fakehca_4 and fakehca_5 are on no node
		t.Errorf("NUMA nodes of %v, want those of 4 devices", found)
	}
}

// identity: hca_info, hca_numa_node and hca_restricted say what sysfs says about each device.
func identity(s scrape) error {
	names, err := devices()
	if err != nil {
		return err
	}
	var want, nodes, restricted []string
	for _, d := range names {
		file := func(name string) string { return read(class, d, name) }
		_, nodeType, _ := strings.Cut(file("node_type"), ": ")
		want = append(want, fmt.Sprintf("%q", []string{
			d, link(class, d, "device/driver"), strings.ToLower(nodeType),
			file("fw_ver"), file("board_id"), file("hca_type"), file("hw_rev"), link(class, d, "device"),
			guid(file("node_guid")), guid(file("sys_image_guid")),
		}))
		if node := file("device/numa_node"); node != "" && node != "-1" {
			nodes = append(nodes, d+" "+node)
		}
		restricted = append(restricted, d+" 0")
	}
	var got []string
	for _, m := range s.find("hca_info") {
		var values []string
		for _, l := range []string{
			"device", "driver", "node_type", "firmware_version", "board_id", "hca_type",
			"hardware_revision", "pci_address",
		} {
			values = append(values, m.labels[l])
		}
		got = append(got, fmt.Sprintf("%q", append(values, guid(m.labels["node_guid"]), guid(m.labels["system_image_guid"]))))
	}
	return errors.Join(diff("hca_info", want, got), diff("hca_numa_node", nodes, values(s, "hca_numa_node", "device")),
		diff("hca_restricted", restricted, values(s, "hca_restricted", "device")))
}

// link is the last part of the target of a symbolic link; empty if there is none.
func link(elem ...string) string {
	target, err := os.Readlink(filepath.Join(elem...))
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}

// guid drops what two notations of one number may differ in.
func guid(text string) string {
	return strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(text), "0x"), ":", "")
}

// values prints all series of a metric: the values of the labels, and the value.
func values(s scrape, metric string, labels ...string) []string {
	var lines []string
	for _, m := range s.find(metric) {
		var words []string
		for _, l := range labels {
			words = append(words, m.labels[l])
		}
		lines = append(lines, fmt.Sprint(strings.Join(words, "/"), " ", m.value))
	}
	return lines
}

// strangers: no series names a device that is not there.
func strangers(s scrape) error {
	names, err := devices()
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range s {
		d := m.labels["device"]
		if source := m.labels["source"]; source == "qos" || source == "netstats" { // of network interfaces
			if _, err := os.Stat("/sys/class/net/" + d); err == nil {
				continue
			}
		}
		if d != "" && !slices.Contains(names, d) {
			errs = append(errs, fmt.Errorf("%v: no such device", m))
		}
	}
	return errors.Join(errs...)
}

func testPorts(t *testing.T, x *exporter) { x.agrees(t, ports, strangers) }

// ports: the exporter has every port that `rdma link` has, in the same state, and no other.
func ports(s scrape) error {
	kernel, err := kernelPorts()
	if err != nil {
		return err
	}
	var want []string
	for _, p := range kernel {
		want = append(want, fmt.Sprint(p.name(), " ", strings.ToLower(p.State), " ", strings.ToLower(p.PhysicalState),
			" ", p.Netdev, " ", strings.ToLower(p.file("link_layer"))))
	}
	var got []string
	var errs []error
	for _, m := range s.find("hca_port_info") {
		if !slices.Contains(roles, m.labels["role"]) {
			errs = append(errs, fmt.Errorf("%v: no such role", m))
		}
		got = append(got, fmt.Sprint(m.port(), " ", stateOf(s, m, "hca_port_state", states), " ",
			stateOf(s, m, "hca_port_physical_state", phases), " ", m.labels["netdev"], " ", m.labels["link_layer"]))
	}
	return errors.Join(append(errs, diff("port", want, got), infiniband(s, kernel))...)
}

// stateOf is the state that is 1 in a complete StateSet of the port.
func stateOf(s scrape, p sample, metric string, all []string) string {
	var is, known []string
	for _, m := range s.find(metric, "device", p.labels["device"], "port", p.labels["port"]) {
		known = append(known, m.labels["state"])
		if m.value == 1 {
			is = append(is, m.labels["state"])
		}
	}
	if err := diff(metric, all, known); err != nil {
		return fmt.Sprintf("(%v)", err)
	}
	return strings.Join(is, "+")
}

// infiniband: only InfiniBand ports have LIDs and a table of partition keys.
func infiniband(s scrape, kernel []port) error {
	var lids, smLIDs, keys []string
	for _, p := range kernel {
		if p.file("link_layer") == "InfiniBand" {
			lids = append(lids, fmt.Sprint(p.name(), " ", hex(p.file("lid"))))
			smLIDs = append(smLIDs, fmt.Sprint(p.name(), " ", hex(p.file("sm_lid"))))
			keys = append(keys, fmt.Sprint(p.name(), " ", p.entries("pkeys")))
		}
	}
	return errors.Join(diff("hca_port_lid", lids, values(s, "hca_port_lid", "device", "port")),
		diff("hca_port_sm_lid", smLIDs, values(s, "hca_port_sm_lid", "device", "port")),
		diff("hca_port_pkey_table_entries", keys, values(s, "hca_port_pkey_table_entries", "device", "port")))
}

func hex(text string) int64 {
	v, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		return -1
	}
	return v
}

func testRates(t *testing.T, x *exporter) {
	s := x.agrees(t, rates)
	if v, err := s.one("hca_port_rate_bytes_per_second", "device", "fakehca_1"); err != nil || v != 50e9 {
		t.Errorf("rate of fakehca_1 is %v (%v), want that of 400 Gb/s", v, err)
	}
}

// rates: a port has the rate of sysfs while its link is up, and none otherwise; an active port whose netdev
// has another speed is a mismatch.
func rates(s scrape) error {
	kernel, err := kernelPorts()
	if err != nil {
		return err
	}
	var want, mismatches []string
	for _, p := range kernel {
		if p.PhysicalState == "LINK_UP" {
			want = append(want, fmt.Sprint(p.name(), " ", p.gbps()*1e9/8))
		}
		speed, err := strconv.ParseFloat(read("/sys/class/net", p.Netdev, "speed"), 64)
		if err == nil && speed > 0 && p.State == "ACTIVE" && speed != 1000*p.gbps() {
			mismatches = append(mismatches, p.name())
		}
	}
	var got []string
	for _, m := range s.find("hca_port_rate_mismatch") {
		if m.value != 0 {
			got = append(got, m.port())
		}
	}
	return errors.Join(diff("hca_port_rate_mismatch", mismatches, got),
		diff("hca_port_rate_bytes_per_second", want, values(s, "hca_port_rate_bytes_per_second", "device", "port")))
}
