// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/drawing"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/internal/verdict"
	"gpufabric_exporter/probes"
)

// partView is what the page shows of a part when it is selected.
type partView struct {
	*status.Part
	Kind  string
	Found []*status.Finding
	Facts []factRow
	Ports []portView
}

type factRow struct {
	Name string
	cell
}

type portView struct {
	*status.Port
	Facts  []factRow
	GIDs   []status.GID
	Chosen int // index of the selected one; -1: none
	Chains []status.Chain
	Left   string // what is only in the JSON; empty: nothing
}

// On a node with many devices the page leaves out what is in order; maxGIDs bounds the entries that are shown
// of a GID table.
const (
	manyDevices = 32
	maxGIDs     = 32
)

// parts are the GPUs, then the devices.
func parts(d *status.Document) []partView {
	var list []partView
	for i := range d.GPUs {
		list = append(list, partOf(d, "", &d.GPUs[i].Part, gpuFacts(&d.GPUs[i])))
	}
	for i := range d.Devices {
		x := &d.Devices[i]
		v := partOf(d, "RDMA device ", &x.Part, deviceFacts(x))
		for k := range x.Ports {
			v.Ports = append(v.Ports, portViewOf(&x.Ports[k], len(d.Devices) > manyDevices))
		}
		list = append(list, v)
	}
	return list
}

func partOf(d *status.Document, kind string, p *status.Part, facts []factRow) partView {
	v := partView{Part: p, Kind: kind, Facts: facts}
	for i := range d.Findings {
		if slices.Contains(p.Findings, d.Findings[i].ID) {
			v.Found = append(v.Found, &d.Findings[i])
		}
	}
	return v
}

func statusCell(p *status.Part) cell {
	return cell{Text: drawing.Words(p), Class: classOf(p.Status, p.Severity)}
}

func text(s string) string { return s }

func gpuFacts(g *status.GPU) []factRow {
	rows := []factRow{
		{"Model", show(g.Model.Fact, text)},
		{"Driver", presenceCell(g.Presence)},
		{"PCI address", cell{Text: g.PCI}},
		{"NUMA node", show(g.NUMA.Fact, strconv.Itoa)},
		{"PCIe", show(g.Width.Fact, func(w int) string { return "x" + strconv.Itoa(w) + generation(g) })},
		{"NVLinks", show(g.NVLinks.Fact, func(n int) string { return fmt.Sprintf("%d of %d active", n, g.NVLinksOf) })},
		{"NVLink fabric", show(g.Fabric.Fact, verdict.Spaced)},
		{"Nearest NIC", nicCell(&g.Path)},
		{"GPUDirect RDMA", gpuDirectCell(&g.Path)},
		{"In use by", show(g.Processes.Fact, func(n int) string { return spelling.Plural(n, "process", "processes") })},
		{"Utilization", show(g.Busy.Fact, func(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) })},
		{"MIG", show(g.MIG.Fact, func(on bool) string { return map[bool]string{true: "on", false: "off"}[on] })},
	}
	if g.UUID != "" {
		rows = append(rows, factRow{"UUID", cell{Text: g.UUID}})
	}
	return rows
}

func presenceCell(presence string) cell {
	switch presence {
	case status.PresenceListed:
		return cell{Text: "listed by its driver"}
	case status.PresenceLost:
		return cell{Text: "lost: unreachable for its driver", Class: "bad"}
	case status.PresenceUnlisted:
		return cell{Text: "not listed by a driver", Class: "bad"}
	case status.PresenceVM:
		return cell{Text: "assigned to a virtual machine", Class: "quiet"}
	}
	return cell{Text: "unknown", Class: "unsure"}
}

func generation(g *status.GPU) string {
	now, known := g.Gen.Get()
	if !known {
		return ""
	}
	if most, known := g.MaxGen.Get(); known && most > now {
		return fmt.Sprintf(", generation %d of %d", now, most)
	}
	return fmt.Sprintf(", generation %d", now)
}

