// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"time"

	"gpufabric_exporter/internal/fabric"
)

// l40sServer is a server with four L40S and two 200G ConnectX-7, each in a slot of its own: what GPUs and NICs exchange
// crosses the host bridge. There is no NVLink and no PCIe switch. PCI paths, addresses, PSID and versions are made up.
func l40sServer() platform {
	return platform{name: "l40s-pcie", build: buildL40S, gdr: []GDRLabel{{Block: fabric.GDRDistance}}, config: `expected:
  compute_ports: 2
  port_rate_gigabits_per_second: {compute: 200}
`}
}

func buildL40S() *Node {
	n := assembly{rootPort: sapphireRapids, Node: &Node{
		Host: Host{
			Name:    "l40s-08",
			Kernel:  "6.8.0-88-generic",
			Version: "Linux version 6.8.0-88-generic (buildd@lcy02-amd64-044) (x86_64-linux-gnu-gcc-13) #89-Ubuntu SMP PREEMPT_DYNAMIC",
			Cmdline: "BOOT_IMAGE=/boot/vmlinuz-6.8.0-88-generic root=/dev/sda2 ro",
			Boot:    time.Date(2025, 9, 1, 10, 25, 3, 0, time.UTC),
			HZ:      250,
		},
		Driver:  openDriver("570.172.08", "12.8"),
		NetDevs: []NetDev{loopback()},
		Routes:  defaultRoute("10.14.0.1", "eno1"),
		Files:   forEveryJob("NCCL_IB_HCA=mlx5", "NCCL_SOCKET_IFNAME=eno1", "NCCL_IB_TC=106"),
	}}

	compute := adapter{
		chip: connectX7, driver: mlx5Ethernet, hca: "MT4129", board: "MT_0000000834", firmware: "28.43.2566", revision: "0", vfs: 16,
		rate: "200 Gb/sec (4X HDR)", speed: 200_000, mtu: 9000,
		rx: Counter{Start: 21_310_448, PerStep: 150}, tx: Counter{Start: 1_118_920, PerStep: 44},
		rdma: traffic{sent: Counter{Start: 6_000_000_000, PerStep: 900_000}, received: Counter{Start: 5_900_000_000, PerStep: 890_000}},
		qos:  mlx5Lossless(NoOFED),
	}
	compute.driver.gidSlots = 16 // it has 256; fewer files do for this node
	n.addCard(compute, nic{device: "mlx5_0", netdev: "ens1np0", path: "26:01.0/27:00.0", numa: 0, mac: "a0:88:c2:14:20:08", addr: "10.190.0.8/24"})
	n.addCard(compute, nic{device: "mlx5_1", netdev: "ens2np0", path: "a6:01.0/a7:00.0", numa: 1, mac: "a0:88:c2:14:22:30", addr: "10.190.1.8/24"})
	n.addGPUs(l40s, []slot{{"26:03.0/28:00.0", 0}, {"36:01.0/37:00.0", 0}, {"a6:03.0/a8:00.0", 1}, {"b6:01.0/b7:00.0", 1}})
	n.addOnboard("00:1c.0/02:00.0", 0, "3c:ec:ef:14:00:08", "10.14.0.8/24")
	return n.Node
}
