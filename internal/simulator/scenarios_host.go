// SPDX-License-Identifier: Apache-2.0

package simulator

import "strings"

// hostScenarios are about what the host gives to jobs beside its devices.
func hostScenarios() []Scenario {
	socket := func(n *Node, was, is string) {
		n.Files[ncclConf] = strings.Replace(n.Files[ncclConf], "NCCL_SOCKET_IFNAME="+was+"\n", "NCCL_SOCKET_IFNAME="+is+"\n", 1)
	}
	return []Scenario{
		{
			Name: "memlock-low", Platform: a100,
			Summary: "Slurm lets jobs lock 64 KiB of memory",
			Truth: "slurmd was started without LimitMEMLOCK=infinity, and no job that it starts may lock more than it may itself: 64 KiB. " +
				"ibv_reg_mr and ibv_create_cq fail with ENOMEM, and NCCL with them. Devices, links and configuration are as they should be.",
			Expect: []Finding{{"", 0, "memlock_low"}},
			edit:   func(n *Node) { n.daemon("slurmd").Memlock = Memlock{"65536", "65536"} },
		},
		{
			Name: "memlock-of-containers", Platform: h100,
			Summary: "nothing is wrong with a node whose daemons have low limits that do not bind jobs",
			Truth: "containerd may lock 8 MiB, as on every node where nobody said otherwise: pods that use RDMA have CAP_IPC_LOCK, for " +
				"which the limit does not count. The soft limit of slurmd is low and the hard one is not: jobs get the soft limit " +
				"of whoever submits them. A process of a user calls itself slurmd and starts nobody's jobs. Nothing is reported.",
			edit: func(n *Node) {
				n.daemon("slurmd").Memlock.Soft = "8388608"
				n.Daemons = append(n.Daemons, Daemon{PID: 51_877, Name: "slurmd", User: 1007, Memlock: Memlock{"65536", "65536"}},
					Daemon{PID: 3344, Name: "kubelet", Memlock: Memlock{"8388608", "8388608"}})
			},
		},
		{
			Name: "socket-interface-missing", Platform: h100,
			Summary: "NCCL is told to use a network interface that is not there",
			Truth: "NCCL_SOCKET_IFNAME=eth0 was copied from another cluster: this node has no interface whose name begins so. NCCL " +
				"finds none for its bootstrap, and every job of more than one process fails at once. RDMA is as it should be.",
			Expect: []Finding{{"", 0, "socket_interface_missing"}},
			edit:   func(n *Node) { socket(n, "bond0", "eth0") },
		},
		{
			Name: "socket-interface-down", Platform: b200,
			Summary: "NCCL is told to use a network interface that has no link",
			Truth: "NCCL_SOCKET_IFNAME==eno2 names the second port of the onboard card, which nobody cabled. NCCL takes interfaces " +
				"that are up and running only and finds none; the first port, which is, it was told not to use.",
			Expect: []Finding{{"", 0, "socket_interface_down"}},
			edit: func(n *Node) {
				second := *n.NetDev("eno1")
				second.Name, second.Index, second.DevPort, second.Carrier, second.Addrs = "eno2", 1+len(n.NetDevs), 1, false, nil
				second.Address = "5c:25:73:9d:1f:ff"
				n.NetDevs = append(n.NetDevs, second)
				socket(n, "eno1", "=eno2")
			},
		},
		{
			Name: "socket-interface-list", Platform: h100,
			Summary: "nothing is wrong with a node that has one of the interfaces that NCCL may use",
			Truth: "NCCL_SOCKET_IFNAME=eth,eno,bond is the same on all kinds of nodes of the site; NCCL takes those that are " +
				"there, on this one bond0. Nothing is reported.",
			edit: func(n *Node) { socket(n, "bond0", "eth,eno,bond") },
		},
	}
}
