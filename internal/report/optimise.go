// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/advice"
	"gpufabric_exporter/internal/fabric"
)

// optimisations are what to set for what the node has, with reasons. What it does not have is one line.
func (f *Facts) optimisations() []Section {
	s := Section{Title: "Optimisations"}
	all := []Section{f.recommended()}
	var not []string
	add := func(applies bool, name, why string, section func() Section) {
		if applies {
			all = append(all, section())
		} else {
			not = append(not, name+" ("+why+")")
		}
	}
	add(len(f.GPUs) > 0, "GPUDirect RDMA", "no GPU shows", f.gpuDirect)
	add(f.has(fabricRoCE) != "no", "RoCE v2", "it has no RoCE port for training", f.roce)
	add(f.has(fabricInfiniBand) != "no", "InfiniBand", "it has no InfiniBand port for training", f.infiniBand)
	if len(not) > 0 {
		s.say("Not for this node: " + strings.Join(not, ", ") + ".")
	}
	return append([]Section{s}, all...)
}

// recommended are the settings of the advice for any job of several nodes.
func (f *Facts) recommended() Section {
	s := Section{Title: "NCCL settings", Sub: true}
	a := &f.Advice
	s.say("For jobs of several nodes with NCCL "+orUnknown(a.NCCL)+" ("+orUnknown(a.NCCLFrom)+"). ", code("gpufabric_exporter advise"), " gives the same as lines to copy, for a stated workload.")
	if len(a.Settings) == 0 {
		s.say("No setting does better than NCCL's default on this node.")
	} else {
		t := Table{Head: []string{"Set", "Now", "Why", "Source"}}
		for _, v := range a.Settings {
			now := text("not set: add it")
			switch v.Change {
			case advice.Keep:
				now = text("set: keep it")
			case advice.Replace:
				now = text(code(v.Present), " ("+v.PresentFrom+"): replace it")
			}
			t.Rows = append(t.Rows, []Text{text(code(v.Name + "=" + v.Value)), now, text(v.Reason), text(v.Source)})
		}
		s.table(t)
	}
	if len(a.Remove) > 0 {
		t := Table{Head: []string{"Remove", "Where", "Why", "Instead"}}
		for _, v := range a.Remove {
			line := v.Value
			if v.Name != "" {
				line = v.Name + "=" + v.Value
			}
			t.Rows = append(t.Rows, []Text{text(code(line)), text(v.From), text(v.Reason), text(v.Instead)})
		}
		s.table(t)
	}
	if len(a.Leave) > 0 {
		t := Table{Head: []string{"Leave unset", "Why", "Source"}}
		for _, v := range a.Leave {
			t.Rows = append(t.Rows, []Text{text(code(v.Name)), text(v.Reason), text(v.Source)})
		}
		s.table(t)
	}
	var lines []Text
	for _, v := range a.Unknown {
		open := append(text(code(v.Name), " is open: ", end(v.Reason), " To decide: "), marked(end(v.Ask))...)
		lines = append(lines, open)
	}
	s.list(lines[:min(len(lines), maxList)]...)
	return s
}

// gpuDirect says for each GPU whether NICs reach its memory, and if not, why.
func (f *Facts) gpuDirect() Section {
	s := Section{Title: "GPUDirect RDMA", Sub: true}
	states := map[string][]string{}
	var order []string
	for i := range f.GPUs {
		g := &f.GPUs[i]
		line := g.GPUDirect
		if !strings.HasPrefix(line, "usable") && g.Evidence != "" {
			line += ": " + lower(g.Evidence)
		}
		if states[line] == nil {
			order = append(order, line)
		}
		states[line] = append(states[line], g.Name)
	}
	s.say("The NIC reads and writes memory of the GPU itself. Without it each byte crosses PCIe twice more, through the memory of the host.")
	var lines []Text
	for _, state := range order[:min(len(order), maxList)] {
		lines = append(lines, text(codes(states[state]), ": ", end(state)))
	}
	s.list(lines...)
	s.remedies("check-gpudirect.md", "check-pcie.md")
	s.say("Leave ", code("NCCL_NET_GDR_LEVEL"), " unset where GPUs and NICs share a PCIe switch: NCCL uses GPUDirect RDMA up to PXB by default (src/graph/paths.cc). A run shows it as ", code("/GDRDMA"), " in lines of channels with ", code("NCCL_DEBUG=INFO"), ".")
	return s
}

