// SPDX-License-Identifier: Apache-2.0

package drawing

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/internal/verdict"
)

// Where things are in the panel of a NUMA node.
const (
	boxHeight = 40.0
	portLine  = 15.0
	gap       = 6.0
	heading   = 20.0
	gpuLeft   = 14.0
	gpuWidth  = 108.0
	nicLeft   = 198.0
	nicWidth  = 150.0
)

// maxRows bounds the rows of a panel, maxQuiet the devices of a group that no GPU is to use and that have no
// problem: the others are one box.
const (
	maxRows  = 32
	maxQuiet = 2
)

// panel draws one NUMA node.
type panel struct {
	canvas
	d    *status.Document
	node *status.NUMANode
	gpus map[string]float64 // middle of the box, by ID
	nics map[string]float64
	// named are GPUs below whose way is the name of the switch.
	named map[string]bool
	rows  int
}

// row is a GPU and a device beside each other; either may be missing. A group without GPUs has devices on both sides.
type row struct {
	gpu          *status.GPU
	left, device *status.Device
	folded       []*status.Device
}

// NUMA draws a NUMA node. Devices and GPUs that are not on the visible PCI bus are with node nil.
func NUMA(d *status.Document, node *status.NUMANode) template.HTML {
	p := &panel{d: d, node: node, gpus: map[string]float64{}, nics: map[string]float64{}, named: map[string]bool{}}
	p.height = heading + 8
	title := numaName(node)
	var boxes canvas
	p.text("name", 8, 17, 300, title)
	if node == nil {
		p.group(&boxes, nil)
	}
	for _, withGPUs := range []bool{true, false} {
		for i := range d.Groups {
			g := &d.Groups[i]
			has := slices.ContainsFunc(d.GPUs, func(x status.GPU) bool { return x.Group == g.ID })
			if node != nil && g.NUMANode == node.ID && has == withGPUs {
				p.group(&boxes, g)
			}
		}
	}
	p.paths(&boxes)
	p.WriteString(boxes.String())
	return p.svg(title)
}

func numaName(node *status.NUMANode) string {
	switch {
	case node == nil:
		return "Not on the visible PCI bus"
	case node.Number == nil:
		return "NUMA node unknown"
	}
	return "NUMA node " + strconv.Itoa(*node.Number)
}

// group draws what is below one switch. Boxes are drawn later than the ways between them.
func (p *panel) group(boxes *canvas, g *status.Group) {
	rows := p.rowsOf(g)
	if len(rows) == 0 {
		return
	}
	// its name fits between the GPU and the NIC
	compact := len(rows) == 1 && rows[0].gpu != nil && rows[0].device != nil &&
		rows[0].device.ID == rows[0].gpu.Path.DeviceID
	switched := g != nil && g.Switch != ""
	top := p.height
	y := top + gap
	if switched && !compact {
		y = top + heading
	}
	for _, r := range rows {
		h := boxHeight
		if r.gpu != nil {
			p.gpus[r.gpu.ID] = y + boxHeight/2
			drawGPU(boxes, r.gpu, y)
		}
		for _, d := range []*status.Device{r.device, r.left} {
			if d != nil {
				h = max(h, 25+portLine*float64(min(max(len(d.Ports), 1), maxPorts)))
			}
		}
		if r.left != nil {
			drawDevice(boxes, r.left, gpuLeft, y, h)
		}
		if r.device != nil {
			p.nics[r.device.ID] = y + boxHeight/2
			drawDevice(boxes, r.device, nicLeft, y, h)
		}
		if len(r.folded) > 0 {
			drawFolded(boxes, r.folded, y)
		}
		y += h + gap
	}
	if !switched {
		p.height = y
		return
	}
	p.rect("switch", 6, top, width-12, y-top)
	p.height = y + gap
	if compact {
		p.named[rows[0].gpu.ID] = true
		boxes.text("small", gpuLeft+gpuWidth+5, top+gap+36, nicLeft-gpuLeft-gpuWidth-6, strings.TrimPrefix(g.Switch, "0000:"))
	} else {
		boxes.text("small", 14, top+15, 190, "PCIe switch "+strings.TrimPrefix(g.Switch, "0000:"))
		list, known := g.ACS.Get()
		switch {
		case !known:
			boxes.text("small", 240, top+15, 110, "ACS unknown")
		case len(list) > 0:
			boxes.text("small", 240, top+15, 110, "ACS redirects")
		}
	}
}

