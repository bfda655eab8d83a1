// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"os"
	"slices"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// A process that NVML lists on a GPU in MIG mode is joined to its MIG device, and to the GPU.
func TestReadJoinsMIGDevices(t *testing.T) {
	now, pid := time.Unix(1e9, 0), os.Getpid()
	r := reader(t, Sources{})
	on := fabric.GPU{UUID: "GPU-a", Processes: fabric.Known([]fabric.GPUProcess{{PID: pid, Instance: "MIG-1"}, {PID: pid + 1<<21}}, "NVML", now)}
	list, _, err := r.Read(&fabric.GPUDriver{GPUs: []fabric.GPU{on}}, now)
	if !r.samePIDs {
		t.Skip("procfs is of another PID namespace than this process: NVML's PIDs are not joined")
	}
	i := slices.IndexFunc(list, func(c fabric.RankCandidate) bool { return c.PID == pid })
	if err != nil || i < 0 || !slices.Equal(list[i].Instances, []string{"MIG-1"}) || !slices.Equal(list[i].GPUs.Value, []string{"GPU-a"}) {
		t.Errorf("%v: %+v", err, list)
	}
}
