// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"time"
)

// cpuNode is a node without GPUs, and so without a driver for any: it prepares data for those that train. PCI paths,
// addresses, PSID and versions are made up.
func cpuNode() platform {
	return platform{name: "cpu-node", build: buildCPUNode, config: `expected:
  compute_ports: 2
  port_rate_gigabits_per_second: {compute: 100}
`}
}

func buildCPUNode() *Node {
	n := assembly{rootPort: rome, Node: &Node{
		Host: Host{
			Name:    "prep-04",
			Kernel:  "6.1.0-41-amd64",
			Version: "Linux version 6.1.0-41-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0) #1 SMP PREEMPT_DYNAMIC",
			Cmdline: "BOOT_IMAGE=/boot/vmlinuz-6.1.0-41-amd64 root=/dev/sda2 ro",
			Boot:    time.Date(2025, 6, 19, 14, 8, 55, 0, time.UTC),
			HZ:      250,
		},
		NetDevs: []NetDev{loopback()},
		Routes:  defaultRoute("10.16.0.1", "eno1"),
		Files:   map[string]string{"etc/nccl.conf": "NCCL_SOCKET_IFNAME=eno1\n"},
	}}
	compute := adapter{
		chip: connectX6IB, driver: mlx5InfiniBand, hca: "MT4123", board: "MT_0000000223", firmware: "20.43.1014", revision: "0", vfs: 16,
		rate: "100 Gb/sec (4X EDR)", speed: 100_000, mtu: 4092,
		rx: Counter{Start: 4_440_118, PerStep: 60}, tx: Counter{Start: 404_330, PerStep: 23},
		rdma: traffic{sent: Counter{Start: 2_000_000_000, PerStep: 300_000}, received: Counter{Start: 1_900_000_000, PerStep: 290_000}},
	}
	n.addCard(compute, nic{device: "mlx5_0", netdev: "ibp65s0", path: "40:01.1/41:00.0", numa: 0, mac: "0c:42:a1:c0:40:06", addr: "10.116.0.4/24", lid: 0x31})
	n.addCard(compute, nic{device: "mlx5_1", netdev: "ibp129s0", path: "80:01.1/81:00.0", numa: 1, mac: "0c:42:a1:c0:43:8e", addr: "10.116.1.4/24", lid: 0x32})
	n.addOnboard("e0:03.6/e2:00.0", 0, "5c:ff:35:c0:00:04", "10.16.0.4/24")
	return n.Node
}
