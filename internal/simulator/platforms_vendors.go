// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"slices"

	"gpufabric_exporter/internal/fabric"
)

// vendorPlatforms have NICs of other vendors, those of clouds included. What their drivers print is real.
func vendorPlatforms() []platform {
	return []platform{
		{ // eight H200, each beside a 400G Thor2, in the shape of the DGX H100
			name: "bnxt-roce", gdr: works(viaDMABuf), ports: 8, rates: "compute: 400",
			healthy: Scenario{
				Name:    "healthy-bnxt-roce",
				Summary: "healthy node with Broadcom Thor2",
				Truth: "Eight compute ports at 400 Gb/s. bnxt_re has no PMA counters, and has gauges among its hardware " +
					"counters: the objects in use and their peaks. Its recoverable_errors are broadcasts and grow on every healthy " +
					"node. Nothing is reported.",
			},
			host: on("h200-03", "2025-10-03 11:20:31",
				"1000 6.12.0-55.9.1.el10_0.x86_64 "+rocky+" (gcc (GCC) 14.2.1) #1 SMP PREEMPT_DYNAMIC",
				"(hd0,gpt2)/vmlinuz- root=/dev/mapper/rl-root ro iommu=pt"),
			driver: openDriver("575.57.08", "12.9"), route: "10.2.0.1 eno1",
			nccl: "NCCL_IB_HCA=bnxt_re NCCL_SOCKET_IFNAME=eno1 NCCL_IB_TC=104",
			pieces: []piece{
				rails(nicThor2().rated(400).counts(204_118_220, 212, 8_810_344, 70).
					moves(52_000_000_000, 3_900_000, 51_700_000_000, 3_880_000), h200SXM, `
					bnxt_re0 ens1np0 15:01.0/16:00.0 17:00.0/18:00.0 17:03.0/1b:00.0 0 84:16:0c:2a:10:40 10.110.0.3/24 0
					bnxt_re1 ens2np0 3d:01.0/3e:00.0 3f:00.0/40:00.0 3f:03.0/43:00.0 0 84:16:0c:2a:13:a0 10.110.1.3/24 0
					bnxt_re2 ens3np0 4c:01.0/4d:00.0 4e:00.0/4f:00.0 4e:03.0/52:00.0 0 84:16:0c:2a:0c:f0 10.110.2.3/24 0
					bnxt_re3 ens4np0 5b:01.0/5c:00.0 5d:00.0/5e:00.0 5d:03.0/61:00.0 0 84:16:0c:2a:11:10 10.110.3.3/24 0
					bnxt_re4 ens5np0 97:01.0/98:00.0 99:00.0/9a:00.0 99:03.0/9d:00.0 1 84:16:0c:2a:19:80 10.110.4.3/24 0
					bnxt_re5 ens6np0 bd:01.0/be:00.0 bf:00.0/c0:00.0 bf:03.0/c3:00.0 1 84:16:0c:2a:0e:20 10.110.5.3/24 0
					bnxt_re6 ens7np0 cb:01.0/cc:00.0 cd:00.0/ce:00.0 cd:03.0/d1:00.0 1 84:16:0c:2a:15:60 10.110.6.3/24 0
					bnxt_re7 ens8np0 d9:01.0/da:00.0 db:00.0/dc:00.0 db:03.0/df:00.0 1 84:16:0c:2a:12:b0 10.110.7.3/24 0`),
				eno1(64_022_710_448, 190_212, 21_914_003_120, 88_400, "- eno1 00:1c.0/01:00.0 0 7c:c2:55:4a:09:12 10.2.0.3/24 0"),
				linked,
			},
		},
		{ // Four L40S and a two-port 100G E810. The driver of the interface (ice) holds the PCI functions; irdma is bound to
			// the device
			// on the auxiliary bus beside them. Names are those that udev gives.
			name: "irdma-roce", gdr: because(fabric.GDRDistance), ports: 2, rates: "compute: 100",
			healthy: Scenario{
				Name:    "healthy-irdma-roce",
				Summary: "healthy node with Intel E810",
				Truth: "Two compute ports at 100 Gb/s of one card, which is not recognizable as one card because each port has " +
					"its own image GUID. RoCE v2 only, so the address is at GID index 1. The LID of 1 is a constant. Nothing is " +
					"reported.",
			},
			host:   on("l40s-22", "2025-11-20 16:48:02", trixie, "/boot/vmlinuz- root=/dev/sda2 ro intel_iommu=on iommu=pt"),
			branch: pex88096, driver: openDriver("550.163.01", "12.4"), route: "10.4.0.1 eno1",
			nccl: "NCCL_IB_HCA=roce NCCL_SOCKET_IFNAME=eno1 NCCL_IB_TC=104",
			pieces: []piece{
				eno1(30_118_402_733, 120_404, 11_870_219_004, 60_212, "- eno1 00:1c.0/02:00.0 0 3c:ec:ef:90:17:2c 10.4.0.22/24 0"),
				oneCard(nicE810().rated(100).counts(77_310_940, 180, 6_220_118, 58).
					moves(9_400_000_000, 1_050_000, 9_380_000_000, 1_040_000), `
					rocep138s0f0 enp138s0f0 89:01.0/8a:00.0 1 b4:96:91:d2:6e:40 10.130.0.22/24 0
					rocep138s0f1 enp138s0f1 89:01.0/8a:00.1 1 b4:96:91:d2:6e:41 10.130.1.22/24 0`),
				gpus(l40s, `26:01.0/27:00.0/28:00.0/29:00.0 0  26:01.0/27:00.0/28:04.0/2a:00.0 0
					a2:01.0/a3:00.0/a4:00.0/a5:00.0 1  a2:01.0/a3:00.0/a4:04.0/a6:00.0 1`),
			},
		},
		{ // eight MI300X, which NVML does not know, each beside a 400G Pollara; GID table and virtual functions are assumed,
			// too
			name: "ionic-roce", gdr: works(""), ports: 8, rates: "compute: 400",
			healthy: Scenario{
				Name:    "healthy-ionic-roce",
				Summary: "healthy node with AMD Pollara",
				Truth: "Eight compute ports at 400 Gb/s and eight GPUs that are not NVIDIA's. RoCE v2 only; the names of the " +
					"counters come from the firmware. Nothing is reported.",
			},
			host: on("mi300x-11", "2026-02-17 08:02:44",
				"1000 6.18.0-8-generic (buildd@lcy02-amd64-053) (x86_64-linux-gnu-gcc-15) #8-Ubuntu SMP PREEMPT_DYNAMIC",
				"/boot/vmlinuz- root=/dev/nvme0n1p2 ro iommu=pt"),
			root: rome, route: "10.3.0.1 eno1", nccl: "NCCL_IB_HCA=ionic NCCL_SOCKET_IFNAME=eno1 NCCL_IB_TC=104",
			pieces: []piece{
				rails(nicPollara(), mi300X, `
					ionic_0 enp9s0   00:01.1/01:00.0 02:00.0/09:00.0 02:01.0/05:00.0 0 04:90:81:4a:10:08 10.120.0.11/24 0
					ionic_1 enp25s0  10:01.1/11:00.0 12:00.0/19:00.0 12:01.0/15:00.0 0 04:90:81:4a:13:38 10.120.1.11/24 0
					ionic_2 enp57s0  30:01.1/31:00.0 32:00.0/39:00.0 32:01.0/35:00.0 0 04:90:81:4a:0c:60 10.120.2.11/24 0
					ionic_3 enp73s0  40:01.1/41:00.0 42:00.0/49:00.0 42:01.0/45:00.0 0 04:90:81:4a:11:e0 10.120.3.11/24 0
					ionic_4 enp137s0 80:01.1/81:00.0 82:00.0/89:00.0 82:01.0/85:00.0 1 04:90:81:4a:19:28 10.120.4.11/24 0
					ionic_5 enp153s0 90:01.1/91:00.0 92:00.0/99:00.0 92:01.0/95:00.0 1 04:90:81:4a:0e:90 10.120.5.11/24 0
					ionic_6 enp185s0 b0:01.1/b1:00.0 b2:00.0/b9:00.0 b2:01.0/b5:00.0 1 04:90:81:4a:15:50 10.120.6.11/24 0
					ionic_7 enp201s0 c0:01.1/c1:00.0 c2:00.0/c9:00.0 c2:01.0/c5:00.0 1 04:90:81:4a:12:18 10.120.7.11/24 0`),
				func(n assembly) { // the driver shows its node description, which rdma-ndd sets
					for i := range n.HCAs {
						n.HCAs[i].Type = n.Host.Name + " " + n.HCAs[i].Name
					}
				},
				eno1(18_220_118_102, 160_880, 7_019_446_530, 71_936, "- eno1 e0:03.6/e2:00.0 1 7c:c2:55:81:3d:06 10.3.0.11/24 0"),
			},
		},
		{ // an instance of AWS with eight H100; names of devices follow from bus numbers like those of p5.48xlarge
			name: "efa", gdr: works(viaDMABuf), ports: 32,
			healthy: Scenario{
				Name:    "healthy-efa",
				Summary: "healthy AWS instance with EFA",
				Truth: "32 EFA devices without interface, link layer or LID. State and rate are constants of the driver and say " +
					"nothing about a link. The hardware counters of the ports count traffic, those of the devices count errors of " +
					"the driver. Nothing is reported.",
			},
			host: on("ip-10-5-0-41", "2025-12-01 07:33:59",
				"250 6.1.156-177.286.amzn2023.x86_64 (mockbuild@ip-10-0-44-229) (gcc (GCC) 11.5.0) #1 SMP PREEMPT_DYNAMIC",
				"(hd0,gpt1)/boot/vmlinuz- root=UUID=0c2c3b0e ro console=ttyS0").
				guest(DMI{Vendor: "Amazon EC2", Product: "p5.48xlarge"}),
			root: rome, branch: pex88096, driver: openDriver("570.172.08", "12.8"), route: "10.5.0.1 ens32",
			nccl: "NCCL_SOCKET_IFNAME=ens32",
			pieces: []piece{
				cards(adapter{chip: ena, mtu: 9001}.counts(44_012_930_118, 2_104_331, 19_330_118_420, 904_118),
					"- ens32 00:05.0 0 0e:a1:7c:33:09:51 10.5.0.41/20 0"),
				efaRails, linked,
			},
		},
		{ // A virtual machine of Azure with two H100 NVL and two functions of the Azure network adapter, each in a PCI
			// domain of its own
			// without bridges. The synthetic interface carries everything but RDMA. That there are two functions is assumed.
			name: "mana", gdr: works(""), ports: 2, rates: "compute: 200",
			healthy: Scenario{
				Name:    "healthy-mana",
				Summary: "healthy Azure virtual machine with MANA",
				Truth: "Two compute ports at 200 Gb/s whose devices have no firmware version, no NUMA node and 16 GID slots. " +
					"The default route uses the synthetic interface. Nothing is reported.",
			},
			host: on("nc80-vm7", "2026-01-09 13:05:17",
				"1000 6.17.0-1008-azure (buildd@lcy02-amd64-087) (x86_64-linux-gnu-gcc-13) #8-Ubuntu SMP",
				"/boot/vmlinuz- root=PARTUUID=2a9b5d3c ro console=ttyS0").
				guest(DMI{
					Vendor: "Microsoft Corporation", Product: "Virtual Machine",
					AssetTag: "7783-7084-3265-9085-8269-3286-77",
				}),
			driver: openDriver("570.172.08", "12.8"), route: "10.6.0.1 eth0", nccl: "NCCL_IB_HCA=mana NCCL_SOCKET_IFNAME=eth0",
			pieces: []piece{
				func(n assembly) {
					synthetic := adapter{speed: 200_000, mtu: 1500}.counts(21_440_118_332, 404_331, 8_330_118_420, 204_118)
					n.addNetDev(synthetic, nic{netdev: "eth0", mac: "60:45:bd:0a:71:3e", addr: "10.6.0.7/24"}, "", 0)
				},
				cards(adapter{chip: manaNIC, driver: mana, mtu: 9000}.rated(200).counts(40_310_940, 120, 3_220_118, 44).
					moves(14_000_000_000, 1_900_000, 13_900_000_000, 1_880_000), `
					mana_0 enP30832p0s0 7870:00:00.0 -1 60:45:bd:0a:71:40 10.140.0.7/24 0
					mana_1 enP30833p0s0 7871:00:00.0 -1 60:45:bd:0a:71:41 10.140.1.7/24 0`),
				gpus(h100NVL, `0001:00:00.0 -1  0002:00:00.0 -1`),
			},
		},
		{ // Two H100 NVL with NICs of three vendors: an InfiniBand ConnectX-7 below the switch of each GPU, a two-port Thor2
			// for storage,
			// and an E810 that the default route leads through.
			name: "mixed-vendors", gdr: works(viaDMABuf), ports: 2, rates: "compute: 400, storage: 200",
			roles: role("bnxt_re.*"),
			healthy: Scenario{
				Name:    "healthy-mixed-vendors",
				Summary: "healthy node with NICs from three vendors",
				Truth: "Two InfiniBand ports from NVIDIA are for training, two RoCE ports from Broadcom are for storage and " +
					"have neither PFC nor a DSCP map, and the default route uses a port from Intel. Rates, firmware and MTU differ " +
					"between vendors, as expected. Nothing is reported.",
			},
			host:   on("h100-nvl-12", "2025-12-02 06:20:44", trixie, "/boot/vmlinuz- root=/dev/sda2 ro iommu=pt"),
			driver: openDriver("580.65.06", "13.0"), route: "10.18.0.1 enp138s0f0",
			nccl: "NCCL_IB_HCA=mlx5 NCCL_SOCKET_IFNAME=enp138s0f0",
			pieces: []piece{
				rails(nicX7IB().of("MT_0000000838", "28.43.2566").rated(400).counts(7_440_118, 70, 604_330, 27).
					moves(9_000_000_000, 3_000_000, 8_900_000_000, 2_980_000).waits(110_000_000, 1_900), h100NVL, `
					mlx5_0 ibp24s0  15:01.0/16:00.0 17:00.0/18:00.0 17:03.0/1b:00.0 0 a0:88:c2:51:10:18 10.118.0.12/24 0x71
					mlx5_1 ibp154s0 97:01.0/98:00.0 99:00.0/9a:00.0 99:03.0/9d:00.0 1 a0:88:c2:51:13:5a 10.118.1.12/24 0x72`),
				oneCard(nicThor2().rated(200).slots(16).under(lossy()).
					counts(41_220_443_009_120, 401_304_960, 6_981_020_332_416, 38_771_072), `
					bnxt_re0 ens7f0np0 e6:01.0/e7:00.0 1 84:16:0c:51:06:ac 10.22.0.12/24 0
					bnxt_re1 ens7f1np1 e6:01.0/e7:00.1 1 84:16:0c:51:06:ad 10.22.1.12/24 0`),
				oneCard(nicE810().rated(100).withMTU(1500).under(lossy()).counts(41_310_994_004, 180_344, 9_010_223_986, 78_216),
					"rocep138s0f0 enp138s0f0 89:01.0/8a:00.0 0 b4:96:91:51:6e:40 10.18.0.12/24 0"),
				func(n assembly) { n.bridge(0, 1) },
			},
		},
	}
}

