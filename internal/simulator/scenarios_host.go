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
			Summary: "Slurm limits the locked memory of jobs to 64 KiB",
			Truth: "slurmd was started without LimitMEMLOCK=infinity, and its jobs inherit its limit of 64 KiB. ibv_reg_mr and ibv_create_cq " +
				"fail with ENOMEM, and NCCL fails with them. Devices, links and configuration are correct.",
			Expect: []Finding{{"", 0, "memlock_low"}},
			edit:   func(n *Node) { n.daemon("slurmd").Memlock = Memlock{"65536", "65536"} },
		},
		{
			Name: "memlock-of-containers", Platform: h100,
			Summary: "healthy node whose daemons have low limits that do not apply to jobs",
			Truth: "The limit of containerd is 8 MiB, which is the default; pods that use RDMA have CAP_IPC_LOCK, to which the limit does not " +
				"apply. The soft limit of slurmd is low and its hard limit is not: jobs get the soft limit of the user that submits them. " +
				"A process of a user is named slurmd and starts no jobs. Nothing is reported.",
			edit: func(n *Node) {
				n.daemon("slurmd").Memlock.Soft = "8388608"
				n.Daemons = append(n.Daemons, Daemon{PID: 51_877, Name: "slurmd", User: 1007, Memlock: Memlock{"65536", "65536"}},
					Daemon{PID: 3344, Name: "kubelet", Memlock: Memlock{"8388608", "8388608"}})
			},
		},
		{
			Name: "socket-interface-missing", Platform: h100,
			Summary: "NCCL is configured to use a network interface that does not exist",
			Truth: "NCCL_SOCKET_IFNAME=eth0 was copied from another cluster: no interface of this node has a name that begins with eth0. NCCL " +
				"finds none for its bootstrap, and every job with more than one process fails at once. RDMA is correct.",
			Expect: []Finding{{"", 0, "socket_interface_missing"}},
			edit:   func(n *Node) { socket(n, "bond0", "eth0") },
		},
		{
			Name: "socket-interface-down", Platform: b200,
			Summary: "NCCL is configured to use a network interface without a link",
			Truth: "NCCL_SOCKET_IFNAME==eno2 names the second port of the onboard card, which is not cabled. NCCL uses only interfaces that " +
				"are up and running, and finds none; the setting excludes the first port, which is up.",
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
			Summary: "healthy node with one of the interfaces that NCCL is configured to use",
			Truth: "NCCL_SOCKET_IFNAME=eth,eno,bond is the same on all kinds of nodes of the site; NCCL uses those that exist, here bond0. " +
				"Nothing is reported.",
			edit: func(n *Node) { socket(n, "bond0", "eth,eno,bond") },
		},
	}
}
