// SPDX-License-Identifier: Apache-2.0

package job

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

const (
	leastMemlock = 1 << 30 // bytes; NCCL registers buffers of this order
	fullBAR1     = 0.95
	maxFindings  = 32
)

// findings are what is wrong with a job beside its transport. Those of a rank stand while not all is seen
// that they were made from.
func (t *Tracker) findings(n *fabric.Node, at time.Time, e *evidence, next map[processID]*tracked) []Finding {
	made := map[int][]Finding{} // by PID
	add := func(rule Rule, severity verdict.Severity, pid int, format string, args ...any) {
		made[pid] = append(made[pid], Finding{
			Rule: rule, Severity: severity, Text: fmt.Sprintf(format, args...),
			PIDs: []int{pid},
		})
	}
	rails := activeRails(n)
	all := seesNode(n)
	for _, r := range e.ranks {
		keep, is := next[r.id()], factsOf(r)
		all = all && keep.known&^is == 0
		keep.known |= is
		e.about(n, r, keep, rails, add)
		for _, f := range t.settings(n, r.RankCandidate) {
			f.PIDs = []int{r.PID}
			made[r.PID] = append(made[r.PID], f)
		}
	}
	differing(e.ranks, add)
	byRule := map[Rule]*Finding{}
	for _, r := range e.ranks {
		keep := next[r.id()]
		keep.found = keep.found.take(made[r.PID], all, at)
		for _, f := range keep.found.list() {
			of := byRule[f.Rule]
			if of == nil {
				f.PIDs = nil
				of = &f
				byRule[f.Rule] = of
			}
			of.PIDs = append(of.PIDs, r.PID)
			of.Variables = unite(of.Variables, f.Variables)
		}
	}
	var list []Finding
	for _, f := range byRule {
		slices.Sort(f.PIDs)
		list = append(list, *f)
	}
	slices.SortFunc(list, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity.Rank(), b.Severity.Rank()), cmp.Compare(a.Rule, b.Rule))
	})
	return list[:min(len(list), maxFindings)]
}

// about makes the findings about one rank that are not about its settings.
func (e *evidence) about(n *fabric.Node, r *observed, keep *tracked, rails []string,
	add func(rule Rule, severity verdict.Severity, pid int, format string, args ...any),
) {
	if keep.settled.shown.Reason == NoCommunicator && r.busy == yes && expectsNCCL(r.RankCandidate) {
		add(RuleNoCommunicator, verdict.Info, r.PID,
			"its GPUs are busy, and it shows no NCCL communicator: it may use another back end, such as Gloo")
	}
	if d, known := r.Devices.Get(); known && d.Uverbs == 0 && e.spans() && len(rails) > 0 && !e.devices.moved &&
		!wayOf(r, e.devices).byDesign() {
		add(RuleNoDevices, verdict.Warning, r.PID,
			"its mount namespace has no /dev/infiniband/uverbs*: it cannot use RDMA, and the node has %d active RDMA ports",
			len(rails))
	}
	if l, known := r.Limits.Get(); known && l.Memlock < leastMemlock && e.spans() &&
		keep.settled.shown.Transport != RDMA && len(rails) > 0 {
		add(RuleMemlock, verdict.Warning, r.PID,
			"it may lock %d bytes of memory (RLIMIT_MEMLOCK): memory regions of RDMA fail without CAP_IPC_LOCK", l.Memlock)
	}
	if far := withoutNearest(n, r, rails); far != "" && e.spans() {
		add(RuleAlignment, verdict.Warning, r.PID, "%s", far)
	}
	if lost := keep.nics.lost(); lost != "" {
		add(RuleFewerNICs, verdict.Warning, r.PID, "%s", lost)
	}
	if far := onFarCPUs(n, r); far != "" && e.spans() {
		add(RuleAffinity, verdict.Info, r.PID, "%s", far)
	}
	if keep.grown.leaks() {
		add(RuleGrowing, verdict.Warning, r.PID,
			"its verbs contexts grew in %d readings and never fell, to %d: communicators are made again and not destroyed",
			keep.grown.steps, keep.grown.contexts)
	}
	for _, uuid := range r.gpus {
		if g := gpuOf(n, uuid); g != nil {
			if m, known := g.BAR1.Get(); known && m.Total > 0 && float64(m.Used) >= fullBAR1*float64(m.Total) {
				add(RuleBAR1, verdict.Warning, r.PID,
					"%d of %d bytes of BAR1 of %s are in use: registrations for GPUDirect RDMA fail when it is full", m.Used,
					m.Total, uuid)
			}
		}
	}
}

