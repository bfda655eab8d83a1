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
			Truth: "mlx5_2 trained at x8 in an x16 slot. Its port is active at 400 Gb/s and no network counter shows a problem, but PCIe " +
				"carries little more than 200 Gb/s.",
			Expect: []Finding{{"mlx5_2", 1, "pcie_link_degraded"}},
			edit:   func(n *Node) { n.Function(n.HCA("mlx5_2").PCI).Link.Width = 8 },
		},
		{
			Name: "pcie-nic-gen3", Platform: h100,
			Summary: "one compute NIC runs at a quarter of its PCIe speed",
			Truth: "mlx5_5 trained at 8 GT/s where NIC and switch support 32 GT/s: 16 lanes of generation 3 carry about 126 Gb/s of the " +
				"port's 400 Gb/s.",
			Expect: []Finding{{"mlx5_5", 1, "pcie_link_degraded"}},
			edit:   func(n *Node) { n.Function(n.HCA("mlx5_5").PCI).Link.Speed = gen3 },
		},
		{
			Name: "pcie-acs-on", Platform: h100,
			Summary: "ACS is on in all PCIe switches of a node without virtual machines",
			Truth: "Every root port and switch port redirects requests. Traffic between a GPU and its NIC goes up to the root complex and " +
				"down again: GPUDirect RDMA works, with a fraction of its bandwidth.",
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
			Summary: "the firmware reports the wrong NUMA node for one compute NIC",
			Truth: "mlx5_4 is below the same switch as its GPU on NUMA node 1, but reports node 0. The distance is unchanged; interrupts and " +
				"processes that are placed by the NUMA node of the NIC run on the wrong socket.",
			Expect: []Finding{{"mlx5_4", 1, "numa_mismatch"}},
			edit:   func(n *Node) { n.Function(n.HCA("mlx5_4").PCI).NUMA = 0 },
		},
		{
			Name: "pcie-nic-shared", Platform: h100,
			Summary: "two GPUs share the nearest NIC, and another NIC is nearest to no GPU",
			Truth: "GPU 3 is below the switch of mlx5_2 instead of that of mlx5_3. GPUs 2 and 3 share the 400 Gb/s of mlx5_2; mlx5_3 can be " +
				"reached only across host bridges.",
			Expect: []Finding{{"mlx5_2", 1, "nic_shared"}},
			edit:   func(n *Node) { n.moveGPU("0000:61:00.0", "0000:4e:04.0/0000:53:00.0", n.HCA("mlx5_2").PCI) },
		},
		{
			Name: "pcie-errors", Platform: h100, OverTime: true,
			Summary: "the PCIe link of one compute NIC has errors",
			Truth: "The link of mlx5_1 corrupts twenty packets per second, which are sent again, and occasionally loses one. Width and speed " +
				"are correct, and the network port is fine.",
			Expect: []Finding{{"mlx5_1", 1, "pcie_errors"}},
			edit: func(n *Node) {
				n.Function(n.HCA("mlx5_1").PCI).AER = AER{Correctable: Counter{Start: 41200, PerStep: 20}, NonFatal: Counter{Start: 3, PerStep: 1, Every: 10}}
			},
		},
		{
			Name: "pcie-gpus-idle", Platform: h100,
			Summary: "healthy node with idle GPUs",
			Truth:   "The PCIe links of all GPUs run at 2.5 GT/s, as always while they are idle. Their width is correct. Nothing is reported.",
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
