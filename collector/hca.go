// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"
	"strconv"

	"gpufabric_exporter/internal/fabric"
)

func collectHCA(n *fabric.Node, emit emit) {
	compute := 0
	for i := range n.HCAs {
		h := &n.HCAs[i]
		collectDevice(h, emit)
		for k := range h.Ports {
			p := &h.Ports[k]
			collectPort(h, p, emit)
			if p.Role.Or("") == fabric.RoleCompute {
				compute++
			}
		}
	}
	if compute > 0 {
		emit(computePorts, float64(compute))
	}
}

func collectDevice(h *fabric.HCA, emit emit) {
	emit(hcaInfo, 1, h.Name, h.Driver.Or(""), string(h.NodeType.Or("")), h.Firmware.Or(""), h.BoardID.Or(""),
		h.Type.Or(""), h.Revision.Or(""), h.PCI.Or(""), string(h.Function.Or("")), h.NodeGUID.Or(""), h.ImageGUID.Or(""))
	number(emit, hcaNUMANode, h.NUMANode, h.Name)
	if r, ok := h.Restricted.Get(); ok {
		emit(hcaRestricted, bit(r), h.Name)
	}
	if v, ok := h.Netlink.Get(); ok {
		emit(hcaNetlink, bit(v), h.Name)
	}
	switch {
	case h.Moved:
		emit(hcaMoved, 1, h.Name, "device")
	case slices.ContainsFunc(h.Ports, func(p fabric.Port) bool { return p.NetDevMoved() }):
		emit(hcaMoved, 1, h.Name, "netdev")
	}
}

func collectPort(h *fabric.HCA, p *fabric.Port, emit emit) {
	at := []string{h.Name, strconv.Itoa(p.Number)}
	emit(hcaPortInfo, 1, at[0], at[1], string(p.LinkLayer.Or("")), p.NetDev.Or(""), string(p.Role.Or("")))
	if s, ok := p.State.Get(); ok {
		state(emit, hcaPortState, s, fabric.PortStates(), at...)
	}
	if s, ok := p.PhysState.Get(); ok {
		state(emit, hcaPortPhysState, s, fabric.PhysStates(), at...)
	}
	if r, ok := p.Rate.Get(); ok {
		emit(hcaPortRate, r.BytesPerSecond, at...)
	}
	number(emit, hcaPortExpectedRate, p.ExpectedRate, at...)
	if m, ok := p.RateMismatch.Get(); ok {
		emit(hcaPortRateMismatch, bit(m), at...)
	}
	number(emit, hcaPortLID, p.LID, at...)
	number(emit, hcaPortSMLID, p.SMLID, at...)
	number(emit, hcaPortPKeys, p.PKeys, at...)
}
