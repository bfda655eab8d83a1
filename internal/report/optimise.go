// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/document"

	"gpufabric_exporter/internal/advice"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/status"
)

// optimisations are what to set for what the node has, with reasons. What it does not have is one line.
func (f *Facts) optimisations() []document.Section {
	s := document.Section{Title: "Optimisations"}
	all := []document.Section{f.recommended()}
	var not []string
	add := func(applies bool, name, why string, section func() document.Section) {
		if applies {
			all = append(all, section())
		} else {
			not = append(not, name+" ("+why+")")
		}
	}
	add(len(f.GPUs) > 0, "GPUDirect RDMA", "no GPU is visible", f.gpuDirect)
	add(f.has(fabricRoCE) != "no", "RoCE v2", "it has no RoCE port for training", f.roce)
	add(f.has(fabricInfiniBand) != "no", "InfiniBand", "it has no InfiniBand port for training", f.infiniBand)
	if len(not) > 0 {
		s.Say("Not for this node: " + strings.Join(not, ", ") + ".")
	}
	return append([]document.Section{s}, all...)
}

// recommended are the settings of the advice for any job of several nodes.
func (f *Facts) recommended() document.Section {
	s := document.Section{Title: "NCCL settings", Sub: true}
	a := &f.Advice
	s.Say("For jobs of several nodes with NCCL "+orUnknown(a.NCCL)+" ("+orUnknown(a.NCCLFrom)+"). ", code("gpufabric_exporter advise"), " prints them as lines to copy, also for another workload.")
	if len(a.Settings) == 0 {
		s.Say("No setting does better than NCCL's default on this node.")
	} else {
		t := document.Table{Head: []string{"Set", "Now", "Why", "Source"}}
		for _, v := range a.Settings {
			now := text("not set: add it")
			switch v.Change {
			case advice.Keep:
				now = text("set: keep it")
			case advice.Replace:
				now = text(code(v.Present), " ("+v.PresentFrom+"): replace it")
			}
			t.Rows = append(t.Rows, []document.Text{text(code(v.Name + "=" + v.Value)), now, marked(v.Reason), text(v.Source)})
		}
		s.Table(t)
	}
	if len(a.Remove) > 0 {
		t := document.Table{Head: []string{"Remove", "Where", "Why", "Instead"}}
		for _, v := range a.Remove {
			line := v.Value
			if v.Name != "" {
				line = v.Name + "=" + v.Value
			}
			t.Rows = append(t.Rows, []document.Text{text(code(line)), text(v.From), marked(v.Reason), text(v.Instead)})
		}
		s.Table(t)
	}
	if len(a.Leave) > 0 {
		t := document.Table{Head: []string{"Leave unset", "Why", "Source"}}
		for _, v := range a.Leave {
			t.Rows = append(t.Rows, []document.Text{text(code(v.Name)), marked(v.Reason), text(v.Source)})
		}
		s.Table(t)
	}
	var lines []document.Text
	for _, v := range a.Unknown {
		open := append(text(code(v.Name), " is not decided: ", marked(end(v.Reason)), " To find out: "), marked(end(v.Ask))...)
		lines = append(lines, open)
	}
	s.List(lines[:min(len(lines), maxList)]...)
	return s
}

// gpuDirect says for each GPU whether NICs reach its memory, and if not, why.
func (f *Facts) gpuDirect() document.Section {
	s := document.Section{Title: "GPUDirect RDMA", Sub: true}
	lines := grouped(len(f.GPUs), func(i int) (name, line string) {
		g := &f.GPUs[i]
		if line = g.GPUDirect; !strings.HasPrefix(line, "usable") && g.Evidence != "" {
			line += ": " + lower(g.Evidence)
		}
		return g.Name, line
	})
	s.Say("With GPUDirect RDMA, the NIC reads and writes GPU memory directly. Without it, each byte goes through host memory and crosses PCIe two more times.")
	s.List(lines...)
	s.Say("The issues have the remedies for what is blocked; the runbooks are ", code("check-gpudirect.md"), " and ", code("check-pcie.md"), ".")
	s.Say("Leave ", code("NCCL_NET_GDR_LEVEL"), " unset where GPUs and NICs share a PCIe switch: NCCL uses GPUDirect RDMA up to PXB by default (src/graph/paths.cc). A run shows it as ", code("/GDRDMA"), " in lines of channels with ", code("NCCL_DEBUG=INFO"), ".")
	return s
}

