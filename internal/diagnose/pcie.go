// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

func pcieChecks() []*Check {
	return []*Check{
		{
			ID: "pcie_link", Title: "A PCIe link runs below what both of its ends can do", Severity: Warning, Topic: "pcie", Scope: ScopeDevice,
			Reads: "current and maximum width and speed of every link between the root complex and the device",
			Guard: "asked of NICs that carry training or storage traffic and of GPUs; of GPUs the speed counts only while they work, because idle ones slow their link down",
			Modes: []string{ModePCIeLink}, judge: judgeLinks,
		},
		{
			ID: "pcie_acs", Title: "ACS sends GPUDirect traffic through the root complex", Severity: Warning, Topic: "pcie", Scope: ScopeDevice,
			Reads: "the ACS control registers of the bridges between a GPU and its NIC",
			Guard: "not asked in virtual machines, which need ACS, nor across host bridges, where all traffic goes that way",
			Modes: []string{ModeACS}, judge: judgeACS,
		},
		{
			ID: "pcie_numa", Title: "The NUMA node of the NIC is not that of the GPU below the same switch", Severity: Warning, Topic: "pcie", Scope: ScopeDevice,
			Reads: "numa_node of both", Guard: "asked of a GPU and its NIC below one switch, which can only be on one node", Modes: []string{ModeNUMA}, judge: judgeNUMA,
		},
		{
			ID: "nic_shared", Title: "Several GPUs share their nearest NIC while other NICs are nobody's nearest", Severity: Warning, Topic: "pcie", Scope: ScopeDevice,
			Reads: "where GPUs and compute NICs sit on the bus", Guard: "asked where there are compute NICs to spare", Modes: []string{ModeNICShared}, judge: judgeShared,
		},
	}
}

// gpu is the subject for a GPU: its UUID where NVML tells it.
func gpu(n *fabric.Node, address string) Subject {
	if g := n.GPUDriver.At(address); g != nil && g.UUID != "" {
		return Subject{GPU: g.UUID}
	}
	return Subject{GPU: address}
}

func judgeLinks(n *fabric.Node, v *verdicts) {
	for i := range n.HCAs {
		h := &n.HCAs[i]
		if f := n.PCI.NIC(h.Name); f != nil && (h.Serves(fabric.RoleCompute) || h.Serves(fabric.RoleStorage)) {
			judgeLinksOf(n, v, f, Subject{Device: h.Name})
		}
	}
	for _, f := range n.PCI.GPUs() {
		judgeLinksOf(n, v, f, gpu(n, f.Address))
	}
}

func judgeLinksOf(n *fabric.Node, v *verdicts, f *fabric.PCIFunction, s Subject) {
	all := n.PCI.Shortfalls(f, n.At)
	list, known := all.Get()
	switch {
	case all.State == fabric.Unknown && all.Meta().Reason == fabric.ReasonVirtual:
	case all.State == fabric.Unknown:
		v.unknown(s, all.Meta().Reason, "Not all links are known: "+reasonText(all.Meta().Reason)+".")
	case known && len(list) == 0:
		v.ok(s)
	case known:
		short := list[0]
		v.failed(s, Verdict{
			What:        "A PCIe link runs at " + linkText(short),
			Evidence:    "Both ends of the link below " + short.Upper + " can do more.",
			Consequence: "The device cannot be faster than its slowest link.",
			Remedy:      "Reseat the card or riser, then update its firmware; if it stays, replace it.",
		})
	}
}

// linkText is what a link does, and what it could.
func linkText(s fabric.LinkShortfall) string {
	var parts []string
	if s.Narrow {
		parts = append(parts, fmt.Sprintf("x%d instead of x%d", s.Width, s.MaxWidth))
	}
	if s.Slow {
		transfers := func(v float64) string { return strconv.FormatFloat(v/1e9, 'g', 4, 64) }
		parts = append(parts, transfers(s.Speed)+" GT/s instead of "+transfers(s.MaxSpeed)+" GT/s")
	}
	return strings.Join(parts, " and ")
}

