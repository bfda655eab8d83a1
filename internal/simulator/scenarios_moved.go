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
			Summary: "nothing is wrong with a node whose training NICs a pod has",
			Truth: "The RDMA core is in exclusive mode, and the RDMA CNI gave all eight devices with their interfaces to a pod. The host's " +
				"class/infiniband has those for storage and management only, but the driver has all of them, and their functions are on the " +
				"bus. Nothing is missing and nothing is reported.",
			edit: func(n *Node) { compute(n.Move) },
		},
		{
			Name: "moved-to-pod-ib", Platform: a100,
			Summary: "nothing is wrong with an InfiniBand node some of whose NICs pods have",
			Truth:   "Two pods have two devices each, with their IPoIB interfaces. The four that are left on the host are active. Nothing is reported.",
			edit: func(n *Node) {
				for _, device := range []string{"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"} {
					n.Move(device)
				}
			},
		},
		{
			Name: "interfaces-in-pod", Platform: h100,
			Summary: "nothing is wrong with a node whose training interfaces a pod has",
			Truth: "Multus (host-device) gave the eight interfaces to a pod; the RDMA core is in shared mode, and the devices stayed. They are " +
				"active, and their GIDs name interfaces as the pod calls them, one of them as the host calls its own. How the interfaces treat " +
				"traffic only the pod knows. Nothing is reported.",
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
			Summary: "a compute HCA has fallen off the bus while pods have the others",
			Truth: "Seven devices are in pods, and mlx5_5 is not there: no RDMA device in any namespace, no interface, no PCI function. The site " +
				"expects eight compute ports; that pods have seven explains none that is missing.",
			Expect: []Finding{{"", 0, "compute_ports_missing"}},
			edit: func(n *Node) {
				n.Unplug("mlx5_5")
				compute(n.Move)
			},
		},
	}
}
