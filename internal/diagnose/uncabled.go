// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Uncabled reports whether a port has no link by design. A port that once had a link is not; else the other cards of its board,
// the configuration of the site and of NCCL, and the use of the card decide.
func Uncabled(n *fabric.Node, h *fabric.HCA, p *fabric.Port) fabric.Fact[bool] {
	if wasUp(n, h, p) {
		return fabric.Known(false, "ports/state", n.At)
	}
	found := fabric.Known(false, "ports/state", n.At)
	for _, rule := range []func(*fabric.Node, *fabric.HCA, *fabric.Port) fabric.Fact[bool]{unusedOnBoard, leftOut, spareBesideOther, unusedBoard} {
		switch free := rule(n, h, p); {
		case free.Or(false):
			return free
		case free.State == fabric.Unknown:
			found = free
		}
	}
	return found
}

// wasUp reports whether the exporter saw the port active, or that its manifest has a rate.
func wasUp(n *fabric.Node, h *fabric.HCA, p *fabric.Port) bool {
	if m := n.Policy.Manifest; m != nil {
		if rate := m.Devices[h.Name][portKey(p, "rate")]; rate != "" && rate != ManifestNone {
			return true
		}
	}
	return p.Seen.Active
}

// leftOut reports whether NCCL_IB_HCA leaves the port out and takes as many as the site expects for training, or the site expects none.
func leftOut(n *fabric.Node, _ *fabric.HCA, p *fabric.Port) fabric.Fact[bool] {
	const source = "NCCL configuration"
	want := n.Policy.ComputePorts
	if want == nil || p.Role.Or("") != fabric.RoleCompute {
		return fabric.Known(false, source, n.At)
	}
	if *want == 0 {
		return fabric.Known(true, "config expected.compute_ports", n.At)
	}
	list, set := n.NCCL.Devices()
	if m := unreadNCCL(n); m != nil {
		if activeCompute(n) < *want { // there is a port that has to have a link, and this may be it
			return fabric.Known(false, source, n.At)
		}
		return fabric.UnknownFact[bool](m.Reason, source, n.At)
	}
	if !set {
		return fabric.Known(false, source, n.At)
	}
	taken, takesIt := listedAbsent(n, list), false
	var hidden []fabric.Fact[fabric.Role]
	for o, q := range ports(n) {
		if !list.Takes(o.Name, q.Number) {
			continue
		}
		takesIt = takesIt || q == p
		switch role, known := q.Role.Get(); {
		case !known:
			hidden = append(hidden, q.Role)
		case role == fabric.RoleCompute:
			taken++
		}
	}
	switch {
	case takesIt || taken > *want || taken+len(hidden) < *want:
		return fabric.Known(false, source, n.At)
	case len(hidden) > 0:
		return fabric.UnknownFact[bool](hidden[0].Meta().Reason, hidden[0].Source, n.At)
	}
	return fabric.Known(true, source, n.At)
}

// listedAbsent counts the devices that a list names and that are not there: it takes them too.
func listedAbsent(n *fabric.Node, list fabric.NameFilter) (absent int) {
	for _, i := range list.Items {
		if !list.Exclude && !slices.ContainsFunc(n.HCAs, func(h fabric.HCA) bool { return list.Matches(i, h.Name, -1) }) {
			absent++
		}
	}
	return absent
}

// spareBesideOther reports whether the port is a spare one of the only card of its board: Ethernet without an address, beside a
// port that is up, while the site misses no port. Beside a port for training it is spare if as many of those are active as there are
// GPUs: a workstation, or a DGX Spark, whose four devices are the two ports of one card, has one cable.
func spareBesideOther(n *fabric.Node, h *fabric.HCA, p *fabric.Port) fabric.Fact[bool] {
	const source = "ports of the card"
	no := fabric.Known(false, source, n.At)
	list, _ := n.NCCL.Devices()
	named := !list.Exclude && slices.ContainsFunc(list.Items, func(i fabric.NameItem) bool { return i.Name == h.Name })
	missing := n.Policy.ComputePorts != nil && p.Role.Or("") == fabric.RoleCompute && activeCompute(n) < *n.Policy.ComputePorts
	if p.LinkLayer.Or("") != fabric.LinkEthernet || named || missing {
		return no
	}
	other := fabric.Known(false, source, n.At)
	gpus := len(n.PCI.GPUs())
	enough := gpus > 0 && activeCompute(n) >= gpus
	var unread *fabric.Meta
	for _, card := range cardsOf(n) {
		if !slices.Contains(card, h) {
			same := sameBoard(h, card[0])
			switch {
			case same.State != fabric.OK:
				unread = new(same.Meta())
			case same.Value:
				return no
			}
			continue
		}
		other = otherUse(card, p, enough)
	}
	gids, listed := p.GIDs.Entries.Get()
	addressed := slices.ContainsFunc(gids, hasAddress)
	switch {
	case other.State == fabric.OK && !other.Value, addressed:
		return no
	case other.State != fabric.OK:
		unread = new(other.Meta())
	case !listed:
		unread = new(p.GIDs.Entries.Meta())
	case unreadNCCL(n) != nil:
		unread = unreadNCCL(n)
	}
	return soFar(unread, source, n.At)
}