// rowsOf puts each GPU beside its NIC where that is in the same group.
func (p *panel) rowsOf(g *status.Group) []row {
	in := func(group string) bool { return g == nil && group == "" || g != nil && group == g.ID }
	used := map[string]bool{}
	for i := range p.d.GPUs {
		used[p.d.GPUs[i].Path.DeviceID] = true
	}
	// On a flat bus, as in a virtual machine, no GPU has a NIC of its own: the ports for training are drawn for
	// all of them.
	flat := len(p.d.GPUs) > 0 && !slices.ContainsFunc(p.d.GPUs, func(x status.GPU) bool { return x.Path.DeviceID != "" })
	var devices, quiet []*status.Device
	for i := range p.d.Devices {
		d := &p.d.Devices[i]
		switch {
		case !in(d.Group):
		case used[d.ID] || d.Status == status.StatusFailed || d.Status == status.StatusUnknown || flat &&
			slices.ContainsFunc(d.Ports, trains):
			devices = append(devices, d)
		default:
			quiet = append(quiet, d)
		}
	}
	slices.SortStableFunc(devices, func(a, b *status.Device) int { return cmp.Compare(rank(&a.Part), rank(&b.Part)) })
	if room := max(maxRows-p.rows, 0); len(devices) > room {
		devices, quiet = devices[:room], append(slices.Clone(devices[room:]), quiet...)
	}
	slices.SortFunc(devices, func(a, b *status.Device) int { return compareIDs(p.d, a, b) })
	if len(quiet) <= maxQuiet && p.rows+len(devices)+len(quiet) <= maxRows {
		devices, quiet = append(devices, quiet...), nil
	}
	var rows []row
	placed := map[string]bool{}
	for i := range p.d.GPUs {
		gpu := &p.d.GPUs[i]
		if !in(gpu.Group) || p.rows+len(rows) >= maxRows {
			continue
		}
		r := row{gpu: gpu}
		if k := slices.IndexFunc(devices, func(d *status.Device) bool {
			return d.ID == gpu.Path.DeviceID &&
				!placed[d.ID]
		}); k >= 0 {
			r.device = devices[k]
			placed[r.device.ID] = true
		}
		rows = append(rows, r)
	}
	for _, d := range devices {
		if placed[d.ID] {
			continue
		}
		if k := slices.IndexFunc(rows, func(r row) bool { return r.device == nil }); k >= 0 {
			rows[k].device = d
		} else {
			rows = append(rows, row{device: d})
		}
	}
	if len(quiet) > 0 {
		if k := slices.IndexFunc(rows, func(r row) bool { return r.device == nil }); k >= 0 {
			rows[k].folded = quiet
		} else {
			rows = append(rows, row{folded: quiet})
		}
	}
	if !slices.ContainsFunc(rows, func(r row) bool { return r.gpu != nil }) {
		rows = paired(rows)
	}
	p.rows += len(rows)
	return rows
}

func trains(p status.Port) bool {
	role, known := p.Role.Get()
	return known && role == string(fabric.RoleCompute)
}

// paired puts two devices beside each other where there is no GPU.
func paired(rows []row) []row {
	var list []row
	for _, r := range rows {
		last := len(list) - 1
		if last >= 0 && list[last].left == nil && list[last].device != nil {
			list[last].left, list[last].device, list[last].folded = list[last].device, r.device, r.folded
			continue
		}
		list = append(list, r)
	}
	return list
}

// rank orders parts, those with problems first.
func rank(p *status.Part) int {
	return slices.Index([]string{
		status.StatusFailed, status.StatusUnknown, status.StatusPartly, status.StatusOK,
		status.StatusNone,
	}, p.Status)
}

