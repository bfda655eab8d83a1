// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"time"
)

// gb200Tray is a compute tray of a GB200 NVL72: two Grace processors, each with two GPUs on NVLink-C2C and two 400G
// ConnectX-7. Every root port is a PCI domain of its own, so that over PCIe nothing is near anything; GPUs reach the
// NICs of their processor over C2C. The memory of each GPU is a NUMA node. GPUs of 18 trays form one NVLink domain,
// which IMEX manages. Numbers of domains and the ids of NUMA nodes are those of such trays; all others are made up.
func gb200Tray() platform {
	return platform{name: "gb200", build: buildGB200, gdr: []GDRLabel{{Path: viaDMABuf}}, config: `expected:
  compute_ports: 4
  port_rate_gigabits_per_second: {compute: 400}
`}
}

func buildGB200() *Node {
	n := assembly{rootPort: grace, switchPort: pex89144, Node: &Node{
		Host: Host{
			Name:    "gb200-r07-t11",
			Kernel:  "6.8.0-1028-nvidia-64k",
			Version: "Linux version 6.8.0-1028-nvidia-64k (buildd@bos03-arm64-031) (aarch64-linux-gnu-gcc-13) #31-Ubuntu SMP PREEMPT_DYNAMIC",
			Cmdline: "BOOT_IMAGE=/boot/vmlinuz-6.8.0-1028-nvidia-64k root=/dev/nvme0n1p2 ro iommu.passthrough=1 init_on_alloc=0",
			Boot:    time.Date(2025, 11, 3, 16, 52, 8, 0, time.UTC),
			HZ:      1000,
		},
		Driver:  openDriver("580.65.06", "13.0"),
		NetDevs: []NetDev{loopback()},
		Routes:  defaultRoute("10.12.0.1", "eno1"),
		Files:   forEveryJob("NCCL_IB_HCA=mlx5", "NCCL_SOCKET_IFNAME=eno1"),
	}}

	compute := adapter{
		chip: connectX7IB, driver: mlx5InfiniBand, hca: "MT4129", board: "MT_0000000838", firmware: "28.43.2566", revision: "0", vfs: 16,
		rate: "400 Gb/sec (4X NDR)", speed: 400_000, mtu: 4092,
		rx: Counter{Start: 28_440_112, PerStep: 122}, tx: Counter{Start: 1_704_330, PerStep: 49},
		rdma: traffic{
			sent: Counter{Start: 33_000_000_000, PerStep: 3_900_000}, received: Counter{Start: 32_900_000_000, PerStep: 3_880_000},
			waits: Counter{Start: 710_000_000, PerStep: 4_100},
		},
		qos: QoS{OFED: OFED{Files: WithOFED}},
	}
	var gpus []slot
	for i, domain := range []int{0x00, 0x02, 0x10, 0x12} {
		at := func(bus string, domain int) string { return fmt.Sprintf("%04x:%s", domain, bus) }
		n.addCard(compute, nic{
			device: fmt.Sprintf("mlx5_%d", i), netdev: fmt.Sprintf("ibP%dp3s0", domain), numa: i / 2,
			path: at("00:00.0", domain) + "/" + at("01:00.0", domain) + "/" + at("02:00.0", domain) + "/" + at("03:00.0", domain),
			mac:  fmt.Sprintf("a0:88:c2:9b:%02x:20", 0x30+i), addr: fmt.Sprintf("10.112.%d.11/24", i), lid: 0x101 + i,
		})
		gpu := []int{0x08, 0x09, 0x18, 0x19}[i]
		gpus = append(gpus, slot{at("00:00.0", gpu) + "/" + at("01:00.0", gpu), i / 2})
	}
	n.addGPUs(gb200, gpus)
	for i, node := range []int{2, 10, 18, 26} {
		n.GPUs[i].MemoryNode = node
	}
	n.linkToSwitches(nil)
	n.register("6f1d2a94-53c7-4b0e-9a61-0c8e27d4f511", 32766)
	n.addOnboard("0005:00:00.0/0005:01:00.0", 0, "5c:ff:35:9b:00:11", "10.12.0.11/24")
	return n.Node
}
