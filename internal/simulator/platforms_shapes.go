// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"net/netip"

	"gpufabric_exporter/internal/fabric"
)

// shapePlatforms differ in how devices, interfaces and ports belong together, and in what has a cable.
func shapePlatforms() []platform {
	return []platform{
		{ // Two H100 PCIe and two ConnectX-7, the first of which has two virtual functions that containers use. Beside them,
			// which no
			// machine has, is a virtual function as a guest sees it: on a bus of its own, with nothing that names a physical
			// one.
			name: "sriov-vf", gdr: works(viaDMABuf), ports: 3, rates: "compute: 400",
			healthy: Scenario{
				Name:    "healthy-sriov-vf",
				Summary: "healthy node with virtual functions",
				Truth: "mlx5_0 and mlx5_1 are physical. mlx5_2 and mlx5_3 are virtual functions of mlx5_0 that belong to " +
					"containers and are not compute ports of this node. mlx5_4 is a virtual function, too, but as in a guest " +
					"nothing shows it: its kind is unknown, and it counts as the third compute port. Virtual functions have no " +
					"link counters. Nothing is reported.",
			},
			host:   on("k8s-gpu-09", "2025-11-05 09:14:26", noble, "/boot/vmlinuz- root=/dev/sda2 ro intel_iommu=on iommu=pt"),
			driver: openDriver("580.65.06", "13.0"), route: "10.7.0.1 eno1",
			nccl: "NCCL_IB_HCA=mlx5 NCCL_SOCKET_IFNAME=eno1 NCCL_IB_TC=106",
			pieces: []piece{
				rails(sriovVF(), h100PCIe, `
					mlx5_0 enp24s0np0  15:01.0/16:00.0 17:00.0/18:00.0 17:03.0/1b:00.0 0 a0:88:c2:90:1a:10 10.150.0.9/24 0
					mlx5_1 enp154s0np0 97:01.0/98:00.0 99:00.0/9a:00.0 99:03.0/9d:00.0 1 a0:88:c2:90:1d:5c 10.150.1.9/24 0`),
				func(n assembly) {
					virtual := sriovVF().function().moves(2_000_000_000, 310_000, 1_980_000_000, 306_000)
					for _, c := range n.nics(`
						mlx5_2 enp24s0v0 15:01.0/16:00.0/17:00.0/18:00.1 0 1e:5a:40:77:02:01 10.150.0.109/24 0
						mlx5_3 enp24s0v1 15:01.0/16:00.0/17:00.0/18:00.2 0 1e:5a:40:77:02:02 10.150.0.110/24 0`) {
						c.pf = "15:01.0/16:00.0/17:00.0/18:00.0"
						n.addCard(virtual, c)
					}
					n.countOnPort("enp24s0np0", "enp24s0v0", "enp24s0v1")
					cards(virtual, "mlx5_4 ens5 0001:00:05.0 -1 1e:5a:40:77:02:03 10.150.0.111/24 0")(n)
				},
				eno1(10_118_402_733, 140_404, 4_870_219_004, 70_212, "- eno1 00:1c.0/02:00.0 0 3c:ec:ef:b1:44:08 10.7.0.9/24 0"),
			},
		},
		{ // The 16 ports of 200 Gb/s of Oracle's shape BM.GPU.H100.8, eight ConnectX-7 beside a H100 each, with seven
			// virtual functions
			// of each port, as the operator for SR-IOV creates them for numVfs: 7. How many there are is assumed.
			name: "sriov-rails", gdr: works(viaDMABuf), ports: 16, rates: "compute: 200",
			healthy: Scenario{
				Name:    "healthy-128-ports",
				Summary: "healthy node with 128 RDMA ports",
				Truth: "mlx5_0 to mlx5_15 are the 16 physical ports of the cluster network. Each has seven virtual functions, " +
					"which belong to the containers of seven tenants and are no compute ports of this node. Nothing is reported.",
			},
			host: on("oke-h100-vf-12", "2025-12-04 17:21:08",
				"250 6.8.0-1028-oracle (buildd@lcy02-amd64-031) (gcc 13.3.0) #29-Ubuntu SMP",
				"/boot/vmlinuz- root=/dev/sda1 ro intel_iommu=on iommu=pt"),
			driver: openDriver("580.65.06", "13.0"), route: "10.21.0.1 eno1",
			nccl: "NCCL_IB_HCA==" + numbered("mlx5_%d", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) +
				" NCCL_SOCKET_IFNAME=eno1 NCCL_IB_TC=106",
			pieces: []piece{
				sriovRails, mainBoard("- eno1 00:1c.0/02:00.0 0 3c:ec:ef:21:00:12 10.21.0.12/24 0"), sriovGPUs,
				linked,
			},
		},
		{ // Both ways in which drivers show two ports: the ConnectX-6 Dx, with mlx5, is two PCI functions with an RDMA
			// device of one port
			// each; the ConnectX-3 Pro, with mlx4, one function and one RDMA device of two, whose interfaces differ in dev_port
			// alone. The size of the GID table of mlx4 is assumed.
			name: "two-port", gdr: because(fabric.GDRDistance), ports: 2, rates: "compute: 100, storage: 40",
			roles: "roles:\n  - device: mlx4_0\n    role: storage\n",
			healthy: Scenario{
				Name:    "healthy-two-port",
				Summary: "healthy node whose NICs have two ports",
				Truth: "mlx5_0 and mlx5_1 are one card, as their image GUID shows. mlx4_0 is one device with ports 1 and 2, " +
					"whose interfaces share a PCI function and differ in dev_port. Nothing is reported.",
			},
			host: on("a100-pcie-02", "2025-06-11 18:40:12", bookworm, "/boot/vmlinuz- root=/dev/sda2 ro iommu=pt"),
			root: rome, branch: pex88096, driver: openDriver("550.163.01", "12.4"), route: "10.8.0.1 eno1",
			nccl: "NCCL_IB_HCA=mlx5 NCCL_SOCKET_IFNAME=eno1 NCCL_IB_TC=106",
			pieces: []piece{
				oneCard(nicX6Dx().of("MT_0000000359", "22.43.2566").rated(100).under(mlx5Lossless(NoOFED)).
					counts(60_310_448, 170, 3_118_920, 60).moves(11_000_000_000, 1_020_000, 10_900_000_000, 1_010_000), `
					mlx5_0 enp65s0f0np0 40:01.1/41:00.0 0 b8:3f:d2:1c:60:a4 10.160.0.2/24 0
					mlx5_1 enp65s0f1np1 40:01.1/41:00.1 0 b8:3f:d2:1c:60:a5 10.160.1.2/24 0`),
				func(n assembly) {
					n.addMultiPort(nicX3(), n.nics(`
						mlx4_0 enp97s0 60:03.1/61:00.0 0 e4:1d:2d:50:8a:70 10.28.0.2/24 0
						- enp97s0d1 - 0 e4:1d:2d:50:8a:71 10.28.1.2/24 0`)...)
				},
				gpus(a100PCIe, `20:01.1/21:00.0 0  a0:01.1/a1:00.0 1`),
				mainBoard("- eno1 e0:03.6/e2:00.0 1 5c:ff:35:77:02:18 10.8.0.2/24 0"),
			},
		},
		{ // A fabric with two planes: four two-port ConnectX-7, each a bond of which mlx5 makes one RDMA device, with two
			// GPUs below the
			// same PCIe switch. What treats the traffic are the members; the bond has nothing of its own.
			name: "roce-bond", gdr: works(viaPeermem), ports: 4, rates: "compute: 200",
			healthy: Scenario{
				Name: "healthy-roce-bond", policy: losslessPolicy,
				Summary: "healthy node whose compute devices are bonds",
				Truth: "Four RDMA devices over two ports each. The bonds have no DCB, no statistics and no MLNX_OFED files; " +
					"their member ports have them, with identical settings. The traffic of a device is the sum over its members. " +
					"Nothing is reported.",
			},
			host: on("gpu-b14", "2025-08-19 04:02:36",
				"1000 5.10.134-18.al8.x86_64 (mockbuild@x86.build) (gcc (GCC) 10.2.1) #1 SMP",
				"(hd0,gpt2)/vmlinuz- root=/dev/md1 ro iommu=pt"),
			driver: closedDriver("535.183.06", "12.2"), route: "10.9.0.1 eno1",
			nccl: "NCCL_IB_HCA=mlx5_bond NCCL_SOCKET_IFNAME=eno1 NCCL_IB_TC=106 NCCL_IB_QPS_PER_CONNECTION=8",
			pieces: []piece{
				bondRail("mlx5_bond_0 bond0 - 0 a0:88:c2:d0:11:08 10.170.0.14/24 0", 11, 0x15, 0),
				bondRail("mlx5_bond_1 bond1 - 0 a0:88:c2:d0:14:36 10.170.1.14/24 0", 12, 0x4c, 0),
				bondRail("mlx5_bond_2 bond2 - 0 a0:88:c2:d0:0f:7a 10.170.2.14/24 0", 13, 0x97, 1),
				bondRail("mlx5_bond_3 bond3 - 0 a0:88:c2:d0:12:c4 10.170.3.14/24 0", 14, 0xbd, 1),
				eno1(54_118_402_733, 150_404, 18_870_219_004, 71_212, "- eno1 00:1c.0/02:00.0 0 3c:ec:ef:c7:20:5e 10.9.0.14/24 0"),
				linked,
			},
		},
		{ // A fabric that goes by the priority in the VLAN tag instead of the DSCP. The addresses, and so the GIDs that NCCL
			// uses, belong to
			// VLAN interfaces; the tag holds the service level of the queue pair. The driver has the files qos/trust and
			// qos/dscp2prio.
			name: "roce-vlan", gdr: because(fabric.GDRDistance), ports: 2, rates: "compute: 100",
			healthy: Scenario{
				Name:    "healthy-roce-vlan",
				Summary: "healthy node whose fabric takes the priority from the VLAN tag",
				Truth: "The GIDs belong to VLAN interfaces, which have no DCB. The ports below trust PCP and have PFC on " +
					"priority 3, which NCCL_IB_SL=3 writes into the tag. No DSCP is needed. Nothing is reported.",
			},
			host: on("a100-vlan-06", "2025-05-27 15:31:50", "1000 4.18.0-553.el8_10.x86_64 "+rocky+" (gcc (GCC) 8.5.0) #1 SMP",
				"(hd0,msdos1)/vmlinuz- root=/dev/mapper/rl-root ro iommu=pt"),
			root: rome, branch: pex88096, route: "10.10.0.1 eno1",
			nccl: "NCCL_IB_HCA=mlx5 NCCL_SOCKET_IFNAME=eno1 NCCL_IB_SL=3",
			driver: GPUDriver{
				Version: "470.256.02", CUDA: "11.4", Peermem: Peermem{
					Module: "nv_peer_mem", Version: "1.3-0", Clients: true,
					Bound: true,
				},
			},
			pieces: []piece{
				cards(vlanX6Dx(), "mlx5_0 ens5np0 40:01.1/41:00.0 0 b8:3f:d2:44:10:9c - 0"), vlan("ens5np0", 180, "10.180.0.6/24"),
				gpus(a100PCIe, "20:01.1/21:00.0 0"),
				cards(vlanX6Dx(), "mlx5_1 ens6np0 80:01.1/81:00.0 0 b8:3f:d2:44:13:e0 - 0"), vlan("ens6np0", 180, "10.180.1.6/24"),
				gpus(a100PCIe, "a0:01.1/a1:00.0 0"),
				eno1(9_118_402_733, 101_404, 3_870_219_004, 48_212, "- eno1 e0:03.6/e2:00.0 0 5c:ff:35:77:1d:40 10.10.0.6/24 0"),
			},
		},
		{ // Four H100 PCIe, each below a PCIe switch with a two-port ConnectX-7. The site has one leaf switch a rail and
			// cabled the first
			// port of each card only. Of every card the second function is there with its RDMA device and its interface.
			name: "dual-port", gdr: works(viaDMABuf), ports: 4, rates: "compute: 200",
			healthy: Scenario{
				Name:    "healthy-uncabled-ports",
				Summary: "healthy node whose two-port cards have one cable each",
				Truth: "Four ConnectX-7 with two ports. The first port of each is active at 200 Gb/s. The second is not cabled: " +
					"on all four cards it is down and disabled, has no address, and NCCL_IB_HCA excludes it. Each function is an " +
					"RDMA device with a port 1; sys_image_guid shows which two are one card. Nothing is reported.",
			},
			host:   on("h100-pcie-31", "2025-10-21 12:40:09", noble, "/boot/vmlinuz- root=/dev/sda2 ro iommu=pt"),
			driver: openDriver("570.172.08", "12.8"), route: "10.17.0.1 eno1",
			nccl:   "NCCL_IB_HCA==mlx5_0,mlx5_2,mlx5_4,mlx5_6 NCCL_SOCKET_IFNAME=eno1 NCCL_IB_TC=106",
			pieces: []piece{dualRails, mainBoard("- eno1 00:1c.0/02:00.0 0 3c:ec:ef:31:00:31 10.17.0.31/24 0")},
		},
		{ // an inference server: the default route leaves through the first port of its only card, and the second has no
			// cable
			name: "single-card", gdr: because(fabric.GDRDistance),
			healthy: Scenario{
				Name:    "healthy-single-card",
				Summary: "healthy node with one cable in its only card",
				Truth: "One card with two ports: the default route uses the first; the second is down and disabled and has no " +
					"address. The node does not train over RDMA. Nothing is reported.",
			},
			host:   on("l40s-inference-3", "2025-12-08 09:31:27", noble, "/boot/vmlinuz- root=/dev/sda2 ro"),
			driver: openDriver("570.172.08", "12.8"), route: "10.20.0.1 ens1f0np0", nccl: "NCCL_SOCKET_IFNAME=ens1f0np0",
			pieces: []piece{
				oneCard(besideRails().withMTU(1500).under(mlx5Port(NoOFED)), `
					mlx5_0 ens1f0np0 26:01.0/27:00.0 0 b8:3f:d2:33:60:a4 10.20.0.3/24 0
					mlx5_1 ens1f1np1 26:01.0/27:00.1 0 b8:3f:d2:33:60:a5 - 0`),
				uncabled("mlx5_1"),
				gpus(l40s, `36:01.0/37:00.0 0  b6:01.0/b7:00.0 1`),
			},
		},
	}
}

