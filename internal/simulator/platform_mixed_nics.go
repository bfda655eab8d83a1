// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"net/netip"
	"time"
)

// mixedNICsRoCE and mixedNICsIB are servers with eight H100 on ten slots below four PCIe switches, as those of Dell's
// PowerEdge XE9680: two GPUs with a 400G ConnectX-7 each below every switch and, in one of the two slots that are left, a
// 100G ConnectX-6 Dx. With RoCE that carries storage; beside InfiniBand its first port carries the default route and its
// second storage, as the configuration states. PCI paths, addresses, PSIDs and versions are made up.
func mixedNICsRoCE() platform {
	return platform{name: "mixed-nics-roce", build: buildMixedNICsRoCE, gdr: []GDRLabel{{Path: viaDMABuf}}, config: "roles: [{device: mlx5_2, role: storage}]\n" + mixedNICsConfig}
}

func mixedNICsIB() platform {
	return platform{name: "mixed-nics-ib", build: buildMixedNICsIB, gdr: []GDRLabel{{Path: viaDMABuf}}, config: "roles: [{device: mlx5_2, role: management}, {device: mlx5_3, role: storage}]\n" + mixedNICsConfig}
}

const mixedNICsConfig = `expected:
  compute_ports: 8
  port_rate_gigabits_per_second: {compute: 400}
`

func buildMixedNICsRoCE() *Node {
	compute := adapter{
		chip: connectX7, driver: mlx5Ethernet, hca: "MT4129", board: "MT_0000000838", firmware: "28.43.2566", revision: "0", vfs: 16,
		rate: "400 Gb/sec (4X NDR)", speed: 400_000, mtu: 9000,
		rx: Counter{Start: 91_300_112, PerStep: 210}, tx: Counter{Start: 7_120_774, PerStep: 66},
		rdma: traffic{sent: Counter{Start: 33_000_000_000, PerStep: 3_950_000}, received: Counter{Start: 32_700_000_000, PerStep: 3_930_000}},
		qos:  mlx5Lossless(WithOFED),
	}
	compute.driver.gidSlots = 16 // it has 256; fewer files do for this node
	n := mixedNICs("xe9680-41", "NCCL_SOCKET_IFNAME=eno1\nNCCL_IB_TC=106\n", "eno1", compute, besideRails(),
		nic{device: "mlx5_2", netdev: "ens33np0", mac: "b8:3f:d2:41:60:a4", addr: "10.41.0.41/24"})
	n.addOnboard("00:1c.0/02:00.0", 0, "3c:ec:ef:41:00:41", "10.9.0.41/24")
	return n.Node
}

func buildMixedNICsIB() *Node {
	compute := adapter{
		chip: connectX7IB, driver: mlx5InfiniBand, hca: "MT4129", board: "MT_0000000838", firmware: "28.43.2566", revision: "0", vfs: 16,
		rate: "400 Gb/sec (4X NDR)", speed: 400_000, mtu: 4092,
		rx: Counter{Start: 20_110_204, PerStep: 121}, tx: Counter{Start: 1_704_118, PerStep: 49},
		rdma: traffic{
			sent: Counter{Start: 43_000_000_000, PerStep: 4_100_000}, received: Counter{Start: 42_800_000_000, PerStep: 4_080_000},
			waits: Counter{Start: 640_000_000, PerStep: 3_900},
		},
		qos: QoS{OFED: OFED{Files: WithOFED}},
	}
	n := mixedNICs("xe9680-52", "NCCL_IB_HCA=mlx5\nNCCL_SOCKET_IFNAME=ens33f0np0\n", "ens33f0np0", compute, besideRails(),
		nic{device: "mlx5_2", netdev: "ens33f0np0", mac: "b8:3f:d2:52:60:a4", addr: "10.9.0.52/24"},
		nic{device: "mlx5_3", netdev: "ens33f1np1", mac: "b8:3f:d2:52:60:a5", addr: "10.42.0.52/24"})
	return n.Node
}

// besideRails is the NIC that is no rail.
func besideRails() adapter {
	a := adapter{
		chip: connectX6Dx, driver: mlx5Ethernet, hca: "MT4125", board: "MT_0000000359", firmware: "22.43.2566", revision: "0", vfs: 8,
		rate: "100 Gb/sec (4X EDR)", speed: 100_000, mtu: 9000,
		rx: Counter{Start: 31_220_443_009_120, PerStep: 211_304_960}, tx: Counter{Start: 4_981_020_332_416, PerStep: 28_771_072},
		qos: mlx5Port(WithOFED),
	}
	a.driver.gidSlots = 16
	return a
}

// mixedNICs is such a server. The functions of the other NIC are below the first switch, behind its rails.
func mixedNICs(name, nccl, route string, compute, other adapter, functions ...nic) assembly {
	n := assembly{rootPort: sapphireRapids, switchPort: pex89144, Node: &Node{
		Host: Host{
			Name:    name,
			Kernel:  "5.15.0-139-generic",
			Version: "Linux version 5.15.0-139-generic (buildd@lcy02-amd64-112) (gcc 11.4.0) #149-Ubuntu SMP",
			Cmdline: "BOOT_IMAGE=/boot/vmlinuz-5.15.0-139-generic root=/dev/sda2 ro iommu=pt",
			Boot:    time.Date(2025, 11, 3, 7, 52, 13, 0, time.UTC),
			HZ:      250,
		},
		Driver:  openDriver("570.172.08", "12.8"),
		NetDevs: []NetDev{loopback()},
		Routes:  []Route{{Dst: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("10.9.0.1"), NetDev: route}},
		Files:   map[string]string{"etc/nccl.conf": "# defaults of every job on this node\n" + nccl},
	}}
	var gpus []slot
	device := 0
	for s, bus := range []int{0x15, 0x37, 0x97, 0xb7} {
		below := func(port, at, function int) string {
			return fmt.Sprintf("%02x:01.0/%02x:00.0/%02x:%02x.0/%02x:00.%d", bus, bus+1, bus+2, port, bus+at, function)
		}
		for k := range 2 {
			rail := 2*s + k
			n.addCard(compute, nic{
				device: fmt.Sprintf("mlx5_%d", device), netdev: fmt.Sprintf("rail%d", rail), path: below(2*k, 3+2*k, 0), numa: s / 2,
				mac: fmt.Sprintf("a0:88:c2:41:%02x:18", 0x10+rail), addr: fmt.Sprintf("10.141.%d.41/24", rail), lid: 0x91 + rail,
			})
			device++
			gpus = append(gpus, slot{below(2*k+1, 4+2*k, 0), s / 2})
		}
		if s > 0 {
			continue
		}
		for k := range functions {
			functions[k].path = below(8, 7, k)
		}
		n.addCard(other, functions...)
		device += len(functions)
	}
	n.addGPUs(h100SXM, gpus)
	n.linkToSwitches(nil)
	n.register(oneBoard, 0)
	return n
}
