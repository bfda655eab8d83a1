// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"time"
)

// nvlinkPairs is a server with four A100 PCIe of which NVLink bridges join two and two, an HDR ConnectX-6 for each
// pair, and a PCIe switch on each socket. A pair shares its NIC, and pairs reach each other over PCIe. PCI paths,
// addresses, PSID and versions are made up.
func nvlinkPairs() platform {
	return platform{name: "nvlink-pairs", build: buildNVLinkPairs, gdr: []GDRLabel{{Path: viaDMABuf}}, config: `expected:
  compute_ports: 2
  port_rate_gigabits_per_second: {compute: 200}
`}
}

func buildNVLinkPairs() *Node {
	n := assembly{rootPort: rome, switchPort: pex88096, Node: &Node{
		Host: Host{
			Name:    "a100-pairs-01",
			Kernel:  "6.8.0-88-generic",
			Version: "Linux version 6.8.0-88-generic (buildd@lcy02-amd64-044) (x86_64-linux-gnu-gcc-13) #89-Ubuntu SMP PREEMPT_DYNAMIC",
			Cmdline: "BOOT_IMAGE=/boot/vmlinuz-6.8.0-88-generic root=/dev/sda2 ro iommu=pt",
			Boot:    time.Date(2025, 8, 30, 6, 11, 20, 0, time.UTC),
			HZ:      250,
		},
		Driver:  openDriver("570.172.08", "12.8"),
		NetDevs: []NetDev{loopback()},
		Routes:  defaultRoute("10.13.0.1", "eno1"),
		Files:   forEveryJob("NCCL_IB_HCA=mlx5", "NCCL_SOCKET_IFNAME=eno1"),
	}}

	compute := adapter{
		chip: connectX6IB, driver: mlx5InfiniBand, hca: "MT4123", board: "MT_0000000223", firmware: "20.43.1014", revision: "0", vfs: 16,
		rate: "200 Gb/sec (4X HDR)", speed: 200_000, mtu: 4092,
		rx: Counter{Start: 9_440_118, PerStep: 90}, tx: Counter{Start: 804_330, PerStep: 33},
		rdma: traffic{
			sent: Counter{Start: 12_000_000_000, PerStep: 1_900_000}, received: Counter{Start: 11_900_000_000, PerStep: 1_880_000},
			waits: Counter{Start: 210_000_000, PerStep: 2_100},
		},
		qos: QoS{OFED: OFED{Files: WithOFED}},
	}
	n.addCard(compute, nic{device: "mlx5_0", netdev: "ibp20s0", path: "10:01.1/11:00.0/12:00.0/14:00.0", numa: 0, mac: "0c:42:a1:a0:11:02", addr: "10.113.0.1/24", lid: 0x21})
	n.addCard(compute, nic{device: "mlx5_1", netdev: "ibp148s0", path: "90:01.1/91:00.0/92:00.0/94:00.0", numa: 1, mac: "0c:42:a1:a0:13:48", addr: "10.113.1.1/24", lid: 0x22})
	n.addGPUs(a100PCIe, []slot{
		{"10:01.1/11:00.0/12:04.0/15:00.0", 0},
		{"10:01.1/11:00.0/12:08.0/16:00.0", 0},
		{"90:01.1/91:00.0/92:04.0/95:00.0", 1},
		{"90:01.1/91:00.0/92:08.0/96:00.0", 1},
	})
	n.bridge(0, 1)
	n.bridge(2, 3)
	n.addOnboard("e0:03.6/e2:00.0", 1, "5c:ff:35:a0:00:01", "10.13.0.1/24")
	return n.Node
}