// remedies is kept short: the issues have them.
func (s *Section) remedies(pages ...string) {
	s.say("Remedies for what is blocked are with the issues; the runbooks are ", codes(pages), ".")
}

// computeOf are the ports for training of a fabric; those of unknown use count.
func (f *Facts) computeOf(name string) []*Port {
	return slices.DeleteFunc(f.ports(), func(p *Port) bool {
		return p.Fabric != name || p.Role != string(fabric.RoleCompute) && !isUnknown(p.Role)
	})
}

// roce says for RoCE v2 what is chosen and set, and why.
func (f *Facts) roce() Section {
	s := Section{Title: "RoCE v2", Sub: true}
	ports := f.computeOf(fabricRoCE)
	if len(ports) == 0 {
		s.say("Whether the node has RoCE ports for training is unknown.")
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
	t := Table{Head: []string{"What", "On this node", "Why"}, Note: "Shown is the port with the worst verdict; the others are in the table of network interfaces."}
	row := func(what string, value, why Text) { t.Rows = append(t.Rows, []Text{text(what), value, why}) }
	row("Interface", codes(interfaces), text("Those of the ports for training. NCCL moves data through the devices (", code("NCCL_IB_HCA"), "), not through ", code("NCCL_SOCKET_IFNAME"), ", which is for the bootstrap."))
	row("Transport", text("RoCE v2, UDP port 4791"), text("It is routed by IP and carries a DSCP, by which switches know it; RoCE v1 does neither. ", code("NCCL_NET=IB"), " makes NCCL stop instead of falling back to TCP."))
	row("GID", text(worst.name(), ": "+worst.GID), text(orUnknown(worst.GIDWhy), " Since NCCL 2.21 no index needs to be set."))
	if r := worst.RoCE; r != nil {
		row("Traffic class", text(r.Class+", DSCP "+r.DSCP+", priority "+r.Priority), text(r.because("traffic class", "dscp", "priority")))
		row("PFC", text(r.status("pfc")), text(r.because("pfc"), " A lossless priority pauses the sender before a buffer overflows: RoCE sends again all that followed a lost packet."))
		row("ECN", text(r.status("ecn notification", "ecn reaction")), text(r.because("ecn notification", "ecn reaction"), " Marked packets make the receiver notify the sender, which slows down (DCQCN)."))
	}
	row("Both", text(modeText(worst.mode())), text("ECN keeps queues short but needs a round trip; PFC catches what comes in the meantime. PFC alone spreads pauses through the fabric; ECN alone loses packets in bursts. A fabric that is lossy by design has ECN and no PFC."))
	s.table(t)
	if r := worst.RoCE; r != nil {
		s.say("The chain of settings of ", code(r.Interface), ", from the traffic class to the notification of congestion:")
		c := Table{Head: []string{"Step", "Verdict", "Seen", "Source"}}
		for _, step := range r.Steps {
			verdict := text(step.Status)
			if step.Status == broken {
				verdict = text(strong(broken))
			}
			c.Rows = append(c.Rows, []Text{text(upper(step.Name)), verdict, text(step.Evidence), text(step.source())})
		}
		s.table(c)
	}
	return s
}

// upper writes abbreviations in the name of a step as such.
func upper(name string) string {
	words := strings.Fields(name)
	for i, w := range words {
		if slices.Contains([]string{"dscp", "pfc", "ets", "ecn", "cnp"}, w) {
			words[i] = strings.ToUpper(w)
		}
	}
	return strings.Join(words, " ")
}

func (s *Step) source() Text {
	if s.Source == "" {
		return nil
	}
	return text(code(s.Source))
}

func (p *Port) mode() string {
	if p.RoCE == nil {
		return string(fabric.RoCEModeUnknown)
	}
	return p.RoCE.Mode
}

// worse tells that a verdict in words speaks for both.
func worse(a, b string) bool {
	rank := func(words string) int {
		return slices.Index([]string{broken, unknown, word(fabric.StatusOK), word(fabric.StatusNotApplicable)}, words)
	}
	return rank(a) < rank(b)
}

// because is what the steps of these names show.
func (r *RoCE) because(names ...string) string {
	var parts []string
	for i := range r.Steps {
		if slices.Contains(names, r.Steps[i].Name) && r.Steps[i].Evidence != "" {
			parts = append(parts, r.Steps[i].Evidence)
		}
	}
	return strings.Join(parts, " ")
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

// infiniBand says what is other than with RoCE.
func (f *Facts) infiniBand() Section {
	s := Section{Title: "InfiniBand", Sub: true}
	ports := f.computeOf(fabricInfiniBand)
	if len(ports) == 0 {
		s.say("Whether the node has InfiniBand ports for training is unknown.")
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
	near := 0
	for i := range f.GPUs {
		if slices.Contains(names, f.GPUs[i].NIC) {
			near++
		}
	}
	s.table(Table{Head: []string{"What", "On this node", "Why"}, Rows: [][]Text{
		{text("Transport"), text(fmt.Sprintf("InfiniBand, %d of %d ports active", active, len(ports))), text(code("NCCL_NET=IB"), " makes NCCL stop instead of falling back to TCP. A port that stays in the state init waits for the subnet manager.")},
		{text("Rails"), text(fmt.Sprintf("%d of %d GPUs have one of ", near, len(f.GPUs)), codes(names)), text("NCCL gives each GPU the nearest NIC, and the same rail of all nodes meets in one switch. Leave ", code("NCCL_CROSS_NIC"), " unset unless rails are not separate.")},
		{text("GID"), text(orUnknown(ports[0].GID)), text(orUnknown(ports[0].GIDWhy), " ", code("NCCL_IB_GID_INDEX"), " has no effect.")},
		{text("Service level"), text(f.setting("NCCL_IB_SL")), text("The subnet manager maps service levels to virtual lanes: set it only to what it gives to training. ", code("NCCL_IB_TC"), " is for Ethernet only.")},
		{text("Adaptive routing"), text(f.setting("NCCL_IB_ADAPTIVE_ROUTING")), text("NCCL takes it for on with InfiniBand (src/transport/net_ib). It works where the subnet manager routes the service level adaptively.")},
	}})
	s.say("Differences from RoCE: flow control is by credits of the link, so that PFC, ECN, DSCP and MTU of an interface need no care on the host; routes, partitions and service levels are the subnet manager's, which this node does not show; addresses are LIDs, and no IP address is needed for data.")
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
func (f *Facts) references() Section {
	s := Section{Title: "References"}
	const docs = "https://github.com/gpufabric/gpufabric_exporter/blob/main/docs/"
	lines := []Text{
		text(link("Environment variables of NCCL", "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html")),
		text(link("Bus bandwidth, as nccl-tests counts it", "https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md")),
		text("Numbers you may have read, corrected: ", link("NUMBERS.md", docs+"NUMBERS.md")),
		text("What the checks read and when they fail: ", link("CHECKS.md", docs+"CHECKS.md")),
		text("What the probes measure: ", link("PROBES.md", docs+"PROBES.md")),
		text("Which releases of NCCL read which variable: ", link("NCCL.md", docs+"NCCL.md")),
	}
	if f.has(fabricRoCE) != "no" {
		lines = append(lines,
			text(link("Counters of mlx5, PFC and ECN among them", "https://docs.kernel.org/networking/device_drivers/ethernet/mellanox/mlx5/counters.html")),
			text(link("Congestion control for large-scale RDMA deployments (DCQCN)", "https://doi.org/10.1145/2785956.2787484")))
	}
	if f.Log != nil {
		lines = append(lines, text("Failures that are known in logs: ", link("SIGNATURES.md", docs+"SIGNATURES.md")))
	}
	s.list(lines...)
	return s
}