// unite returns what is in one of two lists, each once.
func unite(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// expectsNCCL reports whether a process is one of several ranks, or has NCCL.
func expectsNCCL(c *fabric.RankCandidate) bool {
	return c.Workload.Or(fabric.Workload{}).Ranks > 1 || c.Maps.Or(fabric.MappedFiles{}).NCCL != ""
}

// activeRails are the devices that have an active port of role compute.
func activeRails(n *fabric.Node) (list []string) {
	for h := range n.ActiveCompute {
		list = append(list, h.Name)
	}
	return slices.Compact(list)
}

// withoutNearest says which of its GPUs a rank has without one of the NICs that are nearest; empty: none, or
// not known. NCCL opens all devices that it may use.
func withoutNearest(n *fabric.Node, r *observed, rails []string) string {
	verbs, known := r.Verbs.Get()
	if !known || verbs.Contexts == 0 {
		return ""
	}
	for _, uuid := range r.gpus {
		g := gpuOf(n, uuid)
		if g == nil || g.Address == "" {
			continue
		}
		i := slices.IndexFunc(n.PCI.Rails, func(r fabric.Rail) bool { return strings.EqualFold(r.GPU, g.Address) })
		if i < 0 || n.PCI.Rails[i].Distance.State != fabric.OK {
			continue
		}
		near := slices.DeleteFunc(slices.Clone(n.PCI.Rails[i].Nearest),
			func(d string) bool { return !slices.Contains(rails, d) })
		if len(near) > 0 && !slices.ContainsFunc(near, func(d string) bool { return slices.Contains(verbs.Devices, d) }) {
			return fmt.Sprintf("%s is nearest to %s, which the rank has not opened: it uses %s", uuid, deviceNames(near),
				deviceNames(verbs.Devices))
		}
	}
	return ""
}

// remote is the least distance that the firmware has for another socket (REMOTE_DISTANCE of
// linux/topology.h). Nodes of one socket (NPS, SNC) are nearer.
const remote = 20

// onFarCPUs says that a rank may use no CPU on the socket of any of its GPUs; empty: it may, or it is not
// known. NCCL keeps its threads on the CPUs that the rank may use and that are near its GPU; where there are
// none, on all that the rank may use.
func onFarCPUs(n *fabric.Node, r *observed) string {
	limits, known := r.Limits.Get()
	if !known || len(limits.Distances) == 0 {
		return ""
	}
	nearest, at := 0, 0
	for _, uuid := range r.gpus {
		g := gpuOf(n, uuid)
		if g == nil {
			return ""
		}
		f := n.PCI.Function(strings.ToLower(g.Address))
		if f == nil {
			return ""
		}
		node, located := f.NUMANode.Get()
		if !located || node < 0 || node >= len(limits.Distances) || limits.Distances[node] < 10 {
			return ""
		}
		if d := limits.Distances[node]; nearest == 0 || d < nearest {
			nearest, at = d, node
		}
	}
	if nearest < remote {
		return ""
	}
	return fmt.Sprintf("it may run on CPUs %s only, and its GPU is at NUMA node %d of another socket (distance %d)",
		clean(limits.CPUs, maxName), at, nearest)
}

// differing compares the ranks of a job on the node with each other.
func differing(ranks []*observed, add func(rule Rule, severity verdict.Severity, pid int, format string, args ...any)) {
	var first *observed
	for _, r := range ranks {
		version := r.Maps.Or(fabric.MappedFiles{}).Version
		switch {
		case version == "":
		case first == nil:
			first = r
		case first.Maps.Value.Version != version:
			add(RuleVersions, verdict.Warning, r.PID, "ranks of the job have NCCL %s and %s",
				clean(first.Maps.Value.Version, maxCommand), clean(version, maxCommand))
		}
	}
	first = nil
	for _, r := range ranks {
		if r.Settings.State != fabric.OK {
			continue
		}
		if first == nil {
			first = r
			continue
		}
		if name := difference(first.Variables(), r.Variables()); name != "" {
			add(RuleSettings, verdict.Warning, r.PID, "ranks of the job differ in %s", name)
		}
	}
}

// perRank are variables that may differ between the ranks of a job.
var perRank = []string{
	"NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_HOSTID", "NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE",
	"NCCL_IGNORE_CPU_AFFINITY",
}

// difference names a variable that two ranks have differently; empty: none.
func difference(a, b []fabric.NCCLVariable) string {
	for _, pair := range [][2][]fabric.NCCLVariable{{a, b}, {b, a}} {
		for _, v := range pair[0] {
			if slices.Contains(perRank, v.Name) || !strings.HasPrefix(v.Name, "NCCL_") {
				continue
			}
			same := func(o fabric.NCCLVariable) bool { return o.Name == v.Name && o.Value == v.Value }
			if !slices.ContainsFunc(pair[1], same) {
				return clean(v.Name, maxName)
			}
		}
	}
	return ""
}