// nicCell is the NIC that the GPU is to use, how far it is, and its rail.
func nicCell(p *status.Path) cell {
	return show(p.Distance.Fact, func(d string) string {
		text := p.Device + ", " + d
		if p.Rail != nil {
			text += ", rail " + strconv.Itoa(*p.Rail)
		}
		if p.Shared {
			text += ", shared with another GPU"
		}
		return text
	})
}

func gpuDirectCell(p *status.Path) cell {
	c := show(p.Usable.Fact, func(usable bool) string {
		switch {
		case !usable:
			return "no: " + p.Blocked
		case p.By == string(fabric.GDRDMABuf):
			return "yes, dma-buf"
		case p.By == string(fabric.GDRPeermem):
			return "yes, peer-memory module"
		}
		return "yes"
	})
	if c.Text != "none" && p.Evidence != "" {
		c.Note = p.Evidence
	}
	switch p.Status {
	case status.StatusOK:
		c.Class = "good"
	case status.StatusFailed:
		c.Class = severityClass(p.Severity)
	}
	return c
}

func deviceFacts(d *status.Device) []factRow {
	board := show(d.Board.Fact, text)
	if firmware, known := d.Firmware.Get(); known {
		board.Note = "firmware " + firmware
	}
	rows := []factRow{
		{"Board", board},
		{"Driver", show(d.Driver.Fact, text)},
		{"PCI address", show(d.PCI.Fact, text)},
		{"NUMA node", show(d.NUMA.Fact, strconv.Itoa)},
		{"PCIe", show(d.Width.Fact, func(w int) string {
			if speed, known := d.Speed.Get(); known {
				return fmt.Sprintf("x%d, %g GT/s", w, speed/1e9)
			}
			return "x" + strconv.Itoa(w)
		})},
	}
	switch {
	case d.Moved:
		rows = append(rows, factRow{"Ports", unknownCell(fabric.ReasonMoved, "")})
	case len(d.Ports) == 0 && d.Restricted:
		rows = append(rows, factRow{"Ports", cell{Text: "not read: the device is restricted", Class: "quiet"}})
	case len(d.Ports) == 0:
		rows = append(rows, factRow{"Ports", cell{Text: "unknown", Note: "its ports could not be read", Class: "unsure"}})
	}
	return rows
}

func portViewOf(p *status.Port, brief bool) portView {
	v := portView{Port: p, Chains: p.RoCE, Chosen: -1}
	state := show(p.State.Fact, verdict.Spaced)
	if physical, known := p.Physical.Get(); known && state.Text != string(fabric.PortActive) {
		state.Note = "link: " + verdict.Spaced(physical)
	}
	rate := show(p.Rate.Fact, verdict.Gigabits)
	if expected, known := p.Expected.Get(); known {
		rate.Note = "expected " + verdict.Gigabits(expected)
	}
	v.Facts = []factRow{
		{"State", state},
		{"Rate", rate},
		{"Role", show(p.Role.Fact, text)},
		{"Link layer", show(p.Layer.Fact, layerName)},
		{"Interface", show(p.Interface.Fact, text)},
		{"GID selected by NCCL", choiceCell(p)},
	}
	if choice, known := p.Choice.Get(); known {
		v.Chosen = choice.Index
	}
	list, known := p.GIDs.Get()
	if !known {
		v.Facts = append(v.Facts, factRow{"GIDs", show(p.GIDs.Fact, func([]status.GID) string { return "" })})
	}
	if brief && p.Status != status.StatusFailed && len(p.RoCE) > 0 {
		v.Chains, v.Left = nil, "The RoCE settings are in status.json: this node has many devices."
	}
	if len(list) > maxGIDs {
		v.Left = strings.TrimSpace(v.Left + fmt.Sprintf(" %d more GIDs are in status.json.", len(list)-maxGIDs))
		list = list[:maxGIDs]
	}
	v.GIDs = list
	return v
}

