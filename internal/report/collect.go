// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/gpu"
	"gpufabric_exporter/internal/document"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/nccl/advice"
	"gpufabric_exporter/internal/nccl/explain"
	"gpufabric_exporter/internal/verdict"
	"gpufabric_exporter/probes"
)

// Input is what a report is made of.
type Input struct {
	Program   string // version of this program
	Name      string // of the host
	Simulated string // scenario; empty: a host
	Node      *fabric.Node
	Config    config.Config
	Verdicts  []verdict.Verdict
	Jobs      job.Jobs // that run now; the zero value: they were not read

	Results     []probes.Result
	ResultsFrom string // where they were found
	ResultsNote string // why there are no more

	Iteration *Iteration // nil: not given
	Log       *explain.Result
	LogFile   string // empty: no log was given
}

// Collect makes facts of what was observed and measured.
func Collect(in *Input) *Facts {
	n := in.Node
	judged := diagnose.JudgedBy(n)
	f := &Facts{
		Report: kind, Version: Version, Program: in.Program, At: n.At.UTC(), Node: nodeOf(in), Configuration: in.Config.Origin(), Note: strings.TrimSpace(diagnose.Elsewhere(n) + " " + gpu.GPUsNotAsked(n)),
		JudgedBy: judged.Text(), Ports: []Port{}, GPUs: []GPU{}, GIDs: []GID{}, Jobs: []Job{}, Results: []Result{}, ResultsNote: in.ResultsNote, Iteration: in.Iteration,
	}
	for i := range n.HCAs {
		f.addDevice(n, &n.HCAs[i])
	}
	f.trainingFirst()
	for _, g := range verdict.GPUs(n) {
		f.GPUs = append(f.GPUs, gpuOf(g))
	}
	if len(f.GPUs) > 0 && f.withoutNCCL() != "" {
		f.Node.Driver = "Not asked: " + foreign + "."
	}
	f.Settings, f.SettingsNote = settingsOf(&n.NCCL)
	for i := range in.Results {
		f.Results = append(f.Results, resultOf(n, &in.Results[i], in.ResultsFrom))
	}
	if in.LogFile != "" {
		f.Log = logOf(in.LogFile, in.Log)
	}
	f.judge(in)
	f.Advice = advice.For(n, advice.Workload{})
	return f
}

func nodeOf(in *Input) Node {
	n := in.Node
	node := Node{
		Name: in.Name, Simulated: in.Simulated, GUIDs: []string{}, Kernel: show(n.Host.Kernel, same), Driver: gpu.DriverText(&n.GPUDriver),
		CUDA: show(n.GPUDriver.CUDA, same), Virtual: show(n.Host.Hypervisor, probes.YesNo), GPUs: show(n.GPUs, strconv.Itoa),
		Library: show(n.NCCL.Library, func(l fabric.Library) string {
			return l.Path + " (" + cmp.Or(l.Version, "version unknown") + ")"
		}),
	}
	for i := range n.HCAs {
		if guid, ok := n.HCAs[i].NodeGUID.Get(); ok {
			node.GUIDs = append(node.GUIDs, guid)
		}
	}
	slices.Sort(node.GUIDs)
	return node
}

// show is a fact in words: its value, "none", or that it is unknown and why.
func show[T any](f fabric.Fact[T], words func(T) string) string {
	switch v, ok := f.Get(); {
	case ok:
		return words(v)
	case f.State == fabric.Absent:
		return "none"
	}
	return unknown + ": " + verdict.ReasonText(f.Meta().Reason)
}

const unknown, none = "unknown", "none"

// notGiven is the state of a port whose driver reports always the same, which says nothing about the port.
const notGiven = "not given by its driver"

func isUnknown(s string) bool { return s == unknown || strings.HasPrefix(s, unknown+":") }

func same(s string) string { return s }

// word is the text of a value.
func word[T ~string](v T) string { return verdict.Spaced(string(v)) }

// number is a fact as a number, nil where it is not known.
func number(f fabric.Fact[float64]) *float64 {
	if v, ok := f.Get(); ok {
		return &v
	}
	return nil
}

