// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"time"

	"gpufabric_exporter/internal/fabric"
)

// singleCard is an inference server with two L40S and one ConnectX-6 Dx: the default route leaves through its first port,
// and the second has no cable. It does not train over RDMA, and the site says so. PCI paths, addresses, PSID and versions
// are made up.
func singleCard() platform {
	return platform{name: "single-card", build: buildSingleCard, gdr: []GDRLabel{{Block: fabric.GDRDistance}}, config: `expected:
  compute_ports: 0
`}
}

func buildSingleCard() *Node {
	n := assembly{rootPort: sapphireRapids, Node: &Node{
		Host: Host{
			Name:    "l40s-inference-3",
			Kernel:  "6.8.0-88-generic",
			Version: "Linux version 6.8.0-88-generic (buildd@lcy02-amd64-044) (x86_64-linux-gnu-gcc-13) #89-Ubuntu SMP PREEMPT_DYNAMIC",
			Cmdline: "BOOT_IMAGE=/boot/vmlinuz-6.8.0-88-generic root=/dev/sda2 ro",
			Boot:    time.Date(2025, 12, 8, 9, 31, 27, 0, time.UTC),
			HZ:      250,
		},
		Driver:  openDriver("570.172.08", "12.8"),
		NetDevs: []NetDev{loopback()},
		Routes:  defaultRoute("10.20.0.1", "ens1f0np0"),
		Files:   map[string]string{"etc/nccl.conf": "# defaults of every job on this node\nNCCL_SOCKET_IFNAME=ens1f0np0\n"},
	}}
	a := besideRails()
	a.mtu, a.qos = 1500, mlx5Port(NoOFED)
	n.addCard(a,
		nic{device: "mlx5_0", netdev: "ens1f0np0", path: "26:01.0/27:00.0", numa: 0, mac: "b8:3f:d2:33:60:a4", addr: "10.20.0.3/24"},
		nic{device: "mlx5_1", netdev: "ens1f1np1", path: "26:01.0/27:00.1", numa: 0, mac: "b8:3f:d2:33:60:a5"},
	)
	n.LinkDown("mlx5_1")
	n.HCA("mlx5_1").silence(n.Node)
	n.addGPUs(l40s, []slot{{"36:01.0/37:00.0", 0}, {"b6:01.0/b7:00.0", 1}})
	return n.Node
}
