// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"time"

	"gpufabric_exporter/internal/fabric"
)

// irdmaRoCE is a node with four L40S and a two-port 100G Intel E810. Its RDMA devices are children of PCI
// functions that the driver of the interface (ice) holds, as always; irdma is bound to the device on the
// auxiliary bus beside them. They have the names that udev gives, and each port has an image GUID of its own,
// though it is one card. PCI paths, addresses and versions are made up.
func irdmaRoCE() platform {
	return platform{name: "irdma-roce", build: buildIrdma, gdr: []GDRLabel{{Block: fabric.GDRDistance}}, config: `expected:
  compute_ports: 2
  port_rate_gigabits_per_second: {compute: 100}
`}
}

func buildIrdma() *Node {
	n := assembly{rootPort: sapphireRapids, switchPort: pex88096, Node: &Node{
		Host: Host{
			Name:    "l40s-22",
			Kernel:  "6.12.48+deb13-amd64",
			Version: "Linux version 6.12.48+deb13-amd64 (debian-kernel@lists.debian.org) (x86_64-linux-gnu-gcc-14) #1 SMP PREEMPT_DYNAMIC",
			Cmdline: "BOOT_IMAGE=/boot/vmlinuz-6.12.48+deb13-amd64 root=/dev/sda2 ro intel_iommu=on iommu=pt",
			Boot:    time.Date(2025, 11, 20, 16, 48, 2, 0, time.UTC),
			HZ:      250,
		},
		Driver:  openDriver("550.163.01", "12.4"),
		NetDevs: []NetDev{loopback()},
		Routes:  defaultRoute("10.4.0.1", "eno1"),
		Files:   forEveryJob("NCCL_IB_HCA=roce", "NCCL_SOCKET_IFNAME=eno1", "NCCL_IB_TC=104"),
	}}

	onboard := adapter{
		chip: i210, speed: 1000, mtu: 1500,
		rx: Counter{Start: 30_118_402_733, PerStep: 120_404}, tx: Counter{Start: 11_870_219_004, PerStep: 60_212},
		qos: QoS{Pause: Pause{Answers: true, Autonegotiated: true, Receive: true}},
	}
	n.addCard(onboard, nic{netdev: "eno1", path: "00:1c.0/02:00.0", numa: 0, mac: "3c:ec:ef:90:17:2c", addr: "10.4.0.22/24"})

	compute := adapter{
		chip: e810, driver: irdma, firmware: "1.71", vfs: 128,
		rate: "100 Gb/sec (4X EDR)", speed: 100_000, mtu: 9000,
		rx: Counter{Start: 77_310_940, PerStep: 180}, tx: Counter{Start: 6_220_118, PerStep: 58},
		rdma: traffic{sent: Counter{Start: 9_400_000_000, PerStep: 1_050_000}, received: Counter{Start: 9_380_000_000, PerStep: 1_040_000}},
		qos:  lossless(),
	}
	n.addCard(compute,
		nic{device: "rocep138s0f0", netdev: "enp138s0f0", path: "89:01.0/8a:00.0", numa: 1, mac: "b4:96:91:d2:6e:40", addr: "10.130.0.22/24"},
		nic{device: "rocep138s0f1", netdev: "enp138s0f1", path: "89:01.0/8a:00.1", numa: 1, mac: "b4:96:91:d2:6e:41", addr: "10.130.1.22/24"},
	)
	n.addGPUs(l40s, []slot{
		{"26:01.0/27:00.0/28:00.0/29:00.0", 0},
		{"26:01.0/27:00.0/28:04.0/2a:00.0", 0},
		{"a2:01.0/a3:00.0/a4:00.0/a5:00.0", 1},
		{"a2:01.0/a3:00.0/a4:04.0/a6:00.0", 1},
	})
	return n.Node
}