// compareIDs is the order of devices in the document.
func compareIDs(d *status.Document, a, b *status.Device) int {
	at := func(x *status.Device) int {
		return slices.IndexFunc(d.Devices, func(o status.Device) bool { return o.ID == x.ID })
	}
	return cmp.Compare(at(a), at(b))
}

func drawGPU(c *canvas, g *status.GPU, y float64) {
	text := nvlinkText(g)
	switch g.Presence {
	case status.PresenceLost:
		text = "lost"
	case status.PresenceUnlisted:
		text = "not listed"
	case status.PresenceVM:
		text = "in a VM"
	case status.PresenceUnknown:
		text = "unknown"
	}
	words := Words(&g.Part)
	if g.Path.Device != "" {
		words += fmt.Sprintf(", way to %s: %s", g.Path.Device, distance(&g.Path))
	}
	c.box(&g.Part, Class(&g.Part), Mark(&g.Part), gpuLeft, y, gpuWidth, boxHeight, words, text)
}

// nvlinkText is the NVLinks of a GPU in a few words; empty: it has none.
func nvlinkText(g *status.GPU) string {
	switch active, known := g.NVLinks.Get(); {
	case g.NVLinksOf > 0 && g.NVLinkOK == status.StatusNone:
		return "NVLink unused"
	case known && g.NVLinksOf > 0:
		return fmt.Sprintf("NVLink %d/%d", active, g.NVLinksOf)
	case g.NVLinks.Unknown():
		return "NVLink ?" // there is room for no more
	}
	return ""
}

const maxPorts = 4 // of a device that are drawn

func drawDevice(c *canvas, d *status.Device, x, y, h float64) {
	var lines []string
	for i := range d.Ports {
		if i == maxPorts-1 && len(d.Ports) > maxPorts {
			lines = append(lines, fmt.Sprintf("%d more ports", len(d.Ports)-i))
			break
		}
		line := portText(&d.Ports[i])
		if len(d.Ports) > 1 {
			line = strconv.Itoa(d.Ports[i].Number) + ": " + line
		}
		lines = append(lines, line)
	}
	switch {
	case len(lines) > 0:
	case d.Moved:
		lines = []string{"in a pod"}
	case d.Restricted:
		lines = []string{"restricted, not read"}
	default:
		lines = []string{"ports unknown"}
	}
	c.box(&d.Part, Class(&d.Part), Mark(&d.Part), x, y, nicWidth, h, Words(&d.Part), lines...)
}

// driverConstant is why the state of a port is unknown where its driver gives none.
const driverConstant = fabric.ReasonDriverConstant

// portText is a port in a few words: its rate, or its state, and its role.
func portText(p *status.Port) string {
	text := "state unknown"
	state, known := p.State.Get()
	rate, rated := p.Rate.Get()
	switch {
	case known && state != "active":
		text = verdict.Spaced(state)
	case p.State.Reason == "moved":
		text = "in a pod"
	// as with EFA, whose ports are always active: the mark says that more is not known
	case p.State.Reason == driverConstant && rated:
		text = verdict.Gigabits(rate)
	case p.State.Reason == driverConstant:
		text = "no state"
	case !known:
	case rated:
		text = verdict.Gigabits(rate)
	case known:
		text = "active"
	}
	switch role, known := p.Role.Get(); {
	case known && role == "management":
		text += " mgmt" // there is room for no more
	case known:
		text += " " + role
	}
	return text
}

// drawFolded draws devices that are one box.
func drawFolded(c *canvas, list []*status.Device, y float64) {
	worst := &list[0].Part
	for _, d := range list {
		if rank(&d.Part) < rank(worst) {
			worst = &d.Part
		}
	}
	part := status.Part{
		ID: "devices", Name: fmt.Sprintf("%d more", len(list)), Status: worst.Status,
		Severity: worst.Severity,
	}
	c.box(&part, Class(worst), Mark(worst), nicLeft, y, nicWidth, boxHeight, Words(worst), "devices")
}
