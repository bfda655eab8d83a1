// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"time"
)

// dgxB200 is an eight-GPU B200 node on an InfiniBand fabric: a 400G ConnectX-7 beside each GPU below a PCIe switch of
// their own, and NVLink 5, which counts other errors than its predecessors. NVML does not report the addresses of its
// switches. PCI paths, addresses, PSID and versions are made up.
func dgxB200() platform {
	return platform{name: "dgx-b200-ib", build: buildDGXB200, gdr: []GDRLabel{{Path: viaDMABuf}}, config: `expected:
  compute_ports: 8
  port_rate_gigabits_per_second: {compute: 400}
`}
}

func buildDGXB200() *Node {
	n := assembly{rootPort: sapphireRapids, switchPort: pex89144, Node: &Node{
		Host: Host{
			Name:    "dgx-b200-03",
			Kernel:  "6.8.0-1030-nvidia",
			Version: "Linux version 6.8.0-1030-nvidia (buildd@lcy02-amd64-037) (x86_64-linux-gnu-gcc-13) #33-Ubuntu SMP PREEMPT_DYNAMIC",
			Cmdline: "BOOT_IMAGE=/boot/vmlinuz-6.8.0-1030-nvidia root=/dev/md0 ro iommu=pt pci=realloc=off",
			Boot:    time.Date(2025, 10, 2, 8, 17, 44, 0, time.UTC),
			HZ:      250,
		},
		Driver:  openDriver("580.65.06", "13.0"),
		NetDevs: []NetDev{loopback()},
		Routes:  defaultRoute("10.11.0.1", "eno1"),
		Files:   forEveryJob("NCCL_IB_HCA=mlx5", "NCCL_SOCKET_IFNAME=eno1"),
	}}

	compute := adapter{
		chip: connectX7IB, driver: mlx5InfiniBand, hca: "MT4129", board: "MT_0000000838", firmware: "28.43.2566", revision: "0", vfs: 16,
		rate: "400 Gb/sec (4X NDR)", speed: 400_000, mtu: 4092,
		rx: Counter{Start: 30_110_204, PerStep: 131}, tx: Counter{Start: 1_904_118, PerStep: 52},
		rdma: traffic{
			sent: Counter{Start: 52_000_000_000, PerStep: 4_400_000}, received: Counter{Start: 51_800_000_000, PerStep: 4_380_000},
			waits: Counter{Start: 940_000_000, PerStep: 4_900},
		},
		qos: QoS{OFED: OFED{Files: WithOFED}},
	}
	var rails []rail
	for i, bus := range []int{0x15, 0x3d, 0x4c, 0x5b, 0x97, 0xbd, 0xcb, 0xd9} {
		rails = append(rails, rail{
			device: fmt.Sprintf("mlx5_%d", i), netdev: fmt.Sprintf("ibp%ds0", bus+3),
			uplink: fmt.Sprintf("%02x:01.0/%02x:00.0", bus, bus+1),
			nic:    fmt.Sprintf("%02x:00.0/%02x:00.0", bus+2, bus+3), gpu: fmt.Sprintf("%02x:03.0/%02x:00.0", bus+2, bus+6),
			numa: i / 4, mac: fmt.Sprintf("a0:88:c2:b2:%02x:10", 0x10+i), addr: fmt.Sprintf("10.111.%d.3/24", i), lid: 0x81 + i,
		})
	}
	n.addRails(compute, b200SXM, rails)
	n.linkToSwitches(nil)
	n.register(oneBoard, 0)
	n.addOnboard("e0:03.6/e2:00.0", 1, "5c:ff:35:b2:00:03", "10.11.0.3/24")
	return n.Node
}

// addOnboard adds the 1G port of the main board, for management.
func (n assembly) addOnboard(path string, numa int, mac, addr string) {
	n.addCard(adapter{
		chip: i210, speed: 1000, mtu: 1500,
		rx: Counter{Start: 12_118_402_733, PerStep: 110_404}, tx: Counter{Start: 5_870_219_004, PerStep: 50_212},
		qos: QoS{Pause: Pause{Answers: true, Autonegotiated: true, Receive: true}},
	}, nic{netdev: "eno1", path: path, numa: numa, mac: mac, addr: addr})
}
