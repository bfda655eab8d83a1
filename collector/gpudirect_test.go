// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// gdrNode has two GPUs and one NIC for both.
func gdrNode() *fabric.Node {
	n := gpuNode(2)
	for i := range n.GPUDriver.GPUs {
		address := n.GPUDriver.GPUs[i].Address
		f := fabric.PCIFunction{Address: address, Kind: fabric.PCIGPU}
		n.PCI.Functions = append(n.PCI.Functions, f.WithoutFacts(fabric.ReasonNotRead, now))
		n.GDR = append(n.GDR, fabric.GDR{GPU: address, NIC: "mlx5_0", Usable: known(true), Path: fabric.GDRDMABuf})
	}
	n.GPUDirect = fabric.GPUDirect{
		OpenModule: known(true), Driver: known("580.65.06"), TopologyOverride: known(0),
		Peermem: known(fabric.Peermem{Module: "nvidia_peermem", Version: known("580.65.06"), Bound: known(true), Registered: known(uint64(12))}),
	}
	return n
}

func TestGPUDirect(t *testing.T) {
	const first, second = `pci_address="0000:00:00.0"`, `pci_address="0000:01:00.0"`
	node := []string{"gpudirect_peermem_loaded 1", "gpudirect_peermem_bound 1", "gpudirect_peermem_registered_regions 12", "gpudirect_open_kernel_module 1"}
	well := append(slices.Clone(node), `gpudirect_usable{device="mlx5_0",`+first+`,uuid="GPU-0"} 1`, `gpudirect_path{device="mlx5_0",path="dmabuf",`+first+`,uuid="GPU-0"} 1`)
	for _, c := range []struct {
		name string
		edit func(n *fabric.Node)
		want []string
	}{
		{"well", func(*fabric.Node) {}, append(slices.Clone(well), `gpudirect_usable{device="mlx5_0",`+second+`,uuid="GPU-1"} 1`, `gpudirect_path{device="mlx5_0",path="dmabuf",`+second+`,uuid="GPU-1"} 1`, "gpudirect_unusable_gpus 0")},
		{"too far", func(n *fabric.Node) {
			n.GDR[1] = fabric.GDR{GPU: n.GDR[1].GPU, NIC: "mlx5_0", Usable: known(false), Block: fabric.GDRDistance}
		}, append(slices.Clone(well), `gpudirect_usable{device="mlx5_0",`+second+`,uuid="GPU-1"} 0`, `gpudirect_blocked{device="mlx5_0",`+second+`,reason="distance",uuid="GPU-1"} 1`, "gpudirect_unusable_gpus 1")},
		{"chosen, and redirected", func(n *fabric.Node) {
			n.GDR[1].Usable, n.GDR[1].Block = known(false), fabric.GDRACS
		}, append(slices.Clone(well), `gpudirect_usable{device="mlx5_0",`+second+`,uuid="GPU-1"} 0`, `gpudirect_blocked{device="mlx5_0",`+second+`,reason="acs",uuid="GPU-1"} 1`,
			`gpudirect_path{device="mlx5_0",path="dmabuf",`+second+`,uuid="GPU-1"} 1`, "gpudirect_unusable_gpus 1")},
		{"chosen, and not readable", func(n *fabric.Node) {
			n.GDR[1].Usable = fabric.UnknownFact[bool](fabric.ReasonPrivilege, "config", now)
		}, append(slices.Clone(well), `gpudirect_unknown{device="mlx5_0",`+second+`,reason="privilege",uuid="GPU-1"} 1`, `gpudirect_path{device="mlx5_0",path="dmabuf",`+second+`,uuid="GPU-1"} 1`, "gpudirect_unusable_gpus 0")},
		{"without a NIC", func(n *fabric.Node) {
			n.GDR[1] = fabric.GDR{GPU: n.GDR[1].GPU, Usable: fabric.AbsentFact[bool]("test", now)}
		}, append(slices.Clone(well), "gpudirect_unusable_gpus 0")},
		{"without a driver", func(n *fabric.Node) { // two GPUs without a UUID share a NIC
			n.GPUDriver = fabric.GPUDriver{Loaded: known(false)}
			n.GPUDirect = fabric.GPUDirect{Peermem: fabric.AbsentFact[fabric.Peermem]("test", now), OpenModule: fabric.AbsentFact[bool]("test", now)}
			for i := range n.GDR {
				n.GDR[i] = fabric.GDR{GPU: n.GDR[i].GPU, NIC: "mlx5_0", Usable: known(false), Block: fabric.GDRNoDriver}
			}
		}, []string{
			"gpudirect_peermem_loaded 0", "gpudirect_unusable_gpus 2", `gpudirect_usable{device="mlx5_0",` + first + `,uuid=""} 0`, `gpudirect_usable{device="mlx5_0",` + second + `,uuid=""} 0`,
			`gpudirect_blocked{device="mlx5_0",` + first + `,reason="driver",uuid=""} 1`, `gpudirect_blocked{device="mlx5_0",` + second + `,reason="driver",uuid=""} 1`,
		}},
		{"proprietary, peermem of no use", func(n *fabric.Node) {
			n.GDR = nil
			n.GPUDirect.OpenModule = known(false)
			n.GPUDirect.Peermem.Value.Bound, n.GPUDirect.Peermem.Value.Registered = known(false), fabric.AbsentFact[uint64]("test", now)
		}, []string{"gpudirect_peermem_loaded 1", "gpudirect_peermem_bound 0", "gpudirect_open_kernel_module 0"}},
		{"files that cannot be read", func(n *fabric.Node) {
			n.GDR = nil
			n.GPUDirect = fabric.GPUDirect{Peermem: no[fabric.Peermem](), OpenModule: no[bool](), Driver: no[string](), TopologyOverride: no[int]()}
		}, []string{`exporter_facts_unknown{device="",reason="io_error",uuid=""} 4`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := gdrNode()
			c.edit(n)
			equal(t, linesOf(t, n, "gpudirect"), c.want...)
		})
	}
}

func TestGPUDirectHealth(t *testing.T) {
	n := gdrNode()
	if ok, why := hasGPUDirect(n); !ok || why != "" {
		t.Error(why)
	}
	n.GDR[0].NIC, n.GDR[1].NIC = "", ""
	if ok, why := hasGPUDirect(n); ok || !strings.Contains(why, "NIC") {
		t.Error(why)
	}
	n.PCI.Functions = nil
	if ok, why := hasGPUDirect(n); ok || !strings.Contains(why, "no GPU") {
		t.Error(why)
	}
}

// The link of a GPU that works at a low generation is degraded; that of an idle one is not.
func TestGPULinkUnderLoad(t *testing.T) {
	n := pcieNode()
	g := gpuNode(1).GPUDriver.GPUs[0]
	g.Address, g.PCIeGeneration.Value = "0000:1b:00.0", 1
	n.GPUDriver.GPUs = []fabric.GPU{g}
	if out := scrape(t, n); !strings.Contains(out, `gpufabric_pcie_link_degraded{device="",pci_address="0000:1b:00.0"} 1`) {
		t.Errorf("a GPU works over a slow link:\n%s", out)
	}
	n.GPUDriver.GPUs[0].Utilization.Value = 0
	if out := scrape(t, n); !strings.Contains(out, `gpufabric_pcie_link_degraded{device="",pci_address="0000:1b:00.0"} 0`) {
		t.Errorf("an idle GPU saves power:\n%s", out)
	}
}