// computeOf are the ports for training of a fabric; those of unknown use count.
func (f *Facts) computeOf(name string) []*Port {
	var all []*Port
	for i := range f.Ports {
		if p := &f.Ports[i]; p.Fabric == name && (p.Role == string(fabric.RoleCompute) || isUnknown(p.Role)) {
			all = append(all, p)
		}
	}
	return all
}

// roce says for RoCE v2 what is chosen and set, and why.
func (f *Facts) roce() document.Section {
	s := document.Section{Title: "RoCE v2", Sub: true}
	ports := f.computeOf(fabricRoCE)
	if len(ports) == 0 {
		s.Say("Whether the node has RoCE ports for training is unknown.")
		return s
	}
	worst := ports[0]
	for _, p := range ports {
		if p.RoCE != nil && (worst.RoCE == nil || worse(p.RoCE.Verdict, worst.RoCE.Verdict)) {
			worst = p
		}
	}
	var interfaces []string
	for _, p := range ports {
		if !isUnknown(p.Interface) {
			interfaces = append(interfaces, p.Interface)
		}
	}
	t := document.Table{Head: []string{"What", "On this node", "Why"}, Note: "This is the port with the worst verdict; the table of network interfaces has the others."}
	row := func(what string, value, why document.Text) {
		t.Rows = append(t.Rows, []document.Text{text(what), value, why})
	}
	row("Interface", codes(interfaces), text("Those of the ports for training. NCCL moves data through the devices (", code("NCCL_IB_HCA"), "), not through ", code("NCCL_SOCKET_IFNAME"), ", which is for the bootstrap."))
	row("Transport", text("RoCE v2, UDP port 4791"), text("It is routed by IP and carries a DSCP, by which switches classify it; RoCE v1 does neither. ", code("NCCL_NET=IB"), " makes NCCL stop instead of falling back to TCP."))
	row("GID", text(worst.name(), ": "+worst.GID), text(orUnknown(worst.GIDWhy), " Since NCCL 2.21 no index needs to be set."))
	if r := worst.RoCE; r != nil {
		row("Traffic class", text(r.Class+", DSCP "+r.DSCP+", priority "+r.Priority), text(r.evidence("traffic class"), " Switches classify packets by their DSCP; the lower two bits are for ECN."))
		row("PFC", text(r.status("pfc")), text("PFC pauses the sender before a buffer overflows. Without it packets are lost, and RoCE sends everything after a lost packet again."))
		row("ECN", text(r.status("ecn notification", "ecn reaction")), text("Marked packets make the receiver notify the sender, which slows down (DCQCN)."))
	}
	row("Both", text(modeText(worst.mode())), text("ECN keeps queues short, but takes a round trip to work; PFC prevents loss until then. PFC alone spreads pauses through the fabric; ECN alone loses packets in bursts. A fabric that is lossy by design uses ECN without PFC."))
	s.Table(t)
	if r := worst.RoCE; r != nil {
		s.Say("The chain of settings of ", code(r.Interface), ", from the traffic class to the notification of congestion:")
		c := document.Table{Head: []string{"Step", "Verdict", "Seen", "Source"}}
		for _, step := range r.Steps {
			verdict := text(step.Status)
			if step.Status == broken {
				verdict = text(strong(broken))
			}
			var source document.Text
			if step.Source != "" {
				source = text(code(step.Source))
			}
			c.Rows = append(c.Rows, []document.Text{text(status.StepName(strings.ReplaceAll(step.Name, " ", "_"))), verdict, text(step.Evidence), source})
		}
		s.Table(c)
	}
	return s
}

