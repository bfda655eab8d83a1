// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"slices"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpufabric_exporter/internal/fabric"
)

// What numbers of nvml.h mean. They are written out here: a table that is compared with itself proves nothing.

func TestAncestors(t *testing.T) {
	for level, want := range map[nvml.GpuTopologyLevel]fabric.Distance{
		0: fabric.DistancePIX, 10: fabric.DistancePIX, 20: fabric.DistancePXB, 30: fabric.DistancePHB, 40: fabric.DistanceNODE, 50: fabric.DistanceSYS,
	} {
		if got, ok := distanceOf(level); !ok || got != want {
			t.Errorf("level %d: %v, expected %v", level, got, want)
		}
	}
	if got, ok := distanceOf(60); ok {
		t.Errorf("level 60: %v", got)
	}
}

func TestP2PStatuses(t *testing.T) {
	for status, want := range []fabric.P2PStatus{
		0: fabric.P2POK, 1: fabric.P2PChipsetNotSupported, 2: fabric.P2PGPUNotSupported, 3: fabric.P2PIOHNotSupported,
		4: fabric.P2PDisabledByRegkey, 5: fabric.P2PNotSupported,
	} {
		if got, ok := valueOf(p2pStatuses, status); !ok || got != want {
			t.Errorf("status %d: %q, expected %q", status, got, want)
		}
	}
}

func TestComputeModes(t *testing.T) {
	for mode, want := range []fabric.ComputeMode{
		0: fabric.ComputeDefault, 1: fabric.ComputeExclusiveThread, 2: fabric.ComputeProhibited, 3: fabric.ComputeExclusiveProcess,
	} {
		if got, ok := valueOf(computeModes, mode); !ok || got != want {
			t.Errorf("mode %d: %q, expected %q", mode, got, want)
		}
	}
}

func TestHealthOfTheFabric(t *testing.T) {
	const fine = 0b01_01_0001_10_10_10_10 // of a driver that knows all fields
	for _, c := range []struct {
		mask    uint32
		summary uint8
		want    []string
	}{
		{0, 0, nil}, // nothing is supported
		{fine, 1, nil},
		{fine ^ 0b11, 1, []string{"degraded_bandwidth"}},
		{fine ^ 0b11<<2, 1, []string{"route_recovery"}},
		{fine ^ 0b11<<4, 1, []string{"route_unhealthy"}},
		{fine ^ 0b11<<6, 1, []string{"access_timeout_recovery"}},
		{fine ^ 0b0011<<8, 1, []string{"incorrect_system_guid"}},
		{fine ^ 0b0010<<8, 1, []string{"incorrect_chassis_serial_number"}},
		{fine ^ 0b0101<<8, 1, []string{"no_partition"}},
		{fine ^ 0b0100<<8, 1, []string{"insufficient_nvlinks"}},
		{fine ^ 0b0111<<8, 1, []string{"incompatible_gpu_firmware"}},
		{fine ^ 0b0110<<8, 1, []string{"invalid_location"}},
		{fine ^ 0b1001<<8, 1, []string{"gpu_state_invalid"}},
		{fine ^ 0b1110<<8, 1, []string{"incorrect_configuration"}},
		{fine ^ 0b11<<12, 1, []string{"partition_not_assigned"}},
		{fine ^ 0b11<<14, 1, []string{"fabric_manager_disconnected"}},
		{fine ^ 0b11 ^ 0b11<<14, 2, []string{"degraded_bandwidth", "fabric_manager_disconnected"}},
		{fine, 2, []string{"unhealthy"}},
		{fine, 3, []string{"limited_capacity"}},
	} {
		if got := unhealthy(c.mask, c.summary); !slices.Equal(got, c.want) {
			t.Errorf("mask %#x, summary %d: %v, expected %v", c.mask, c.summary, got, c.want)
		}
	}
}
