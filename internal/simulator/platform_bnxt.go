// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"time"
)

// bnxtRoCE is an eight-GPU H200 node with a 400G Broadcom Thor2 beside each GPU. What bnxt_re prints is real;
// the shape is that of the DGX H100, and PCI paths, addresses and the firmware version are made up.
func bnxtRoCE() platform {
	return platform{name: "bnxt-roce", build: buildBnxt, gdr: []GDRLabel{{Path: viaDMABuf}}, config: `expected:
  compute_ports: 8
  port_rate_gigabits_per_second: {compute: 400}
`}
}

func buildBnxt() *Node {
	n := assembly{rootPort: sapphireRapids, switchPort: pex89144, Node: &Node{
		Host: Host{
			Name:    "h200-03",
			Kernel:  "6.12.0-55.9.1.el10_0.x86_64",
			Version: "Linux version 6.12.0-55.9.1.el10_0.x86_64 (mockbuild@iad1-prod-build001) (gcc (GCC) 14.2.1) #1 SMP PREEMPT_DYNAMIC",
			Cmdline: "BOOT_IMAGE=(hd0,gpt2)/vmlinuz-6.12.0-55.9.1.el10_0.x86_64 root=/dev/mapper/rl-root ro iommu=pt",
			Boot:    time.Date(2025, 10, 3, 11, 20, 31, 0, time.UTC),
			HZ:      1000,
		},
		Driver:  openDriver("575.57.08", "12.9"),
		NetDevs: []NetDev{loopback()},
		Routes:  defaultRoute("10.2.0.1", "eno1"),
		Files:   forEveryJob("NCCL_IB_HCA=bnxt_re", "NCCL_SOCKET_IFNAME=eno1", "NCCL_IB_TC=104"),
	}}

	compute := adapter{
		chip: thor2, driver: bnxtRE, hca: "Broadcom NetXtreme-C/E RoCE Driver HCA", firmware: "231.2.63.0", revision: "0x11", vfs: 128,
		rate: "400 Gb/sec (4X NDR)", speed: 400_000, mtu: 9000,
		rx: Counter{Start: 204_118_220, PerStep: 212}, tx: Counter{Start: 8_810_344, PerStep: 70},
		rdma: traffic{sent: Counter{Start: 52_000_000_000, PerStep: 3_900_000}, received: Counter{Start: 51_700_000_000, PerStep: 3_880_000}},
		qos:  lossless(),
	}
	n.addRails(compute, h200SXM, []rail{
		// device, interface; switch, NIC, GPU; NUMA node, MAC address, IP address, LID
		{"bnxt_re0", "ens1np0", "15:01.0/16:00.0", "17:00.0/18:00.0", "17:03.0/1b:00.0", 0, "84:16:0c:2a:10:40", "10.110.0.3/24", 0},
		{"bnxt_re1", "ens2np0", "3d:01.0/3e:00.0", "3f:00.0/40:00.0", "3f:03.0/43:00.0", 0, "84:16:0c:2a:13:a0", "10.110.1.3/24", 0},
		{"bnxt_re2", "ens3np0", "4c:01.0/4d:00.0", "4e:00.0/4f:00.0", "4e:03.0/52:00.0", 0, "84:16:0c:2a:0c:f0", "10.110.2.3/24", 0},
		{"bnxt_re3", "ens4np0", "5b:01.0/5c:00.0", "5d:00.0/5e:00.0", "5d:03.0/61:00.0", 0, "84:16:0c:2a:11:10", "10.110.3.3/24", 0},
		{"bnxt_re4", "ens5np0", "97:01.0/98:00.0", "99:00.0/9a:00.0", "99:03.0/9d:00.0", 1, "84:16:0c:2a:19:80", "10.110.4.3/24", 0},
		{"bnxt_re5", "ens6np0", "bd:01.0/be:00.0", "bf:00.0/c0:00.0", "bf:03.0/c3:00.0", 1, "84:16:0c:2a:0e:20", "10.110.5.3/24", 0},
		{"bnxt_re6", "ens7np0", "cb:01.0/cc:00.0", "cd:00.0/ce:00.0", "cd:03.0/d1:00.0", 1, "84:16:0c:2a:15:60", "10.110.6.3/24", 0},
		{"bnxt_re7", "ens8np0", "d9:01.0/da:00.0", "db:00.0/dc:00.0", "db:03.0/df:00.0", 1, "84:16:0c:2a:12:b0", "10.110.7.3/24", 0},
	})

	onboard := adapter{
		chip: i210, speed: 1000, mtu: 1500,
		rx: Counter{Start: 64_022_710_448, PerStep: 190_212}, tx: Counter{Start: 21_914_003_120, PerStep: 88_400},
		qos: QoS{Pause: Pause{Answers: true, Autonegotiated: true, Receive: true}},
	}
	n.addCard(onboard, nic{netdev: "eno1", path: "00:1c.0/01:00.0", numa: 0, mac: "7c:c2:55:4a:09:12", addr: "10.2.0.3/24"})
	n.linkToSwitches(nil)
	n.register(oneBoard, 0)
	return n.Node
}
