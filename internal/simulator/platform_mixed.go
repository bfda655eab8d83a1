// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"time"
)

// mixedVendors is a node with two H100 NVL whose NICs come from three vendors: an InfiniBand ConnectX-7 below the switch
// of each GPU, a two-port Broadcom Thor2 for storage, and an Intel E810 that the default route leads through. PCI
// paths, addresses, PSID and versions are made up.
func mixedVendors() platform {
	return platform{name: "mixed-vendors", build: buildMixedVendors, gdr: []GDRLabel{{Path: viaDMABuf}}, config: `roles:
  - device: "bnxt_re.*"
    role: storage
expected:
  compute_ports: 2
  port_rate_gigabits_per_second: {compute: 400, storage: 200}
`}
}

func buildMixedVendors() *Node {
	n := assembly{rootPort: sapphireRapids, switchPort: pex89144, Node: &Node{
		Host: Host{
			Name:    "h100-nvl-12",
			Kernel:  "6.12.48+deb13-amd64",
			Version: "Linux version 6.12.48+deb13-amd64 (debian-kernel@lists.debian.org) (x86_64-linux-gnu-gcc-14) #1 SMP PREEMPT_DYNAMIC",
			Cmdline: "BOOT_IMAGE=/boot/vmlinuz-6.12.48+deb13-amd64 root=/dev/sda2 ro iommu=pt",
			Boot:    time.Date(2025, 12, 2, 6, 20, 44, 0, time.UTC),
			HZ:      250,
		},
		Driver:  openDriver("580.65.06", "13.0"),
		NetDevs: []NetDev{loopback()},
		Routes:  defaultRoute("10.18.0.1", "enp138s0f0"),
		Files:   forEveryJob("NCCL_IB_HCA=mlx5", "NCCL_SOCKET_IFNAME=enp138s0f0"),
	}}

	compute := adapter{
		chip: connectX7IB, driver: mlx5InfiniBand, hca: "MT4129", board: "MT_0000000838", firmware: "28.43.2566", revision: "0", vfs: 16,
		rate: "400 Gb/sec (4X NDR)", speed: 400_000, mtu: 4092,
		rx: Counter{Start: 7_440_118, PerStep: 70}, tx: Counter{Start: 604_330, PerStep: 27},
		rdma: traffic{
			sent: Counter{Start: 9_000_000_000, PerStep: 3_000_000}, received: Counter{Start: 8_900_000_000, PerStep: 2_980_000},
			waits: Counter{Start: 110_000_000, PerStep: 1_900},
		},
		qos: QoS{OFED: OFED{Files: WithOFED}},
	}
	n.addRails(compute, h100NVL, []rail{
		// device, interface; switch, NIC, GPU; NUMA node, MAC address, IP address, LID
		{"mlx5_0", "ibp24s0", "15:01.0/16:00.0", "17:00.0/18:00.0", "17:03.0/1b:00.0", 0, "a0:88:c2:51:10:18", "10.118.0.12/24", 0x71},
		{"mlx5_1", "ibp154s0", "97:01.0/98:00.0", "99:00.0/9a:00.0", "99:03.0/9d:00.0", 1, "a0:88:c2:51:13:5a", "10.118.1.12/24", 0x72},
	})

	storage := adapter{
		chip: thor2, driver: bnxtRE, hca: "Broadcom NetXtreme-C/E RoCE Driver HCA", firmware: "231.2.63.0", revision: "0x11", vfs: 128,
		rate: "200 Gb/sec (4X HDR)", speed: 200_000, mtu: 9000,
		rx: Counter{Start: 41_220_443_009_120, PerStep: 401_304_960}, tx: Counter{Start: 6_981_020_332_416, PerStep: 38_771_072},
		qos: QoS{DCB: true, ETS: lossless().ETS, DCBX: lossless().DCBX, Pause: Pause{Answers: true}, FEC: reedSolomon},
	}
	storage.driver.gidSlots = 16 // it has 256; fewer files do for this node
	n.addCard(storage,
		nic{device: "bnxt_re0", netdev: "ens7f0np0", path: "e6:01.0/e7:00.0", numa: 1, mac: "84:16:0c:51:06:ac", addr: "10.22.0.12/24"},
		nic{device: "bnxt_re1", netdev: "ens7f1np1", path: "e6:01.0/e7:00.1", numa: 1, mac: "84:16:0c:51:06:ad", addr: "10.22.1.12/24"},
	)

	management := adapter{
		chip: e810, driver: irdma, firmware: "1.71", vfs: 128,
		rate: "100 Gb/sec (4X EDR)", speed: 100_000, mtu: 1500,
		rx: Counter{Start: 41_310_994_004, PerStep: 180_344}, tx: Counter{Start: 9_010_223_986, PerStep: 78_216},
		qos: QoS{DCB: true, ETS: lossless().ETS, DCBX: lossless().DCBX, Pause: Pause{Answers: true}, FEC: reedSolomon},
	}
	n.addCard(management, nic{device: "rocep138s0f0", netdev: "enp138s0f0", path: "89:01.0/8a:00.0", numa: 0, mac: "b4:96:91:51:6e:40", addr: "10.18.0.12/24"})
	n.bridge(0, 1)
	return n.Node
}
