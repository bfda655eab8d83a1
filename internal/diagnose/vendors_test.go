// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// Remedies for Omni-Path name no tool of NVIDIA.
func TestOmniPathRemedies(t *testing.T) {
	n := &fabric.Node{Policy: &fabric.Policy{}, HCAs: card("hfi1", "X", fabric.PortDown)}
	h, p := &n.HCAs[0], &n.HCAs[0].Ports[0]
	h.Driver, p.LinkLayer, p.PhysState = fabric.Known("hfi1", "driver", at), fabric.Known(fabric.LinkInfiniBand, "", at), fabric.Known(fabric.PhysPolling, "", at)
	if v := alone(t, n, verdict.CheckPortActive); v.Status != verdict.Failed || strings.Contains(v.Remedy, "mlx") {
		t.Errorf("%+v", v)
	}
	p.State, p.Rate = fabric.Known(fabric.PortActive, "", at), fabric.Known(fabric.Rate{BytesPerSecond: 6.25e9}, "rate", at)
	p.ExpectedRate = fabric.Known(12.5e9, "config", at)
	if v := alone(t, n, verdict.CheckPortRate); v.Status != verdict.Failed || strings.Contains(v.Remedy, "mlx") {
		t.Errorf("%+v", v)
	}
}

// An interface that has no speed, as of virtual machines, is not compared; one that cannot be read is unknown.
func TestInterfaceWithoutSpeed(t *testing.T) {
	for reason, want := range map[fabric.Reason]verdict.Status{fabric.ReasonUnsupported: "", fabric.ReasonIO: verdict.Unknown} {
		n := &fabric.Node{Policy: &fabric.Policy{}, HCAs: card("erdma", "X", fabric.PortActive)}
		n.HCAs[0].Ports[0].RateMismatch = fabric.UnknownFact[bool](reason, "speed", at)
		if v := alone(t, n, verdict.CheckPortRateAgrees); v.Status != want {
			t.Errorf("%s: %+v", reason, v)
		}
	}
}

// Cards without a board_id are of one board by the IDs of their functions: hca_type of ionic is the node description, another one for
// each card, and that of bnxt_re is one text for all chips.
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
			h := card("dev"+string(rune('0'+i)), "", fabric.PortActive)[0]
			address := "0000:1" + string(rune('0'+i)) + ":00.0"
			h.BoardID, h.Type, h.PCI = fabric.AbsentFact[string]("board_id", at), fabric.Known(c.kind(i), "hca_type", at), fabric.Known(address, "device", at)
			h.Driver, h.Firmware = fabric.Known("driver", "driver", at), fabric.Known("1."+string(rune('0'+i/3)), "fw_ver", at)
			f := fabric.PCIFunction{Address: address, Kind: fabric.PCINIC, HCAs: []string{h.Name}, Vendor: fabric.Known(0x1dd8, "vendor", at), Device: fabric.Known(c.device(i), "device", at)}
			f.SubsystemVendor, f.SubsystemDevice = f.Vendor, fabric.Known(0x5201, "subsystem_device", at)
			n.HCAs, n.PCI.Functions = append(n.HCAs, h), append(n.PCI.Functions, f)
		}
		got := verdict.Status("")
		for _, v := range Run(n, []*verdict.Check{Find(verdict.CheckFirmware)}) {
			if v.Subject.Device == n.HCAs[3].Name {
				got = v.Status
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		n.PCI.Functions[3].Device = fabric.UnknownFact[int](fabric.ReasonIO, "device", at)
		if list := verdict.Failures(Run(n, []*verdict.Check{Find(verdict.CheckFirmware)})); len(list) != 0 {
			t.Errorf("%s, and the IDs of the other one are unknown: %+v", c.name, list)
		}
	}
}