func (p *Port) mode() string {
	if p.RoCE == nil {
		return string(fabric.RoCEModeUnknown)
	}
	return p.RoCE.Mode
}

// worse reports whether verdict a, in words, is worse than b.
func worse(a, b string) bool {
	rank := func(words string) int {
		return slices.Index([]string{broken, unknown, word(fabric.StatusOK), word(fabric.StatusNotApplicable)}, words)
	}
	return rank(a) < rank(b)
}

// evidence is what a step shows.
func (r *RoCE) evidence(name string) string {
	for _, s := range r.Steps {
		if s.Name == name {
			return s.Evidence
		}
	}
	return ""
}

// status is the worst verdict of the steps of these names.
func (r *RoCE) status(names ...string) string {
	worst := ""
	for i := range r.Steps {
		if s := r.Steps[i].Status; slices.Contains(names, r.Steps[i].Name) && (worst == "" || worse(s, worst)) {
			worst = s
		}
	}
	return orUnknown(worst)
}

// infiniBand says what differs from RoCE.
func (f *Facts) infiniBand() document.Section {
	s := document.Section{Title: "InfiniBand", Sub: true}
	ports := f.computeOf(fabricInfiniBand)
	if len(ports) == 0 {
		s.Say("Whether the node has InfiniBand ports for training is unknown.")
		return s
	}
	active := 0
	var names []string
	for _, p := range ports {
		names = append(names, p.Device)
		if p.State == string(fabric.PortActive) {
			active++
		}
	}
	s.Table(document.Table{Head: []string{"What", "On this node", "Why"}, Rows: [][]document.Text{
		{text("Transport"), text(fmt.Sprintf("InfiniBand, %d of %d ports active", active, len(ports))), text(code("NCCL_NET=IB"), " makes NCCL stop instead of falling back to TCP. A port that stays in the state init waits for the subnet manager.")},
		{text("Rails"), codes(names), text("NCCL uses the nearest NIC of each GPU, and ports of the same rail are connected to the same switch. Leave ", code("NCCL_CROSS_NIC"), " unset unless the rails are not separate networks.")},
		{text("GID"), text(orUnknown(ports[0].GID)), text(orUnknown(ports[0].GIDWhy), " ", code("NCCL_IB_GID_INDEX"), " has no effect.")},
		{text("Service level"), text(f.setting("NCCL_IB_SL")), text("The subnet manager maps service levels to virtual lanes: set it only to the level that is assigned to training. ", code("NCCL_IB_TC"), " is for Ethernet only.")},
		{text("Adaptive routing"), text(f.setting("NCCL_IB_ADAPTIVE_ROUTING")), text("NCCL assumes that it is on with InfiniBand (src/transport/net_ib). It works where the subnet manager enables it for the service level.")},
	}})
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
		text(document.Link("Environment variables of NCCL", "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html")),
		text(document.Link("Bus bandwidth, as nccl-tests counts it", "https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md")),
		text("Numbers you may have read, corrected: ", document.Link("NUMBERS.md", docs+"NUMBERS.md")),
		text("What the checks read and when they fail: ", document.Link("CHECKS.md", docs+"CHECKS.md")),
		text("What the probes measure: ", document.Link("PROBES.md", docs+"PROBES.md")),
		text("Which releases of NCCL read which variable: ", document.Link("NCCL.md", docs+"NCCL.md")),
	}
	if f.has(fabricRoCE) != "no" {
		lines = append(lines,
			text(document.Link("Counters of mlx5, PFC and ECN among them", "https://docs.kernel.org/networking/device_drivers/ethernet/mellanox/mlx5/counters.html")),
			text(document.Link("Congestion control for large-scale RDMA deployments (DCQCN)", "https://doi.org/10.1145/2785956.2787484")))
	}
	if f.Log != nil {
		lines = append(lines, text("Failures that are known in logs: ", document.Link("SIGNATURES.md", docs+"SIGNATURES.md")))
	}
	s.List(lines...)
	return s
}
