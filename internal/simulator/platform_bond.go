// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"time"
)

// roceBond is an eight-GPU H100 node whose fabric has two planes: four two-port ConnectX-7, each a bond of which mlx5
// makes one RDMA device, with two GPUs below the same PCIe switch. What treats the traffic are the members; the bond
// has nothing of its own. PCI paths, addresses, PSID and versions are made up.
func roceBond() platform {
	return platform{name: "roce-bond", build: buildRoCEBond, gdr: []GDRLabel{{Path: viaPeermem}}, config: `expected:
  compute_ports: 4
  port_rate_gigabits_per_second: {compute: 200}
`}
}

func buildRoCEBond() *Node {
	n := assembly{rootPort: sapphireRapids, switchPort: pex89144, Node: &Node{
		Host: Host{
			Name:    "gpu-b14",
			Kernel:  "5.10.134-18.al8.x86_64",
			Version: "Linux version 5.10.134-18.al8.x86_64 (mockbuild@x86.build) (gcc (GCC) 10.2.1) #1 SMP",
			Cmdline: "BOOT_IMAGE=(hd0,gpt2)/vmlinuz-5.10.134-18.al8.x86_64 root=/dev/md1 ro iommu=pt",
			Boot:    time.Date(2025, 8, 19, 4, 2, 36, 0, time.UTC),
			HZ:      1000,
		},
		Driver:  closedDriver("535.183.06", "12.2"),
		NetDevs: []NetDev{loopback()},
		Routes:  defaultRoute("10.9.0.1", "eno1"),
		Files:   forEveryJob("NCCL_IB_HCA=mlx5_bond", "NCCL_SOCKET_IFNAME=eno1", "NCCL_IB_TC=106", "NCCL_IB_QPS_PER_CONNECTION=8"),
	}}

	compute := adapter{
		chip: connectX7, driver: mlx5Ethernet, hca: "MT4129", board: "MT_0000000834", firmware: "28.42.1000", revision: "0", vfs: 16,
		rate: "200 Gb/sec (4X HDR)", speed: 200_000, mtu: 9000,
		rx: Counter{Start: 72_300_112, PerStep: 120}, tx: Counter{Start: 4_120_774, PerStep: 36},
		rdma: traffic{sent: Counter{Start: 44_000_000_000, PerStep: 4_060_000}, received: Counter{Start: 43_800_000_000, PerStep: 4_040_000}},
		qos:  mlx5Lossless(WithOFED),
	}
	for _, b := range []struct {
		device, bond string
		members      [2]string
		uplink       string // of the switch
		bus          string // of the NIC
		gpus         [2]string
		numa         int
		mac, addr    string
	}{
		{"mlx5_bond_0", "bond0", [2]string{"ens11f0np0", "ens11f1np1"}, "15:01.0/16:00.0", "17:00.0/18:00", [2]string{"17:02.0/19:00.0", "17:03.0/1b:00.0"}, 0, "a0:88:c2:d0:11:08", "10.170.0.14/24"},
		{"mlx5_bond_1", "bond1", [2]string{"ens12f0np0", "ens12f1np1"}, "4c:01.0/4d:00.0", "4e:00.0/4f:00", [2]string{"4e:02.0/50:00.0", "4e:03.0/52:00.0"}, 0, "a0:88:c2:d0:14:36", "10.170.1.14/24"},
		{"mlx5_bond_2", "bond2", [2]string{"ens13f0np0", "ens13f1np1"}, "97:01.0/98:00.0", "99:00.0/9a:00", [2]string{"99:02.0/9b:00.0", "99:03.0/9d:00.0"}, 1, "a0:88:c2:d0:0f:7a", "10.170.2.14/24"},
		{"mlx5_bond_3", "bond3", [2]string{"ens14f0np0", "ens14f1np1"}, "bd:01.0/be:00.0", "bf:00.0/c0:00", [2]string{"bf:02.0/c1:00.0", "bf:03.0/c3:00.0"}, 1, "a0:88:c2:d0:12:c4", "10.170.3.14/24"},
	} {
		n.addBond(compute,
			nic{device: b.device, netdev: b.bond, mac: b.mac, addr: b.addr},
			nic{netdev: b.members[0], path: b.uplink + "/" + b.bus + ".0", numa: b.numa},
			nic{netdev: b.members[1], path: b.uplink + "/" + b.bus + ".1", numa: b.numa},
		)
		n.addGPUs(h100SXM, []slot{{b.uplink + "/" + b.gpus[0], b.numa}, {b.uplink + "/" + b.gpus[1], b.numa}})
	}

	onboard := adapter{
		chip: i210, speed: 1000, mtu: 1500,
		rx: Counter{Start: 54_118_402_733, PerStep: 150_404}, tx: Counter{Start: 18_870_219_004, PerStep: 71_212},
		qos: QoS{Pause: Pause{Answers: true, Autonegotiated: true, Receive: true}},
	}
	n.addCard(onboard, nic{netdev: "eno1", path: "00:1c.0/02:00.0", numa: 0, mac: "3c:ec:ef:c7:20:5e", addr: "10.9.0.14/24"})
	n.linkToSwitches(nil)
	n.register(oneBoard, 0)
	return n.Node
}
