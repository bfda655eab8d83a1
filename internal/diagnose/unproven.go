// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// Unproven are the gaps of a node that no check reports as unknown, because its operator may have nothing to
// change, and that still keep the node from being known to be in order.
func Unproven(n *fabric.Node) []verdict.Gap {
	all := hiddenGDR(n)
	if withoutNetwork(n) {
		all = append(all, verdict.Gap{
			Subjects: []string{verdict.Subject{}.String()}, What: "No port for training was found",
			Why: "A job over several nodes would use TCP, unless NCCL has a network plugin. If the node should have ports for training, state expected.compute_ports; if not, state 0.",
		})
	}
	return all
}

// UnprovenNote says for people what Unproven returns; empty where that is nothing.
func UnprovenNote(n *fabric.Node) string {
	var parts []string
	for _, g := range Unproven(n) {
		what := g.What
		if of := verdict.Few(g.Subjects); of != (verdict.Subject{}).String() {
			what += " (" + of + ")"
		}
		parts = append(parts, what+". "+g.Why)
	}
	return strings.Join(parts, " ")
}

// hiddenGDR are the GPUs of other vendors, and those of which the hypervisor or the driver hides whether NCCL
// would use GPUDirect RDMA.
func hiddenGDR(n *fabric.Node) []verdict.Gap {
	var all []verdict.Gap
	for _, g := range verdict.GPUs(n) {
		if g.GDR == nil || g.GDR.Usable.State != fabric.Unknown {
			continue
		}
		m := g.GDR.Usable.Meta()
		if m.Reason != fabric.ReasonMissing && m.Reason != fabric.ReasonVirtual && g.IsNVIDIA() {
			continue
		}
		why := verdict.Sentence(verdict.ReasonText(m.Reason))
		if !g.IsNVIDIA() {
			why = "The exporter knows the rules of NCCL for GPUs of NVIDIA only."
		}
		why += " The log of a job with NCCL_DEBUG=INFO marks channels that use it with /GDRDMA."
		i := slices.IndexFunc(all, func(o verdict.Gap) bool { return o.Why == why })
		if i < 0 {
			i, all = len(all), append(all, verdict.Gap{What: "GPUDirect RDMA is unknown", Why: why})
		}
		all[i].Subjects = append(all[i].Subjects, g.Subject().String())
	}
	return all
}

// withoutNetwork reports whether a node with several GPUs is known to have no port for training, while the
// site does not say how many it should have. One GPU is one of a workstation, or of a virtual machine that
// trains alone.
func withoutNetwork(n *fabric.Node) bool {
	read := slices.ContainsFunc(n.Sources, func(s fabric.Source) bool { return s.Name == fabric.SourceClass && s.Up })
	if n.Policy.ComputePorts != nil || len(verdict.GPUs(n)) < 2 || !read && len(n.HCAs) == 0 || len(n.Excluded) > 0 {
		return false
	}
	for i := range n.HCAs {
		h := &n.HCAs[i]
		possible := func(p fabric.Port) bool { return p.MayServe(fabric.RoleCompute) }
		if len(h.Ports) == 0 || slices.ContainsFunc(h.Ports, possible) {
			return false
		}
	}
	return true
}
