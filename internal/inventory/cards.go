// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

const maxCards = 256

// card is an RDMA device in its place. Its GUID is that of one card in the world, so that cards tell which
// machine a record is of.
type card struct {
	PCI  string `json:"pci"`
	GUID string `json:"guid"`
}

// noGUID is that of a virtual function that was given none.
const noGUID = "0000:0000:0000:0000"

// cardsOf returns the cards of a node whose place and GUID are known. Virtual functions tell nothing where
// there are physical ones: they may get another GUID with each start.
func cardsOf(n *fabric.Node) (list []card) {
	physical := slices.ContainsFunc(n.HCAs, func(h fabric.HCA) bool { return !h.Part() && !h.Software() })
	for i := range n.HCAs {
		if physical && n.HCAs[i].Part() {
			continue
		}
		if p, known := key(&n.HCAs[i], &fabric.Port{}); known && p.GUID != noGUID && len(list) < maxCards {
			list = append(list, card{p.PCI, p.GUID})
		}
	}
	return list
}

// foreign reports whether a record of these cards is that of another machine, whose disk this one has a copy
// of, or most cards were exchanged: none of the cards is here, or more places have an unknown card instead of
// theirs. Hidden ones, which may be here, count as if they were. Where no card is seen nothing tells.
func foreign(had, now []card, hidden int) bool {
	known, exchanged := hidden, 0
	for _, c := range now {
		if len(placesOf(had, c.GUID)) > 0 {
			known++
		} else if slices.ContainsFunc(had, func(o card) bool { return o.PCI == c.PCI && len(placesOf(now, o.GUID)) == 0 }) {
			exchanged++
		}
	}
	return len(had) > 0 && len(now) > 0 && (known == 0 || exchanged > known)
}

// hidden counts the cards that may be in their places without a device: their driver is not loaded, or not ready. A
// function that a guest has gets none.
func hidden(had, now []card, n *fabric.Node) (count int) {
	for _, c := range had {
		f := n.PCI.Function(c.PCI)
		device := slices.ContainsFunc(n.HCAs, func(h fabric.HCA) bool { return h.PCI.Or("") == c.PCI })
		nic := f != nil && f.Kind == fabric.PCINIC && !f.PassedThrough()
		if !device && len(placesOf(now, c.GUID)) == 0 && (nic || !up(n, fabric.SourcePCI)) {
			count++
		}
	}
	return count
}

func placesOf(list []card, guid string) (places []string) {
	for _, c := range list {
		if c.GUID == guid {
			places = append(places, c.PCI)
		}
	}
	return places
}

// relocate gives what is recorded of cards the places where they are now, in another slot or after the
// firmware numbered buses anew, and reports whether any has moved.
func (h *hardware) relocate(now []card) bool {
	to := map[string]string{}
	for _, c := range h.Cards {
		is := placesOf(now, c.GUID)
		if len(is) == 1 && is[0] != c.PCI && len(placesOf(h.Cards, c.GUID)) == 1 {
			to[c.PCI] = is[0]
		}
	}
	if len(to) == 0 {
		return false
	}
	place := func(address string) string {
		slot, function, _ := strings.Cut(address, ".")
		first, _, along := strings.Cut(to[slot+".0"], ".") // functions without a device, because it is that of the first
		switch {
		case to[address] != "":
			return to[address]
		case along:
			return first + "." + function
		}
		return address
	}
	ports := slices.Clone(h.Ports)
	for i, p := range ports {
		if slices.Contains(h.Cards, card{p.PCI, p.GUID}) {
			ports[i].PCI = place(p.PCI)
		}
	}
	h.Ports = mergePorts(nil, ports)
	items := slices.Clone(h.Devices.Items)
	for i, item := range items {
		items[i] = fabric.Place(strings.Replace(string(item), item.Address(), place(item.Address()), 1))
	}
	slices.Sort(items)
	h.Devices.Items = slices.Compact(items)
	h.Cards = slices.Clone(h.Cards)
	for i, c := range h.Cards {
		h.Cards[i].PCI = place(c.PCI)
	}
	return true
}

// away returns whether the card that is recorded at the place of an item is known to be nowhere in the node.
// Nothing is where a device has no GUID, because it may be that card, and in a guest, which gets other
// functions and addresses with each start.
func (h *hardware) away(n *fabric.Node) func(fabric.Place) bool {
	now := cardsOf(n)
	nameless := slices.ContainsFunc(n.HCAs, func(d fabric.HCA) bool {
		guid := d.NodeGUID.Or(noGUID)
		return !d.Part() && !d.Software() && (guid == noGUID || len(placesOf(now, guid)) == 0)
	})
	return func(item fabric.Place) bool {
		return !nameless && !n.Host.Hypervisor.Or(true) && slices.ContainsFunc(h.Cards, func(c card) bool {
			return c.PCI == item.Address() && len(placesOf(now, c.GUID)) == 0
		})
	}
}

// updateCards takes in the cards that are seen, and reports whether any is new there. One that is gone stays,
// unless a new one has its place.
func (h *hardware) updateCards(now []card) (news bool) {
	list := slices.Clone(now)
	for _, c := range h.Cards {
		if len(list) < maxCards && !slices.ContainsFunc(now, func(o card) bool {
			return o.GUID == c.GUID || o.PCI == c.PCI && len(placesOf(h.Cards, o.GUID)) == 0
		}) {
			list = append(list, c)
		}
	}
	news = slices.ContainsFunc(now, func(c card) bool { return !slices.Contains(h.Cards, c) })
	h.Cards = list
	return news
}
