// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"
	"testing"
)

// The bits are nvmlClocksEventReason* of nvml.h.
func TestThrottles(t *testing.T) {
	for mask, want := range map[ClockReasons][]string{
		0: nil, 0x1: nil, 0x2: nil, 0x10: nil, 0x100: nil, // idle, set by hand, in step with others, for a display
		0x4: {"power_cap"}, 0x8: {"hardware_slowdown"}, 0x20: {"software_thermal"}, 0x40: {"hardware_thermal"}, 0x80: {"power_brake"},
		0x1ff: {"power_cap", "hardware_slowdown", "software_thermal", "hardware_thermal", "power_brake"},
	} {
		if got := mask.Throttles(); !slices.Equal(got, want) {
			t.Errorf("%#x: %v, expected %v", uint64(mask), got, want)
		}
	}
}

// Signalling rates of NVML become those of the specification; others stay, and what is not known is no rate.
func TestSpecified(t *testing.T) {
	for reported, want := range map[float64]float64{25.781e9: 25e9, 26.562e9: 25e9, 25e9: 25e9, 53.125e9: 50e9, 20e9: 20e9, 24e9: 24e9, 30e9: 30e9, 100e9: 100e9} {
		l := NVLink{Speed: Fact[float64]{State: OK, Value: reported}}
		if got, known := l.Specified(); got != want || !known {
			t.Errorf("%g: %g, %t, want %g", reported, got, known, want)
		}
	}
	if got, known := new(NVLink).Specified(); known {
		t.Errorf("%g of an unknown speed", got)
	}
}
