// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

const (
	h100, a100, b200, pairs = "dgx-h100-roce", "dgx-a100-ib", "dgx-b200-ib", "nvlink-pairs"

	viaDMABuf  = fabric.GDRDMABuf
	viaPeermem = fabric.GDRPeermem
)

// nvidiaPlatforms are machines of NVIDIA, and what differs in GPUs. In all tables of platforms PCI paths, addresses,
// PSIDs and versions are assumed where nothing else is said.
func nvidiaPlatforms() []platform {
	return []platform{
		{ // two GPUs and two HDR ConnectX-6 below each of four cascades of PCIe switches
			name: a100, gdr: works(viaPeermem), ports: 8, rates: "compute: 200", roles: role("mlx5_4|mlx5_5"),
			healthy: Scenario{
				Name:    "healthy-ib",
				Summary: "healthy A100 node with InfiniBand",
				Truth: "Eight InfiniBand ports at 200 Gb/s with a LID and a subnet manager, and two Ethernet ports for storage " +
					"whose device numbers are between those of the InfiniBand ports. Nothing is reported.",
			},
			host: on("dgx-a100-05", "2025-07-02 22:10:53",
				"250 5.15.0-1063-nvidia (buildd@lcy02-amd64-041) (gcc 11.4.0) #64-Ubuntu SMP",
				"/boot/vmlinuz- root=/dev/md0 ro iommu=pt"),
			root: rome, branch: pex88096, driver: closedDriver("535.183.06", "12.2"), daemons: []Daemon{slurmd(2964)},
			route: "10.1.0.1 enp226s0",
			nccl: "NCCL_IB_HCA=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_6,mlx5_7,mlx5_8,mlx5_9 " +
				"NCCL_SOCKET_IFNAME=enp226s0 NCCL_IB_TIMEOUT=22",
			pieces: []piece{
				rails(a100Compute(), a100SXM, `
					mlx5_0 ibp12s0 00:01.1/01:00.0 02:04.0/0a:00.0/0b:00.0/0c:00.0 02:00.0/03:00.0/04:00.0/07:00.0
						0 0c:42:a1:55:62:a2 10.101.0.5/24 0x45
					mlx5_1 ibp18s0 00:01.1/01:00.0 02:08.0/10:00.0/11:00.0/12:00.0 02:04.0/0a:00.0/0b:04.0/0d:00.0/0e:00.0/0f:00.0
						0 0c:42:a1:55:61:1e 10.101.1.5/24 0x47
					mlx5_2 ibp75s0 40:01.1/41:00.0 42:04.0/49:00.0/4a:00.0/4b:00.0 42:00.0/43:00.0/44:00.0/47:00.0
						0 0c:42:a1:55:5f:8a 10.101.2.5/24 0x46
					mlx5_3 ibp84s0 40:01.1/41:00.0 42:08.0/52:00.0/53:00.0/54:00.0 42:04.0/49:00.0/4a:04.0/4c:00.0/4d:00.0/4e:00.0
						0 0c:42:a1:55:63:3a 10.101.3.5/24 0x4a`),
				oneCard(a100Storage(), `
					mlx5_4 enp97s0f0np0 60:03.1/61:00.0 0 0c:42:a1:8e:20:14 10.21.0.5/24 0
					mlx5_5 enp97s0f1np1 60:03.1/61:00.1 0 0c:42:a1:8e:20:15 10.21.1.5/24 0`),
				rails(a100Compute(), a100SXM, `
					mlx5_6 ibp141s0 80:01.1/81:00.0 82:04.0/8b:00.0/8c:00.0/8d:00.0 82:00.0/83:00.0/84:00.0/87:00.0
						1 0c:42:a1:55:60:52 10.101.4.5/24 0x48
					mlx5_7 ibp148s0 80:01.1/81:00.0 82:08.0/92:00.0/93:00.0/94:00.0 82:04.0/8b:00.0/8c:04.0/8e:00.0/8f:00.0/90:00.0
						1 0c:42:a1:55:5d:c6 10.101.5.5/24 0x49
					mlx5_8 ibp186s0 b0:01.1/b1:00.0 b2:04.0/b8:00.0/b9:00.0/ba:00.0 b2:00.0/b3:00.0/b4:00.0/b7:00.0
						1 0c:42:a1:55:64:d2 10.101.6.5/24 0x4c
					mlx5_9 ibp204s0 b0:01.1/b1:00.0 b2:08.0/ca:00.0/cb:00.0/cc:00.0 b2:04.0/b8:00.0/b9:04.0/bb:00.0/bc:00.0/bd:00.0
						1 0c:42:a1:55:5e:f6 10.101.7.5/24 0x4b`),
				eno1(122_310_994_004, 210_344, 40_010_223_986, 98_216,
					"- enp226s0 e0:03.6/e2:00.0 1 5c:ff:35:e2:19:08 10.1.0.5/24 0"),
				func(n assembly) {
					var switches []slot
					for i := range 6 {
						switches = append(switches, slot{fmt.Sprintf("c0:01.1/c1:00.0/c2:%02x.0/%02x:00.0", 4*i, 0xc4+i), 1})
					}
					n.addSwitches(nvSwitch2, switches, 2, 2, 2, 2, 2, 2)
				},
			},
		},
		{ // a 400G ConnectX-7 beside each GPU below a PCIe switch of their own, and a BlueField-3 whose ports are the
			// management bond
			name: h100, gdr: works(viaDMABuf), ports: 8, rates: "compute: 400", roles: role("mlx5_8|mlx5_9"),
			healthy: Scenario{
				Name:    "healthy",
				Summary: "healthy H100 node with RoCE",
				Truth: "Eight compute ports at 400 Gb/s, two storage ports and a management bond, all active. Each port has its " +
					"address as a RoCE v2 GID at index 3, which NCCL selects without configuration. Nothing is reported.",
			},
			host: on("dgx-h100-17", "2025-09-14 05:41:07", dgxOS,
				"/boot/vmlinuz- root=/dev/md0 ro iommu=pt pci=realloc=off"),
			driver:  openDriver("580.65.06", "13.0"),
			daemons: []Daemon{containerd(3211), slurmd(4127)},
			route:   "10.0.0.1 bond0",
			nccl: "NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7 NCCL_SOCKET_IFNAME=bond0 " +
				"NCCL_IB_TC=106 NCCL_IB_TIMEOUT=22",
			pieces: []piece{
				rails(nicX7().of("MT_0000000838", "28.39.3560").rated(400).under(mlx5Lossless(WithOFED)).
					counts(182_300_112, 240, 9_120_774, 74).moves(71_000_000_000, 4_150_000, 70_600_000_000, 4_130_000), h100SXM, `
					mlx5_0 enp24s0np0  15:01.0/16:00.0 17:00.0/18:00.0 17:03.0/1b:00.0 0 a0:88:c2:4e:10:18 10.100.0.17/24 0
					mlx5_1 enp64s0np0  3d:01.0/3e:00.0 3f:00.0/40:00.0 3f:03.0/43:00.0 0 a0:88:c2:4e:13:5a 10.100.1.17/24 0
					mlx5_2 enp79s0np0  4c:01.0/4d:00.0 4e:00.0/4f:00.0 4e:03.0/52:00.0 0 a0:88:c2:4e:0c:2e 10.100.2.17/24 0
					mlx5_3 enp94s0np0  5b:01.0/5c:00.0 5d:00.0/5e:00.0 5d:03.0/61:00.0 0 a0:88:c2:4e:11:94 10.100.3.17/24 0
					mlx5_4 enp154s0np0 97:01.0/98:00.0 99:00.0/9a:00.0 99:03.0/9d:00.0 1 a0:88:c2:4e:19:06 10.100.4.17/24 0
					mlx5_5 enp192s0np0 bd:01.0/be:00.0 bf:00.0/c0:00.0 bf:03.0/c3:00.0 1 a0:88:c2:4e:0e:72 10.100.5.17/24 0
					mlx5_6 enp206s0np0 cb:01.0/cc:00.0 cd:00.0/ce:00.0 cd:03.0/d1:00.0 1 a0:88:c2:4e:15:b8 10.100.6.17/24 0
					mlx5_7 enp220s0np0 d9:01.0/da:00.0 db:00.0/dc:00.0 db:03.0/df:00.0 1 a0:88:c2:4e:12:4c 10.100.7.17/24 0`),
				oneCard(nicX7().of("MT_0000000834", "28.39.3560").rated(200).under(mlx5Port(WithOFED)).
					counts(81_220_443_009_120, 611_304_960, 9_981_020_332_416, 48_771_072), `
					mlx5_8 enp231s0f0np0 e6:01.0/e7:00.0 1 a0:88:c2:71:06:ac 10.20.0.17/24 0
					mlx5_9 enp231s0f1np1 e6:01.0/e7:00.1 1 a0:88:c2:71:06:ad 10.20.1.17/24 0`),
				bonds(h100Management(), `
					mlx5_bond_0 bond0 - 0 58:a2:e1:0b:44:d0 10.0.0.17/24 0
					- enp41s0f0np0 28:01.0/29:00.0 0 - - 0
					- enp41s0f1np1 28:01.0/29:00.1 0 - - 0`),
				func(n assembly) {
					n.Driver.Peermem.Clients = true // ib_core of MLNX_OFED has it, and nothing needs it
					var switches []slot
					for i := range 4 {
						switches = append(switches, slot{fmt.Sprintf("01:01.0/02:00.0/03:%02x.0/%02x:00.0", i, 4+i), 0})
					}
					n.addSwitches(nvSwitch3, switches, 5, 4, 4, 5)
					n.register(oneBoard, 0)
				},
			},
		},
		{ // NVLink 5 counts other errors than its predecessors, and NVML does not report the addresses of its switches
			name: b200, gdr: works(viaDMABuf), ports: 8, rates: "compute: 400",
			healthy: Scenario{
				Name:    "healthy-dgx-b200",
				Summary: "healthy B200 node with InfiniBand",
				Truth: "Eight compute ports at 400 Gb/s, each next to its GPU, and 18 active NVLinks of 50 GB/s on every GPU. " +
					"NVLink 5 does not count CRC errors and replays, but recoveries and errors that remain after correction. " +
					"Nothing is reported.",
			},
			host:   on("dgx-b200-03", "2025-10-02 08:17:44", dgxOS, "/boot/vmlinuz- root=/dev/md0 ro iommu=pt pci=realloc=off"),
			driver: openDriver("580.65.06", "13.0"), route: "10.11.0.1 eno1", nccl: "NCCL_IB_HCA=mlx5 NCCL_SOCKET_IFNAME=eno1",
			pieces: b200Pieces(),
		},
		{ // the same on a fabric built for half of its ports: GPUs without a cable go through the rail of their neighbour
			name: "half-cabled", gdr: works(viaDMABuf), ports: 4, rates: "compute: 400",
			healthy: Scenario{
				Name:    "healthy-half-cabled",
				Summary: "healthy node with half of its rails cabled",
				Truth: "Eight identical InfiniBand ports: four are active at 400 Gb/s, four never had a link. The site expects " +
					"four, and NCCL_IB_HCA lists the cabled ones. Nothing is reported.",
			},
			host:   on("dgx-b200-03", "2025-10-02 08:17:44", dgxOS, "/boot/vmlinuz- root=/dev/md0 ro iommu=pt pci=realloc=off"),
			driver: openDriver("580.65.06", "13.0"), route: "10.11.0.1 eno1",
			nccl: "NCCL_IB_HCA==mlx5_0,mlx5_2,mlx5_4,mlx5_6 NCCL_SOCKET_IFNAME=eno1",
			pieces: append(b200Pieces(), uncabled("mlx5_1", "mlx5_3", "mlx5_5", "mlx5_7"),
				func(n assembly) { n.Host.Name = "dgx-b200-61" }), // its GPUs have the UUIDs of the other
		},
		{ // A tray of an NVL72: every root port is a PCI domain of its own, so that over PCIe nothing is near anything. GPUs
			// of 18
			// trays form one NVLink domain, which IMEX manages. Numbers of domains and of NUMA nodes are those of such trays.
			name: "gb200", gdr: works(viaDMABuf), ports: 4, rates: "compute: 400",
			healthy: Scenario{
				Name:    "healthy-gb200",
				Summary: "healthy GB200 compute tray",
				Truth: "Four GPUs with NVLink-C2C and two Grace processors. Over PCIe, a host bridge is between every GPU and " +
					"every NIC; NCCL uses C2C and therefore GPUDirect RDMA. The memory of each GPU is a NUMA node. Nothing is " +
					"reported.",
			},
			host: on("gb200-r07-t11", "2025-11-03 16:52:08",
				"1000 6.8.0-1028-nvidia-64k (buildd@bos03-arm64-031) (aarch64-linux-gnu-gcc-13) #31-Ubuntu SMP PREEMPT_DYNAMIC",
				"/boot/vmlinuz- root=/dev/nvme0n1p2 ro iommu.passthrough=1 init_on_alloc=0"),
			root: grace, driver: openDriver("580.65.06", "13.0"), route: "10.12.0.1 eno1",
			nccl: "NCCL_IB_HCA=mlx5 NCCL_SOCKET_IFNAME=eno1",
			pieces: []piece{
				cards(nicX7IB().of("MT_0000000838", "28.43.2566").rated(400).counts(28_440_112, 122, 1_704_330, 49).
					moves(33_000_000_000, 3_900_000, 32_900_000_000, 3_880_000).waits(710_000_000, 4_100), `
					mlx5_0 ibP0p3s0  0000:00:00.0/0000:01:00.0/0000:02:00.0/0000:03:00.0 0 a0:88:c2:9b:30:20 10.112.0.11/24 0x101
					mlx5_1 ibP2p3s0  0002:00:00.0/0002:01:00.0/0002:02:00.0/0002:03:00.0 0 a0:88:c2:9b:31:20 10.112.1.11/24 0x102
					mlx5_2 ibP16p3s0 0010:00:00.0/0010:01:00.0/0010:02:00.0/0010:03:00.0 1 a0:88:c2:9b:32:20 10.112.2.11/24 0x103
					mlx5_3 ibP18p3s0 0012:00:00.0/0012:01:00.0/0012:02:00.0/0012:03:00.0 1 a0:88:c2:9b:33:20 10.112.3.11/24 0x104`),
				gpus(gb200, `0008:00:00.0/0008:01:00.0 0  0009:00:00.0/0009:01:00.0 0
					0018:00:00.0/0018:01:00.0 1  0019:00:00.0/0019:01:00.0 1`),
				func(n assembly) {
					for i := range n.GPUs {
						n.GPUs[i].MemoryNode = 2 + 8*i
					}
					n.linkToSwitches(nil)
					n.register("6f1d2a94-53c7-4b0e-9a61-0c8e27d4f511", 32766)
				},
				mainBoard("- eno1 0005:00:00.0/0005:01:00.0 0 5c:ff:35:9b:00:11 10.12.0.11/24 0"),
			},
		},
		{ // four A100 PCIe of which NVLink bridges join two and two, an HDR ConnectX-6 for each pair, and a PCIe switch on
			// each socket
			name: pairs, gdr: works(viaDMABuf), ports: 2, rates: "compute: 200",
			healthy: Scenario{
				Name:    "healthy-nvlink-pairs",
				Summary: "healthy node with four A100 PCIe in pairs with NVLink bridges",
				Truth: "All 12 NVLinks of each GPU are active and lead to the other GPU of its pair. Pairs reach each other " +
					"over PCIe, and both GPUs of a pair share the only NIC below their switch. Nothing is reported.",
			},
			host: on("a100-pairs-01", "2025-08-30 06:11:20", noble, "/boot/vmlinuz- root=/dev/sda2 ro iommu=pt"),
			root: rome, branch: pex88096, driver: openDriver("570.172.08", "12.8"), route: "10.13.0.1 eno1",
			nccl: "NCCL_IB_HCA=mlx5 NCCL_SOCKET_IFNAME=eno1",
			pieces: []piece{
				cards(nicX6IB().of("MT_0000000223", "20.43.1014").rated(200).counts(9_440_118, 90, 804_330, 33).
					moves(12_000_000_000, 1_900_000, 11_900_000_000, 1_880_000).waits(210_000_000, 2_100), `
					mlx5_0 ibp20s0  10:01.1/11:00.0/12:00.0/14:00.0 0 0c:42:a1:a0:11:02 10.113.0.1/24 0x21
					mlx5_1 ibp148s0 90:01.1/91:00.0/92:00.0/94:00.0 1 0c:42:a1:a0:13:48 10.113.1.1/24 0x22`),
				gpus(a100PCIe, `10:01.1/11:00.0/12:04.0/15:00.0 0  10:01.1/11:00.0/12:08.0/16:00.0 0
					90:01.1/91:00.0/92:04.0/95:00.0 1  90:01.1/91:00.0/92:08.0/96:00.0 1`),
				func(n assembly) {
					n.bridge(0, 1)
					n.bridge(2, 3)
				},
				mainBoard("- eno1 e0:03.6/e2:00.0 1 5c:ff:35:a0:00:01 10.13.0.1/24 0"),
			},
		},
		{ // each card is in a slot of its own: what GPUs and NICs exchange crosses the host bridge
			name: "l40s-pcie", gdr: because(fabric.GDRDistance), ports: 2, rates: "compute: 200",
			healthy: Scenario{
				Name:    "healthy-l40s",
				Summary: "healthy L40S server without PCIe switches",
				Truth: "GPUs and NICs are in slots of the processors. Traffic between them crosses a host bridge, which is " +
					"farther than NCCL's default for GPUDirect RDMA: this is the design of the server. L40S have no NVLink. " +
					"Nothing is reported.",
			},
			host:   on("l40s-08", "2025-09-01 10:25:03", noble, "/boot/vmlinuz- root=/dev/sda2 ro"),
			driver: openDriver("570.172.08", "12.8"), route: "10.14.0.1 eno1",
			nccl: "NCCL_IB_HCA=mlx5 NCCL_SOCKET_IFNAME=eno1 NCCL_IB_TC=106",
			pieces: []piece{
				cards(nicX7().of("MT_0000000834", "28.43.2566").rated(200).under(mlx5Lossless(NoOFED)).slots(16).
					counts(21_310_448, 150, 1_118_920, 44).moves(6_000_000_000, 900_000, 5_900_000_000, 890_000), `
					mlx5_0 ens1np0 26:01.0/27:00.0 0 a0:88:c2:14:20:08 10.190.0.8/24 0
					mlx5_1 ens2np0 a6:01.0/a7:00.0 1 a0:88:c2:14:22:30 10.190.1.8/24 0`),
				gpus(l40s, `26:03.0/28:00.0 0  36:01.0/37:00.0 0  a6:03.0/a8:00.0 1  b6:01.0/b7:00.0 1`),
				mainBoard("- eno1 00:1c.0/02:00.0 0 3c:ec:ef:14:00:08 10.14.0.8/24 0"),
			},
		},
		{ // half of an HGX H100 board as a guest sees it: one bus without any bridge says nothing about where devices really
			// are
			name: "vm-flat", gdr: works(""), ports: 4, rates: "compute: 400",
			healthy: Scenario{
				Name:    "healthy-vm-flat",
				Summary: "healthy virtual machine with a flat PCI bus",
				Truth: "GPUs and NICs are on one bus without bridges. Only the hypervisor knows which NIC is near which GPU, so " +
					"distances and GPUDirect RDMA are unknown. All NVLinks are active. Nothing is reported.",
			},
			host: on("hgx-vm-22", "2025-12-04 11:02:31", noble, "/boot/vmlinuz- root=/dev/vda1 ro console=ttyS0").
				guest(DMI{}),
			driver: openDriver("570.172.08", "12.8"), route: "10.15.0.1 eno1", nccl: "NCCL_IB_HCA=mlx5 NCCL_SOCKET_IFNAME=eno1",
			pieces: []piece{
				cards(guestX7IB(), `
					mlx5_0 ib0 00:10.0 -1 1e:5a:40:f1:20:02 10.115.0.22/24 0x61
					mlx5_1 ib1 00:11.0 -1 1e:5a:40:f1:21:02 10.115.1.22/24 0x62
					mlx5_2 ib2 00:12.0 -1 1e:5a:40:f1:22:02 10.115.2.22/24 0x63
					mlx5_3 ib3 00:13.0 -1 1e:5a:40:f1:23:02 10.115.3.22/24 0x64`),
				gpus(h100SXM, `00:20.0 -1  00:21.0 -1  00:22.0 -1  00:23.0 -1`), linked,
				mainBoard("- eno1 00:03.0 -1 5c:ff:35:f1:00:22 10.15.0.22/24 0"),
			},
		},
		{ // it prepares data for the nodes that train
			name: "cpu-node", ports: 2, rates: "compute: 100",
			healthy: Scenario{
				Name:    "healthy-cpu-node",
				Summary: "healthy node without GPUs and GPU driver",
				Truth:   "Two compute ports at 100 Gb/s. No GPU is on the bus, so no driver is expected. Nothing is reported.",
			},
			host: on("prep-04", "2025-06-19 14:08:55", bookworm, "/boot/vmlinuz- root=/dev/sda2 ro"),
			root: rome, route: "10.16.0.1 eno1",
			pieces: []piece{
				cards(nicX6IB().of("MT_0000000223", "20.43.1014").rated(100).under(QoS{}).counts(4_440_118, 60, 404_330, 23).
					moves(2_000_000_000, 300_000, 1_900_000_000, 290_000), `
					mlx5_0 ibp65s0  40:01.1/41:00.0 0 0c:42:a1:c0:40:06 10.116.0.4/24 0x31
					mlx5_1 ibp129s0 80:01.1/81:00.0 1 0c:42:a1:c0:43:8e 10.116.1.4/24 0x32`),
				mainBoard("- eno1 e0:03.6/e2:00.0 0 5c:ff:35:c0:00:04 10.16.0.4/24 0"),
				func(n assembly) { n.Files[ncclConf] = "NCCL_SOCKET_IFNAME=eno1\n" },
			},
		},
	}
}

