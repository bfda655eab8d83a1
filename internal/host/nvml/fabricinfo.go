// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpufabric_exporter/internal/fabric"
)

// healthNames are what GPUFabric.Unhealthy may have. The order is that of the wire.
var healthNames = []string{
	"degraded_bandwidth", "route_recovery", "route_unhealthy", "access_timeout_recovery",
	"incorrect_configuration", "incorrect_system_guid", "incorrect_chassis_serial_number", "no_partition",
	"insufficient_nvlinks", "incompatible_gpu_firmware", "invalid_location", "gpu_state_invalid",
	"partition_not_assigned", "fabric_manager_disconnected", "unhealthy", "limited_capacity",
}

// healthFields are the fields of two bits in the health mask whose value says that something is wrong. 0 is always "not
// supported".
var healthFields = []struct {
	shift uint
	bad   uint32
	name  string
}{
	{0, 1, "degraded_bandwidth"},
	{2, 1, "route_recovery"},
	{4, 1, "route_unhealthy"},
	{6, 1, "access_timeout_recovery"},
	{12, 2, "partition_not_assigned"},
	{14, 2, "fabric_manager_disconnected"},
}

// configurations are the values from 2 of the four bits from 8, "incorrect configuration": 1 is a correct one.
var configurations = []string{
	"incorrect_system_guid", "incorrect_chassis_serial_number", "no_partition", "insufficient_nvlinks",
	"incompatible_gpu_firmware", "invalid_location", "gpu_state_invalid",
}

// fabricFact is absent for a GPU that says so by an error, or by its state.
func (g *gpu) fabricFact() fabric.Fact[fabric.GPUFabric] {
	i := g.fabricInfo()
	if i.State == fabric.OK && i.Value.State == nvml.GPU_FABRIC_STATE_NOT_SUPPORTED {
		return fabric.Fact[fabric.GPUFabric]{State: fabric.Absent}
	}
	return to(i, fabricOf)
}

// fabricInfo asks the newest version that library and driver know. Those before driver 550 have no health mask.
func (g *gpu) fabricInfo() fabric.Fact[nvml.GpuFabricInfo_v3] {
	const versioned, first = "nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetGpuFabricInfo"
	if !g.r.has(versioned) {
		return to(get(g, absent, g.dev.GetGpuFabricInfo, first), func(i nvml.GpuFabricInfo) (nvml.GpuFabricInfo_v3, bool) {
			return nvml.GpuFabricInfo_v3{ClusterUuid: i.ClusterUuid, Status: i.Status, CliqueId: i.CliqueId, State: i.State},
				true
		})
	}
	return get(g, absent, func() (nvml.GpuFabricInfo_v3, nvml.Return) {
		i, ret := g.dev.GetGpuFabricInfoV().V3()
		if ret != nvml.ERROR_ARGUMENT_VERSION_MISMATCH && ret != nvml.ERROR_INVALID_ARGUMENT {
			return i, ret
		}
		v2, ret := g.dev.GetGpuFabricInfoV().V2()
		return nvml.GpuFabricInfo_v3{
			ClusterUuid: v2.ClusterUuid, Status: v2.Status, CliqueId: v2.CliqueId, State: v2.State, HealthMask: v2.HealthMask,
		}, ret
	}, versioned)
}

// fabricOf decodes nvmlGpuFabricInfo_v3_t.
func fabricOf(i nvml.GpuFabricInfo_v3) (fabric.GPUFabric, bool) {
	u := i.ClusterUuid
	f := fabric.GPUFabric{Clique: int(i.CliqueId), Cluster: fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10],
		u[10:])}
	state, ok := valueOf(fabricStates, int(i.State)-1)
	if !ok {
		return f, false
	}
	if f.State = state; state == fabric.GPUFabricCompleted {
		f.Status = nameOf(nvml.Return(i.Status))
	}
	f.Unhealthy = unhealthy(i.HealthMask, i.HealthSummary)
	return f, true
}

// unhealthy names what mask and summary complain of. The summary counts where the mask says nothing.
func unhealthy(mask uint32, summary uint8) []string {
	var names []string
	for _, f := range healthFields[:4] {
		if mask>>f.shift&3 == f.bad {
			names = append(names, f.name)
		}
	}
	if c := int(mask >> nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_INCORRECT_CONFIGURATION &
		nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_INCORRECT_CONFIGURATION); c > 1 {
		n, ok := valueOf(configurations, c-2)
		if !ok {
			n = "incorrect_configuration" // in a way that is newer than this binary
		}
		names = append(names, n)
	}
	for _, f := range healthFields[4:] {
		if mask>>f.shift&3 == f.bad {
			names = append(names, f.name)
		}
	}
	switch {
	case len(names) > 0:
	case summary == nvml.GPU_FABRIC_HEALTH_SUMMARY_UNHEALTHY:
		names = append(names, "unhealthy")
	case summary == nvml.GPU_FABRIC_HEALTH_SUMMARY_LIMITED_CAPACITY:
		names = append(names, "limited_capacity")
	}
	return names
}