func sriovVF() adapter {
	return nicX7().of("MT_0000000838", "28.43.2566").rated(400).under(mlx5Lossless(NoOFED)).
		counts(92_310_448, 210, 4_118_920, 66).moves(20_000_000_000, 2_400_000, 19_800_000_000, 2_380_000)
}

// countOnPort adds the RDMA traffic of virtual functions to what the port counts, which is not only that of the
// physical function.
func (n assembly) countOnPort(physical string, virtual ...string) {
	for _, name := range virtual {
		for _, way := range []string{"rx", "tx"} {
			frames := n.NetDev(name).Statistic(way + "_vport_rdma_unicast_packets").Counter
			for statistic, more := range map[string]Counter{
				way + "_prio3_packets": frames, way + "_prio3_bytes": frames.times(bytesOnWire),
				way + "_packets_phy": frames, way + "_bytes_phy": frames.times(bytesOnWire),
			} {
				s := n.NetDev(physical).Statistic(statistic)
				s.Counter = s.plus(more)
			}
		}
	}
}

// ociBuses are those of the compute NICs of Oracle's shape BM.GPU.H100.8.
func ociBuses() []int { return []int{0x0c, 0x2a, 0x41, 0x58, 0x86, 0xa5, 0xbd, 0xd5} }

// sriovRails adds the physical functions and then the virtual ones: the driver numbers them after all that were there
// at boot.
func sriovRails(n assembly) {
	const tenants = 7
	physical := nicX7().of("MT_0000000834", "28.43.2566").rated(200).withMTU(4220).slots(8).under(mlx5Lossless(NoOFED)).
		counts(41_310_448, 110, 1_918_920, 41).moves(3_000_000_000, 400_000, 2_980_000_000, 396_000)
	virtual := physical.function().counts(0, 0, 0, 0).moves(1_500_000_000, 200_000, 1_490_000_000, 198_000)
	// function is one of a card: the k-th of those that PCI can address on its bus.
	function := func(card, k int) string {
		bus := ociBuses()[card]
		return fmt.Sprintf("%02x:01.0/%02x:00.0/%02x:00.0/%02x:%02x.%d", bus-3, bus-2, bus-1, bus, k/8, k%8)
	}
	for card := range ociBuses() {
		var ports []nic
		for k := range 2 {
			rail := 2*card + k
			ports = append(ports, nic{
				device: fmt.Sprintf("mlx5_%d", rail), netdev: fmt.Sprintf("rdma%d", rail), path: function(card, k), numa: card / 4,
				mac: fmt.Sprintf("a0:88:c2:0d:%02x:%02x", card, k), addr: fmt.Sprintf("10.225.%d.12/24", rail),
			})
		}
		n.addCard(physical, ports...)
	}
	for rail := range 2 * len(ociBuses()) {
		card, first, pf := rail/2, 2+8*(rail%2), fmt.Sprintf("rdma%d", rail)
		for tenant := range tenants {
			name := fmt.Sprintf("%sv%d", pf, tenant)
			n.addCard(virtual, nic{
				device: fmt.Sprintf("mlx5_%d", len(n.HCAs)), netdev: name, path: function(card, first+tenant), numa: card / 4,
				pf:  function(card, rail%2),
				mac: fmt.Sprintf("1e:5a:40:0d:%02x:%02x", rail, tenant), addr: fmt.Sprintf("10.225.%d.%d/24", rail, 100+tenant),
			})
			n.countOnPort(pf, name)
		}
	}
}

