// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/internal/verdict"
)

// modePCIeLink is found by several checks.
var modePCIeLink = verdict.Mode{
	ID:   "pcie_link_degraded",
	Text: "A PCIe link is narrower or slower than both ends support.",
}

func pcieChecks() []*verdict.Check {
	return []*verdict.Check{
		{
			ID: verdict.CheckPCIeLink, Title: "A PCIe link runs below the capability of both ends", Severity: verdict.Warning,
			Topic: "pcie", Scope: verdict.ScopeDevice,
			Reads: "current and maximum width and speed of every link between the root complex and the device",
			Guard: "NICs that carry training or storage traffic and GPUs; the speed of a GPU's link counts only while the GPU is busy, because idle GPUs slow it down",
			Modes: []verdict.Mode{modePCIeLink}, Judge: judgeLinks,
		},
		{
			ID: verdict.CheckACS, Title: "ACS sends GPUDirect traffic through the root complex", Severity: verdict.Warning,
			Topic: "pcie", Scope: verdict.ScopeDevice,
			Reads: "the ACS control registers of the bridges between a GPU and its NIC",
			Guard: "not in virtual machines, which need ACS, nor across host bridges, where all traffic goes through the root complex",
			Modes: []verdict.Mode{{
				ID:   "acs_redirects",
				Text: "ACS sends traffic between GPU and NIC through the root complex.",
			}}, Judge: judgeACS,
		},
		{
			ID: "pcie_numa", Title: "NIC and GPU below one switch report different NUMA nodes", Severity: verdict.Warning,
			Topic: "pcie", Scope: verdict.ScopeDevice,
			Reads: "numa_node of both", Guard: "a GPU and its NIC below one switch, which are always on one NUMA node",
			Modes: []verdict.Mode{{ID: "numa_wrong", Text: "The firmware reports a wrong NUMA node."}}, Judge: judgeNUMA,
		},
		{
			ID: "nic_shared", Title: "GPUs share a NIC while another NIC is nearest to no GPU", Severity: verdict.Warning,
			Topic: "pcie", Scope: verdict.ScopeDevice,
			Reads: "positions of GPUs and compute NICs on the bus", Guard: "if a compute NIC is nearest to no GPU",
			Modes: []verdict.Mode{{ID: "nic_shared", Text: "GPUs share a NIC while another NIC is nearest to no GPU."}},
			Judge: judgeShared,
		},
	}
}

func judgeLinks(n *fabric.Node, v *verdict.Verdicts) {
	for i := range n.HCAs {
		h := &n.HCAs[i]
		if f := n.PCI.NIC(h.Name); f != nil && (h.Serves(fabric.RoleCompute) || h.Serves(fabric.RoleStorage)) {
			judgeLinksOf(n, v, f, verdict.Subject{Device: h.Name})
		}
	}
	for _, g := range v.GPUs(n) {
		if g.Function != nil {
			judgeLinksOf(n, v, g.Function, g.Subject())
		}
	}
}

func judgeLinksOf(n *fabric.Node, v *verdict.Verdicts, f *fabric.PCIFunction, s verdict.Subject) {
	all := n.PCI.Shortfalls(f, n.At)
	list, known := all.Get()
	switch {
	case all.State == fabric.Unknown && verdict.Silent(all.Meta()):
	case all.State == fabric.Unknown:
		v.Unknown(s, all.Meta().Reason, "Some links are unknown: "+verdict.ReasonText(all.Meta().Reason)+".")
	case known && len(list) == 0:
		v.OK(s)
	case known:
		short := list[0]
		v.Failed(s, verdict.Verdict{
			What:        "A PCIe link runs at " + LinkText(short),
			Evidence:    "Both ends of the link below " + short.Upper + " can do more.",
			Consequence: "The slowest link limits the device.",
			Remedy:      reseat,
		})
	}
}

