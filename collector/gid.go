// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"strconv"

	"gpufabric_exporter/internal/fabric"
)

// The rows of the collector gid.
var (
	gidInfo = &Family{
		Name: "gid_info", Type: Info, Labels: []string{"device", "port", "index", "gid", "type", "family", "netdev"},
		Help:   "An occupied entry of the GID table; constant 1.",
		Source: "/sys/class/infiniband/<device>/ports/<port>/{gids,gid_attrs/types,gid_attrs/ndevs}/<index>", Cadence: Fast,
		Stability: Stable,
	}
	gidEntries = &Family{
		Name: "gid_entries", Type: Gauge, Labels: []string{"device", "port", "type", "family"},
		Help: "Occupied entries of the GID table by type and address family. Every Ethernet port has the series for RoCE v2 with IPv4 and with IPv6, even if they are 0. " +
			"A removed entry is visible at once, a new one within a minute.",
		Source: "/sys/class/infiniband/<device>/ports/<port>/{gids,gid_attrs/types}/<index>", Cadence: Fast,
		Stability: Stable,
	}
	gidTableEntries = &Family{
		Name: "gid_table_entries", Type: Gauge, Labels: []string{"device", "port"},
		Help:   "Size of the GID table, including free entries.",
		Source: "/sys/class/infiniband/<device>/ports/<port>/gids", Cadence: Slow, Stability: Stable,
	}
	gidSelectedIndex = &Family{
		Name: "gid_selected_index", Type: Gauge, Labels: []string{"device", "port", "reason"},
		Help: "Index of the GID that NCCL 2.21 or later selects on this port under the host's NCCL configuration. reason: infiniband, infiniband_flid, " +
			"configured (NCCL_IB_GID_INDEX), matched (automatic), fallback (no entry matches: index 0 or the remaining entry).",
		Source: "GID table, /etc/nccl.conf, config nccl", Cadence: Fast, Stability: Stable,
	}
	gidChanges = &Family{
		Name: "gid_changes_total", Type: Counter, Labels: []string{"device", "port"},
		Help:   "Number of entries of the GID table that were added, removed or changed since the exporter first read it.",
		Source: "/sys/class/infiniband/<device>/ports/<port>/gids/<index>", Cadence: Fast, Stability: Stable,
	}
)

// gidFamilies are the rows of the collector gid, in the order of documentation.
func gidFamilies() []*Family {
	return []*Family{
		gidInfo, gidEntries, gidTableEntries, gidSelectedIndex, gidChanges,
	}
}

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
