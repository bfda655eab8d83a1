// SPDX-License-Identifier: Apache-2.0

package drawing

import (
	"slices"

	"gpufabric_exporter/internal/status"
)

// Ways to NICs in other rows change their height before the NIC, those to different NICs at different places,
// so that they cross neither each other nor texts.
const (
	lane     = 6.0 // between these places
	maxLanes = 4
)

// paths draws the way from each GPU to its NIC, and its texts above what else is there.
func (p *panel) paths(texts *canvas) {
	const left = gpuLeft + gpuWidth
	lanes := map[string]float64{} // where the ways to a NIC in another row change their height
	for i := range p.d.GPUs {
		g := &p.d.GPUs[i]
		y, here := p.gpus[g.ID]
		if !here {
			continue
		}
		class := "way " + wayClass(p.d, &g.Path)
		to, beside := p.nics[g.Path.DeviceID]
		above, below := distance(&g.Path), ""
		elsewhere := g.Path.Device != "" && !beside
		switch direct := gpuDirect(&g.Path); {
		case direct == "" || g.Path.Distance.Unknown():
		case p.named[g.ID] || elsewhere: // below is another name
			above += " " + direct
		default:
			below = direct
		}
		switch {
		case elsewhere:
			p.line(class, left, y, left+24, y)
			below = "to " + g.Path.Device
		case beside && to == y:
			p.line(class, left, y, nicLeft, to)
		case beside:
			if lanes[g.Path.DeviceID] == 0 {
				lanes[g.Path.DeviceID] = nicLeft - lane*(1+float64(len(lanes)%maxLanes))
			}
			p.elbow(class, left, y, lanes[g.Path.DeviceID], nicLeft, to)
		}
		texts.text("small "+Class(pathPart(&g.Path)), left+3, y-5, nicLeft-left-2, above)
		if below != "" {
			texts.text("small "+Class(pathPart(&g.Path)), left+3, y+16, nicLeft-left-5, below)
		}
	}
}

// pathPart is a path as a part: its status.
func pathPart(p *status.Path) *status.Part {
	return &status.Part{Status: p.Status, Severity: p.Severity}
}

// wayClass is the class of the line to the NIC: that of the path, unless the NIC has no port that is active.
func wayClass(d *status.Document, p *status.Path) string {
	i := slices.IndexFunc(d.Devices, func(x status.Device) bool { return x.ID == p.DeviceID })
	if i < 0 || p.Status == status.StatusFailed {
		return Class(pathPart(p))
	}
	nic := &d.Devices[i]
	unknown := len(nic.Ports) == 0
	for k := range nic.Ports {
		state, known := nic.Ports[k].State.Get()
		if state == "active" || nic.Ports[k].State.Reason == driverConstant {
			return Class(pathPart(p))
		}
		unknown = unknown || !known
	}
	switch {
	case nic.Status == status.StatusFailed:
		return Class(&nic.Part)
	case unknown:
		return status.StatusUnknown
	}
	return status.StatusNone
}

func distance(p *status.Path) string {
	switch v, known := p.Distance.Get(); {
	case known:
		return v
	case p.Distance.Unknown() && p.Device == "":
		return "NIC ?" // there is room for no more
	case p.Distance.Unknown():
		return "unknown"
	}
	return "no NIC"
}

// gpuDirect marks a path where GPUDirect RDMA is not used or its status is unknown; empty elsewhere.
func gpuDirect(p *status.Path) string {
	switch p.Status {
	case status.StatusOK:
		return ""
	case status.StatusUnknown:
		return "GDR ?"
	case status.StatusFailed:
		return "GDR " + Mark(pathPart(p))
	}
	if usable, known := p.Usable.Get(); known && !usable {
		return "GDR –"
	}
	return ""
}
