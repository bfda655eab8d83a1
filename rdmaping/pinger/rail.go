// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"gpufabric_exporter/rdmaping"
	"gpufabric_exporter/rdmaping/locate"
	"gpufabric_exporter/rdmaping/peers"
)

// rail is a rail that pings, and what came of it. It belongs to the goroutine that sends.
type rail struct {
	planned
	end     *rdmaping.Endpoint // nil: it is not open
	opened  Own                // that it was opened with
	tried   time.Time
	changed bool   // it is to be opened with other settings
	why     string // it could not be opened, for the log
	report  func(locate.Pair)

	peers     map[string]*peer
	loop      rdmaping.Count
	leaves    map[string]*rdmaping.Count
	large     rdmaping.Count
	flows     rdmaping.Count
	minute    int64 // since when flows are tried
	clock     rdmaping.Clock
	rtt       map[rdmaping.Group]prometheus.Histogram
	host      time.Duration
	reordered uint64
	doubtful  uint64
	last      time.Time // when a peer answered
	largest   time.Time // when a large message was sent
	turn      int       // of the peers, which is next to get one
	judged    [len(spans)]judgement
}

// peer is a rail of another node that a rail asks.
type peer struct {
	peers.Target
	end   rdmaping.Endpoint
	held  uint64 // messages without an answer, of which it is not known whether they were lost
	waits bool   // for an answer over HTTP to a question that began after the first of them
	asked uint64 // which was the last question that had begun before
	group rdmaping.Group
	tries tries
}

// doubtful is how many messages in a row a peer may leave unanswered before it is asked over HTTP.
const doubtful = 2

// message is one of a round.
type message struct {
	rail  *rail
	peer  *peer // nil: loopback
	to    rdmaping.Endpoint
	large bool
	small *message // that was sent to the same peer
	lost  bool
	round uint32
}

func newRail(report func(locate.Pair)) *rail {
	return &rail{
		report: report, peers: map[string]*peer{}, leaves: map[string]*rdmaping.Count{},
		rtt: map[rdmaping.Group]prometheus.Histogram{},
	}
}

// plan takes over the peers that the rail is to ask.
func (r *rail) plan(own *planned) {
	r.changed = r.changed || r.end != nil && r.opened.differs(own.Own) // also the address at the same index
	r.planned = *own
	leaves, groups := map[string]bool{}, map[rdmaping.Group]bool{rdmaping.Loopback: true}
	here := map[string]bool{}
	for _, t := range own.peers {
		p := r.peers[t.Address]
		if p == nil {
			p = &peer{}
			r.peers[t.Address] = p
		}
		p.Target, p.group = t, own.groupOf(t.Leaf)
		here[t.Address], leaves[t.Leaf], groups[p.group] = true, true, true
		if r.leaves[t.Leaf] == nil {
			r.leaves[t.Leaf] = &rdmaping.Count{}
		}
	}
	maps.DeleteFunc(r.peers, func(a string, _ *peer) bool { return !here[a] })
	maps.DeleteFunc(r.leaves, func(l string, _ *rdmaping.Count) bool { return !leaves[l] })
	maps.DeleteFunc(r.rtt, func(g rdmaping.Group, _ prometheus.Histogram) bool { return !groups[g] })
	for g := range groups {
		if r.rtt[g] == nil {
			r.rtt[g] = newHistogram()
		}
	}
}

// groupOf is the group of peers on a leaf.
func (p *planned) groupOf(leaf string) rdmaping.Group {
	if leaf == p.self.Leaf && leaf != "" {
		return rdmaping.Near
	}
	return rdmaping.Far
}

// stale reports whether the rail is to be opened.
func (r *rail) stale() bool { return !r.Moved && !r.excess && (r.end == nil || r.changed) }

func newHistogram() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "rtt", Buckets: []float64{3e-6, 10e-6, 30e-6, 100e-6, 1e-3, 10e-3},
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 80,
		NativeHistogramMinResetDuration: time.Hour,
	})
}

// begin takes over where the rail answers, now that it is open. Times by another clock are in histograms of their own.
func (r *rail) begin(end rdmaping.Endpoint) {
	clock := rdmaping.OfCPUs
	if end.Timed {
		clock = rdmaping.OfNIC
	}
	if r.clock != clock {
		for g := range r.rtt {
			r.rtt[g] = newHistogram()
		}
	}
	r.end, r.why, r.clock = &end, "", clock
}

