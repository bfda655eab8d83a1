// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"time"
)

// ionicRoCE is an eight-GPU node of AMD: MI300X GPUs, which NVML does not know, each with a 400G Pollara beside
// it. The counters are those of a real Pollara 400. The size of the GID table, the number of virtual functions, PCI
// paths, addresses and versions are made up.
func ionicRoCE() platform {
	return platform{name: "ionic-roce", build: buildIonic, gdr: []GDRLabel{{}}, config: `expected:
  compute_ports: 8
  port_rate_gigabits_per_second: {compute: 400}
`}
}

func buildIonic() *Node {
	n := assembly{rootPort: rome, switchPort: pex89144, Node: &Node{
		Host: Host{
			Name:    "mi300x-11",
			Kernel:  "6.18.0-8-generic",
			Version: "Linux version 6.18.0-8-generic (buildd@lcy02-amd64-053) (x86_64-linux-gnu-gcc-15) #8-Ubuntu SMP PREEMPT_DYNAMIC",
			Cmdline: "BOOT_IMAGE=/boot/vmlinuz-6.18.0-8-generic root=/dev/nvme0n1p2 ro iommu=pt",
			Boot:    time.Date(2026, 2, 17, 8, 2, 44, 0, time.UTC),
			HZ:      1000,
		},
		NetDevs: []NetDev{loopback()},
		Routes:  defaultRoute("10.3.0.1", "eno1"),
		Files:   forEveryJob("NCCL_IB_HCA=ionic", "NCCL_SOCKET_IFNAME=eno1", "NCCL_IB_TC=104"),
	}}

	compute := adapter{
		chip: pollara, driver: ionic, firmware: "1.117.5-a-56", revision: "0x1", vfs: 16,
		rate: "400 Gb/sec (4X NDR)", speed: 400_000, mtu: 9000,
		rx: Counter{Start: 98_402_118, PerStep: 198}, tx: Counter{Start: 5_104_872, PerStep: 64},
		rdma: traffic{sent: Counter{Start: 33_000_000_000, PerStep: 3_600_000}, received: Counter{Start: 32_900_000_000, PerStep: 3_590_000}},
		qos:  QoS{Pause: Pause{Answers: true}, FEC: FEC{Active: "rs"}}, // it has no DCB operations
	}
	n.addRails(compute, mi300X, []rail{
		// device, interface; switch, NIC, GPU; NUMA node, MAC address, IP address, LID
		{"ionic_0", "enp9s0", "00:01.1/01:00.0", "02:00.0/09:00.0", "02:01.0/05:00.0", 0, "04:90:81:4a:10:08", "10.120.0.11/24", 0},
		{"ionic_1", "enp25s0", "10:01.1/11:00.0", "12:00.0/19:00.0", "12:01.0/15:00.0", 0, "04:90:81:4a:13:38", "10.120.1.11/24", 0},
		{"ionic_2", "enp57s0", "30:01.1/31:00.0", "32:00.0/39:00.0", "32:01.0/35:00.0", 0, "04:90:81:4a:0c:60", "10.120.2.11/24", 0},
		{"ionic_3", "enp73s0", "40:01.1/41:00.0", "42:00.0/49:00.0", "42:01.0/45:00.0", 0, "04:90:81:4a:11:e0", "10.120.3.11/24", 0},
		{"ionic_4", "enp137s0", "80:01.1/81:00.0", "82:00.0/89:00.0", "82:01.0/85:00.0", 1, "04:90:81:4a:19:28", "10.120.4.11/24", 0},
		{"ionic_5", "enp153s0", "90:01.1/91:00.0", "92:00.0/99:00.0", "92:01.0/95:00.0", 1, "04:90:81:4a:0e:90", "10.120.5.11/24", 0},
		{"ionic_6", "enp185s0", "b0:01.1/b1:00.0", "b2:00.0/b9:00.0", "b2:01.0/b5:00.0", 1, "04:90:81:4a:15:50", "10.120.6.11/24", 0},
		{"ionic_7", "enp201s0", "c0:01.1/c1:00.0", "c2:00.0/c9:00.0", "c2:01.0/c5:00.0", 1, "04:90:81:4a:12:18", "10.120.7.11/24", 0},
	})

	for i := range n.HCAs { // the driver shows its node description, which rdma-ndd sets
		n.HCAs[i].Type = n.Host.Name + " " + n.HCAs[i].Name
	}

	onboard := adapter{
		chip: i210, speed: 1000, mtu: 1500,
		rx: Counter{Start: 18_220_118_102, PerStep: 160_880}, tx: Counter{Start: 7_019_446_530, PerStep: 71_936},
		qos: QoS{Pause: Pause{Answers: true, Autonegotiated: true, Receive: true}},
	}
	n.addCard(onboard, nic{netdev: "eno1", path: "e0:03.6/e2:00.0", numa: 1, mac: "7c:c2:55:81:3d:06", addr: "10.3.0.11/24"})
	return n.Node
}
