// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"strings"
)

// mixedPlatforms have NICs beside GPUs that are not for training.
func mixedPlatforms() []platform {
	return []platform{
		{ // Ten slots below four PCIe switches, as those of Dell's PowerEdge XE9680: two H100 with a 400G ConnectX-7 each
			// below every
			// switch and, in one of the two slots that are left, a 100G ConnectX-6 Dx for storage.
			name: "mixed-nics-roce", gdr: works(viaDMABuf), ports: 8, rates: "compute: 400",
			roles: "roles: [{device: mlx5_2, role: storage}]\n",
			healthy: Scenario{
				Name:    "healthy-mixed-nics-roce",
				Summary: "healthy RoCE node with a slower storage NIC below a GPU's PCIe switch",
				Truth: "Each of the eight GPUs has a 400 Gb/s rail below its switch. mlx5_2, which is as near to two of them, " +
					"is another board and runs at 100 Gb/s, so it is for storage. No roles are configured. Eight compute ports, " +
					"all at their rate. Nothing is reported.",
			},
			host:   on("xe9680-41", "2025-11-03 07:52:13", jammy, "/boot/vmlinuz- root=/dev/sda2 ro iommu=pt"),
			driver: openDriver("570.172.08", "12.8"), route: "10.9.0.1 eno1", nccl: "NCCL_SOCKET_IFNAME=eno1 NCCL_IB_TC=106",
			pieces: []piece{
				tenSlots(nicX7().of("MT_0000000838", "28.43.2566").rated(400).slots(16).under(mlx5Lossless(WithOFED)).
					counts(91_300_112, 210, 7_120_774, 66).moves(33_000_000_000, 3_950_000, 32_700_000_000, 3_930_000),
					"mlx5_2 ens33np0 15:01.0/16:00.0/17:08.0/1c:00.0 0 b8:3f:d2:41:60:a4 10.41.0.41/24 0"),
				linked,
				mainBoard("- eno1 00:1c.0/02:00.0 0 3c:ec:ef:41:00:41 10.9.0.41/24 0"),
			},
		},
		{ // the same with InfiniBand: the first port of the other card carries the default route, and the second storage
			name: "mixed-nics-ib", gdr: works(viaDMABuf), ports: 8, rates: "compute: 400",
			roles: "roles: [{device: mlx5_2, role: management}, {device: mlx5_3, role: storage}]\n",
			healthy: Scenario{
				Name:    "healthy-mixed-nics-ib",
				Summary: "healthy InfiniBand node with an Ethernet NIC below a GPU's PCIe switch",
				Truth: "Eight InfiniBand rails at 400 Gb/s. mlx5_2 and mlx5_3, the ports of an Ethernet card, are as near to " +
					"two GPUs as the rails: the first has the default route, the second is for storage. NCCL_IB_HCA=mlx5 includes " +
					"all of them, and no roles are configured. Nothing is reported.",
			},
			host:   on("xe9680-52", "2025-11-03 07:52:13", jammy, "/boot/vmlinuz- root=/dev/sda2 ro iommu=pt"),
			driver: openDriver("570.172.08", "12.8"), route: "10.9.0.1 ens33f0np0",
			nccl: "NCCL_IB_HCA=mlx5 NCCL_SOCKET_IFNAME=ens33f0np0",
			pieces: []piece{
				tenSlots(nicX7IB().of("MT_0000000838", "28.43.2566").rated(400).counts(20_110_204, 121, 1_704_118, 49).
					moves(43_000_000_000, 4_100_000, 42_800_000_000, 4_080_000).waits(640_000_000, 3_900), `
					mlx5_2 ens33f0np0 15:01.0/16:00.0/17:08.0/1c:00.0 0 b8:3f:d2:52:60:a4 10.9.0.52/24 0
					mlx5_3 ens33f1np1 15:01.0/16:00.0/17:08.0/1c:00.1 0 b8:3f:d2:52:60:a5 10.42.0.52/24 0`),
				linked,
			},
		},
		{ // A bare-metal instance of Oracle's shape BM.GPU.H100.8: eight H100, each beside a ConnectX-7 with two 200G ports,
			// and two 100G
			// NICs of the virtual cloud network in between. NCCL_IB_HCA lists the 16 ports of the cluster network and
			// NCCL_IB_TC is 41, DSCP 10, as Oracle recommends for the shape
			// (https://github.com/oracle-quickstart/oci-hpc-oke/blob/main/docs/recommended-nccl-rccl-parameters-by-shape.md).
			// Which priority that DSCP leads to, and that NICs of the cloud are below the switches of GPUs, is assumed.
			name: "oci-h100", gdr: works(viaDMABuf), ports: 16, rates: "compute: 200",
			healthy: Scenario{
				Name:    "healthy-oci-h100",
				Summary: "healthy cloud instance with NICs outside of the cluster network",
				Truth: "NCCL_IB_HCA lists 16 ports at 200 Gb/s. Of the two NICs of the cloud network, mlx5_2 has the default " +
					"route; mlx5_11 is an RDMA device like the others, which NCCL_IB_HCA excludes. 16 compute ports. Nothing is " +
					"reported.",
			},
			host: on("inst-gpu-h100-3", "2025-11-18 13:05:44",
				"250 5.15.0-1074-oracle (buildd@lcy02-amd64-031) (gcc 11.4.0) #80-Ubuntu SMP",
				"/boot/vmlinuz- root=/dev/sda1 ro iommu=pt").made(DMI{AssetTag: "OracleCloud.com"}),
			driver: openDriver("570.172.08", "12.8"), route: "10.19.0.1 eth0",
			nccl: "NCCL_IB_HCA==" + numbered("mlx5_%d", 0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17) +
				" NCCL_SOCKET_IFNAME=eth0 NCCL_IB_TC=41",
			pieces: []piece{ociRails, linked},
		},
	}
}