func (f *Facts) addDevice(n *fabric.Node, h *fabric.HCA) {
	device := Port{
		Device: h.Name, Driver: show(h.Driver, same), Firmware: show(h.Firmware, same), PCI: show(h.PCI, same), NUMA: show(h.NUMANode, strconv.Itoa),
	}
	if len(h.Ports) == 0 {
		why := unknown
		if h.Moved {
			why += ": " + verdict.ReasonText(fabric.ReasonMoved)
		}
		p := device
		p.Fabric, p.Role, p.State, p.Interface, p.MTU, p.GID = why, why, why, why, why, why
		f.Ports = append(f.Ports, p)
		return
	}
	for i := range h.Ports {
		port := &h.Ports[i]
		f.Ports = append(f.Ports, portOf(n, device, h, port))
		f.addGIDs(h, port)
	}
}

// trainingFirst orders ports and GIDs: those for training, then those of unknown use.
func (f *Facts) trainingFirst() {
	key := func(device string, port int) string { return fmt.Sprint(device, ":", port) }
	rank := map[string]int{}
	for i := range f.Ports {
		p := &f.Ports[i]
		at := slices.Index(fabric.Roles(), fabric.Role(p.Role))
		if at < 0 {
			at = 1
		}
		rank[key(p.Device, p.Port)] = at
	}
	order := func(a, b string, portA, portB int) int {
		return cmp.Or(cmp.Compare(rank[key(a, portA)], rank[key(b, portB)]), fabric.NaturalOrder(a, b), cmp.Compare(portA, portB))
	}
	slices.SortStableFunc(f.Ports, func(a, b Port) int { return order(a.Device, b.Device, a.Port, b.Port) })
	slices.SortStableFunc(f.GIDs, func(a, b GID) int { return order(a.Device, b.Device, a.Port, b.Port) })
}

func portOf(n *fabric.Node, p Port, h *fabric.HCA, port *fabric.Port) Port {
	p.Port, p.Shared = port.Number, n.SharedPort(h, port)
	p.Fabric = show(port.LinkLayer, func(l fabric.LinkLayer) string {
		switch {
		case l == fabric.LinkInfiniBand:
			return fabricInfiniBand
		case l == fabric.LinkEthernet && h.NodeType.Or("") == fabric.NodeRNIC:
			return "iWARP"
		case l == fabric.LinkEthernet:
			return fabricRoCE
		case h.Driver.Or("") == "efa":
			return fabricEFA
		}
		return string(l)
	})
	p.Role, p.State = show(port.Role, word), show(port.State, word)
	if port.State.State == fabric.Unknown && port.State.Meta().Reason == fabric.ReasonDriverConstant {
		p.State = notGiven
	}
	if rate, ok := port.Rate.Get(); ok {
		p.Rate = &rate.BytesPerSecond
	}
	p.Expected = number(port.ExpectedRate)
	p.Interface, p.MTU = show(port.NetDev, same), "none"
	if name, ok := port.NetDev.Get(); ok {
		p.MTU = unknown
		if d := n.NetDev(name); d != nil {
			p.MTU = show(d.MTU, strconv.Itoa)
		}
	}
	p.GID = show(port.GIDChoice, func(c fabric.GIDChoice) string {
		if c.GID == nil {
			return "entry " + strconv.Itoa(c.Index) + ", empty"
		}
		return c.GID.Addr.Unmap().String()
	})
	if c, ok := port.GIDChoice.Get(); ok {
		p.GIDWhy = verdict.Sentence(c.Why)
		if c.GID != nil && p.Fabric == fabricRoCE {
			p.GID += " (" + verdict.GIDTypeName(c.GID.Type) + ")"
		}
	}
	if chains, ok := port.RoCE.Get(); ok && len(chains) > 0 {
		p.RoCE = roceOf(&chains[0]) // the worst
	}
	return p
}

func (f *Facts) addGIDs(h *fabric.HCA, port *fabric.Port) {
	choice, chosen := port.GIDChoice.Get()
	for _, g := range port.GIDs.Entries.Or(nil) {
		f.GIDs = append(f.GIDs, GID{
			Device: h.Name, Port: port.Number, Index: g.Index, Address: g.Addr.Unmap().String(), Type: verdict.GIDTypeName(g.Type), Interface: g.NetDev,
			Selected: chosen && choice.Index == g.Index,
		})
	}
}

