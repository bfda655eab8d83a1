// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"time"
)

// manaVM is a virtual machine of Azure with two H100 NVL and two functions of the Azure network adapter, which
// do RDMA beside the synthetic interface that carries everything else. Its PCI functions are in domains of their
// own, without bridges and without a NUMA node. That there are two, their addresses and the kernel are made up.
func manaVM() platform {
	return platform{name: "mana", build: buildMANA, gdr: []GDRLabel{{}}, config: `expected:
  compute_ports: 2
  port_rate_gigabits_per_second: {compute: 200}
`}
}

func buildMANA() *Node {
	n := assembly{Node: &Node{
		Host: Host{
			Name:    "nc80-vm7",
			Kernel:  "6.17.0-1008-azure",
			Version: "Linux version 6.17.0-1008-azure (buildd@lcy02-amd64-087) (x86_64-linux-gnu-gcc-13) #8-Ubuntu SMP",
			Cmdline: "BOOT_IMAGE=/boot/vmlinuz-6.17.0-1008-azure root=PARTUUID=2a9b5d3c ro console=ttyS0",
			DMI:     DMI{Vendor: "Microsoft Corporation", Product: "Virtual Machine", AssetTag: "7783-7084-3265-9085-8269-3286-77"},
			Boot:    time.Date(2026, 1, 9, 13, 5, 17, 0, time.UTC),
			Virtual: true,
			HZ:      1000,
		},
		Driver:  openDriver("570.172.08", "12.8"),
		NetDevs: []NetDev{loopback()},
		Routes:  defaultRoute("10.6.0.1", "eth0"),
		Files:   forEveryJob("NCCL_IB_HCA=mana", "NCCL_SOCKET_IFNAME=eth0"),
	}}

	synthetic := adapter{
		speed: 200_000, mtu: 1500,
		rx: Counter{Start: 21_440_118_332, PerStep: 404_331}, tx: Counter{Start: 8_330_118_420, PerStep: 204_118},
	}
	n.addNetDev(synthetic, nic{netdev: "eth0", mac: "60:45:bd:0a:71:3e", addr: "10.6.0.7/24"}, "", 0)

	compute := adapter{
		chip: manaNIC, driver: mana, rate: "200 Gb/sec (4X HDR)", speed: 200_000, mtu: 9000,
		rx: Counter{Start: 40_310_940, PerStep: 120}, tx: Counter{Start: 3_220_118, PerStep: 44},
		rdma: traffic{sent: Counter{Start: 14_000_000_000, PerStep: 1_900_000}, received: Counter{Start: 13_900_000_000, PerStep: 1_880_000}},
	}
	n.addCard(compute, nic{device: "mana_0", netdev: "enP30832p0s0", path: "7870:00:00.0", numa: noNUMA, mac: "60:45:bd:0a:71:40", addr: "10.140.0.7/24"})
	n.addCard(compute, nic{device: "mana_1", netdev: "enP30833p0s0", path: "7871:00:00.0", numa: noNUMA, mac: "60:45:bd:0a:71:41", addr: "10.140.1.7/24"})
	n.addGPUs(h100NVL, []slot{{"0001:00:00.0", noNUMA}, {"0002:00:00.0", noNUMA}})
	return n.Node
}