// role states that devices are for storage.
func role(devices string) string {
	return fmt.Sprintf("roles:\n  - device: %q\n    role: storage\n", devices)
}

func a100Compute() adapter {
	return nicX6IB().of("MT_0000000223", "20.39.3560").rated(200).counts(40_223_716, 148, 2_004_980, 60).
		moves(41_000_000_000, 2_100_000, 40_800_000_000, 2_090_000).waits(1_310_000_000, 5_100)
}

func a100Storage() adapter {
	a := nicX7().of("MT_0000000225", "20.39.3560").rated(100).under(mlx5Port(WithOFED)).
		counts(61_900_332_774_912, 305_152_000, 7_123_664_120_832, 22_020_096)
	a.chip, a.hca = connectX6, "MT4123"
	return a
}

func h100Management() adapter {
	a := nicX7().of("MT_0000000884", "32.39.3560").rated(200).withMTU(1500).under(mlx5Port(WithOFED)).
		counts(310_554_023_118, 1_204_224, 122_009_774_120, 733_184)
	a.chip, a.hca, a.revision, a.rate = bluefield3, "MT41692", "1", "200 Gb/sec (2X NDR)"
	return a
}

// guestX7IB is a virtual function in a guest, which knows of no card.
func guestX7IB() adapter {
	a := nicX7IB().of("MT_0000000838", "28.43.2566").rated(400).under(QoS{}).counts(8_440_118, 80, 704_330, 31).
		moves(11_000_000_000, 3_100_000, 10_900_000_000, 3_080_000)
	a.chip, a.hca, a.virtual, a.vfs, a.driver.onePerCard, a.driver.pma = connectX7VI, "MT4126", true, 0, false, pmaTraffic
	return a
}

