// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"time"
)

// dgxH100 is an eight-GPU H100 node on a RoCE fabric: a 400G ConnectX-7 beside each GPU below a PCIe switch
// of their own, a two-port 200G ConnectX-7 for storage, and a BlueField-3 whose ports are the management bond.
func dgxH100() platform {
	return platform{name: "dgx-h100-roce", build: buildDGXH100, gdr: []GDRLabel{{Path: viaDMABuf}}, config: `roles:
  - device: "mlx5_8|mlx5_9"
    role: storage
expected:
  compute_ports: 8
  port_rate_gigabits_per_second: {compute: 400}
`}
}

func buildDGXH100() *Node {
	n := assembly{rootPort: sapphireRapids, switchPort: pex89144, Node: &Node{
		Host: Host{
			Name:    "dgx-h100-17",
			Kernel:  "6.8.0-1030-nvidia",
			Version: "Linux version 6.8.0-1030-nvidia (buildd@lcy02-amd64-037) (x86_64-linux-gnu-gcc-13) #33-Ubuntu SMP PREEMPT_DYNAMIC",
			Cmdline: "BOOT_IMAGE=/boot/vmlinuz-6.8.0-1030-nvidia root=/dev/md0 ro iommu=pt pci=realloc=off",
			Boot:    time.Date(2025, 9, 14, 5, 41, 7, 0, time.UTC),
			HZ:      250,
		},
		Driver:  openDriver("580.65.06", "13.0"),
		NetDevs: []NetDev{loopback()},
		Daemons: []Daemon{containerd(3211), slurmd(4127)},
		Routes:  defaultRoute("10.0.0.1", "bond0"),
		Files:   forEveryJob("NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7", "NCCL_SOCKET_IFNAME=bond0", "NCCL_IB_TC=106", "NCCL_IB_TIMEOUT=22"),
	}}

	compute := adapter{
		chip: connectX7, driver: mlx5Ethernet, hca: "MT4129", board: "MT_0000000838", firmware: "28.39.3560", revision: "0", vfs: 16,
		rate: "400 Gb/sec (4X NDR)", speed: 400_000, mtu: 9000,
		rx: Counter{Start: 182_300_112, PerStep: 240}, tx: Counter{Start: 9_120_774, PerStep: 74},
		rdma: traffic{sent: Counter{Start: 71_000_000_000, PerStep: 4_150_000}, received: Counter{Start: 70_600_000_000, PerStep: 4_130_000}},
		qos:  mlx5Lossless(WithOFED),
	}
	n.addRails(compute, h100SXM, []rail{
		// device, interface; switch, NIC, GPU; NUMA node, MAC address, IP address, LID
		{"mlx5_0", "enp24s0np0", "15:01.0/16:00.0", "17:00.0/18:00.0", "17:03.0/1b:00.0", 0, "a0:88:c2:4e:10:18", "10.100.0.17/24", 0},
		{"mlx5_1", "enp64s0np0", "3d:01.0/3e:00.0", "3f:00.0/40:00.0", "3f:03.0/43:00.0", 0, "a0:88:c2:4e:13:5a", "10.100.1.17/24", 0},
		{"mlx5_2", "enp79s0np0", "4c:01.0/4d:00.0", "4e:00.0/4f:00.0", "4e:03.0/52:00.0", 0, "a0:88:c2:4e:0c:2e", "10.100.2.17/24", 0},
		{"mlx5_3", "enp94s0np0", "5b:01.0/5c:00.0", "5d:00.0/5e:00.0", "5d:03.0/61:00.0", 0, "a0:88:c2:4e:11:94", "10.100.3.17/24", 0},
		{"mlx5_4", "enp154s0np0", "97:01.0/98:00.0", "99:00.0/9a:00.0", "99:03.0/9d:00.0", 1, "a0:88:c2:4e:19:06", "10.100.4.17/24", 0},
		{"mlx5_5", "enp192s0np0", "bd:01.0/be:00.0", "bf:00.0/c0:00.0", "bf:03.0/c3:00.0", 1, "a0:88:c2:4e:0e:72", "10.100.5.17/24", 0},
		{"mlx5_6", "enp206s0np0", "cb:01.0/cc:00.0", "cd:00.0/ce:00.0", "cd:03.0/d1:00.0", 1, "a0:88:c2:4e:15:b8", "10.100.6.17/24", 0},
		{"mlx5_7", "enp220s0np0", "d9:01.0/da:00.0", "db:00.0/dc:00.0", "db:03.0/df:00.0", 1, "a0:88:c2:4e:12:4c", "10.100.7.17/24", 0},
	})

	storage := adapter{
		chip: connectX7, driver: mlx5Ethernet, hca: "MT4129", board: "MT_0000000834", firmware: "28.39.3560", revision: "0", vfs: 16,
		rate: "200 Gb/sec (4X HDR)", speed: 200_000, mtu: 9000,
		rx: Counter{Start: 81_220_443_009_120, PerStep: 611_304_960}, tx: Counter{Start: 9_981_020_332_416, PerStep: 48_771_072},
		qos: mlx5Port(WithOFED),
	}
	n.addCard(storage,
		nic{device: "mlx5_8", netdev: "enp231s0f0np0", path: "e6:01.0/e7:00.0", numa: 1, mac: "a0:88:c2:71:06:ac", addr: "10.20.0.17/24"},
		nic{device: "mlx5_9", netdev: "enp231s0f1np1", path: "e6:01.0/e7:00.1", numa: 1, mac: "a0:88:c2:71:06:ad", addr: "10.20.1.17/24"},
	)

	management := adapter{
		chip: bluefield3, driver: mlx5Ethernet, hca: "MT41692", board: "MT_0000000884", firmware: "32.39.3560", revision: "1", vfs: 16,
		rate: "200 Gb/sec (2X NDR)", speed: 200_000, mtu: 1500,
		rx: Counter{Start: 310_554_023_118, PerStep: 1_204_224}, tx: Counter{Start: 122_009_774_120, PerStep: 733_184},
		qos: mlx5Port(WithOFED),
	}
	n.addBond(management,
		nic{device: "mlx5_bond_0", netdev: "bond0", mac: "58:a2:e1:0b:44:d0", addr: "10.0.0.17/24"},
		nic{netdev: "enp41s0f0np0", path: "28:01.0/29:00.0", numa: 0},
		nic{netdev: "enp41s0f1np1", path: "28:01.0/29:00.1", numa: 0},
	)
	n.Driver.Peermem.Clients = true // ib_core of MLNX_OFED has it, and nothing needs it
	n.addSwitches(nvSwitch3, []slot{
		{"01:01.0/02:00.0/03:00.0/04:00.0", 0}, {"01:01.0/02:00.0/03:01.0/05:00.0", 0}, {"01:01.0/02:00.0/03:02.0/06:00.0", 0}, {"01:01.0/02:00.0/03:03.0/07:00.0", 0},
	}, 5, 4, 4, 5)
	n.register(oneBoard, 0)
	return n.Node
}
