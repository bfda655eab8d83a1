// SPDX-License-Identifier: Apache-2.0

package port

import (
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// UnreadPeer returns what of other ports or devices hides whether they are peers of a port, and with what value; nil
// when all is known. The value is what they are compared by.
func UnreadPeer(n *fabric.Node, h *fabric.HCA, p *fabric.Port,
	value func(*fabric.HCA, *fabric.Port) []fabric.Meta,
) (unread *fabric.Meta) {
	for o, q := range n.Ports {
		if q == p {
			continue
		}
		same := n.SameBoard(h, o)
		if same.State == fabric.OK && !same.Value && o != h {
			continue
		}
		if q.Role.Or("") != p.Role.Or("") {
			continue
		}
		for _, m := range append([]fabric.Meta{same.Meta()}, value(o, q)...) {
			switch {
			case m.State != fabric.Unknown || verdict.Silent(m):
			case m.Reason == fabric.ReasonMoved: // the least of reasons
				unread = &m
			default:
				return &m
			}
		}
	}
	return unread
}

// Polls are what cards of each board have. Cards whose board is not known have no peers.
type Polls[T comparable] map[fabric.Board]map[T]int

// Vote counts the value of a port among those of its peers.
func (p Polls[T]) Vote(n *fabric.Node, h *fabric.HCA, value T) {
	board, known := n.Board(h).Get()
	switch {
	case !known:
		return
	case p[board] == nil:
		p[board] = map[T]int{}
	}
	p[board][value]++
}

// Winner returns what most cards of a device's board have, how many were known, and whether there is such a thing.
func (p Polls[T]) Winner(n *fabric.Node, h *fabric.HCA) (most T, peers int, clear bool) {
	votes := p[n.Board(h).Or(fabric.Board{})]
	for _, count := range votes {
		peers += count
	}
	most, clear = winner(votes)
	return most, peers, clear
}

// winner returns what most voted for, and whether there is such a thing.
func winner[T comparable](votes map[T]int) (most T, clear bool) {
	best := 0
	for value, count := range votes {
		switch {
		case count > best:
			most, best, clear = value, count, true
		case count == best:
			clear = false
		}
	}
	return most, clear
}
