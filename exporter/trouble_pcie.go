// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"strings"

	"gpufabric_exporter/internal/fabric"
)

const reseat = "Reseat the card or riser, then update its firmware; if it stays, replace it."

// pcieTroubles tells what is wrong on the way between GPUs and the NICs that matter.
func pcieTroubles(n *fabric.Node) []trouble {
	var list []trouble
	for h := range judged(n) {
		if f := n.PCI.NIC(h.Name); f != nil {
			list = append(list, narrowLinks(n, f, h.Name)...)
		}
	}
	for _, g := range gpusOf(n) {
		if g.Function != nil {
			list = append(list, narrowLinks(n, g.Function, g.Name)...)
		}
	}
	spare := spareNICs(n)
	for _, r := range n.PCI.Rails {
		gpu, nic := n.PCI.Function(r.GPU), n.PCI.NIC(r.NIC)
		if nic == nil {
			continue
		}
		list = append(list, redirects(n, r, gpu, nic)...)
		list = append(list, numaDisagrees(r, gpu, nic)...)
		if r.Shared && len(spare) > 0 {
			list = append(list, trouble{
				Where: []string{r.NIC}, What: "Several GPUs share their nearest NIC while other NICs are nobody's nearest",
				Why:    "No GPU is near " + strings.Join(spare, ", ") + ". Those that share a NIC halve what it carries.",
				Remedy: "Plug GPUs and NICs as the vendor pairs them; \"" + name + " topology\" shows which is where.",
			})
		}
	}
	return list
}

func narrowLinks(n *fabric.Node, f *fabric.PCIFunction, where string) []trouble {
	var list []trouble
	for _, s := range n.PCI.Shortfalls(f, n.At).Or(nil) {
		list = append(list, trouble{
			Where: []string{where}, What: "A PCIe link runs at " + linkText(s),
			Why:    "Both ends of the link below " + s.Upper + " can do more. A device cannot be faster than its slowest link.",
			Remedy: reseat,
		})
	}
	return list
}

// redirects is no trouble in a virtual machine, which needs ACS, nor where that is not known.
func redirects(n *fabric.Node, r fabric.Rail, gpu, nic *fabric.PCIFunction) []trouble {
	list := n.PCI.ACSRedirects(gpu, nic, n.At).Or(nil)
	if len(list) == 0 || n.Host.Hypervisor.Or(true) || r.Distance.Value > fabric.DistancePXB {
		return nil
	}
	return []trouble{acsTrouble(r.NIC)}
}

// numaDisagrees compares functions below one switch, which can only be on one node.
func numaDisagrees(r fabric.Rail, gpu, nic *fabric.PCIFunction) []trouble {
	a, known := gpu.NUMANode.Get()
	b, ok := nic.NUMANode.Get()
	if !known || !ok || a == b || r.Distance.Value > fabric.DistancePXB {
		return nil
	}
	return []trouble{{
		Where: []string{r.NIC}, What: "The NUMA node of the NIC is not that of the GPU below the same switch",
		Why:    "The firmware tells one of them wrong. Processes and interrupts are placed by it, on the wrong socket.",
		Remedy: "Update the firmware of the machine, or have the boot write numa_node of the function.",
	}}
}

// spareNICs returns the compute NICs that are no GPU's nearest, if there are GPUs.
func spareNICs(n *fabric.Node) []string {
	near := map[string]bool{}
	for _, r := range n.PCI.Rails {
		for _, name := range r.Nearest {
			near[name] = true
		}
	}
	var spare []string
	for _, h := range nicsOf(n) {
		if h.Serves(fabric.RoleCompute) && !near[h.Name] {
			spare = append(spare, h.Name)
		}
	}
	return spare
}
