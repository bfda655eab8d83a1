// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package simulator

import (
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxb200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
)

// TestGPUsAreThoseOfNVML compares the GPUs of platforms with go-nvml's mocks of the same machines, where there
// are some. The mocks invent UUIDs and put GPU i at bus i, where no machine has it: count, compute capability, product,
// PCI device id and the order by PCI address, which is what indices mean to NVML, is what can agree.
func TestGPUsAreThoseOfNVML(t *testing.T) {
	for name, about := range map[string]struct {
		mock *server.Server
		// go-nvml's mocks of H200 and B200 have device ids that are not those of the cards (10de:2333 and 2b00, which is
		// Jetson AGX Thor, instead of 2335 and 2901), and names that no driver gives.
		invented bool
	}{
		"dgx-a100-ib": {dgxa100.New(), false}, "dgx-h100-roce": {dgxh100.New(), false}, "efa": {dgxh100.New(), false},
		"roce-bond": {dgxh100.New(), false}, "bnxt-roce": {dgxh200.New(), true}, "dgx-b200-ib": {dgxb200.New(), true},
	} {
		n := healthyNode(name)
		gpus := n.nvml(then).GPUs
		if count, ret := about.mock.DeviceGetCount(); ret != nvml.SUCCESS || count != len(gpus) {
			t.Fatalf("%s: %d GPUs, NVML has %d (%v)", name, len(gpus), count, ret)
		}
		for i, g := range gpus {
			device, _ := about.mock.DeviceGetHandleByIndex(i)
			major, minor, _ := device.GetCudaComputeCapability()
			if capability := 10*major + minor; g.ComputeCap.Value != capability {
				t.Errorf("%s GPU %d: compute capability %d, NVML reports %d", name, i, g.ComputeCap.Value, capability)
			}
			if about.invented {
				continue
			}
			product, _ := device.GetName()
			if g.Name.Value != strings.TrimPrefix(product, "Mock ") {
				t.Errorf("%s GPU %d: %q, NVML reports %q", name, i, g.Name.Value, product)
			}
			chip := n.Function(g.Address).Chip
			info, _ := device.GetPciInfo()
			if id := uint32(chip.Device)<<16 | uint32(chip.Vendor); id != info.PciDeviceId {
				t.Errorf("%s GPU %d: PCI device %#x, NVML reports %#x", name, i, id, info.PciDeviceId)
			}
		}
	}
}
