// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// Remedies for Omni-Path name no tool of NVIDIA.
func TestOmniPathRemedies(t *testing.T) {
	n := &fabric.Node{Policy: &fabric.Policy{}, HCAs: card("hfi1", "X", fabric.PortDown)}
	h, p := &n.HCAs[0], &n.HCAs[0].Ports[0]
	h.Driver, p.LinkLayer, p.PhysState = fabric.Known("hfi1", "driver", at), fabric.Known(fabric.LinkInfiniBand, "", at), fabric.Known(fabric.PhysPolling, "", at)
	if v := alone(t, n, CheckPortActive); v.Status != Failed || strings.Contains(v.Remedy, "mlx") {
		t.Errorf("%+v", v)
	}
	p.State, p.Rate = fabric.Known(fabric.PortActive, "", at), fabric.Known(fabric.Rate{BytesPerSecond: 6.25e9}, "rate", at)
	p.ExpectedRate = fabric.Known(12.5e9, "config", at)
	if v := alone(t, n, CheckPortRate); v.Status != Failed || strings.Contains(v.Remedy, "mlx") {
		t.Errorf("%+v", v)
	}
}

// An interface that has no speed, as of virtual machines, is not compared; one that cannot be read is unknown.
func TestInterfaceWithoutSpeed(t *testing.T) {
	for reason, want := range map[fabric.Reason]Status{fabric.ReasonUnsupported: "", fabric.ReasonIO: Unknown} {
		n := &fabric.Node{Policy: &fabric.Policy{}, HCAs: card("erdma", "X", fabric.PortActive)}
		n.HCAs[0].Ports[0].RateMismatch = fabric.UnknownFact[bool](reason, "speed", at)
		if v := alone(t, n, CheckPortRateAgrees); v.Status != want {
			t.Errorf("%s: %+v", reason, v)
		}
	}
}