// pairs iterates over GPUs and the NICs that they are dealt.
func pairs(n *fabric.Node, judge func(r fabric.Rail, gpu, nic *fabric.PCIFunction)) {
	for _, r := range n.PCI.Rails {
		if nic := n.PCI.NIC(r.NIC); r.NIC != "" && nic != nil {
			judge(r, n.PCI.Function(r.GPU), nic)
		}
	}
}

func judgeACS(n *fabric.Node, v *verdicts) {
	guest, known := n.Host.Hypervisor.Get()
	if guest {
		return
	}
	pairs(n, func(r fabric.Rail, gpu, nic *fabric.PCIFunction) {
		all := n.PCI.ACSRedirects(gpu, nic, n.At)
		list, ok := all.Get()
		switch d, near := r.Distance.Get(); {
		case !near || d > fabric.DistancePXB:
		case !ok:
			v.unknown(Subject{Device: r.NIC}, all.Meta().Reason, "The registers could not be read: "+reasonText(all.Meta().Reason)+".")
		case len(list) == 0:
			v.ok(Subject{Device: r.NIC})
		case !known:
			v.unknown(Subject{Device: r.NIC}, n.Host.Hypervisor.Meta().Reason, "Whether this is a virtual machine, which needs ACS, is not known.")
		default:
			v.failed(Subject{Device: r.NIC}, Verdict{
				Evidence:    "Bridges between the NIC and its GPU redirect what these exchange: " + strings.Join(list, ", ") + ".",
				Consequence: "It comes at a fraction of the bandwidth; NCCL may hang.",
				Remedy:      "Switch ACS off in the firmware settings, or at each boot: setpci -s <bridge> ECAP_ACS+0x6.w=0000.",
			})
		}
	})
}

func judgeNUMA(n *fabric.Node, v *verdicts) {
	pairs(n, func(r fabric.Rail, gpu, nic *fabric.PCIFunction) {
		a, b := gpu.NUMANode, nic.NUMANode
		switch d, near := r.Distance.Get(); {
		case !near || d > fabric.DistancePXB:
		case a.State != fabric.OK && b.State != fabric.OK: // the firmware says of neither
		case a.State != fabric.OK || b.State != fabric.OK:
			v.unknown(Subject{Device: r.NIC}, cmp.Or(a.Meta().Reason, b.Meta().Reason), "The firmware tells the node of one of both only.")
		default:
			v.when(a.Value != b.Value, Subject{Device: r.NIC}, Verdict{
				Evidence:    fmt.Sprintf("numa_node of the NIC is %d, of the GPU %s %d.", b.Value, r.GPU, a.Value),
				Consequence: "Processes and interrupts are placed by it, on the wrong socket.",
				Remedy:      "Update the firmware of the machine, or have the boot write numa_node of the function.",
			})
		}
	})
}

func judgeShared(n *fabric.Node, v *verdicts) {
	near := map[string]bool{}
	for _, r := range n.PCI.Rails {
		for _, name := range r.Nearest {
			near[name] = true
		}
	}
	var spare []string
	for i := range n.HCAs {
		if h := &n.HCAs[i]; h.Serves(fabric.RoleCompute) && !near[h.Name] && n.PCI.NIC(h.Name) != nil {
			spare = append(spare, h.Name)
		}
	}
	slices.SortFunc(spare, fabric.NaturalOrder)
	told := map[string]bool{}
	pairs(n, func(r fabric.Rail, _, _ *fabric.PCIFunction) {
		if told[r.NIC] {
			return
		}
		told[r.NIC] = true
		v.when(r.Shared && len(spare) > 0, Subject{Device: r.NIC}, Verdict{
			Evidence:    "No GPU is near " + strings.Join(spare, ", ") + ".",
			Consequence: "GPUs that share a NIC halve what it carries.",
			Remedy:      "Plug GPUs and NICs as the vendor pairs them; \"gpufabric_exporter topology\" shows which is where.",
		})
	})
}
