// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"net/netip"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// roceVLAN is a node of a fabric that goes by the priority in the VLAN tag instead of the DSCP, with two A100 PCIe
// and two ConnectX-6 Dx. The addresses, and so the GIDs that NCCL uses, belong to VLAN interfaces; the tag holds the
// service level of the queue pair, which NCCL_IB_SL sets. The driver has the files qos/trust and qos/dscp2prio. PCI
// paths, addresses, PSID and versions are made up.
func roceVLAN() platform {
	return platform{name: "roce-vlan", build: buildRoCEVLAN, gdr: []GDRLabel{{Block: fabric.GDRDistance}}, config: `expected:
  compute_ports: 2
  port_rate_gigabits_per_second: {compute: 100}
`}
}

func buildRoCEVLAN() *Node {
	n := assembly{rootPort: rome, switchPort: pex88096, Node: &Node{
		Host: Host{
			Name:    "a100-vlan-06",
			Kernel:  "4.18.0-553.el8_10.x86_64",
			Version: "Linux version 4.18.0-553.el8_10.x86_64 (mockbuild@iad1-prod-build001) (gcc (GCC) 8.5.0) #1 SMP",
			Cmdline: "BOOT_IMAGE=(hd0,msdos1)/vmlinuz-4.18.0-553.el8_10.x86_64 root=/dev/mapper/rl-root ro iommu=pt",
			Boot:    time.Date(2025, 5, 27, 15, 31, 50, 0, time.UTC),
			HZ:      1000,
		},
		Driver:  GPUDriver{Version: "470.256.02", CUDA: "11.4", Peermem: Peermem{Module: "nv_peer_mem", Version: "1.3-0", Clients: true, Bound: true}},
		NetDevs: []NetDev{loopback()},
		Routes:  defaultRoute("10.10.0.1", "eno1"),
		Files:   forEveryJob("NCCL_IB_HCA=mlx5", "NCCL_SOCKET_IFNAME=eno1", "NCCL_IB_SL=3"),
	}}

	compute := adapter{
		chip: connectX6Dx, driver: mlx5Ethernet, hca: "MT4125", board: "MT_0000000359", firmware: "22.35.1012", revision: "0", vfs: 8,
		rate: "100 Gb/sec (4X EDR)", speed: 100_000, mtu: 9000,
		rx: Counter{Start: 41_310_448, PerStep: 160}, tx: Counter{Start: 2_118_920, PerStep: 54},
		rdma: traffic{sent: Counter{Start: 8_000_000_000, PerStep: 980_000}, received: Counter{Start: 7_900_000_000, PerStep: 970_000}},
		qos:  mlx5Lossless(WithTrustFiles),
	}
	compute.qos.TrustPCP()
	for _, r := range []struct{ device, netdev, nic, gpu, mac, addr string }{
		{"mlx5_0", "ens5np0", "40:01.1/41:00.0", "20:01.1/21:00.0", "b8:3f:d2:44:10:9c", "10.180.0.6/24"},
		{"mlx5_1", "ens6np0", "80:01.1/81:00.0", "a0:01.1/a1:00.0", "b8:3f:d2:44:13:e0", "10.180.1.6/24"},
	} {
		n.addCard(compute, nic{device: r.device, netdev: r.netdev, path: r.nic, mac: r.mac})
		n.addVLAN(r.netdev, 180, r.addr)
		n.addGPUs(a100PCIe, []slot{{r.gpu, 0}})
	}

	onboard := adapter{
		chip: i210, speed: 1000, mtu: 1500,
		rx: Counter{Start: 9_118_402_733, PerStep: 101_404}, tx: Counter{Start: 3_870_219_004, PerStep: 48_212},
		qos: QoS{Pause: Pause{Answers: true, Autonegotiated: true, Receive: true}},
	}
	n.addCard(onboard, nic{netdev: "eno1", path: "e0:03.6/e2:00.0", numa: 0, mac: "5c:ff:35:77:1d:40", addr: "10.10.0.6/24"})
	return n.Node
}

// addVLAN adds a VLAN interface that keeps the priorities of packets. There is no IPv6 on it, whose link-local address
// would be another GID.
func (n assembly) addVLAN(lower string, id int, addr string) {
	below := n.NetDev(lower)
	d := NetDev{
		Name: fmt.Sprintf("%s.%d", lower, id), Index: len(n.NetDevs) + 1, Type: TypeEthernet, Address: below.Address, MTU: below.MTU,
		Speed: below.Speed, Carrier: true, VLAN: VLAN{Lower: lower, ID: id}, Received: below.Received, Sent: below.Sent,
	}
	for p := range fabric.NumPriorities {
		d.VLAN.Egress[p] = p
	}
	n.NetDevs = append(n.NetDevs, d)
	n.SetAddrs(d.Name, netip.MustParsePrefix(addr))
}