// numbered lists names with these numbers in them.
func numbered(format string, numbers ...int) string {
	var list []string
	for _, i := range numbers {
		list = append(list, fmt.Sprintf(format, i))
	}
	return strings.Join(list, ",")
}

// besideRails is a NIC that is no rail.
func besideRails() adapter {
	return nicX6Dx().of("MT_0000000359", "22.43.2566").rated(100).slots(16).under(mlx5Port(WithOFED)).
		counts(31_220_443_009_120, 211_304_960, 4_981_020_332_416, 28_771_072)
}

// tenSlots are eight rails below four switches; the other NIC is below the first, behind its rails.
func tenSlots(compute adapter, other string) piece {
	return func(n assembly) {
		var own []slot
		for s, bus := range []int{0x15, 0x37, 0x97, 0xb7} {
			below := func(port, at int) string {
				return fmt.Sprintf("%02x:01.0/%02x:00.0/%02x:%02x.0/%02x:00.0", bus, bus+1, bus+2, port, bus+at)
			}
			for k := range 2 {
				rail := 2*s + k
				n.addCard(compute, nic{
					device: fmt.Sprintf("mlx5_%d", len(n.HCAs)), netdev: fmt.Sprintf("rail%d", rail), path: below(2*k, 3+2*k),
					numa: s / 2,
					mac:  fmt.Sprintf("a0:88:c2:41:%02x:18", 0x10+rail), addr: fmt.Sprintf("10.141.%d.41/24", rail), lid: 0x91 + rail,
				})
				own = append(own, slot{below(2*k+1, 4+2*k), s / 2})
			}
			if s == 0 {
				oneCard(besideRails(), other)(n)
			}
		}
		n.addGPUs(h100SXM, own)
	}
}

// ociRails are eight cards with two ports beside a GPU each, and the two of the cloud.
func ociRails(n assembly) {
	cluster := nicX7().of("MT_0000000834", "28.43.2566").rated(200).withMTU(4220).slots(16).under(mlx5Lossless(NoOFED)).
		counts(41_310_448, 110, 1_918_920, 41).moves(13_000_000_000, 1_800_000, 12_900_000_000, 1_780_000)
	cluster.qos.MapDSCP(10, losslessPriority)
	cloud := besideRails().under(mlx5Port(NoOFED)).counts(210_554_023_118, 904_224, 82_009_774_120, 533_184)
	var own []slot
	for i, bus := range ociBuses() {
		below := func(port, at int) string {
			return fmt.Sprintf("%02x:01.0/%02x:00.0/%02x:%02x.0/%02x:00.", bus-3, bus-2, bus-1, port, bus+at)
		}
		var card []nic
		for k := range 2 {
			card = append(card, nic{
				device: fmt.Sprintf("mlx5_%d", len(n.HCAs)+k), netdev: fmt.Sprintf("rdma%d", 2*i+k),
				path: fmt.Sprint(below(0, 0), k), numa: i / 4,
				mac: fmt.Sprintf("a0:88:c2:0c:%02x:%02x", 0x10+i, 0x20+k), addr: fmt.Sprintf("10.224.%d.3/24", 2*i+k),
			})
		}
		n.addCard(cluster, card...)
		own = append(own, slot{below(1, 3) + "0", i / 4})
		if i%4 == 0 {
			n.addCard(cloud, nic{
				device: fmt.Sprintf("mlx5_%d", len(n.HCAs)), netdev: fmt.Sprintf("eth%d", i/4), path: below(2, 4) + "0",
				numa: i / 4,
				mac:  fmt.Sprintf("b8:3f:d2:0c:%02x:01", 0x10+i), addr: fmt.Sprintf("10.19.%d.3/24", i/4),
			})
		}
	}
	n.addGPUs(h100SXM, own)
}