const rocky = "(mockbuild@iad1-prod-build001)"

// lossy is a port of another vendor without PFC and a map of DSCPs.
func lossy() QoS {
	q := lossless()
	q.PFC, q.Apps = 0, nil
	return q
}

func nicPollara() adapter {
	a := adapter{chip: pollara, driver: ionic, firmware: "1.117.5-a-56", revision: "0x1", vfs: 16, mtu: 9000}
	a.qos = QoS{Pause: Pause{Answers: true}, FEC: FEC{Active: "rs"}} // it has no DCB operations
	return a.rated(400).counts(98_402_118, 198, 5_104_872, 64).moves(33_000_000_000, 3_600_000, 32_900_000_000, 3_590_000)
}

// efaRails are eight GPUs below switches of their own, each behind four EFA devices.
func efaRails(n assembly) {
	a := adapter{chip: efaNIC, driver: efa, firmware: "0.0.0.0", rate: "100 Gb/sec (4X EDR)"}.
		moves(8_100_000_000, 1_010_000, 8_080_000_000, 1_000_000)
	var own []slot
	for i, root := range []int{0x48, 0x59, 0x6a, 0x7b, 0x8c, 0x9d, 0xae, 0xbf} {
		below := func(k int) string { // the k-th device
			return fmt.Sprintf("%02x:01.1/%02x:00.0/%02x:%02x.0/%02x:00.0", root, root+5, root+6, k, root+7+k)
		}
		for k := range 4 {
			bus := root + 7 + k
			n.addCard(a, nic{
				device: fmt.Sprintf("rdmap%ds0", bus), path: below(k), numa: i / 4,
				mac: fmt.Sprintf("0e:f0:1e:40:%02x:01", bus),
			})
		}
		own = slices.Concat(own, []slot{{below(4), i / 4}})
	}
	n.addGPUs(h100SXM, own)
}
