// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// uncabled tells that the port is meant to be unused: on two cards or more of one board it is down, on every one of
// them that has another port that is up.
func uncabled(n *fabric.Node, h *fabric.HCA, p *fabric.Port) fabric.Fact[bool] {
	const source = "states of the ports of the board"
	unread := movedFrom(n, h)
	cards := 0
	at := placeOf(h, p)
	for _, card := range cardsOf(n) {
		same := sameBoard(h, card[0])
		up, down := stateOf(card, at)
		switch {
		case same.State == fabric.OK && !same.Value:
		case same.State == fabric.OK && down.State == fabric.OK && !down.Value:
			return fabric.Known(false, source, n.At)
		case down.Reason == fabric.ReasonMoved && up.State == fabric.OK && !up.Value: // it has this port only
		case down.State != fabric.OK:
			unread = new(down.Meta())
		case up.State == fabric.OK && !up.Value: // all of the card is down, or the rest of it is gone
		case up.State != fabric.OK:
			unread = new(up.Meta())
		case same.State != fabric.OK:
			unread = new(same.Meta())
		default:
			cards++
		}
	}
	if unread != nil && !silent(*unread) {
		return fabric.NotKnown[bool](unread.Reason, unread.Source, n.At)
	}
	return fabric.Known(cards > 1, source, n.At)
}

// cardsOf returns the devices of each card: a card with two ports may be two functions with a device each, which have
// its image GUID in common.
func cardsOf(n *fabric.Node) (cards [][]*fabric.HCA) {
	place := map[string]int{}
	for i := range n.HCAs {
		h := &n.HCAs[i]
		guid := h.ImageGUID.Or("")
		if strings.Trim(guid, "0:") == "" {
			guid = h.Name
		}
		k, known := place[guid]
		if !known {
			k, cards = len(cards), append(cards, nil)
			place[guid] = k
		}
		cards[k] = append(cards[k], h)
	}
	return cards
}

// place is where a port is on its card.
type place struct {
	function string // of the PCI device, "1"; empty when it is not known
	port     int
}

func placeOf(h *fabric.HCA, p *fabric.Port) place {
	_, function, _ := strings.Cut(h.PCI.Or(""), ".")
	return place{function, p.Number}
}

// stateOf tells whether another port of a card is up, and whether the one at that place is down.
func stateOf(card []*fabric.HCA, at place) (up, down fabric.Fact[bool]) {
	up, down = fabric.Fact[bool]{State: fabric.OK}, fabric.Fact[bool]{State: fabric.OK}
	for _, h := range card {
		for i := range h.Ports {
			p := &h.Ports[i]
			here := placeOf(h, p) == at
			state, known := p.State.Get()
			phys, told := p.PhysState.Get()
			switch {
			case !here && known && state == fabric.PortActive:
				up = fabric.Known(true, p.State.Source, p.State.At)
			case !here && !known && !up.Value:
				up = fabric.NotKnown[bool](p.State.Meta().Reason, p.State.Source, p.State.At)
			case here && !known:
				down = fabric.NotKnown[bool](p.State.Meta().Reason, p.State.Source, p.State.At)
			case here && state == fabric.PortDown && !told:
				down = fabric.NotKnown[bool](p.PhysState.Meta().Reason, p.PhysState.Source, p.PhysState.At)
			case here:
				down.Value = state == fabric.PortDown && phys != fabric.PhysLinkUp
			}
		}
	}
	return up, down
}
