// SPDX-License-Identifier: Apache-2.0

package port_test

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/verdict"
)

// A port that is down on the host is reported, whatever namespace its peers are in.
func TestPortDownBesideMoved(t *testing.T) {
	peer := diagnosetest.Card("b", "X", fabric.PortActive)
	n := &fabric.Node{Policy: &fabric.Policy{}, HCAs: append(diagnosetest.Card("a", "X", fabric.PortDown), peer[0].Elsewhere(diagnosetest.At))}
	list := diagnosetest.Ask(n, "port_active")
	if len(verdict.Failures(list)) != 1 || len(verdict.Unknowns(list)) > 0 {
		t.Errorf("%+v", list)
	}
}

// No remedy for cards of another vendor names a tool of NVIDIA.
func TestFirmwareOfOtherVendors(t *testing.T) {
	for _, driver := range []string{"bnxt_en", "ionic", "ice", "efa", "mlx5_core"} {
		n := fabrictest.Lossless()
		for len(n.HCAs) < 4 {
			h := n.HCAs[0]
			h.Name = "mlx5_" + string(rune('0'+len(n.HCAs)))
			n.HCAs = append(n.HCAs, h)
		}
		for i := range n.HCAs {
			n.HCAs[i].Driver = fabric.Known(driver, "driver", n.At)
		}
		n.HCAs[1].Firmware.Value = "1.2.3"
		if remedy := diagnosetest.RemedyOf(t, n, "firmware_uniform", "mlx5_1"); strings.Contains(remedy, "mlxfwmanager") != (driver == "mlx5_core") {
			t.Errorf("%s: %s", driver, remedy)
		}
	}
}

// Remedies for Omni-Path name no tool of NVIDIA.
func TestOmniPathRemedies(t *testing.T) {
	n := &fabric.Node{Policy: &fabric.Policy{}, HCAs: diagnosetest.Card("hfi1", "X", fabric.PortDown)}
	h, p := &n.HCAs[0], &n.HCAs[0].Ports[0]
	h.Driver, p.LinkLayer, p.PhysState = fabric.Known("hfi1", "driver", diagnosetest.At), fabric.Known(fabric.LinkInfiniBand, "", diagnosetest.At), fabric.Known(fabric.PhysPolling, "", diagnosetest.At)
	if v := diagnosetest.Alone(t, n, verdict.CheckPortActive); v.Status != verdict.Failed || strings.Contains(v.Remedy, "mlx") {
		t.Errorf("%+v", v)
	}
	p.State, p.Rate = fabric.Known(fabric.PortActive, "", diagnosetest.At), fabric.Known(fabric.Rate{BytesPerSecond: 6.25e9}, "rate", diagnosetest.At)
	p.ExpectedRate = fabric.Known(12.5e9, "config", diagnosetest.At)
	if v := diagnosetest.Alone(t, n, verdict.CheckPortRate); v.Status != verdict.Failed || strings.Contains(v.Remedy, "mlx") {
		t.Errorf("%+v", v)
	}
}

// Cards without a board_id are of one board by the IDs of their functions: hca_type of ionic is the node
// description, another one for each card, and that of bnxt_re is one text for all chips.
func TestBoardsByPCI(t *testing.T) {
	for _, c := range []struct {
		name   string
		kind   func(i int) string
		device func(i int) int
		want   verdict.Status // of the card with other firmware
	}{
		{"ionic: each card has a text of its own", func(i int) string { return "node17 ionic_" + string(rune('0'+i)) }, func(int) int { return 0x1002 }, verdict.Failed},
		{"irdma: no text", func(int) string { return "" }, func(int) int { return 0x1592 }, verdict.Failed},
		{"bnxt_re: another chip with the same text", func(int) string { return "Broadcom NetXtreme-C/E RoCE Driver HCA" }, func(i int) int { return 0x1760 - i/3*0x10 }, ""},
	} {
		n := &fabric.Node{Policy: &fabric.Policy{}}
		for i := range 4 {
			h := diagnosetest.Card("dev"+string(rune('0'+i)), "", fabric.PortActive)[0]
			address := "0000:1" + string(rune('0'+i)) + ":00.0"
			h.BoardID, h.Type, h.PCI = fabric.AbsentFact[string]("board_id", diagnosetest.At), fabric.Known(c.kind(i), "hca_type", diagnosetest.At), fabric.Known(address, "device", diagnosetest.At)
			h.Driver, h.Firmware = fabric.Known("driver", "driver", diagnosetest.At), fabric.Known("1."+string(rune('0'+i/3)), "fw_ver", diagnosetest.At)
			f := fabric.PCIFunction{Address: address, Kind: fabric.PCINIC, HCAs: []string{h.Name}, Vendor: fabric.Known(0x1dd8, "vendor", diagnosetest.At), Device: fabric.Known(c.device(i), "device", diagnosetest.At)}
			f.SubsystemVendor, f.SubsystemDevice = f.Vendor, fabric.Known(0x5201, "subsystem_device", diagnosetest.At)
			n.HCAs, n.PCI.Functions = append(n.HCAs, h), append(n.PCI.Functions, f)
		}
		got := verdict.Status("")
		for _, v := range diagnosetest.Ask(n, verdict.CheckFirmware) {
			if v.Subject.Device == n.HCAs[3].Name {
				got = v.Status
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		n.PCI.Functions[3].Device = fabric.UnknownFact[int](fabric.ReasonIO, "device", diagnosetest.At)
		if list := verdict.Failures(diagnosetest.Ask(n, verdict.CheckFirmware)); len(list) != 0 {
			t.Errorf("%s, and the IDs of the other one are unknown: %+v", c.name, list)
		}
	}
}

// mlxlink shows the first port of a device where it is asked for no other.
func TestMlxlinkNamesThePort(t *testing.T) {
	n := &fabric.Node{Policy: &fabric.Policy{}, HCAs: diagnosetest.Card("mlx5", "X", fabric.PortDown)}
	h := &n.HCAs[0]
	h.Ports[0].LinkLayer, h.Ports[0].PhysState.Value = fabric.Known(fabric.LinkInfiniBand, "", diagnosetest.At), fabric.PhysPolling
	second := h.Ports[0]
	second.Number, second.State.Value = 2, fabric.PortActive
	for _, want := range []string{"(mlxlink -d mlx5_0 -m)", "(mlxlink -d mlx5_0 -p 1 -m)"} {
		v := verdict.Failures(diagnosetest.Ask(n, verdict.CheckPortActive))
		if len(v) != 1 || !strings.Contains(verdict.FilledRemedy(n, &v[0]), want) {
			t.Errorf("want %s: %+v", want, v)
		}
		h.Ports = append(h.Ports, second)
	}
}
