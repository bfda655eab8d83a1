// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/document"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/nccl/advice"
	"gpufabric_exporter/internal/nccl/explain"
	"gpufabric_exporter/internal/status"
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
	Traffic   bool     // the counters were read twice, and compared
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
	d := status.Whole(&status.Inputs{Node: in.Node, Verdicts: in.Verdicts, Name: in.Name, Links: in.Config.Links})
	f := &Facts{
		Report: kind, Version: Version, Program: in.Program, At: d.Time, Node: nodeOf(&d.Node, in.Simulated),
		Configuration: in.Config.Origin(),
		Note:          strings.TrimSpace(d.Node.Elsewhere + " " + d.Node.NotAsked), JudgedBy: d.Node.JudgedBy.Text,
		traffic: in.Traffic,
		Ports:   []Port{},
		GPUs:    []GPU{}, GIDs: []GID{},
		Settings: append([]status.Variable{}, d.NCCL...), SettingsNote: settingsNote(d.Node.Files),
		Findings: []Finding{}, Unknown: append([]verdict.Gap{}, status.Gaps(in.Node, in.Verdicts)...),
		Jobs: []Job{}, Results: []Result{}, ResultsNote: in.ResultsNote, Iteration: in.Iteration,
		Advice: advice.For(in.Node, advice.Workload{}),
	}
	for i := range d.Devices {
		f.addDevice(&d.Devices[i])
	}
	f.trainingFirst()
	for i := range d.GPUs {
		f.GPUs = append(f.GPUs, gpuOf(&d.GPUs[i]))
	}
	if len(f.GPUs) > 0 && f.withoutNCCL() != "" {
		f.Node.Driver = "Not asked: " + foreign + "."
	}
	for i := range in.Results {
		f.Results = append(f.Results, resultOf(d, &in.Results[i], in.ResultsFrom))
	}
	if in.LogFile != "" {
		f.Log = logOf(in.LogFile, in.Log)
	}
	f.judge(in)
	return f
}

func nodeOf(n *status.Node, simulated string) Node {
	return Node{
		Name: n.Name, Simulated: simulated, GUIDs: append([]string{}, n.GUIDs...), Kernel: show(n.Kernel, same),
		Driver: n.Driver,
		CUDA:   show(n.CUDA, same), Virtual: show(n.Virtual, probes.YesNo), GPUs: show(n.GPUs, strconv.Itoa),
		Library: show(n.Library, func(l fabric.Library) string {
			return l.Path + " (" +
				cmp.Or(l.Version, "version unknown") + ")"
		}),
	}
}

// show is a fact in words: its value, "none", or that it is unknown and why.
func show[T any](f status.Fact[T], words func(T) string) string {
	switch v, ok := f.Get(); {
	case ok:
		return words(v)
	case f.State == fabric.Absent:
		return none
	}
	return unknown + ": " + verdict.ReasonText(f.Meta().Reason)
}

const unknown, none = "unknown", "none"

// notGiven is the state of a port whose driver reports always the same, which says nothing about the port.
const notGiven = "not given by its driver"

func isUnknown(s string) bool { return s == unknown || strings.HasPrefix(s, unknown+":") }

func same(s string) string { return s }

// number is a fact as a number, nil where it is not known.
func number(f fabric.Fact[float64]) *float64 {
	if v, ok := f.Get(); ok {
		return &v
	}
	return nil
}

