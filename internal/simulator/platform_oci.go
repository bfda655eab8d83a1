// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"strings"
	"time"
)

// ociH100 is a bare-metal instance of Oracle's shape BM.GPU.H100.8: eight H100, each beside a ConnectX-7 with two 200G
// ports, and two 100G NICs of the virtual cloud network in between, mlx5_2 and mlx5_11. NCCL_IB_HCA lists the 16 ports of the
// cluster network and NCCL_IB_TC is 41, DSCP 10, as Oracle recommends for the shape
// (https://github.com/oracle-quickstart/oci-hpc-oke/blob/main/docs/recommended-nccl-rccl-parameters-by-shape.md). Which
// priority that DSCP leads to is made up. The default route leaves through mlx5_2; mlx5_11 carries a second
// network. That NICs of the cloud sit below the switches of GPUs, PCI paths, addresses, PSIDs and versions are made up.
func ociH100() platform {
	return platform{name: "oci-h100", build: buildOCIH100, gdr: []GDRLabel{{Path: viaDMABuf}}, config: `expected:
  compute_ports: 16
  port_rate_gigabits_per_second: {compute: 200}
`}
}

func buildOCIH100() *Node {
	n := assembly{rootPort: sapphireRapids, switchPort: pex89144, Node: &Node{
		Host: Host{
			Name:    "inst-gpu-h100-3",
			Kernel:  "5.15.0-1074-oracle",
			Version: "Linux version 5.15.0-1074-oracle (buildd@lcy02-amd64-031) (gcc 11.4.0) #80-Ubuntu SMP",
			Cmdline: "BOOT_IMAGE=/boot/vmlinuz-5.15.0-1074-oracle root=/dev/sda1 ro iommu=pt",
			DMI:     DMI{AssetTag: "OracleCloud.com"},
			Boot:    time.Date(2025, 11, 18, 13, 5, 44, 0, time.UTC),
			HZ:      250,
		},
		Driver:  openDriver("570.172.08", "12.8"),
		NetDevs: []NetDev{loopback()},
		Routes:  defaultRoute("10.19.0.1", "eth0"),
	}}
	cluster := adapter{
		chip: connectX7, driver: mlx5Ethernet, hca: "MT4129", board: "MT_0000000834", firmware: "28.43.2566", revision: "0", vfs: 16,
		rate: "200 Gb/sec (4X HDR)", speed: 200_000, mtu: 4220,
		rx: Counter{Start: 41_310_448, PerStep: 110}, tx: Counter{Start: 1_918_920, PerStep: 41},
		rdma: traffic{sent: Counter{Start: 13_000_000_000, PerStep: 1_800_000}, received: Counter{Start: 12_900_000_000, PerStep: 1_780_000}},
		qos:  mlx5Lossless(NoOFED),
	}
	cluster.qos.MapDSCP(10, losslessPriority)
	cloud := adapter{
		chip: connectX6Dx, driver: mlx5Ethernet, hca: "MT4125", board: "MT_0000000359", firmware: "22.43.2566", revision: "0", vfs: 8,
		rate: "100 Gb/sec (4X EDR)", speed: 100_000, mtu: 9000,
		rx: Counter{Start: 210_554_023_118, PerStep: 904_224}, tx: Counter{Start: 82_009_774_120, PerStep: 533_184},
		qos: mlx5Port(NoOFED),
	}
	cluster.driver.gidSlots, cloud.driver.gidSlots = 16, 16 // they have 256; fewer suffice for this node
	var gpus []slot
	var list []string
	for i, bus := range []int{0x0c, 0x2a, 0x41, 0x58, 0x86, 0xa5, 0xbd, 0xd5} {
		below := func(port, at, function int) string {
			return fmt.Sprintf("%02x:01.0/%02x:00.0/%02x:%02x.0/%02x:00.%d", bus-3, bus-2, bus-1, port, bus+at, function)
		}
		var card []nic
		for k := range 2 {
			name := fmt.Sprintf("mlx5_%d", len(n.HCAs)+k)
			list = append(list, name)
			card = append(card, nic{
				device: name, netdev: fmt.Sprintf("rdma%d", 2*i+k), path: below(0, 0, k), numa: i / 4,
				mac: fmt.Sprintf("a0:88:c2:0c:%02x:%02x", 0x10+i, 0x20+k), addr: fmt.Sprintf("10.224.%d.3/24", 2*i+k),
			})
		}
		n.addCard(cluster, card...)
		gpus = append(gpus, slot{below(1, 3, 0), i / 4})
		if i%4 == 0 {
			n.addCard(cloud, nic{
				device: fmt.Sprintf("mlx5_%d", len(n.HCAs)), netdev: fmt.Sprintf("eth%d", i/4), path: below(2, 4, 0), numa: i / 4,
				mac: fmt.Sprintf("b8:3f:d2:0c:%02x:01", 0x10+i), addr: fmt.Sprintf("10.19.%d.3/24", i/4),
			})
		}
	}
	n.Files = map[string]string{ncclConf: "# defaults of every job on this node\nNCCL_IB_HCA==" + strings.Join(list, ",") + "\nNCCL_SOCKET_IFNAME=eth0\nNCCL_IB_TC=41\n"}
	n.addGPUs(h100SXM, gpus)
	n.linkToSwitches(nil)
	n.register(oneBoard, 0)
	return n.Node
}
