// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// Away is what is in another network namespace than the node's own, because a pod has it: an RDMA device as a whole, or
// the network interface of one of its ports.
type Away struct {
	Device string
	Port   int // 0: the whole device
}

// elsewhere returns what is in other network namespaces, in the order of devices.
func elsewhere(n *fabric.Node) []Away {
	var list []Away
	for i := range n.HCAs {
		h := &n.HCAs[i]
		if h.Moved {
			list = append(list, Away{Device: h.Name})
			continue
		}
		for k := range h.Ports {
			if h.Ports[k].NetDevMoved() {
				list = append(list, Away{h.Name, h.Ports[k].Number})
			}
		}
	}
	return list
}

// Elsewhere says what of the node is in other network namespaces, for people; empty where nothing is. It is no verdict:
// containers are made so.
func Elsewhere(n *fabric.Node) string {
	var devices, interfaces []string
	for _, a := range elsewhere(n) {
		h := n.HCA(a.Device)
		if a.Port == 0 {
			devices = append(devices, h.Name)
		} else {
			interfaces = append(interfaces, PortSubject(h, &fabric.Port{Number: a.Port}).String())
		}
	}
	var parts []string
	if len(devices) > 0 {
		parts = append(parts, "RDMA devices in other network namespaces, such as those of pods: "+strings.Join(devices, ", ")+". The state of their ports is unknown here.")
	}
	if len(interfaces) > 0 {
		parts = append(parts, "RDMA devices whose network interface is in another network namespace: "+strings.Join(interfaces, ", ")+
			". The settings of the interface are unknown here.")
	}
	return strings.Join(parts, " ")
}
