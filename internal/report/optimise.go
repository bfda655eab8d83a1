// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/document"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/internal/verdict"
)

// optimisations are what to set for what the node has, with reasons. What it does not have is one line.
func (f *Facts) optimisations() []document.Section {
	s := document.Section{Title: "Optimisations"}
	all := []document.Section{f.Advice.Section()}
	var not []string
	add := func(applies bool, name, why string, section func() document.Section) {
		if applies {
			all = append(all, section())
		} else {
			not = append(not, name+" ("+why+")")
		}
	}
	add(len(f.GPUs) > 0, "GPUDirect RDMA", "no GPU is visible", f.gpuDirect)
	add(f.mayHave(status.FabricRoCE), "RoCE v2", "it has no RoCE port for training", f.roce)
	add(f.mayHave(status.FabricInfiniBand), "InfiniBand", "it has no InfiniBand port for training", f.infiniBand)
	if len(not) > 0 {
		s.Say("Not for this node: " + strings.Join(not, ", ") + ".")
	}
	return append([]document.Section{s}, all...)
}

// gpuDirect says for each GPU whether NICs reach its memory, and if not, why.
func (f *Facts) gpuDirect() document.Section {
	s := document.Section{Title: "GPUDirect RDMA", Sub: true}
	lines := document.Grouped(f.GPUs, func(g *GPU) (name, line string) {
		if line = g.GPUDirect; !strings.HasPrefix(line, "usable") && g.Evidence != "" {
			line += ": " + document.Lower(g.Evidence)
		}
		return g.Name, document.End(line)
	})
	s.Say("With GPUDirect RDMA, the NIC reads and writes GPU memory directly. Without it, each byte goes through host memory and crosses PCIe two more times.")
	s.List(lines...)
	if slices.ContainsFunc(f.GPUs, func(g GPU) bool { return !strings.HasPrefix(g.GPUDirect, "usable") }) {
		s.Say("The issues have the remedies for what is blocked; the runbooks are ", document.Code("check-gpudirect.md"),
			" and ", document.Code("check-pcie.md"), ".")
	}
	s.Say("With ", document.Code("NCCL_DEBUG=INFO"), ", the log of a run marks channels that use it with ",
		document.Code("/GDRDMA"), ".")
	return s
}

// computeOf are the ports for training of a fabric; those of unknown use count.
func (f *Facts) computeOf(name string) []*Port {
	return which(f.Ports, func(p *Port) bool { return p.Fabric == name && (p.training() || isUnknown(p.Role)) })
}

// roce says for RoCE v2 what is chosen and set, and why.
func (f *Facts) roce() document.Section {
	s := document.Section{Title: "RoCE v2", Sub: true}
	ports := f.computeOf(status.FabricRoCE)
	if len(ports) == 0 {
		s.Say("Whether the node has RoCE ports for training is unknown.")
		return s
	}
	worst := slices.MinFunc(ports, func(a, b *Port) int { return rank(a.roce().Verdict) - rank(b.roce().Verdict) })
	r := worst.roce()
	interfaces := slices.DeleteFunc(slices.Clone(ports), func(p *Port) bool { return isUnknown(p.Interface) })
	t := document.Table{Head: []string{"What", "On this node", "Why"}}
	if slices.ContainsFunc(ports, func(p *Port) bool { return p.roce().Verdict != r.Verdict }) {
		t.Note = "Values are those of the port with the worst verdict; the table of network interfaces has the others."
	} else if len(ports) > 1 {
		t.Note = "Values are those of the first port; the others have the same verdict."
	}
	t.Add("Interface", document.Join(interfaces, ", ", func(p *Port) any { return document.Code(p.Interface) }),
		text("Those of the ports for training. NCCL moves data through the devices (", document.Code("NCCL_IB_HCA"),
			"), not through ", document.Code("NCCL_SOCKET_IFNAME"), ", which is for the bootstrap."))
	transport := "RoCE v2, UDP port 4791"
	if strings.Contains(worst.GID, "RoCE v1") {
		transport = "RoCE v1, by the GID"
	}
	t.Add("Transport", transport,
		text("RoCE v2 is routed by IP and carries a DSCP, by which switches classify it; RoCE v1 does neither. ",
			document.Code("NCCL_NET=IB"),
			", or the name of its network where jobs use a plugin, makes NCCL stop instead of falling back to TCP."))
	t.Add("GID", text(worst.name(), ": "+worst.GID), orUnknown(worst.GIDWhy)+" Since NCCL 2.21 no index needs to be set.")
	if worst.RoCE != nil {
		class := r.Class + ", DSCP " + r.DSCP + ", priority " + r.Priority
		if isUnknown(r.Class) && isUnknown(r.DSCP) && isUnknown(r.Priority) {
			class = r.Class
		}
		t.Add("Traffic class", class,
			r.step("traffic class").Evidence+" Switches classify packets by their DSCP; the lower two bits are for ECN.")
		t.Add("PFC", r.step("pfc").Status,
			"PFC pauses the sender before a buffer overflows. Without it packets are lost, and RoCE sends everything after a lost packet again.")
		t.Add("ECN", r.step("ecn notification", "ecn reaction").Status,
			"Marked packets make the receiver notify the sender, which slows down (DCQCN).")
	}
	t.Add("Against packet loss", r.modeText(),
		"ECN keeps queues short, but takes a round trip to work; PFC prevents loss until then. PFC alone spreads pauses through the fabric; ECN alone loses packets in bursts. A fabric that is lossy by design uses ECN without PFC.")
	s.Table(t)
	if worst.RoCE == nil {
		return s
	}
	s.Say("The chain of settings of ", document.Code(r.Interface), ", in the order in which packets meet them:")
	c := document.Table{Head: []string{"Step", "Verdict", "Seen", "Source"}}
	for _, step := range r.Steps {
		verdict, source := text(step.Status), text(document.Code(step.Source))
		if step.Status == broken {
			verdict = text(document.Bad(broken))
		}
		if step.Source == "" {
			source = nil
		}
		c.Add(status.StepName(strings.ReplaceAll(step.Name, " ", "_")), verdict, step.Evidence, source)
	}
	s.Table(c)
	return s
}