func (f *Facts) addDevice(d *status.Device) {
	device := Port{
		Device: d.Name, Driver: show(d.Driver, same), Firmware: show(d.Firmware, same),
		PCI: show(d.PCI, same), NUMA: show(d.NUMA, strconv.Itoa),
	}
	if len(d.Ports) == 0 {
		why := unknown
		if d.Moved {
			why += ": " + verdict.ReasonText(fabric.ReasonMoved)
		}
		p := device
		p.Fabric, p.Role, p.State, p.Interface, p.MTU, p.GID = why, why, why, why, why, why
		f.Ports = append(f.Ports, p)
		return
	}
	for i := range d.Ports {
		p := &d.Ports[i]
		f.Ports = append(f.Ports, portOf(device, p))
		choice, chosen := p.Choice.Get()
		for _, g := range p.GIDs.Or(nil) {
			f.GIDs = append(f.GIDs, GID{
				d.Name, p.Number, g.Index, g.GID, verdict.GIDTypeName(fabric.GIDType(g.Type)),
				g.Interface, chosen && choice.Index == g.Index,
			})
		}
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
	of := func(device string, port int) int { return rank[key(device, port)] }
	slices.SortStableFunc(f.Ports, func(a, b Port) int { return of(a.Device, a.Port) - of(b.Device, b.Port) })
	slices.SortStableFunc(f.GIDs, func(a, b GID) int { return of(a.Device, a.Port) - of(b.Device, b.Port) })
}

func portOf(p Port, port *status.Port) Port {
	p.Port, p.Shared, p.Fabric, p.Role = port.Number, port.Shared, show(port.Fabric, same), show(port.Role, verdict.Spaced)
	if p.State = show(port.State, verdict.Spaced); port.State.Unknown() &&
		port.State.Reason == fabric.ReasonDriverConstant {
		p.State = notGiven
	}
	p.Rate, p.Expected = number(port.Rate.Fact), number(port.Expected.Fact)
	p.Interface, p.MTU, p.GID = show(port.Interface, same), show(port.MTU, strconv.Itoa),
		show(port.Choice, status.Choice.Text)
	if c, ok := port.Choice.Get(); ok {
		p.GIDWhy = verdict.Sentence(c.Why)
		if c.GID != "" && p.Fabric == status.FabricRoCE {
			p.GID += " (" + verdict.GIDTypeName(fabric.GIDType(c.Type)) + ")"
		}
	}
	if len(port.RoCE) > 0 {
		p.RoCE = roceOf(&port.RoCE[0])
	}
	return p
}

func roceOf(c *status.Chain) *RoCE {
	follows := func(f status.Fact[int]) string { // from the traffic class
		if f.Unknown() && c.TrafficClass.Unknown() && c.From == fabric.TrafficClassFromJob {
			return unknown + ": jobs choose it"
		}
		return show(f, strconv.Itoa)
	}
	r := &RoCE{
		Interface: c.Interface, Verdict: verdictWord(string(c.Settings)), Class: follows(c.TrafficClass), From: c.From,
		DSCP:     follows(c.DSCP),
		Priority: follows(c.Priority), Mode: c.Mode, Steps: []Step{},
	}
	for _, s := range c.Steps {
		r.Steps = append(r.Steps, Step{verdict.Spaced(s.Step), verdictWord(s.Status), s.Evidence, s.Source})
	}
	return r
}

// broken is a chain or step of RoCE that failed.
const broken = "broken"

// verdictWord is what is known of a chain or a step.
func verdictWord(s string) string {
	if s == status.StatusFailed {
		return broken
	}
	return verdict.Spaced(s)
}

func gpuOf(g *status.GPU) GPU {
	v := GPU{
		Name: g.Name, Model: unknown, PCI: unknown, NVLinks: unknown, NIC: unknown, Distance: unknown,
		GPUDirect: unknown,
	}
	if g.OnBus {
		v.PCI = g.PCI
	}
	if g.Listed() {
		v.Model = show(g.Model, same)
		v.NVLinks = show(g.NVLinks, func(n int) string { return fmt.Sprintf("%d of %d", n, g.NVLinksOf) })
	}
	if p := &g.Path; p.Placed {
		v.Distance, v.NIC = show(p.Distance, same), cmp.Or(p.Device, none)
	}
	if p := &g.Path; p.Judged {
		v.Evidence = verdict.Sentence(p.Evidence)
		v.GPUDirect = show(p.Usable, func(usable bool) string {
			switch {
			case usable:
				return "usable (" + p.By + ")"
			case fabric.GDRBlock(p.Blocked).Slow():
				return "slow (" + p.Blocked + ")"
			}
			return "blocked (" + p.Blocked + ")"
		})
	}
	if g.Foreign {
		v.NVLinks, v.GPUDirect = none, notJudged
	}
	return v
}

// What reports have of GPUs of other vendors.
const (
	foreign   = "the GPUs are of another vendor than NVIDIA"
	notJudged = unknown + ": a GPU of another vendor than NVIDIA"
)

// settingsNote says which of the host's files were read, and what else jobs may have.
func settingsNote(list []fabric.NCCLFile) (note string) {
	var read, unread []string
	for _, f := range list {
		switch {
		case f.Exists.Or(false):
			read = append(read, f.Path)
		case f.Exists.State == fabric.Unknown:
			unread = append(unread, f.Path+" ("+verdict.ReasonText(f.Exists.Meta().Reason)+")")
		}
	}
	switch {
	case len(list) == 0:
		note = "NCCL's files of the host were not read."
	case len(read) == 0 && len(unread) == 0:
		note = "The host has no file of NCCL settings."
	case len(read) > 0:
		note = "Read from " + document.Some(read) + "."
	}
	if len(unread) > 0 {
		note += " Could not be read: " + document.Some(unread) + "."
	}
	return strings.TrimSpace(note) +
		" The environment of a job overrides these files, and containers have files of their own: judge both with gpufabric_exporter lint."
}
