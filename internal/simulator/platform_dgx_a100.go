// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"time"
)

// dgxA100 is an eight-GPU A100 node on an InfiniBand fabric: two GPUs and two HDR ConnectX-6 below each of
// four cascades of PCIe switches, a two-port ConnectX-6 on Ethernet for storage, and an onboard 1G port for
// management.
func dgxA100() platform {
	return platform{name: "dgx-a100-ib", build: buildDGXA100, gdr: []GDRLabel{{Path: viaPeermem}}, config: `roles:
  - device: "mlx5_4|mlx5_5"
    role: storage
expected:
  compute_ports: 8
  port_rate_gigabits_per_second: {compute: 200}
`}
}

func buildDGXA100() *Node {
	n := assembly{rootPort: rome, switchPort: pex88096, Node: &Node{
		Host: Host{
			Name:    "dgx-a100-05",
			Kernel:  "5.15.0-1063-nvidia",
			Version: "Linux version 5.15.0-1063-nvidia (buildd@lcy02-amd64-041) (gcc 11.4.0) #64-Ubuntu SMP",
			Cmdline: "BOOT_IMAGE=/boot/vmlinuz-5.15.0-1063-nvidia root=/dev/md0 ro iommu=pt",
			Boot:    time.Date(2025, 7, 2, 22, 10, 53, 0, time.UTC),
			HZ:      250,
		},
		Driver:  closedDriver("535.183.06", "12.2"),
		NetDevs: []NetDev{loopback()},
		Daemons: []Daemon{slurmd(2964)},
		Routes:  defaultRoute("10.1.0.1", "enp226s0"),
		Files:   forEveryJob("NCCL_IB_HCA=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_6,mlx5_7,mlx5_8,mlx5_9", "NCCL_SOCKET_IFNAME=enp226s0", "NCCL_IB_TIMEOUT=22"),
	}}

	compute := adapter{
		chip: connectX6IB, driver: mlx5InfiniBand, hca: "MT4123", board: "MT_0000000223", firmware: "20.39.3560", revision: "0", vfs: 16,
		rate: "200 Gb/sec (4X HDR)", speed: 200_000, mtu: 4092,
		rx: Counter{Start: 40_223_716, PerStep: 148}, tx: Counter{Start: 2_004_980, PerStep: 60},
		rdma: traffic{
			sent: Counter{Start: 41_000_000_000, PerStep: 2_100_000}, received: Counter{Start: 40_800_000_000, PerStep: 2_090_000},
			waits: Counter{Start: 1_310_000_000, PerStep: 5_100},
		},
		qos: QoS{OFED: OFED{Files: WithOFED}},
	}
	n.addRails(compute, a100SXM, []rail{
		// device, interface; switch, NIC, GPU; NUMA node, MAC address, IP address, LID
		{"mlx5_0", "ibp12s0", "00:01.1/01:00.0", "02:04.0/0a:00.0/0b:00.0/0c:00.0", "02:00.0/03:00.0/04:00.0/07:00.0", 0, "0c:42:a1:55:62:a2", "10.101.0.5/24", 0x45},
		{"mlx5_1", "ibp18s0", "00:01.1/01:00.0", "02:08.0/10:00.0/11:00.0/12:00.0", "02:04.0/0a:00.0/0b:04.0/0d:00.0/0e:00.0/0f:00.0", 0, "0c:42:a1:55:61:1e", "10.101.1.5/24", 0x47},
		{"mlx5_2", "ibp75s0", "40:01.1/41:00.0", "42:04.0/49:00.0/4a:00.0/4b:00.0", "42:00.0/43:00.0/44:00.0/47:00.0", 0, "0c:42:a1:55:5f:8a", "10.101.2.5/24", 0x46},
		{"mlx5_3", "ibp84s0", "40:01.1/41:00.0", "42:08.0/52:00.0/53:00.0/54:00.0", "42:04.0/49:00.0/4a:04.0/4c:00.0/4d:00.0/4e:00.0", 0, "0c:42:a1:55:63:3a", "10.101.3.5/24", 0x4a},
	})
	// The storage card sits in between, which is why the numbers of the compute devices have a gap.
	storage := adapter{
		chip: connectX6, driver: mlx5Ethernet, hca: "MT4123", board: "MT_0000000225", firmware: "20.39.3560", revision: "0", vfs: 16,
		rate: "100 Gb/sec (4X EDR)", speed: 100_000, mtu: 9000,
		rx: Counter{Start: 61_900_332_774_912, PerStep: 305_152_000}, tx: Counter{Start: 7_123_664_120_832, PerStep: 22_020_096},
		qos: mlx5Port(WithOFED),
	}
	n.addCard(storage,
		nic{device: "mlx5_4", netdev: "enp97s0f0np0", path: "60:03.1/61:00.0", numa: 0, mac: "0c:42:a1:8e:20:14", addr: "10.21.0.5/24"},
		nic{device: "mlx5_5", netdev: "enp97s0f1np1", path: "60:03.1/61:00.1", numa: 0, mac: "0c:42:a1:8e:20:15", addr: "10.21.1.5/24"},
	)
	n.addRails(compute, a100SXM, []rail{
		{"mlx5_6", "ibp141s0", "80:01.1/81:00.0", "82:04.0/8b:00.0/8c:00.0/8d:00.0", "82:00.0/83:00.0/84:00.0/87:00.0", 1, "0c:42:a1:55:60:52", "10.101.4.5/24", 0x48},
		{"mlx5_7", "ibp148s0", "80:01.1/81:00.0", "82:08.0/92:00.0/93:00.0/94:00.0", "82:04.0/8b:00.0/8c:04.0/8e:00.0/8f:00.0/90:00.0", 1, "0c:42:a1:55:5d:c6", "10.101.5.5/24", 0x49},
		{"mlx5_8", "ibp186s0", "b0:01.1/b1:00.0", "b2:04.0/b8:00.0/b9:00.0/ba:00.0", "b2:00.0/b3:00.0/b4:00.0/b7:00.0", 1, "0c:42:a1:55:64:d2", "10.101.6.5/24", 0x4c},
		{"mlx5_9", "ibp204s0", "b0:01.1/b1:00.0", "b2:08.0/ca:00.0/cb:00.0/cc:00.0", "b2:04.0/b8:00.0/b9:04.0/bb:00.0/bc:00.0/bd:00.0", 1, "0c:42:a1:55:5e:f6", "10.101.7.5/24", 0x4b},
	})

	onboard := adapter{
		chip: i210, speed: 1000, mtu: 1500,
		rx: Counter{Start: 122_310_994_004, PerStep: 210_344}, tx: Counter{Start: 40_010_223_986, PerStep: 98_216},
		qos: QoS{Pause: Pause{Answers: true, Autonegotiated: true, Receive: true}},
	}
	n.addCard(onboard, nic{netdev: "enp226s0", path: "e0:03.6/e2:00.0", numa: 1, mac: "5c:ff:35:e2:19:08", addr: "10.1.0.5/24"})
	var switches []slot
	for i := range 6 {
		switches = append(switches, slot{fmt.Sprintf("c0:01.1/c1:00.0/c2:%02x.0/%02x:00.0", 4*i, 0xc4+i), 1})
	}
	n.addSwitches(nvSwitch2, switches, 2, 2, 2, 2, 2, 2)
	return n.Node
}
