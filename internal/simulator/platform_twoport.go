// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"time"

	"gpufabric_exporter/internal/fabric"
)

// twoPort is a node with two A100 PCIe and two NICs of two ports each, which shows both ways in which drivers
// do that. The ConnectX-6 Dx, with mlx5, is two PCI functions with an RDMA device of one port each. The
// ConnectX-3 Pro for storage, with mlx4, is one function and one RDMA device of two ports; the interfaces on that
// function differ in dev_port alone. The size of the GID table of mlx4, PCI paths, addresses, PSIDs and versions
// are made up.
func twoPort() platform {
	return platform{name: "two-port", build: buildTwoPort, gdr: []GDRLabel{{Block: fabric.GDRDistance}}, config: `roles:
  - device: mlx4_0
    role: storage
expected:
  compute_ports: 2
  port_rate_gigabits_per_second: {compute: 100, storage: 40}
`}
}

func buildTwoPort() *Node {
	n := assembly{rootPort: rome, switchPort: pex88096, Node: &Node{
		Host: Host{
			Name:    "a100-pcie-02",
			Kernel:  "6.1.0-41-amd64",
			Version: "Linux version 6.1.0-41-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0) #1 SMP PREEMPT_DYNAMIC",
			Cmdline: "BOOT_IMAGE=/boot/vmlinuz-6.1.0-41-amd64 root=/dev/sda2 ro iommu=pt",
			Boot:    time.Date(2025, 6, 11, 18, 40, 12, 0, time.UTC),
			HZ:      250,
		},
		Driver:  openDriver("550.163.01", "12.4"),
		NetDevs: []NetDev{loopback()},
		Routes:  defaultRoute("10.8.0.1", "eno1"),
		Files:   forEveryJob("NCCL_IB_HCA=mlx5", "NCCL_SOCKET_IFNAME=eno1", "NCCL_IB_TC=106"),
	}}

	compute := adapter{
		chip: connectX6Dx, driver: mlx5Ethernet, hca: "MT4125", board: "MT_0000000359", firmware: "22.43.2566", revision: "0", vfs: 8,
		rate: "100 Gb/sec (4X EDR)", speed: 100_000, mtu: 9000,
		rx: Counter{Start: 60_310_448, PerStep: 170}, tx: Counter{Start: 3_118_920, PerStep: 60},
		rdma: traffic{sent: Counter{Start: 11_000_000_000, PerStep: 1_020_000}, received: Counter{Start: 10_900_000_000, PerStep: 1_010_000}},
		qos:  mlx5Lossless(NoOFED),
	}
	n.addCard(compute,
		nic{device: "mlx5_0", netdev: "enp65s0f0np0", path: "40:01.1/41:00.0", numa: 0, mac: "b8:3f:d2:1c:60:a4", addr: "10.160.0.2/24"},
		nic{device: "mlx5_1", netdev: "enp65s0f1np1", path: "40:01.1/41:00.1", numa: 0, mac: "b8:3f:d2:1c:60:a5", addr: "10.160.1.2/24"},
	)

	storage := adapter{
		chip: connectX3, driver: mlx4, hca: "MT4103", board: "MT_1090111023", firmware: "2.42.5000", revision: "0", vfs: 8,
		rate: "40 Gb/sec (4X QDR)", speed: 40_000, mtu: 9000,
		rx: Counter{Start: 9_443_009_120, PerStep: 31_304_960}, tx: Counter{Start: 2_020_332_416, PerStep: 9_771_072},
		qos: QoS{DCB: true, ETS: fabric.ETS{Classes: fabric.NumPriorities}, DCBX: fabric.DCBX{Host: true, IEEE: true}, Pause: Pause{Answers: true, Receive: true, Transmit: true}},
	}
	n.addMultiPort(storage,
		nic{device: "mlx4_0", netdev: "enp97s0", path: "60:03.1/61:00.0", numa: 0, mac: "e4:1d:2d:50:8a:70", addr: "10.28.0.2/24"},
		nic{netdev: "enp97s0d1", mac: "e4:1d:2d:50:8a:71", addr: "10.28.1.2/24"},
	)
	n.addGPUs(a100PCIe, []slot{{"20:01.1/21:00.0", 0}, {"a0:01.1/a1:00.0", 1}})

	onboard := adapter{
		chip: i210, speed: 1000, mtu: 1500,
		rx: Counter{Start: 12_118_402_733, PerStep: 110_404}, tx: Counter{Start: 5_870_219_004, PerStep: 50_212},
		qos: QoS{Pause: Pause{Answers: true, Autonegotiated: true, Receive: true}},
	}
	n.addCard(onboard, nic{netdev: "eno1", path: "e0:03.6/e2:00.0", numa: 1, mac: "5c:ff:35:77:02:18", addr: "10.8.0.2/24"})
	return n.Node
}
