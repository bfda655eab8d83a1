// SPDX-License-Identifier: Apache-2.0

package page

import (
	"strconv"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
)

type deviceRow struct {
	Name              string
	Board, PCI        cell
	Port              string
	Role, NetDev      cell
	State, Rate, GIDs cell
	Choice            cell
}

// deviceRows returns one row per port, or one for a device whose ports are not known.
func deviceRows(h *fabric.HCA, bad failing) []deviceRow {
	row := deviceRow{Name: h.Name, Board: show(h.BoardID, text), PCI: show(h.PCI, text)}
	if fw, ok := h.Firmware.Get(); ok {
		row.Board.Note = "firmware " + fw
	}
	if numa, ok := h.NUMANode.Get(); ok {
		row.PCI.Note = "NUMA " + strconv.Itoa(numa)
	}
	if h.Moved && len(h.Ports) == 0 {
		row.State = show(fabric.NotKnown[string](fabric.ReasonMoved, "", h.PCI.At), text)
		return []deviceRow{row}
	}
	if len(h.Ports) == 0 {
		row.State = cell{Text: "unknown", Note: "its ports could not be read", Class: "unsure"}
		if h.Restricted.Or(false) {
			row.State = cell{Text: "not touched", Note: "the device is restricted", Class: "quiet"}
		}
		return []deviceRow{row}
	}
	var rows []deviceRow
	for i := range h.Ports {
		p := &h.Ports[i]
		r := row
		r.Port = strconv.Itoa(p.Number)
		r.Role = show(p.Role, func(r fabric.Role) string { return string(r) })
		r.NetDev = netDevCell(p)
		r.State = stateCell(p, bad.of(diagnose.PortSubject(h, p), diagnose.CheckPortActive))
		r.Rate = rateCell(p, bad.of(diagnose.PortSubject(h, p), diagnose.CheckPortRate, diagnose.CheckPortRateAgrees))
		r.GIDs = show(p.GIDs.Entries, func(g []fabric.GID) string { return strconv.Itoa(len(g)) })
		r.Choice = choiceCell(p, bad.of(diagnose.PortSubject(h, p), diagnose.CheckGID))
		rows = append(rows, r)
	}
	return rows
}

func matters(p *fabric.Port) bool {
	r := p.Role.Or("")
	return r == fabric.RoleCompute || r == fabric.RoleStorage
}

// netDevCell is the network interface with the link layer below it.
func netDevCell(p *fabric.Port) cell {
	c := show(p.NetDev, text)
	if layer, ok := p.LinkLayer.Get(); ok && c.Note == "" {
		c.Note = layerName(layer)
	}
	return c
}

func stateCell(p *fabric.Port, bad bool) cell {
	c := show(p.State, func(s fabric.PortState) string { return diagnose.Spaced(string(s)) })
	s, ok := p.State.Get()
	if !ok {
		return c
	}
	switch {
	case s == fabric.PortActive:
		c.Class = "good"
	case bad:
		c.Class = "bad"
	default:
		c.Class = "quiet"
	}
	if phys, ok := p.PhysState.Get(); ok && s != fabric.PortActive {
		c.Note = "link: " + diagnose.Spaced(string(phys))
	}
	return c
}

func rateCell(p *fabric.Port, bad bool) cell {
	c := show(p.Rate, func(r fabric.Rate) string { return diagnose.Gigabits(r.BytesPerSecond) })
	expected, ok := p.ExpectedRate.Get()
	if ok {
		c.Note = "expected " + diagnose.Gigabits(expected)
	}
	if bad {
		c.Class = "bad"
	}
	return c
}

func choiceCell(p *fabric.Port, bad bool) cell {
	c := show(p.GIDChoice, func(c fabric.GIDChoice) string {
		if c.GID == nil {
			return "entry " + strconv.Itoa(c.Index) + ", empty"
		}
		return c.GID.Addr.Unmap().String()
	})
	if choice, ok := p.GIDChoice.Get(); ok {
		c.Note = choice.Why
		if choice.GID != nil && choice.Rule != fabric.GIDByMatch && p.LinkLayer.Or("") == fabric.LinkEthernet {
			c.Note = diagnose.GIDTypeName(choice.GID.Type) + ": " + c.Note
		}
	}
	if bad {
		c.Class = "bad"
	}
	return c
}

func layerName(l fabric.LinkLayer) string {
	switch l {
	case fabric.LinkInfiniBand:
		return "InfiniBand"
	case fabric.LinkEthernet:
		return "Ethernet"
	default:
		return string(l)
	}
}