// messages are those of the next round: to itself, to each peer, and now and then a large one to a peer.
func (r *rail) messages(endOf func(string, *Own, bool) (*rdmaping.Endpoint, told), now time.Time) []*message {
	var list []*message
	if !r.end.Limited() {
		list = append(list, &message{rail: r, to: *r.end})
	}
	large := len(r.planned.peers) > 0 && now.Sub(r.largest) >= largeIn/time.Duration(len(r.planned.peers))
	if large {
		r.largest = now
		r.turn++
	}
	for i, t := range r.planned.peers {
		p := r.peers[t.Address]
		end, told := endOf(t.Address, &r.Own, p.held >= doubtful)
		if end != nil && end.Key == r.end.Key { // it tells this rail, and what that asks itself says nothing of a peer
			end = nil
		}
		if end == nil || *end != p.end { // it has none, or was restarted: nothing was lost
			p.held, p.tries = 0, tries{}
		}
		if end == nil {
			continue
		}
		p.end = *end
		switch {
		case p.held == 0:
			p.waits = false
		case !p.waits:
			p.waits, p.asked = true, told.begun
		case told.ended > p.asked: // it says that it answers, or is not there at all
			r.count(p, p.held, p.held)
			p.held, p.waits = 0, false
		}
		small := &message{rail: r, peer: p, to: p.end}
		list = append(list, small)
		if large && i == r.turn%len(r.planned.peers) {
			list = append(list, &message{rail: r, peer: p, to: p.end, large: true, small: small})
		}
	}
	return list
}

// came takes what came of a message that was sent at a time.
func (m *message) came(pong *rdmaping.Pong, at time.Time) {
	r := m.rail
	lost := pong.Lost
	if f := pong.Failure; f != nil {
		switch {
		case strings.HasPrefix(f.Step, "ibv_create_ah"), strings.HasPrefix(f.Step, "ibv_post_send"):
			lost = true // there is no way to it
		case f.Unsent():
			return
		default:
			r.end, r.why = nil, ""
			return
		}
	}
	m.lost = lost
	if pong.Reordered {
		r.reordered++
	}
	if m.peer != nil && !m.large {
		m.peer.tries.add(m.round, lost)
	}
	switch {
	case m.peer == nil:
		was := r.loop.Lost
		r.loop.Sent++
		if lost {
			r.loop.Lost++
		}
		r.tell(r.self.Address, r.self.Leaf, 1, r.loop.Lost-was)
	case m.large:
		if !m.small.lost {
			r.large.Sent++
			if lost {
				r.large.Lost++
			}
		}
		return
	case lost:
		m.peer.held++
		return
	default:
		r.count(m.peer, m.peer.held+1, m.peer.held)
		m.peer.held = 0
		r.last = at
	}
	if !lost {
		m.observe(pong)
	}
}

// observe takes the times of a message that was answered. Where the own NIC has times, those without any are left out.
func (m *message) observe(pong *rdmaping.Pong) {
	r, group := m.rail, rdmaping.Loopback
	if m.peer != nil {
		group = m.peer.group
	}
	switch {
	case pong.Doubtful:
		r.doubtful++
	case pong.Timed == (r.clock == rdmaping.OfNIC):
		r.rtt[group].Observe(pong.Network.Seconds())
		if pong.Timed {
			r.host += pong.Initiator()
		}
	}
}

// count takes messages to a peer whose fate is known.
func (r *rail) count(p *peer, sent, lost uint64) {
	leaf := r.leaves[p.Leaf]
	leaf.Sent, leaf.Lost = leaf.Sent+sent, leaf.Lost+lost
	r.tell(p.Address, p.Leaf, sent, lost)
}

func (r *rail) tell(to, leaf string, sent, lost uint64) {
	r.report(locate.Pair{
		From: locate.Rail{Node: r.self.Address, Number: r.Rail, Leaf: r.self.Leaf},
		To:   locate.Rail{Node: to, Number: r.Rail, Leaf: leaf}, Sent: int(sent), Bad: int(lost),
	})
}

// status is the rail as others see it.
func (r *rail) status(own *planned) rdmaping.RailStatus {
	s := rdmaping.RailStatus{
		Device: own.Device, Port: own.Port, Rail: own.Rail, Leaf: own.self.Leaf, Address: own.self.Address,
		Loop: r.loop, Large: r.large, Flows: r.flows, Answered: r.last, Clock: r.clock, Host: r.host,
		Reordered: r.reordered, Doubtful: r.doubtful, RTT: map[rdmaping.Group]*dto.Histogram{},
	}
	for leaf, c := range r.leaves {
		s.Leaves = append(s.Leaves, rdmaping.LeafCount{Leaf: leaf, Group: own.groupOf(leaf), Count: *c})
	}
	slices.SortFunc(s.Leaves, func(a, b rdmaping.LeafCount) int { return cmp.Compare(a.Leaf, b.Leaf) })
	for g, h := range r.rtt {
		var m dto.Metric
		if h.Write(&m) == nil {
			s.RTT[g] = m.Histogram
		}
	}
	s.Fault, s.Judged, s.Bad = r.judgement(time.Now())
	return s
}
