// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"strconv"

	"gpufabric_exporter/internal/fabric"
)

func collectGID(n *fabric.Node, emit emit) {
	for i := range n.HCAs {
		h := &n.HCAs[i]
		for k := range h.Ports {
			collectGIDTable(h.Name, strconv.Itoa(h.Ports[k].Number), &h.Ports[k], emit)
		}
	}
}

func collectGIDTable(dev, port string, p *fabric.Port, emit emit) {
	number(emit, gidTableEntries, p.GIDs.Size, dev, port)
	entries, ok := p.GIDs.Entries.Get()
	if !ok {
		return
	}
	type kind struct {
		typ    fabric.GIDType
		family fabric.GIDFamily
	}
	count := map[kind]int{}
	if p.LinkLayer.Or("") == fabric.LinkEthernet && !iWARP(entries) {
		// What an alert asks for is present as 0, so that losing the last one is a change and not a gap.
		count[kind{fabric.GIDRoCEv2, fabric.FamilyIPv4}] = 0
		count[kind{fabric.GIDRoCEv2, fabric.FamilyIPv6}] = 0
	}
	for _, g := range entries {
		emit(gidInfo, 1, dev, port, strconv.Itoa(g.Index), g.Addr.String(), string(g.Type), string(g.Family), g.NetDev)
		count[kind{g.Type, g.Family}]++
	}
	for _, typ := range fabric.GIDTypes() {
		for _, family := range fabric.GIDFamilies() {
			if c, ok := count[kind{typ, family}]; ok {
				emit(gidEntries, float64(c), dev, port, string(typ), string(family))
			}
		}
	}
	emit(gidChanges, float64(p.GIDs.Changes), dev, port)
	if c, ok := p.GIDChoice.Get(); ok {
		emit(gidSelectedIndex, float64(c.Index), dev, port, string(c.Rule))
	}
}

func iWARP(entries []fabric.GID) bool {
	return len(entries) > 0 && entries[0].Type == fabric.GIDiWARP
}
