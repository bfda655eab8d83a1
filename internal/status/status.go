// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/gpu"
	"gpufabric_exporter/internal/diagnose/node"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/jobs/progress"
	"gpufabric_exporter/internal/verdict"
)

// Inputs is what a Document is built from.
type Inputs struct {
	Node     *fabric.Node
	Verdicts []verdict.Verdict // of all checks on Node
	Exporter string            // version
	Name     string            // of the node, for people; may be empty
	Note     string            // about the node; may be empty
	Instance string            // the label instance of the node in Prometheus; may be empty
	Links    config.Links
	// Since returns when one of these verdicts failed first, and whether that may have been earlier; nil: no one saw it.
	Since   func([]verdict.Verdict) (first time.Time, atLeast, known bool)
	Jobs    *job.Jobs       // nil: they are not looked for
	RAS     progress.Status // what was asked about them
	Probes  []Probed
	Probing Verdict // on probes

	NoDevice string        // the message that the node has no RDMA device; empty: it has one, or that is not known
	NoRDMA   bool          // collectors of RDMA devices are disabled
	Between  time.Duration // two readings of statistics
}

// Of builds the document. Its texts and lists are bounded.
func Of(in *Inputs) *Document {
	d := build(in, false)
	bound(d)
	return d
}

// missing are the devices that checks call gone, by the names that they had.
func missing(n *fabric.Node) []string {
	names := node.LostDevices(n)
	gone, _ := node.GoneDevices(n)
	for _, g := range gone {
		if !slices.Contains(names, g.Device) {
			names = append(names, g.Device)
		}
	}
	return names
}

// Whole is Of without bounds, and with what takes long: Port.Shared.
func Whole(in *Inputs) *Document { return build(in, true) }

func build(in *Inputs, whole bool) *Document {
	n := in.Node
	b := builder{
		in: in, whole: whole, parts: map[verdict.Subject]*judged{}, names: map[string]string{},
		ids: map[verdict.Subject]string{}, groups: map[string]string{},
	}
	b.Document = &Document{
		Version: Version, Exporter: in.Exporter, Time: n.At.UTC(),
		Node: Node{
			Name: in.Name, Note: in.Note, Kernel: factOf(n.Host.Kernel), Virtual: factOf(n.Host.Hypervisor),
			GPUs:      factOf(n.GPUs),
			Elsewhere: diagnose.Elsewhere(n), Excluded: slices.Clone(n.Excluded), Missing: missing(n), JudgedBy: *JudgedByOf(n),
			NotAsked: gpu.GPUsNotAsked(n), Driver: gpu.DriverText(&n.GPUDriver), CUDA: factOf(n.GPUDriver.CUDA),
			Library: factOf(n.NCCL.Library), Files: slices.Clone(n.NCCL.Files),
		},
	}
	gpus := verdict.GPUs(n)
	if len(gpus) > 0 {
		b.Node.Notes = gpu.Notes(n, gpus)
	}
	if gpu.HasNVIDIA(gpus) {
		b.Node.GPUDriver = b.Node.Driver
	}
	b.findings()
	b.gaps()
	devices := byName(n)
	b.layout(gpus, devices)
	for i, h := range devices {
		b.Devices = append(b.Devices, b.device(i, h))
	}
	for i := range gpus {
		b.GPUs = append(b.GPUs, b.gpu(i, gpus))
	}
	b.NVLink = nvlinkOf(gpus)
	for _, h := range devices {
		if guid, known := h.NodeGUID.Get(); known {
			b.Node.GUIDs = append(b.Node.GUIDs, guid)
		}
	}
	slices.Sort(b.Node.GUIDs)
	for _, v := range n.NCCL.Variables {
		b.NCCL = append(b.NCCL, Variable{v.Name, v.Value, v.Source})
	}
	b.link()
	if in.Jobs != nil {
		document := progress.DocumentOf(in.Jobs, in.RAS.Jobs)
		b.Jobs = &document
	}
	b.retry()
	b.checks()
	b.conclude()
	return b.Document
}

// builder builds a Document.
type builder struct {
	in    *Inputs
	whole bool
	*Document
	parts  map[verdict.Subject]*judged // what checks say, by subject
	unread map[string]bool             // names of subjects of gaps
	names  map[string]string           // IDs of parts by the name of the subject
	ids    map[verdict.Subject]string  // and by the subject
	groups map[string]string           // IDs of groups by PCI address of the function
}

