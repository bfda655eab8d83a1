// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"path"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// acsOfLinux is what Linux sets with the IOMMU on: source validation, request and completion redirect, upstream
// forwarding.
const acsOfLinux = 0x1d

// pciScenarios are about the way between GPUs and NICs.
func pciScenarios() []Scenario {
	return []Scenario{
		{
			Name: "pcie-nic-x8", Platform: h100,
			Summary: "one compute NIC has half of its PCIe lanes",
			Truth: "mlx5_2 trained at x8 in a slot of x16. Its port is active at 400 Gb/s and no counter of the network shows " +
				"anything, but PCIe carries little more than 200 Gb/s.",
			Expect: []Finding{{"mlx5_2", 1, "pcie_link_degraded"}},
			edit:   func(n *Node) { n.Function(n.HCA("mlx5_2").PCI).Link.Width = 8 },
		},
		{
			Name: "pcie-nic-gen3", Platform: h100,
			Summary: "one compute NIC runs at a quarter of its PCIe speed",
			Truth: "mlx5_5 trained at 8 GT/s where NIC and switch do 32 GT/s: 16 lanes of generation 3 carry about 126 Gb/s " +
				"of the 400 Gb/s on the wire.",
			Expect: []Finding{{"mlx5_5", 1, "pcie_link_degraded"}},
			edit:   func(n *Node) { n.Function(n.HCA("mlx5_5").PCI).Link.Speed = gen3 },
		},
		{
			Name: "pcie-acs-on", Platform: h100,
			Summary: "ACS is on in all PCIe switches of a node without virtual machines",
			Truth: "Every root port and switch port redirects requests. What a GPU and its NIC exchange goes up to the root " +
				"complex and down again: GPUDirect RDMA works, at a fraction of its bandwidth.",
			Expect: onCompute("acs_redirect"),
			GDR:    []GDRLabel{{Block: fabric.GDRACS}},
			edit: func(n *Node) {
				for i := range n.Functions {
					if f := &n.Functions[i]; f.leadsDown() {
						f.ACS = acsOfLinux
					}
				}
			},
		},
		{
			Name: "pcie-numa-wrong", Platform: h100,
			Summary: "the firmware tells the wrong NUMA node of one compute NIC",
			Truth: "mlx5_4 is below the same switch as its GPU on NUMA node 1, but says node 0. The distance is what it was; " +
				"interrupts and processes that are placed by the NUMA node of the NIC end up on the wrong socket.",
			Expect: []Finding{{"mlx5_4", 1, "numa_mismatch"}},
			edit:   func(n *Node) { n.Function(n.HCA("mlx5_4").PCI).NUMA = 0 },
		},
		{
			Name: "pcie-nic-shared", Platform: h100,
			Summary: "two GPUs are near one NIC, and another NIC is near none",
			Truth: "GPU 3 sits below the switch of mlx5_2 instead of that of mlx5_3. GPUs 2 and 3 share the 400 Gb/s of mlx5_2; " +
				"mlx5_3 is reached across the host bridges only.",
			Expect: []Finding{{"mlx5_2", 1, "nic_shared"}},
			edit:   func(n *Node) { n.moveGPU("0000:61:00.0", "0000:4e:04.0/0000:53:00.0", n.HCA("mlx5_2").PCI) },
		},
		{
			Name: "pcie-errors", Platform: h100, OverTime: true,
			Summary: "the PCIe link of one compute NIC has errors",
			Truth: "The link of mlx5_1 damages twenty packets a second, which are sent again, and now and then one is lost for good. Width " +
				"and speed are full, and the port on the wire is fine.",
			Expect: []Finding{{"mlx5_1", 1, "pcie_errors"}},
			edit: func(n *Node) {
				n.Function(n.HCA("mlx5_1").PCI).AER = AER{Correctable: Counter{Start: 41200, PerStep: 20}, NonFatal: Counter{Start: 3, PerStep: 1, Every: 10}}
			},
		},
		{
			Name: "pcie-gpus-idle", Platform: h100,
			Summary: "nothing is wrong with a node whose GPUs are idle",
			Truth: "The links of all GPUs are at 2.5 GT/s, as they are whenever nothing runs on them. Their width is full. " +
				"Nothing is reported.",
			edit: func(n *Node) {
				for _, g := range n.GPUs {
					n.Idle(g.PCI)
				}
			},
		},
	}
}

// moveGPU plugs a GPU in below the switch that a NIC is below: at that port of it, and with that address.
func (n *Node) moveGPU(from, to, nic string) {
	uplink := path.Dir(path.Dir(n.Function(nic).Path))
	port, address := path.Split(to)
	gpu := n.Function(from)
	old := path.Dir(gpu.Path)
	gpu.Path = uplink + "/" + to
	downstream := *lookup(n.Functions, func(f Function) bool { return f.Path == old })
	downstream.Path = uplink + "/" + strings.TrimSuffix(port, "/")
	downstream.Group = len(n.Functions) + 1
	n.Functions = append(n.Functions, downstream)
	for i := range n.GPUs {
		if n.GPUs[i].PCI == from {
			n.GPUs[i].PCI = address
		}
	}
	slices.SortFunc(n.GPUs, func(a, b GPU) int { return strings.Compare(a.PCI, b.PCI) })
}