// unusedBoard reports whether the port is of a storage NIC that was plugged in and never put to use: Ethernet, and no port of its
// board has a link, had one, has an address or is a member of a bond, other than for management: servers of clouds have two NICs, and
// the default route leaves through the first.
func unusedBoard(n *fabric.Node, h *fabric.HCA, p *fabric.Port) fabric.Fact[bool] {
	const source = "ports of the board"
	no := fabric.Known(false, source, n.At)
	list, _ := n.NCCL.Devices()
	var unread *fabric.Meta
	for o, q := range ports(n) {
		same := sameBoard(h, o)
		state, known := q.State.Get()
		gids, listed := q.GIDs.Entries.Get()
		switch {
		case o.Lent(), o != h && same.State == fabric.OK && !same.Value, q.Role.Or("") == fabric.RoleManagement:
			continue
		case o != h && same.State != fabric.OK:
			unread = new(same.Meta())
			continue
		case q.Role.Or("") != fabric.RoleStorage, q.LinkLayer.Or("") != fabric.LinkEthernet, known && state != fabric.PortDown, wasUp(n, o, q),
			!list.Exclude && slices.ContainsFunc(list.Items, func(i fabric.NameItem) bool { return i.Name == o.Name }),
			slices.ContainsFunc(gids, hasAddress), enslaved(n, q):
			return no
		case !known:
			unread = new(q.State.Meta())
		case !listed:
			unread = new(q.GIDs.Entries.Meta())
		}
	}
	if unread == nil {
		unread = unreadNCCL(n)
	}
	return soFar(unread, source, n.At)
}

// soFar is true where everything was read, false where the driver does not offer what was not, and else unknown.
func soFar(unread *fabric.Meta, source string, at time.Time) fabric.Fact[bool] {
	switch {
	case unread == nil:
		return fabric.Known(true, source, at)
	case silent(*unread):
		return fabric.Known(false, source, at)
	}
	return fabric.UnknownFact[bool](unread.Reason, unread.Source, at)
}

// hasAddress reports whether the interface of the GID was given an address.
func hasAddress(g fabric.GID) bool {
	return g.Family == fabric.FamilyIPv4 || g.Family == fabric.FamilyIPv6
}

func enslaved(n *fabric.Node, p *fabric.Port) bool {
	d := n.NetDev(p.NetDev.Or(""))
	return d != nil && d.Upper.State == fabric.OK
}

// otherUse reports whether another port of the card is up, and that none of those is for training, unless that does not matter.
func otherUse(card []*fabric.HCA, p *fabric.Port, training bool) fabric.Fact[bool] {
	use := fabric.Fact[bool]{State: fabric.OK}
	for _, h := range card {
		for i := range h.Ports {
			q := &h.Ports[i]
			state, known := q.State.Get()
			role, classified := q.Role.Get()
			switch {
			case q == p:
			case !known:
				use = fabric.UnknownFact[bool](q.State.Meta().Reason, q.State.Source, q.State.At)
			case state != fabric.PortActive:
			case !classified && !training:
				use = fabric.UnknownFact[bool](q.Role.Meta().Reason, q.Role.Source, q.Role.At)
			case role == fabric.RoleCompute && !training:
				return fabric.Known(false, q.Role.Source, q.Role.At)
			case use.State == fabric.OK:
				use = fabric.Known(true, q.State.Source, q.State.At)
			}
		}
	}
	return use
}

// unusedOnBoard reports whether on two cards or more of one board the port is down, on every one of them that has another port
// that is up.
func unusedOnBoard(n *fabric.Node, h *fabric.HCA, p *fabric.Port) fabric.Fact[bool] {
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
		return fabric.UnknownFact[bool](unread.Reason, unread.Source, n.At)
	}
	return fabric.Known(cards > 1, source, n.At)
}

// cardsOf returns the devices of each card: a card with two ports may be two functions with a device each, which have
// its image GUID in common. Virtual functions and subfunctions have it too, and no port of their own.
func cardsOf(n *fabric.Node) (cards [][]*fabric.HCA) {
	place := map[string]int{}
	for i := range n.HCAs {
		h := &n.HCAs[i]
		if h.Lent() {
			continue
		}
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

// stateOf reports whether another port of a card is up, and whether the one at that place is down.
func stateOf(card []*fabric.HCA, at place) (up, down fabric.Fact[bool]) {
	up, down = fabric.Fact[bool]{State: fabric.OK}, fabric.Fact[bool]{State: fabric.OK}
	for _, h := range card {
		for i := range h.Ports {
			p := &h.Ports[i]
			here := placeOf(h, p) == at
			state, known := p.State.Get()
			phys, physKnown := p.PhysState.Get()
			switch {
			case !here && known && state == fabric.PortActive:
				up = fabric.Known(true, p.State.Source, p.State.At)
			case !here && !known && !up.Value:
				up = fabric.UnknownFact[bool](p.State.Meta().Reason, p.State.Source, p.State.At)
			case here && !known:
				down = fabric.UnknownFact[bool](p.State.Meta().Reason, p.State.Source, p.State.At)
			case here && state == fabric.PortDown && !physKnown:
				down = fabric.UnknownFact[bool](p.PhysState.Meta().Reason, p.PhysState.Source, p.PhysState.At)
			case here:
				down.Value = state == fabric.PortDown && phys != fabric.PhysLinkUp
			}
		}
	}
	return up, down
}