// LinkText is what a link does, and what it could.
func LinkText(s fabric.LinkShortfall) string {
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

// judgeACS gives one verdict for each NIC, the worst: several GPUs may share it. What is on the way of a GPU that NCCL
// reaches through another one (PXN) counts too.
func judgeACS(n *fabric.Node, v *verdict.Verdicts) {
	guest, known := n.Host.Hypervisor.Get()
	if guest {
		return
	}
	defer v.KeepWorst(len(v.List))
	pairs(n, func(r fabric.Rail, gpu, nic *fabric.PCIFunction) {
		all := n.PCI.ACSRedirects(gpu, nic, n.At)
		list, ok := all.Get()
		s := verdict.Subject{Device: r.NIC}
		switch d, near := r.Distance.Get(); {
		case !near || d > fabric.DistancePXB:
		case !ok:
			v.Unknown(s, all.Meta().Reason, "The registers could not be read: "+verdict.ReasonText(all.Meta().Reason)+".")
		case len(list) == 0:
			v.OK(s)
		case !known:
			v.Unknown(s, n.Host.Hypervisor.Meta().Reason, "Whether this is a virtual machine, which needs ACS, is unknown.")
		default:
			v.Failed(s, acsWords(n, "Bridges between the NIC and its GPU redirect their traffic: "+strings.Join(list,
				", ")+".", list))
		}
	})
	for _, g := range n.GDR {
		if usable, known := g.Usable.Get(); known && !usable && g.Block == fabric.GDRACS {
			v.Failed(verdict.Subject{Device: g.NIC}, acsWords(n, verdict.Sentence(g.Evidence), nil))
		}
	}
}

// acsWords advises to disable ACS only where no function is passed on: without it, a guest reaches the memory
// of others.
func acsWords(n *fabric.Node, evidence string, bridges []string) verdict.Verdict {
	if passed := passedOn(n); len(passed) > 0 {
		return verdict.Verdict{
			Evidence: evidence, Consequence: "Their traffic has a fraction of the bandwidth; NCCL may hang.",
			Remedy: "Leave ACS on: " + spelling.Few(passed, 8) +
				" belong to vfio, as functions of virtual machines do, and ACS keeps these apart. Train on hosts without virtual machines, or in the virtual machines.",
		}
	}
	return verdict.Verdict{
		Evidence: evidence, Consequence: "Their traffic has a fraction of the bandwidth; NCCL may hang.",
		Remedy: "Not on a host of virtual machines, which need ACS. Disable ACS in the firmware settings, or at each boot: for b in <bridges>; do setpci -s \"$b\" ECAP_ACS+0x6.w=0000; done",
		Names:  map[string][]string{verdict.BridgesWord: bridges},
	}
}

// passedOn are the GPUs and NICs that drivers of vfio have, which give them to virtual machines.
func passedOn(n *fabric.Node) (list []string) {
	for i := range n.PCI.Functions {
		if f := &n.PCI.Functions[i]; strings.Contains(f.Driver.Or(""), "vfio") {
			list = append(list, f.Address)
		}
	}
	return list
}

func judgeNUMA(n *fabric.Node, v *verdict.Verdicts) {
	defer v.KeepWorst(len(v.List))
	pairs(n, func(r fabric.Rail, gpu, nic *fabric.PCIFunction) {
		a, b := gpu.NUMANode, nic.NUMANode
		s := verdict.Subject{Device: r.NIC}
		switch d, near := r.Distance.Get(); {
		case !near || d > fabric.DistancePXB:
		// the firmware says of neither
		case a.State != fabric.OK && b.State != fabric.OK && verdict.Silent(a.Meta()) == verdict.Silent(b.Meta()):
		case a.State != fabric.OK || b.State != fabric.OK:
			v.Unknown(s, cmp.Or(a.Meta().Reason, b.Meta().Reason), "The firmware reports the NUMA node of only one of them.")
		case a.Value == b.Value:
			v.OK(s)
		default:
			v.Failed(s, verdict.Verdict{
				Evidence:    fmt.Sprintf("numa_node of the NIC is %d, of the GPU %s %d.", b.Value, r.GPU, a.Value),
				Consequence: "Processes and interrupts are placed on the wrong socket.",
				Remedy:      fmt.Sprintf("Update the firmware of the machine, or correct it at each boot: echo %d > /sys/bus/pci/devices/<address>/numa_node.", a.Value),
			})
		}
	})
}

// spareNICs returns the compute NICs that are no GPU's nearest. What hides whether there are more is returned too, if
// spareNICs does.
func spareNICs(n *fabric.Node) (spare []string, unread *fabric.Meta) {
	near := map[string]bool{}
	for _, r := range n.PCI.Rails {
		for _, name := range r.Nearest {
			near[name] = true
		}
	}
	for i := range n.HCAs {
		h := &n.HCAs[i]
		if near[h.Name] || n.PCI.NIC(h.Name) == nil {
			continue
		}
		if h.Serves(fabric.RoleCompute) {
			spare = append(spare, h.Name)
			continue
		}
		for k := range h.Ports {
			if h.Ports[k].Role.State == fabric.Unknown {
				unread = new(h.Ports[k].Role.Meta())
			}
		}
	}
	slices.SortFunc(spare, fabric.NaturalOrder)
	return spare, unread
}

func judgeShared(n *fabric.Node, v *verdict.Verdicts) {
	spare, unread := spareNICs(n)
	judged := map[string]bool{}
	pairs(n, func(r fabric.Rail, _, _ *fabric.PCIFunction) {
		if judged[r.NIC] {
			return
		}
		judged[r.NIC] = true
		if r.Shared && len(spare) == 0 && unread != nil {
			v.Unknown(verdict.Subject{Device: r.NIC}, unread.Reason,
				"Several GPUs share it, and whether other NICs are free is unknown: "+verdict.ReasonText(unread.Reason)+".")
			return
		}
		v.When(r.Shared && len(spare) > 0, verdict.Subject{Device: r.NIC}, verdict.Verdict{
			Evidence:    "No GPU is near " + strings.Join(spare, ", ") + ".",
			Consequence: "GPUs that share a NIC halve what it carries.",
			Remedy:      "Pair GPUs and NICs as the vendor specifies; \"gpufabric_exporter topology\" shows their positions.",
		})
	})
}
