// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import "time"

// fault is a scenario that happens to healthy nodes while they are watched.
type fault struct {
	scenario string
	alert    string
	device   string // that is broken; empty: alerts name none
	nodes    int
	within   time.Duration // from the fault to the webhook, for nine of ten
	mend     time.Duration // how long it lasts
	// stays says why the alert does not go within this test; empty: it does.
	stays string
	also  []string // alerts that are true too, on that device or on the node
}

// Limits of issue and design: at a scrape interval of 15 s.
const (
	hard  = 60 * time.Second
	storm = 90 * time.Second
	slow  = 150 * time.Second
)

const checkFailed = "GpuFabricCheckFailed"

func faults() []fault {
	missing := "GpuFabricComputePortsMissing"
	return []fault{
		{
			scenario: "port-down", alert: "GpuFabricPortDown", device: "mlx5_3", nodes: 5, within: hard, mend: 90 * time.Second,
			also: []string{checkFailed, missing},
		},
		{
			scenario: "device-gone", alert: "GpuFabricDeviceGone", device: "mlx5_5", nodes: 5, within: hard, mend: 90 * time.Second,
			also: []string{checkFailed, missing},
		},
		{
			scenario: "gid-missing", alert: "GpuFabricGidLost", device: "mlx5_2", nodes: 5, within: hard, mend: 90 * time.Second,
			also: []string{checkFailed, "GpuFabricGidChanged"},
		},
		{
			scenario: "pfc-storm", alert: "GpuFabricPfcStorm", device: "mlx5_7", nodes: 3, within: storm, mend: 105 * time.Second,
			stays: "kept firing for 5 min", also: []string{"GpuFabricSlowReceiver", "GpuFabricRailImbalance"},
		},
		{
			scenario: "pfc-off", alert: checkFailed, device: "mlx5_2", nodes: 3, within: slow, mend: 165 * time.Second,
			stays: "kept firing for 15 min",
		},
		{
			scenario: "rate-degraded", alert: "GpuFabricRateDegraded", device: "mlx5_6", nodes: 3, within: slow, mend: 165 * time.Second,
			also: []string{checkFailed},
		},
	}
}

// healthy are scenarios of which no alert may come.
func healthy() []string {
	return []string{
		"healthy", "healthy-ib", "healthy-efa", "lossy-design", "healthy-sriov-vf", "healthy-vm-flat", "healthy-bnxt-roce", "healthy-gb200",
		"healthy-roce-bond", "healthy-roce-vlan",
	}
}
