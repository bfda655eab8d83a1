// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// Elsewhere says what of the node is in other network namespaces, for people; empty where nothing is. It is no verdict:
// containers are made so.
func Elsewhere(n *fabric.Node) string {
	var devices, interfaces []string
	for _, a := range n.Elsewhere() {
		h := n.HCA(a.Device)
		if a.Port == 0 {
			devices = append(devices, h.Name)
		} else {
			interfaces = append(interfaces, verdict.PortSubject(h, &fabric.Port{Number: a.Port}).String())
		}
	}
	var parts []string
	if len(devices) > 0 {
		parts = append(parts, "RDMA devices in other network namespaces, such as those of pods: "+strings.Join(devices,
			", ")+". The state of their ports is unknown here.")
	}
	if len(interfaces) > 0 {
		parts = append(parts,
			"RDMA devices whose network interface is in another network namespace: "+strings.Join(interfaces, ", ")+
				". The settings of the interface are unknown here.")
	}
	return strings.Join(parts, " ")
}
