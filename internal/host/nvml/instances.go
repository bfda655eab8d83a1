// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpufabric_exporter/internal/fabric"
)

// instance is a part of a GPU in MIG mode, by the numbers that NVML has for it. Processes of a GPU that is
// not in MIG mode have 0xFFFFFFFF for both.
type instance struct{ gpu, compute uint32 }

// maxInstances are the MIG devices that are looked for on a GPU. There are 7 at most on A100 to B200.
const maxInstances = 16

// readInstances reads the UUIDs of the MIG devices of a GPU: at most four calls for each, and none where MIG is off. An
// instance that was made since the last reading is not known before the next one; one with a process cannot
// be destroyed.
func (g *gpu) readInstances() {
	g.instances = nil
	if on, ok := g.f.MIG.Get(); !ok || !on || g.lost {
		return
	}
	ask := &gpu{r: g.r} // what fails for one of its parts says nothing of the GPU
	n := get(ask, absent, g.dev.GetMaxMigDeviceCount, "nvmlDeviceGetMaxMigDeviceCount").Or(0)
	if !g.r.has("nvmlDeviceGetMigDeviceHandleByIndex") {
		return
	}
	g.instances = map[instance]string{}
	for i := range min(max(n, 0), maxInstances) {
		part, ret := g.dev.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS { // NVML_ERROR_NOT_FOUND: indices have gaps
			continue
		}
		ask.lost = false
		in, of := get(ask, absent, part.GetGpuInstanceId, "nvmlDeviceGetGpuInstanceId"),
			get(ask, absent, part.GetComputeInstanceId, "nvmlDeviceGetComputeInstanceId")
		uuid := get(ask, absent, part.GetUUID, "nvmlDeviceGetUUID")
		if in.State == fabric.OK && of.State == fabric.OK && uuid.State == fabric.OK {
			g.instances[instance{uint32(in.Value), uint32(of.Value)}] = uuid.Value
		}
	}
}
