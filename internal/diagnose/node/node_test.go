// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"errors"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// What could not be read is said in one line: check has a table of them, and some programs read lines.
func TestWhatWasNotReadIsOneLine(t *testing.T) {
	n := diagnosetest.WithDevices("")
	n.Sources = []fabric.Source{{Name: fabric.SourceNetDev, Reason: fabric.ReasonMissing, Err: errors.Join(errors.New("no net/route"), errors.New("no net/ipv6_route"))}}
	list := diagnosetest.Ask(n, "reads_return")
	if len(list) != 1 || list[0].Status != verdict.Unknown || !strings.Contains(list[0].Evidence, "(no net/route; no net/ipv6_route)") {
		t.Errorf("%+v", list)
	}
}

// A device that shows no port is not known to be healthy: a rail may be behind it. Ports of restricted
// devices are not read, and a pod may have the device.
func TestDeviceWithoutPorts(t *testing.T) {
	for _, test := range []struct {
		name string
		edit func(h *fabric.HCA)
		want verdict.Status
	}{
		{"all ports", func(*fabric.HCA) {}, verdict.OK},
		{"no port", func(h *fabric.HCA) { h.Ports = nil }, verdict.Unknown},
		{"restricted", func(h *fabric.HCA) { h.Ports, h.Restricted = nil, fabric.Known(true, "config", h.Firmware.At) }, verdict.OK},
		{"moved", func(h *fabric.HCA) { h.Ports, h.Moved = nil, true }, verdict.OK},
	} {
		n := diagnosetest.WithDevices("")
		n.Sources = []fabric.Source{{Name: fabric.SourceHCA, Device: n.HCAs[1].Name, Up: true}}
		test.edit(&n.HCAs[1])
		n.Derive()
		if list := diagnosetest.Ask(n, "reads_return"); len(list) != 1 || list[0].Status != test.want {
			t.Errorf("%s: %+v, want %s", test.name, list, test.want)
		}
	}
}