func b200Pieces() []piece {
	var rows strings.Builder
	for i, bus := range []int{0x15, 0x3d, 0x4c, 0x5b, 0x97, 0xbd, 0xcb, 0xd9} {
		fmt.Fprintf(&rows, "mlx5_%d ibp%ds0 %02x:01.0/%02x:00.0 %02x:00.0/%02x:00.0 %02x:03.0/%02x:00.0 %d "+
			"a0:88:c2:b2:%02x:10 10.111.%d.3/24 %d\n", i, bus+3, bus, bus+1, bus+2, bus+3, bus+2, bus+6, i/4, 0x10+i, i, 0x81+i)
	}
	return []piece{
		rails(nicX7IB().of("MT_0000000838", "28.43.2566").rated(400).counts(30_110_204, 131, 1_904_118, 52).
			moves(52_000_000_000, 4_400_000, 51_800_000_000, 4_380_000).waits(940_000_000, 4_900), b200SXM, rows.String()),
		linked,
		mainBoard("- eno1 e0:03.6/e2:00.0 1 5c:ff:35:b2:00:03 10.11.0.3/24 0"),
	}
}

// uncabled takes the cables away that devices never had.
func uncabled(devices ...string) piece {
	return func(n assembly) {
		for _, device := range devices {
			n.LinkDown(device)
			n.HCA(device).silence(n.Node)
		}
	}
}