func choiceCell(p *status.Port) cell {
	c := show(p.Choice.Fact, status.Choice.Text)
	if choice, known := p.Choice.Get(); known {
		c.Note = choice.Why
	}
	return c
}

func layerName(l string) string {
	switch fabric.LinkLayer(l) {
	case fabric.LinkInfiniBand:
		return "InfiniBand"
	case fabric.LinkEthernet:
		return "Ethernet"
	}
	return l
}

// chainGroup is ports whose RoCE settings are alike: those of the first.
type chainGroup struct {
	*status.Chain
	Ports   []*status.Port
	Verdict cell
}

// Count says how many ports there are.
func (g *chainGroup) Count() string { return probes.Counted(len(g.Ports), "port") }

// Words are what the settings make of a packet.
func (g *chainGroup) Words() string {
	return rocePath(g.Chain) + " · " + fabric.RoCEMode(g.Mode).Text()
}

// chainGroups are the chains of ports that carry training or storage, the broken ones first.
func chainGroups(d *status.Document) []*chainGroup {
	var groups []*chainGroup
	at := map[string]*chainGroup{}
	for i := range d.Devices {
		for k := range d.Devices[i].Ports {
			p := &d.Devices[i].Ports[k]
			if state, known := p.State.Get(); known && state != string(fabric.PortActive) {
				continue // its settings are not judged
			}
			if role, _ := p.Role.Get(); len(p.RoCE) == 0 || role != string(fabric.RoleCompute) &&
				role != string(fabric.RoleStorage) {
				continue
			}
			worst := max(0, slices.IndexFunc(p.RoCE, func(c status.Chain) bool { return c.Status == status.StatusFailed }))
			g := &chainGroup{Chain: &p.RoCE[worst], Verdict: roceVerdict(&p.RoCE[worst])}
			if len(p.RoCE) > 1 && g.Status != status.StatusOK {
				g.Verdict.Note = strings.TrimPrefix(g.Verdict.Note+", interface "+g.Interface, ", ")
			}
			key := g.key()
			if at[key] == nil {
				at[key], groups = g, append(groups, g)
			}
			at[key].Ports = append(at[key].Ports, p)
		}
	}
	order := map[string]int{"bad": 0, "unsure": 1, "good": 2}
	slices.SortStableFunc(groups, func(a, b *chainGroup) int { return order[a.Verdict.Class] - order[b.Verdict.Class] })
	return groups
}

func (g *chainGroup) key() string {
	parts := []string{g.Words(), g.Verdict.Text, g.Verdict.Note}
	for _, s := range g.Steps {
		if s.Status != string(fabric.StatusNotApplicable) {
			parts = append(parts, s.Status)
		}
	}
	return strings.Join(parts, "\n")
}

// stepText is a step with its value.
func stepText(c *status.Chain, s status.Step) string {
	values := map[fabric.RoCEStep]status.Fact[int]{
		fabric.RoCETrafficClass: c.TrafficClass, fabric.RoCEDSCP: c.DSCP,
		fabric.RoCEPriority: c.Priority,
	}
	if v, known := values[fabric.RoCEStep(s.Step)].Get(); known {
		return s.Name + " " + strconv.Itoa(v)
	}
	return s.Name
}

// stepCell is what is known of a step.
func stepCell(s status.Step) cell {
	switch s.Status {
	case status.StatusOK:
		return cell{Text: "consistent", Class: "good"}
	case status.StatusFailed:
		return cell{Text: "broken", Class: "bad"}
	case status.StatusUnknown:
		return cell{Text: "unknown", Class: "unsure"}
	}
	return cell{Text: "does not apply"}
}

func stepMark(s status.Step) string {
	return drawing.Mark(&status.Part{Status: s.Status, Severity: string(verdict.Critical)})
}
