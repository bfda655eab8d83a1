// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"time"
)

// dualPort is a node with four H100 PCIe, each below a PCIe switch with a two-port ConnectX-7. The site has one leaf
// switch a rail and cabled the first port of each card only. Of every card the second function is there with its RDMA
// device and its interface, and never had a link. PCI paths, addresses, PSID and versions are made up.
func dualPort() platform {
	return platform{name: "dual-port", build: buildDualPort, gdr: []GDRLabel{{Path: viaDMABuf}}, config: `expected:
  compute_ports: 4
  port_rate_gigabits_per_second: {compute: 200}
`}
}

func buildDualPort() *Node {
	n := assembly{rootPort: sapphireRapids, switchPort: pex89144, Node: &Node{
		Host: Host{
			Name:    "h100-pcie-31",
			Kernel:  "6.8.0-88-generic",
			Version: "Linux version 6.8.0-88-generic (buildd@lcy02-amd64-044) (x86_64-linux-gnu-gcc-13) #89-Ubuntu SMP PREEMPT_DYNAMIC",
			Cmdline: "BOOT_IMAGE=/boot/vmlinuz-6.8.0-88-generic root=/dev/sda2 ro iommu=pt",
			Boot:    time.Date(2025, 10, 21, 12, 40, 9, 0, time.UTC),
			HZ:      250,
		},
		Driver:  openDriver("570.172.08", "12.8"),
		NetDevs: []NetDev{loopback()},
		Routes:  defaultRoute("10.17.0.1", "eno1"),
		Files:   forEveryJob("NCCL_IB_HCA==mlx5_0,mlx5_2,mlx5_4,mlx5_6", "NCCL_SOCKET_IFNAME=eno1", "NCCL_IB_TC=106"),
	}}

	compute := adapter{
		chip: connectX7, driver: mlx5Ethernet, hca: "MT4129", board: "MT_0000000834", firmware: "28.43.2566", revision: "0", vfs: 16,
		rate: "200 Gb/sec (4X HDR)", speed: 200_000, mtu: 9000,
		rx: Counter{Start: 51_310_448, PerStep: 130}, tx: Counter{Start: 2_118_920, PerStep: 48},
		rdma: traffic{sent: Counter{Start: 14_000_000_000, PerStep: 1_900_000}, received: Counter{Start: 13_900_000_000, PerStep: 1_880_000}},
		qos:  mlx5Lossless(WithOFED),
	}
	compute.driver.gidSlots = 16 // it has 256; fewer files do for this node
	unused := compute
	unused.rx, unused.tx, unused.rdma = Counter{}, Counter{}, traffic{}
	for i, bus := range []int{0x18, 0x4f, 0x9a, 0xc0} {
		numa, uplink := i/2, fmt.Sprintf("%02x:01.0/%02x:00.0", bus-3, bus-2)
		function := func(k int) nic {
			return nic{
				device: fmt.Sprintf("mlx5_%d", 2*i+k), netdev: fmt.Sprintf("ens%df%dnp%d", i+1, k, k), numa: numa,
				path: fmt.Sprintf("%s/%02x:00.0/%02x:00.%d", uplink, bus-1, bus, k), mac: fmt.Sprintf("a0:88:c2:31:%02x:%02x", 0x10+i, 0x40+k),
			}
		}
		first, second := function(0), function(1)
		first.addr = fmt.Sprintf("10.210.%d.31/24", i)
		n.addCard(compute, first)
		n.addCard(unused, second)
		h := n.HCA(second.device)
		h.ImageGUID = n.HCA(first.device).GUID // one card
		n.LinkDown(second.device)
		n.addGPUs(h100PCIe, []slot{{fmt.Sprintf("%s/%02x:03.0/%02x:00.0", uplink, bus-1, bus+3), numa}})
	}
	n.addOnboard("00:1c.0/02:00.0", 0, "3c:ec:ef:31:00:31", "10.17.0.31/24")
	return n.Node
}
