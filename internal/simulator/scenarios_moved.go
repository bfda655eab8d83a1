// SPDX-License-Identifier: Apache-2.0

package simulator

import "fmt"

// movedScenarios are about devices and interfaces that pods have. The trees follow drivers/infiniband/core/device.c
// (rdma_dev_change_netns) and drivers/base/core.c (get_device_parent) of Linux 6.8.
func movedScenarios() []Scenario {
	compute := func(each func(device string)) {
		for i := range 8 {
			each(fmt.Sprintf("mlx5_%d", i))
		}
	}
	return []Scenario{
		{
			Name: "moved-to-pod", Platform: h100,
			Summary: "healthy node whose training NICs are in a pod",
			Truth: "The RDMA core is in exclusive mode, and the RDMA CNI moved all eight devices with their interfaces into a pod. " +
				"class/infiniband of the host has the storage and management devices only, but the driver has all devices, and their " +
				"functions are on the bus. Nothing is missing. Nothing is reported.",
			edit: func(n *Node) { compute(n.Move) },
		},
		{
			Name: "moved-to-pod-ib", Platform: a100,
			Summary: "healthy InfiniBand node with some of its NICs in pods",
			Truth: "Two pods have two devices each, with their IPoIB interfaces. The four devices that remain on the host are active. Nothing " +
				"is reported.",
			edit: func(n *Node) {
				for _, device := range []string{"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"} {
					n.Move(device)
				}
			},
		},
		{
			Name: "interfaces-in-pod", Platform: h100,
			Summary: "healthy node whose training interfaces are in a pod",
			Truth: "Multus (host-device) moved the eight interfaces into a pod; the RDMA core is in shared mode, and the devices stayed on " +
				"the host. They are active, and their GIDs have the names that interfaces have in the pod, one of which is also the name " +
				"of an interface of the host. Only in the pod can the RoCE settings of the interfaces be read. Nothing is reported.",
			edit: func(n *Node) {
				k := 0
				compute(func(device string) {
					k++
					n.MoveNetDev(device, fmt.Sprintf("net%d", k))
				})
				for i := range n.HCA("mlx5_0").Ports[0].GIDs {
					n.HCA("mlx5_0").Ports[0].GIDs[i].NetDev = "bond0"
				}
			},
		},
		{
			Name: "device-gone-beside-moved", Platform: h100,
			Summary: "one compute HCA has fallen off the bus while pods have the others",
			Truth: "Seven devices are in pods, and mlx5_5 is missing: no RDMA device in any namespace, no interface, no PCI function. The " +
				"site expects eight compute ports; the seven in pods do not explain the missing one.",
			Expect: []Finding{{"", 0, "compute_ports_missing"}},
			edit: func(n *Node) {
				n.Unplug("mlx5_5")
				compute(n.Move)
			},
		},
	}
}