func roceOf(c *fabric.RoCEChain) *RoCE {
	follows := func(f fabric.Fact[int]) string { // from the traffic class
		if f.State == fabric.Unknown && c.TrafficClass.State == fabric.Unknown && c.TrafficClassFrom == fabric.TrafficClassFromJob {
			return unknown + ": jobs choose it"
		}
		return show(f, strconv.Itoa)
	}
	r := &RoCE{
		Interface: c.Interface, Verdict: verdictWord(c.Verdict), Class: follows(c.TrafficClass), From: c.TrafficClassFrom, DSCP: follows(c.DSCP),
		Priority: follows(c.Priority), Mode: string(c.Mode), Steps: []Step{},
	}
	for i := range c.Links {
		l := &c.Links[i]
		r.Steps = append(r.Steps, Step{word(l.Step), verdictWord(l.Status), verdict.Sentence(l.Evidence), l.Source})
	}
	return r
}

// broken is a chain or step of RoCE that failed.
const broken = "broken"

// verdictWord is what is known of a chain or a step.
func verdictWord(s fabric.Status) string {
	if s == fabric.StatusFailed {
		return broken
	}
	return word(s)
}

func gpuOf(g verdict.GPU) GPU {
	v := GPU{Name: g.Name, Model: unknown, PCI: unknown, NVLinks: unknown, NIC: unknown, Distance: unknown, GPUDirect: unknown}
	if g.Function != nil {
		v.PCI = g.Function.Address
	}
	if g.Driver != nil {
		v.Model = show(g.Driver.Name, same)
		active, total := g.NVLinks()
		v.NVLinks = show(active, func(n int) string { return strconv.Itoa(n) + " of " + strconv.Itoa(total) })
	}
	if g.Rail != nil {
		v.Distance = show(g.Rail.Distance, fabric.Distance.String)
		if v.NIC = g.Rail.NIC; v.NIC == "" {
			v.NIC = "none"
		}
	}
	if g.GDR != nil {
		v.Evidence = verdict.Sentence(g.GDR.Evidence)
		v.GPUDirect = show(g.GDR.Usable, func(usable bool) string {
			if usable {
				return "usable (" + string(g.GDR.Path) + ")"
			}
			if g.GDR.Block.Slow() {
				return "slow (" + string(g.GDR.Block) + ")"
			}
			return "blocked (" + string(g.GDR.Block) + ")"
		})
	}
	if !g.IsNVIDIA() {
		v.NVLinks, v.GPUDirect = "none", notJudged
	}
	return v
}

// What reports have of GPUs of other vendors.
const (
	foreign   = "the GPUs are of another vendor than NVIDIA"
	notJudged = unknown + ": a GPU of another vendor than NVIDIA"
)

// settingsOf are the variables of the host's files, and what else jobs may have.
func settingsOf(c *fabric.NCCLConfig) (list []Setting, note string) {
	list = []Setting{}
	for _, v := range c.Variables {
		list = append(list, Setting{v.Name, v.Value, v.Source})
	}
	var read, unread []string
	for _, f := range c.Files {
		switch {
		case f.Exists.Or(false):
			read = append(read, f.Path)
		case f.Exists.State == fabric.Unknown:
			unread = append(unread, f.Path+" ("+verdict.ReasonText(f.Exists.Meta().Reason)+")")
		}
	}
	switch {
	case len(c.Files) == 0:
		note = "NCCL's files of the host were not read."
	case len(read) == 0 && len(unread) == 0:
		note = "The host has no file of NCCL settings."
	case len(read) > 0:
		note = "Read from " + document.Some(read) + "."
	}
	if len(unread) > 0 {
		note += " Could not be read: " + document.Some(unread) + "."
	}
	return list, strings.TrimSpace(note) + " The environment of a job overrides these files, and containers have files of their own: judge both with gpufabric_exporter lint."
}
