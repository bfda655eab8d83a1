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