func sriovGPUs(n assembly) {
	for card, bus := range ociBuses() {
		n.addGPUs(h100SXM, []slot{{
			fmt.Sprintf("%02x:01.0/%02x:00.0/%02x:01.0/%02x:00.0", bus-3, bus-2, bus-1, bus+3),
			card / 4,
		}})
	}
}

func nicX3() adapter {
	return adapter{
		chip: connectX3, driver: mlx4, hca: "MT4103", board: "MT_1090111023", firmware: "2.42.5000", revision: "0", vfs: 8,
		mtu: 9000,
		qos: QoS{
			DCB: true, ETS: fabric.ETS{Classes: fabric.NumPriorities}, DCBX: fabric.DCBX{Host: true, IEEE: true},
			Pause: Pause{Answers: true, Receive: true, Transmit: true},
		},
	}.rated(40).counts(9_443_009_120, 31_304_960, 2_020_332_416, 9_771_072)
}

// bondRail is a bond of the NIC in a slot, and the two GPUs below the same switch, which is below the root port on a
// bus.
func bondRail(bond string, slot, bus, numa int) piece {
	a := nicX7().of("MT_0000000834", "28.42.1000").rated(200).under(mlx5Lossless(WithOFED)).
		counts(72_300_112, 120, 4_120_774, 36).
		moves(44_000_000_000, 4_060_000, 43_800_000_000, 4_040_000)
	below := fmt.Sprintf("%02x:01.0/%02x:00.0/%02x:", bus, bus+1, bus+2)
	return func(n assembly) {
		bonds(a, fmt.Sprintf("%s\n- ens%df0np0 %s00.0/%02x:00.0 %d - - 0\n- ens%[2]df1np1 %s00.0/%02x:00.1 %d - - 0",
			bond, slot, below, bus+3, numa))(n)
		gpus(h100SXM, fmt.Sprintf("%s02.0/%02x:00.0 %d\n%[1]s03.0/%02[4]x:00.0 %[3]d", below, bus+4, numa, bus+6))(n)
	}
}

