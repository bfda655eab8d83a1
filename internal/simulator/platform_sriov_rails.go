// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"strings"
	"time"
)

// tenantsPerPort is how many virtual functions each port of sriovRails has.
const tenantsPerPort = 7

// sriovRails is a node with 128 RDMA ports: the 16 ports of 200 Gb/s that Oracle's shape BM.GPU.H100.8 has for its cluster
// network (eight ConnectX-7 with two ports each, one beside each H100), and seven virtual functions of each, as the
// operator for SR-IOV creates them for numVfs: 7. Seven tenants have one on every rail. The default route leaves through a
// port without RDMA. The number of virtual functions, PCI paths, addresses, PSID and versions are made up.
func sriovRails() platform {
	return platform{name: "sriov-rails", build: buildSRIOVRails, gdr: []GDRLabel{{Path: viaDMABuf}}, config: `expected:
  compute_ports: 16
  port_rate_gigabits_per_second: {compute: 200}
`}
}

func buildSRIOVRails() *Node {
	n := assembly{rootPort: sapphireRapids, switchPort: pex89144, Node: &Node{
		Host: Host{
			Name:    "oke-h100-vf-12",
			Kernel:  "6.8.0-1028-oracle",
			Version: "Linux version 6.8.0-1028-oracle (buildd@lcy02-amd64-031) (gcc 13.3.0) #29-Ubuntu SMP",
			Cmdline: "BOOT_IMAGE=/boot/vmlinuz-6.8.0-1028-oracle root=/dev/sda1 ro intel_iommu=on iommu=pt",
			Boot:    time.Date(2025, 12, 4, 17, 21, 8, 0, time.UTC),
			HZ:      250,
		},
		Driver:  openDriver("580.65.06", "13.0"),
		NetDevs: []NetDev{loopback()},
		Routes:  defaultRoute("10.21.0.1", "eno1"),
	}}
	physical := adapter{
		chip: connectX7, driver: mlx5Ethernet, hca: "MT4129", board: "MT_0000000834", firmware: "28.43.2566", revision: "0", vfs: 16,
		rate: "200 Gb/sec (4X HDR)", speed: 200_000, mtu: 4220,
		rx: Counter{Start: 41_310_448, PerStep: 110}, tx: Counter{Start: 1_918_920, PerStep: 41},
		rdma: traffic{sent: Counter{Start: 3_000_000_000, PerStep: 400_000}, received: Counter{Start: 2_980_000_000, PerStep: 396_000}},
		qos:  mlx5Lossless(NoOFED),
	}
	physical.driver.gidSlots = 8 // it has 256; fewer files do for this node
	virtual := physical
	virtual.chip, virtual.driver, virtual.hca, virtual.vfs = connectX7VF, mlx5Virtual, "MT4126", 0
	virtual.driver.gidSlots = 8
	virtual.virtual, virtual.qos = true, QoS{} // the port belongs to the physical function
	virtual.rx, virtual.tx = Counter{}, Counter{}
	virtual.rdma = traffic{sent: Counter{Start: 1_500_000_000, PerStep: 200_000}, received: Counter{Start: 1_490_000_000, PerStep: 198_000}}

	buses := []int{0x0c, 0x2a, 0x41, 0x58, 0x86, 0xa5, 0xbd, 0xd5}
	// function is one of a card: the k-th of those that PCI can address on its bus.
	function := func(card, k int) string {
		bus := buses[card]
		return fmt.Sprintf("%02x:01.0/%02x:00.0/%02x:00.0/%02x:%02x.%d", bus-3, bus-2, bus-1, bus, k/8, k%8)
	}
	var gpus []slot
	var list []string
	for card, bus := range buses {
		var ports []nic
		for k := range 2 {
			rail := 2*card + k
			list = append(list, fmt.Sprintf("mlx5_%d", rail))
			ports = append(ports, nic{
				device: list[rail], netdev: fmt.Sprintf("rdma%d", rail), path: function(card, k), numa: card / 4,
				mac: fmt.Sprintf("a0:88:c2:0d:%02x:%02x", card, k), addr: fmt.Sprintf("10.225.%d.12/24", rail),
			})
		}
		n.addCard(physical, ports...)
		gpus = append(gpus, slot{fmt.Sprintf("%02x:01.0/%02x:00.0/%02x:01.0/%02x:00.0", bus-3, bus-2, bus-1, bus+3), card / 4})
	}
	for rail := range list { // the driver numbers virtual functions after all physical ones, which were there at boot
		card, first, pf := rail/2, 2+8*(rail%2), fmt.Sprintf("rdma%d", rail)
		var own []string
		for tenant := range tenantsPerPort {
			name := fmt.Sprintf("%sv%d", pf, tenant)
			own = append(own, name)
			n.addCard(virtual, nic{
				device: fmt.Sprintf("mlx5_%d", len(n.HCAs)), netdev: name, path: function(card, first+tenant), numa: card / 4, pf: function(card, rail%2),
				mac: fmt.Sprintf("1e:5a:40:0d:%02x:%02x", rail, tenant), addr: fmt.Sprintf("10.225.%d.%d/24", rail, 100+tenant),
			})
		}
		n.countOnPort(pf, own...)
	}
	n.Files = map[string]string{ncclConf: "# defaults of every job on this node\nNCCL_IB_HCA==" + strings.Join(list, ",") + "\nNCCL_SOCKET_IFNAME=eno1\nNCCL_IB_TC=106\n"}
	n.addOnboard("00:1c.0/02:00.0", 0, "3c:ec:ef:21:00:12", "10.21.0.12/24")
	n.addGPUs(h100SXM, gpus)
	n.linkToSwitches(nil)
	n.register(oneBoard, 0)
	return n.Node
}