// judged has the verdicts of all checks on one subject.
type judged struct {
	ok       bool // some check found nothing
	unknown  bool
	severity verdict.Severity // of the worst failure; empty: none
	failed   map[string]bool  // checks
	findings []string
}

// of returns the verdicts on a subject.
func (b *builder) of(s verdict.Subject) *judged {
	if j := b.parts[s.Key()]; j != nil {
		return j
	}
	return &judged{}
}

// fails reports whether one of the checks fails for the subject.
func (b *builder) fails(s verdict.Subject, checks ...string) bool {
	j := b.of(s)
	return slices.ContainsFunc(checks, func(id string) bool { return j.failed[id] })
}

// findings adds what failed, and keeps the verdicts on each subject.
func (b *builder) findings() {
	for i := range b.in.Verdicts {
		v := &b.in.Verdicts[i]
		key := v.Subject.Key()
		j := b.parts[key]
		if j == nil {
			j = &judged{failed: map[string]bool{}}
			b.parts[key] = j
		}
		switch v.Status {
		case verdict.OK:
			j.ok = true
		case verdict.Unknown:
			j.unknown = true
		case verdict.Failed:
			j.failed[v.Check.ID] = true
			if j.severity == "" || !j.severity.AtLeast(v.Check.Severity) {
				j.severity = v.Check.Severity
			}
		}
	}
	add := func(g *verdict.Group, cause string) (id string) {
		id = "finding-" + strconv.Itoa(len(b.Findings))
		f := b.finding(id, g)
		f.Cause = cause
		b.Findings = append(b.Findings, f)
		return id
	}
	for _, f := range verdict.Findings(b.in.Verdicts) {
		id := add(&f.Group, "")
		for i := range f.Consequences {
			add(&f.Consequences[i], id)
		}
		for i := range b.in.Probes {
			if p := &b.in.Probes[i]; p.cause != nil && f.Has(p.cause) {
				p.finding = id
			}
		}
	}
	for i := range b.in.Probes {
		b.Probes = append(b.Probes, probeOf(&b.in.Probes[i]))
	}
	b.Troubles = Troubles(b.in.Probes)
}

func (b *builder) finding(id string, g *verdict.Group) Finding {
	f := Finding{
		ID: id, Check: g.Check.ID, Severity: string(g.Check.Severity), What: g.What, Evidence: g.Evidence,
		Consequence: g.Consequence,
		Runbook:     b.in.Links.Runbook(g.Check), Dashboard: b.in.Links.NodeDashboard(b.in.Instance),
	}
	if b.in.Since != nil {
		if first, atLeast, known := b.in.Since(g.Members); known {
			first = first.UTC()
			f.Since, f.AtLeast = &first, atLeast
		}
	}
	remedies := g.Remedies(b.in.Node)
	if len(remedies) == 1 {
		f.Remedy = remedies[0]
	}
	for i := range g.Members {
		m := &g.Members[i]
		s := Subject{Name: short(g.Subjects[i]), key: m.Subject.Key()}
		if len(remedies) > 1 {
			s.Remedy = verdict.FilledRemedy(b.in.Node, m)
		}
		f.Subjects = append(f.Subjects, s)
		j := b.of(m.Subject)
		j.findings = append(j.findings, id)
	}
	return f
}

// Gaps are what could not be judged.
func Gaps(n *fabric.Node, list []verdict.Verdict) []verdict.Gap {
	return append(verdict.Unchecked(list), diagnose.Unproven(n)...)
}

func (b *builder) gaps() {
	b.unread = map[string]bool{}
	for _, g := range Gaps(b.in.Node, b.in.Verdicts) {
		gap := Gap{What: g.What, Why: g.Why}
		for _, s := range g.Subjects {
			b.unread[s] = true
			gap.Subjects = append(gap.Subjects, Subject{Name: short(s)})
		}
		b.NotChecked = append(b.NotChecked, gap)
	}
}

// part judges a part by the verdicts on its subjects. hidden says that a deciding fact is not known.
func (b *builder) part(id, name string, hidden bool, subjects ...verdict.Subject) Part {
	p := Part{ID: id, Name: short(name), Status: StatusNone}
	var worst verdict.Severity
	partly, ok := false, false
	for _, s := range subjects {
		j := b.of(s)
		p.Findings = append(p.Findings, j.findings...)
		if j.severity != "" && (worst == "" || !worst.AtLeast(j.severity)) {
			worst = j.severity
		}
		ok = ok || j.ok
		partly = partly || j.unknown && b.unread[s.String()]
		b.names[short(s.String())], b.ids[s.Key()] = id, id
	}
	switch {
	case worst != "":
		p.Status, p.Severity = StatusFailed, string(worst)
	case hidden:
		p.Status = StatusUnknown
	case partly && ok:
		p.Status = StatusPartly
	case partly:
		p.Status = StatusUnknown
	case ok:
		p.Status = StatusOK
	}
	return p
}

