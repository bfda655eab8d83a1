// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"time"
)

// sriovVF is a node with two H100 PCIe and two ConnectX-7, the first of which has two virtual functions that
// containers use. Beside them, which no machine has, is a virtual function as a guest sees it: on a bus of its
// own, with nothing that names a physical function. PCI paths, addresses, PSID and versions are made up.
func sriovVF() platform {
	return platform{name: "sriov-vf", build: buildSRIOV, gdr: []GDRLabel{{Path: viaDMABuf}}, config: `expected:
  compute_ports: 3
  port_rate_gigabits_per_second: {compute: 400}
`}
}

func buildSRIOV() *Node {
	n := assembly{rootPort: sapphireRapids, switchPort: pex89144, Node: &Node{
		Host: Host{
			Name:    "k8s-gpu-09",
			Kernel:  "6.8.0-88-generic",
			Version: "Linux version 6.8.0-88-generic (buildd@lcy02-amd64-044) (x86_64-linux-gnu-gcc-13) #89-Ubuntu SMP PREEMPT_DYNAMIC",
			Cmdline: "BOOT_IMAGE=/boot/vmlinuz-6.8.0-88-generic root=/dev/sda2 ro intel_iommu=on iommu=pt",
			Boot:    time.Date(2025, 11, 5, 9, 14, 26, 0, time.UTC),
			HZ:      250,
		},
		Driver:  openDriver("580.65.06", "13.0"),
		NetDevs: []NetDev{loopback()},
		Routes:  defaultRoute("10.7.0.1", "eno1"),
		Files:   forEveryJob("NCCL_IB_HCA=mlx5", "NCCL_SOCKET_IFNAME=eno1", "NCCL_IB_TC=106"),
	}}

	physical := adapter{
		chip: connectX7, driver: mlx5Ethernet, hca: "MT4129", board: "MT_0000000838", firmware: "28.43.2566", revision: "0", vfs: 16,
		rate: "400 Gb/sec (4X NDR)", speed: 400_000, mtu: 9000,
		rx: Counter{Start: 92_310_448, PerStep: 210}, tx: Counter{Start: 4_118_920, PerStep: 66},
		rdma: traffic{sent: Counter{Start: 20_000_000_000, PerStep: 2_400_000}, received: Counter{Start: 19_800_000_000, PerStep: 2_380_000}},
		qos:  mlx5Lossless(NoOFED),
	}
	n.addRails(physical, h100PCIe, []rail{
		// device, interface; switch, NIC, GPU; NUMA node, MAC address, IP address, LID
		{"mlx5_0", "enp24s0np0", "15:01.0/16:00.0", "17:00.0/18:00.0", "17:03.0/1b:00.0", 0, "a0:88:c2:90:1a:10", "10.150.0.9/24", 0},
		{"mlx5_1", "enp154s0np0", "97:01.0/98:00.0", "99:00.0/9a:00.0", "99:03.0/9d:00.0", 1, "a0:88:c2:90:1d:5c", "10.150.1.9/24", 0},
	})

	virtual := physical
	virtual.chip, virtual.driver, virtual.hca, virtual.vfs = connectX7VF, mlx5Virtual, "MT4126", 0
	virtual.virtual, virtual.qos = true, QoS{} // the port belongs to the physical function
	virtual.rdma = traffic{sent: Counter{Start: 2_000_000_000, PerStep: 310_000}, received: Counter{Start: 1_980_000_000, PerStep: 306_000}}
	const pf = "15:01.0/16:00.0/17:00.0/18:00.0"
	n.addCard(virtual, nic{device: "mlx5_2", netdev: "enp24s0v0", path: "15:01.0/16:00.0/17:00.0/18:00.1", numa: 0, mac: "1e:5a:40:77:02:01", addr: "10.150.0.109/24", pf: pf})
	n.addCard(virtual, nic{device: "mlx5_3", netdev: "enp24s0v1", path: "15:01.0/16:00.0/17:00.0/18:00.2", numa: 0, mac: "1e:5a:40:77:02:02", addr: "10.150.0.110/24", pf: pf})
	n.countOnPort("enp24s0np0", "enp24s0v0", "enp24s0v1")
	n.addCard(virtual, nic{device: "mlx5_4", netdev: "ens5", path: "0001:00:05.0", numa: noNUMA, mac: "1e:5a:40:77:02:03", addr: "10.150.0.111/24"})

	onboard := adapter{
		chip: i210, speed: 1000, mtu: 1500,
		rx: Counter{Start: 10_118_402_733, PerStep: 140_404}, tx: Counter{Start: 4_870_219_004, PerStep: 70_212},
		qos: QoS{Pause: Pause{Answers: true, Autonegotiated: true, Receive: true}},
	}
	n.addCard(onboard, nic{netdev: "eno1", path: "00:1c.0/02:00.0", numa: 0, mac: "3c:ec:ef:b1:44:08", addr: "10.7.0.9/24"})
	return n.Node
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
