// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"time"
)

// flatVM is a virtual machine with half of an HGX H100 board: GPUs and virtual functions of ConnectX-7 sit on one bus
// without any bridge between, which says nothing about where they really are. NVLink works, through switches that a
// virtual machine of the service owns. PCI paths, addresses, PSID and versions are made up.
func flatVM() platform {
	return platform{name: "vm-flat", build: buildFlatVM, gdr: []GDRLabel{{}}, config: `expected:
  compute_ports: 4
  port_rate_gigabits_per_second: {compute: 400}
`}
}

func buildFlatVM() *Node {
	n := assembly{rootPort: sapphireRapids, Node: &Node{
		Host: Host{
			Name:    "hgx-vm-22",
			Kernel:  "6.8.0-88-generic",
			Version: "Linux version 6.8.0-88-generic (buildd@lcy02-amd64-044) (x86_64-linux-gnu-gcc-13) #89-Ubuntu SMP PREEMPT_DYNAMIC",
			Cmdline: "BOOT_IMAGE=/boot/vmlinuz-6.8.0-88-generic root=/dev/vda1 ro console=ttyS0",
			Boot:    time.Date(2025, 12, 4, 11, 2, 31, 0, time.UTC),
			HZ:      250,
			Virtual: true,
		},
		Driver:  openDriver("570.172.08", "12.8"),
		NetDevs: []NetDev{loopback()},
		Routes:  defaultRoute("10.15.0.1", "eno1"),
		Files:   forEveryJob("NCCL_IB_HCA=mlx5", "NCCL_SOCKET_IFNAME=eno1"),
	}}

	compute := adapter{
		chip: connectX7VI, driver: mlx5InfiniBand, hca: "MT4126", board: "MT_0000000838", firmware: "28.43.2566", revision: "0", virtual: true,
		rate: "400 Gb/sec (4X NDR)", speed: 400_000, mtu: 4092,
		rx: Counter{Start: 8_440_118, PerStep: 80}, tx: Counter{Start: 704_330, PerStep: 31},
		rdma: traffic{sent: Counter{Start: 11_000_000_000, PerStep: 3_100_000}, received: Counter{Start: 10_900_000_000, PerStep: 3_080_000}},
	}
	compute.driver.onePerCard, compute.driver.pma = false, pmaTraffic // a virtual function knows of no card
	for i := range 4 {
		n.addCard(compute, nic{
			device: fmt.Sprintf("mlx5_%d", i), netdev: fmt.Sprintf("ib%d", i), path: fmt.Sprintf("00:%02x.0", 0x10+i), numa: noNUMA,
			mac: fmt.Sprintf("1e:5a:40:f1:%02x:02", 0x20+i), addr: fmt.Sprintf("10.115.%d.22/24", i), lid: 0x61 + i,
		})
	}
	n.addGPUs(h100SXM, []slot{{"00:20.0", noNUMA}, {"00:21.0", noNUMA}, {"00:22.0", noNUMA}, {"00:23.0", noNUMA}})
	n.linkToSwitches(nil)
	n.register(oneBoard, 0)
	n.addOnboard("00:03.0", noNUMA, "5c:ff:35:f1:00:22", "10.15.0.22/24")
	return n.Node
}