// link sets the IDs of parts in the subjects of findings and gaps, when all parts are known.
func (b *builder) link() {
	gpus := map[string]string{}
	for i := range b.GPUs {
		gpus[b.GPUs[i].ID] = b.GPUs[i].Name
	}
	for i := range b.Findings {
		for k := range b.Findings[i].Subjects {
			s := &b.Findings[i].Subjects[k]
			s.Part = b.ids[s.key]
			s.Name = cmp.Or(gpus[s.Part], s.Name) // checks name a GPU without a driver by its address
		}
	}
	for i := range b.NotChecked {
		for k := range b.NotChecked[i].Subjects {
			s := &b.NotChecked[i].Subjects[k]
			s.Part = b.names[s.Name]
		}
	}
	ids := map[string]string{}
	for i := range b.Devices {
		ids[b.Devices[i].Name] = b.Devices[i].ID
	}
	for i := range b.GPUs {
		p := &b.GPUs[i].Path
		p.DeviceID = ids[p.Device]
	}
}

// byName returns the devices, mlx5_2 before mlx5_10.
func byName(n *fabric.Node) []*fabric.HCA {
	list := make([]*fabric.HCA, len(n.HCAs))
	for i := range n.HCAs {
		list[i] = &n.HCAs[i]
	}
	slices.SortFunc(list, func(a, b *fabric.HCA) int { return fabric.NaturalOrder(a.Name, b.Name) })
	return list
}

// layout finds the NUMA nodes and PCIe switches that GPUs and devices are below.
func (b *builder) layout(gpus []verdict.GPU, devices []*fabric.HCA) {
	n := b.in.Node
	var functions []*fabric.PCIFunction
	for _, g := range gpus {
		if g.Function != nil {
			functions = append(functions, g.Function)
		}
	}
	for _, h := range devices {
		if f := n.PCI.NIC(h.Name); f != nil {
			functions = append(functions, f)
		}
	}
	slices.SortStableFunc(functions, func(x, y *fabric.PCIFunction) int {
		return cmp.Or(cmp.Compare(x.NUMANode.Or(1<<30), y.NUMANode.Or(1<<30)), cmp.Compare(x.Address, y.Address))
	})
	nodes, known := map[string]bool{}, map[string]string{}
	for _, f := range functions {
		node := NUMANode{ID: "numa-unknown"}
		if v, ok := f.NUMANode.Get(); ok {
			node = NUMANode{ID: "numa-" + strconv.Itoa(v), Number: &v}
		}
		if !nodes[node.ID] {
			nodes[node.ID], b.NUMANodes = true, append(b.NUMANodes, node)
		}
		g := Group{NUMANode: node.ID}
		if len(f.Bridges) > 2 { // root port, upstream port, downstream port
			g.Switch = f.Bridges[1]
		}
		key := node.ID + " " + g.Switch
		if known[key] == "" {
			g.ID = fmt.Sprintf("group-%d", len(b.Groups))
			g.ACS = redirects(n, g.Switch)
			known[key], b.Groups = g.ID, append(b.Groups, g)
		}
		b.groups[f.Address] = known[key]
	}
}

// redirects returns the bridges of a switch that redirect traffic between what is below them (ACS).
func redirects(n *fabric.Node, upstream string) Fact[[]string] {
	const source = "bus/pci/devices/*/config"
	if upstream == "" {
		return factOf(fabric.AbsentFact[[]string](source, n.At))
	}
	list := []string{}
	for i := range n.PCI.Functions {
		f := &n.PCI.Functions[i]
		if f.Kind != fabric.PCIBridge || !slices.Contains(f.Bridges, upstream) {
			continue
		}
		if f.Config.ACS.State == fabric.Unknown {
			return factOf(fabric.UnknownFact[[]string](f.Config.ACS.Meta().Reason, f.Config.ACS.Source, n.At))
		}
		if f.Config.ACS.Or(0).Redirects() {
			list = append(list, f.Address)
		}
	}
	return factOf(fabric.Known(list, source, n.At))
}