// roce is what is known of RoCE on a port.
func (p *Port) roce() *RoCE {
	if p.RoCE == nil {
		return &RoCE{Mode: string(fabric.RoCEModeUnknown)}
	}
	return p.RoCE
}

// rank is lower for the worse of two verdicts.
func rank(word string) int {
	return slices.Index([]string{
		broken, unknown, string(fabric.StatusOK),
		verdict.Spaced(string(fabric.StatusNotApplicable)), "",
	}, word)
}

// step is the worst of the steps of these names.
func (r *RoCE) step(names ...string) Step {
	steps := which(r.Steps, func(s *Step) bool { return slices.Contains(names, s.Name) })
	if len(steps) == 0 {
		return Step{Status: unknown}
	}
	return *slices.MinFunc(steps, func(a, b *Step) int { return rank(a.Status) - rank(b.Status) })
}

// infiniBand says what differs from RoCE.
func (f *Facts) infiniBand() document.Section {
	s := document.Section{Title: "InfiniBand", Sub: true}
	ports := f.computeOf(status.FabricInfiniBand)
	if len(ports) == 0 {
		s.Say("Whether the node has InfiniBand ports for training is unknown.")
		return s
	}
	active := slices.DeleteFunc(slices.Clone(ports), func(p *Port) bool { return !p.active() })
	t := document.Table{Head: []string{"What", "On this node", "Why"}}
	t.Add("Transport", fmt.Sprintf("InfiniBand, %d of %d ports active", len(active), len(ports)),
		text(document.Code("NCCL_NET=IB"),
			", or the name of its network where jobs use a plugin, makes NCCL stop instead of falling back to TCP. A port that stays in the state init waits for the subnet manager."))
	t.Add("Rails", document.Join(ports, ", ", func(p *Port) any { return document.Code(p.Device) }),
		text("NCCL uses the nearest NIC of each GPU, and ports of the same rail are connected to the same switch. Leave ",
			document.Code("NCCL_CROSS_NIC"), " unset unless the rails are not separate networks."))
	t.Add("GID", orUnknown(ports[0].GID), text(orUnknown(ports[0].GIDWhy), " ", document.Code("NCCL_IB_GID_INDEX"),
		" has no effect."))
	t.Add("Service level", f.setting("NCCL_IB_SL"),
		text("The subnet manager maps service levels to virtual lanes: set it only to the level that is assigned to training. ", document.Code("NCCL_IB_TC"), " is for Ethernet only."))
	t.Add("Adaptive routing", f.setting("NCCL_IB_ADAPTIVE_ROUTING"),
		"NCCL assumes that it is on with InfiniBand (src/transport/net_ib). It works where the subnet manager enables it for the service level.")
	s.Table(t)
	s.Say("Differences from RoCE: InfiniBand links use credits for flow control, so that PFC, ECN, DSCP and the MTU of interfaces need no configuration on the host. The subnet manager sets routes, partitions and service levels, which are not visible on this node. Addresses are LIDs, and data needs no IP address.")
	return s
}

// setting is what the host has of a variable.
func (f *Facts) setting(name string) string {
	for i := range f.Settings {
		if f.Settings[i].Name == name {
			return f.Settings[i].Value + " (" + f.Settings[i].Source + ")"
		}
	}
	return "not set by the host"
}

// references are the sources of what a report says.
func (f *Facts) references() document.Section {
	s := document.Section{Title: "References"}
	const docs = "https://github.com/gpufabric/gpufabric_exporter/blob/main/docs/"
	lines := []document.Text{
		text(document.Link("Environment variables of NCCL",
			"https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html")),
		text(document.Link("Bus bandwidth, as nccl-tests counts it",
			"https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md")),
		text("What the checks read and when they fail: ", document.Link("CHECKS.md", docs+"CHECKS.md")),
		text("What the probes measure: ", document.Link("PROBES.md", docs+"PROBES.md")),
		text("Which releases of NCCL read which variable: ", document.Link("NCCL.md", docs+"NCCL.md")),
	}
	if f.mayHave(status.FabricRoCE) {
		lines = append(lines,
			text(document.Link("Counters of mlx5, PFC and ECN among them",
				"https://docs.kernel.org/networking/device_drivers/ethernet/mellanox/mlx5/counters.html")),
			text(document.Link("Congestion control for large-scale RDMA deployments (DCQCN)",
				"https://doi.org/10.1145/2785956.2787484")))
	}
	if f.Log != nil {
		lines = append(lines, text("Failures that are known in logs: ", document.Link("SIGNATURES.md", docs+"SIGNATURES.md")))
	}
	s.List(lines...)
	return s
}
