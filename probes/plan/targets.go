// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
)

// Wants is what plans are made of.
const Wants = fabric.WantHCA | fabric.WantPCI | fabric.WantGPU | fabric.WantNCCL

// Targets returns the probes of all kinds on a node, those that cannot run there too.
func Targets(n *fabric.Node, s Settings) []probes.Target {
	var all []probes.Target
	for _, kind := range probes.Kinds() {
		keys := []probes.Key{{Kind: kind}}
		if kind == probes.Rail {
			if rails := RailKeys(n); len(rails) > 0 {
				keys = rails
			}
		}
		for _, key := range keys {
			t := probes.Target{Key: key}
			if plan, skip := New(key, n, s); skip == nil {
				t.GPUs, t.Conditions = plan.GPUs(), conditions(n, plan)
			}
			all = append(all, t)
		}
	}
	return all
}

// conditions are what results must have in common to be compared, beside what they say themselves. What a fault
// changes is no condition, such as how many NVLinks are up: the slower results would have a new baseline, and not be
// regressed.
func conditions(n *fabric.Node, p *Plan) []string {
	var list []string
	if h := n.HCA(p.Key.Device); h != nil {
		list = append(list, "firmware "+h.Firmware.Or("unknown"), "board "+h.BoardID.Or("unknown"))
	}
	for _, g := range n.GPUDriver.GPUs {
		if slices.Contains(p.GPUs(), g.UUID) {
			list = append(list, fmt.Sprintf("GPU %s: %s", g.Address, g.Name.Or("unknown")))
		}
	}
	return list
}
