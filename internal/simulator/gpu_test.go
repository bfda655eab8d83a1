// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package simulator

import (
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
)

// TestGPUsAreThoseOfNVML holds the GPUs of platforms against go-nvml's mocks of the same machines, where there
// are some. The mocks invent UUIDs and put GPU i at bus i, where no machine has it: count, product, PCI device id and the
// order by PCI address, which is what indices mean to NVML, is what can agree.
func TestGPUsAreThoseOfNVML(t *testing.T) {
	// go-nvml's mock of H200 is not one: its device id is that of another chip.
	mocks := map[string]*server.Server{
		"dgx-a100-ib": dgxa100.New(), "dgx-h100-roce": dgxh100.New(), "efa": dgxh100.New(),
	}
	for _, p := range platforms() {
		n, mock := p.build(), mocks[p.name]
		if mock == nil {
			continue
		}
		if count, ret := mock.DeviceGetCount(); ret != nvml.SUCCESS || count != len(n.GPUs) {
			t.Fatalf("%s: %d GPUs, NVML has %d (%v)", p.name, len(n.GPUs), count, ret)
		}
		for i, g := range n.GPUs {
			device, _ := mock.DeviceGetHandleByIndex(i)
			name, _ := device.GetName()
			if g.Name != strings.TrimPrefix(name, "Mock ") {
				t.Errorf("%s GPU %d: %q, NVML says %q", p.name, i, g.Name, name)
			}
			chip := n.Function(g.PCI).Chip
			info, _ := device.GetPciInfo()
			if id := uint32(chip.Device)<<16 | uint32(chip.Vendor); id != info.PciDeviceId {
				t.Errorf("%s GPU %d: PCI device %#x, NVML says %#x", p.name, i, id, info.PciDeviceId)
			}
		}
	}
}
