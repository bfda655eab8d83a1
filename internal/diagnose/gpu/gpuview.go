// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"fmt"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// GPUsNotAsked says for people how many GPUs of the PCI bus no driver was asked about, so that checks of GPUs
// were not made; empty where GPUsNotAsked are none. What is unknown for a reason that can be changed has a
// verdict (gpu_driver).
func GPUsNotAsked(n *fabric.Node) string {
	m := n.GPUDriver.Loaded.Meta()
	if _, unreached := n.GPUDriver.Unreached(); m.State != fabric.Unknown || !verdict.Silent(m) || unreached ||
		n.GPUDriver.Released != "" {
		return ""
	}
	count := 0
	for _, f := range n.PCI.GPUs() {
		if f.NVIDIA() && !f.PassedThrough() && f.PF.State != fabric.OK {
			count++
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("Checks of GPUs were not made: NVML was not asked about the %d GPUs on the PCI bus.", count)
}
