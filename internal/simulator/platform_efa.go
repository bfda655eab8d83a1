// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"time"
)

// efaP5 is an eight-GPU H100 instance of AWS with four EFA devices beside each GPU. EFA has no interface, no
// link layer, one GID, and a state and a rate that are constants of the driver. Device names follow from bus
// numbers like those of p5.48xlarge; bridges, addresses and versions are made up.
func efaP5() platform {
	return platform{name: "efa", build: buildEFA, gdr: []GDRLabel{{Path: viaDMABuf}}, config: `expected:
  compute_ports: 32
`}
}

func buildEFA() *Node {
	n := assembly{rootPort: rome, switchPort: pex88096, Node: &Node{
		Host: Host{
			Name:    "ip-10-5-0-41",
			Kernel:  "6.1.156-177.286.amzn2023.x86_64",
			Version: "Linux version 6.1.156-177.286.amzn2023.x86_64 (mockbuild@ip-10-0-44-229) (gcc (GCC) 11.5.0) #1 SMP PREEMPT_DYNAMIC",
			Cmdline: "BOOT_IMAGE=(hd0,gpt1)/boot/vmlinuz-6.1.156-177.286.amzn2023.x86_64 root=UUID=0c2c3b0e ro console=ttyS0",
			DMI:     DMI{Vendor: "Amazon EC2", Product: "p5.48xlarge"},
			Boot:    time.Date(2025, 12, 1, 7, 33, 59, 0, time.UTC),
			Virtual: true,
			HZ:      250,
		},
		Driver:  openDriver("570.172.08", "12.8"),
		NetDevs: []NetDev{loopback()},
		Routes:  defaultRoute("10.5.0.1", "ens32"),
		Files:   forEveryJob("NCCL_SOCKET_IFNAME=ens32"),
	}}

	frontend := adapter{
		chip: ena, mtu: 9001,
		rx: Counter{Start: 44_012_930_118, PerStep: 2_104_331}, tx: Counter{Start: 19_330_118_420, PerStep: 904_118},
	}
	n.addCard(frontend, nic{netdev: "ens32", path: "00:05.0", numa: 0, mac: "0e:a1:7c:33:09:51", addr: "10.5.0.41/20"})

	fabric := adapter{
		chip: efaNIC, driver: efa, firmware: "0.0.0.0", rate: "100 Gb/sec (4X EDR)",
		rdma: traffic{sent: Counter{Start: 8_100_000_000, PerStep: 1_010_000}, received: Counter{Start: 8_080_000_000, PerStep: 1_000_000}},
	}
	var gpus []slot
	for _, rail := range []struct {
		root string
		bus  int // of the first of four EFA devices; the GPU follows them
		numa int
	}{
		{"48:01.1", 0x4f, 0},
		{"59:01.1", 0x60, 0},
		{"6a:01.1", 0x71, 0},
		{"7b:01.1", 0x82, 0},
		{"8c:01.1", 0x93, 1},
		{"9d:01.1", 0xa4, 1},
		{"ae:01.1", 0xb5, 1},
		{"bf:01.1", 0xc6, 1},
	} {
		port := func(k int) string { // the port of the switch that leads to the k-th of its devices, and that device
			return fmt.Sprintf("%s/%02x:00.0/%02x:%02x.0/%02x:00.0", rail.root, rail.bus-2, rail.bus-1, k, rail.bus+k)
		}
		for k := range 4 {
			n.addCard(fabric, nic{
				device: fmt.Sprintf("rdmap%ds0", rail.bus+k), path: port(k), numa: rail.numa,
				mac: fmt.Sprintf("0e:f0:1e:40:%02x:01", rail.bus+k),
			})
		}
		gpus = append(gpus, slot{port(4), rail.numa})
	}
	n.addGPUs(h100SXM, gpus)
	n.linkToSwitches(nil)
	n.register(oneBoard, 0)
	return n.Node
}