func vlanX6Dx() adapter {
	a := nicX6Dx().of("MT_0000000359", "22.35.1012").rated(100).under(mlx5Lossless(WithTrustFiles)).
		counts(41_310_448, 160, 2_118_920, 54).moves(8_000_000_000, 980_000, 7_900_000_000, 970_000)
	a.qos.TrustPCP()
	return a
}

// vlan is a VLAN interface that keeps the priorities of packets. There is no IPv6 on it, whose link-local address
// would be another GID.
func vlan(lower string, id int, addr string) piece {
	return func(n assembly) {
		below := n.NetDev(lower)
		d := NetDev{
			Name: fmt.Sprintf("%s.%d", lower, id), Index: len(n.NetDevs) + 1, Type: TypeEthernet, Address: below.Address,
			MTU:   below.MTU,
			Speed: below.Speed, Carrier: true, VLAN: VLAN{Lower: lower, ID: id}, Received: below.Received, Sent: below.Sent,
		}
		for p := range fabric.NumPriorities {
			d.VLAN.Egress[p] = p
		}
		n.NetDevs = append(n.NetDevs, d)
		n.SetAddrs(d.Name, netip.MustParsePrefix(addr))
	}
}

// dualRails are four cards of two ports, of which the second has no cable, with a GPU each.
func dualRails(n assembly) {
	compute := nicX7().of("MT_0000000834", "28.43.2566").rated(200).slots(16).under(mlx5Lossless(WithOFED)).
		counts(51_310_448, 130, 2_118_920, 48).moves(14_000_000_000, 1_900_000, 13_900_000_000, 1_880_000)
	unused := compute.counts(0, 0, 0, 0).moves(0, 0, 0, 0)
	for i, bus := range []int{0x18, 0x4f, 0x9a, 0xc0} {
		uplink := fmt.Sprintf("%02x:01.0/%02x:00.0/%02x:", bus-3, bus-2, bus-1)
		card := n.nics(fmt.Sprintf("mlx5_%d ens%df0np0 %s00.0/%02x:00.0 %d a0:88:c2:31:%02x:40 10.210.%d.31/24 0\n"+
			"mlx5_%[8]d ens%[2]df1np1 %[3]s00.0/%02[4]x:00.1 %[5]d a0:88:c2:31:%02[6]x:41 - 0", 2*i, i+1, uplink, bus, i/2,
			0x10+i, i, 2*i+1))
		n.addCard(compute, card[0])
		n.addCard(unused, card[1])
		n.HCA(card[1].device).ImageGUID = n.HCA(card[0].device).GUID // one card
		n.LinkDown(card[1].device)
		n.addGPUs(h100PCIe, []slot{{fmt.Sprintf("%s03.0/%02x:00.0", uplink, bus+3), i / 2}})
	}
}
