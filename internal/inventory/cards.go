// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"

	"gpufabric_exporter/internal/fabric"
)

const maxCards = 256

// card is an RDMA device in its place. Its GUID is that of one card in the world, so that cards tell which machine a record is of.
type card struct {
	PCI  string `json:"pci"`
	GUID string `json:"guid"`
}

// noGUID is that of a virtual function that was given none.
const noGUID = "0000:0000:0000:0000"

// cardsOf returns the cards of a node whose place and GUID are known. Virtual functions tell nothing where there are physical ones: they may
// get another GUID with each start.
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

// foreign reports whether a record of these cards is that of another machine, whose disk this one has a copy of, or most cards were
// exchanged: in most places is another card now, or none of the cards is here. Where no card is seen nothing tells.
func foreign(had, now []card) bool {
	if len(had) == 0 || len(now) == 0 {
		return false
	}
	same, differ, here := 0, 0, false
	for _, c := range now {
		here = here || slices.ContainsFunc(had, func(o card) bool { return o.GUID == c.GUID })
		if k := slices.IndexFunc(had, func(o card) bool { return o.PCI == c.PCI }); k >= 0 && had[k] == c {
			same++
		} else if k >= 0 {
			differ++
		}
	}
	return differ > same || !here
}

// updateCards takes in the cards that are seen, and reports whether any is new. One that is gone stays.
func (h *hardware) updateCards(now []card) (news bool) {
	list := slices.Clone(h.Cards)
	for _, c := range now {
		switch k := slices.IndexFunc(list, func(o card) bool { return o.PCI == c.PCI }); {
		case k < 0 && len(list) < maxCards:
			list, news = append(list, c), true
		case k >= 0 && list[k] != c:
			list[k], news = c, true
		}
	}
	h.Cards = list
	return news
}
