// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gpufabric_exporter/rdmaping"
)

const (
	maxPeers = 64
	// maxOwn is how many of them are asked at most: eight, the rail itself, and those in whose place they came.
	maxOwn   = 16
	maxFlows = 16 // of a peer
	maxWaits = 64 // messages to a peer
	// away is how long after its last message a peer gives room to another one. Rounds are a minute apart at most.
	away = 3 * time.Minute
	// strangers is how many wait for their first way at most. Twice as many are met in a second.
	strangers = 16
	// wayAge is how long a way is used: it has a MAC address in it, which changes when a peer or a router is replaced.
	wayAge = time.Minute
	// noWay is how many times as long as a failure took none is made again: it may have waited for a neighbour.
	noWay = 10
	// hung is longer than the kernel (1 s) and libraries (3 s) wait for a neighbour.
	hung = 6 * time.Second
)

// address is where a peer is.
type address struct {
	gid rdmaping.GID
	lid uint16
}

// peer is who is asked, or asks.
type peer struct {
	address
	own       bool // it is asked, and among the last of these
	met, last time.Time
	share     shares // of answers

	flows   map[uint32]*way
	making  bool
	reached bool              // by the way that was made last
	failure *rdmaping.Failure // of it, if it took long
	retry   time.Time
	waits   []waiting
}

type way struct {
	handle handle
	renew  time.Time // when it is made again
}

// waiting is a message that waits for its way.
type waiting struct {
	flow uint32
	then func(handle, *rdmaping.Failure)
}

// making is a way that is to be made, and then what came of it.
type making struct {
	*peer
	flow    uint32
	era     int // of the GIDs
	handle  handle
	failure *rdmaping.Failure
	took    time.Duration
}

// ways are address handles of a queue pair, whose goroutine they belong to. It makes none itself, because that waits
// for a neighbour: one goroutine makes those to peers that it reached before, so that it hardly waits, one the others.
type ways struct {
	port
	self         rdmaping.GID // of the port
	peers        map[address]*peer
	meet         limit  // strangers
	perPeer      shares // of answers
	known, first lane
	made         chan making
	makers       sync.WaitGroup
	stop         chan struct{}
	era          int      // how many times the GIDs of the port changed
	gone         []handle // that are used no more: what was sent by them shall leave
}

// lane is the ways that a goroutine makes, each for another peer.
type lane struct {
	jobs  chan making
	since atomic.Pointer[time.Time] // when the one was begun that is being made
}

func newWays(p port, self rdmaping.GID) *ways {
	w := &ways{
		port: p, self: self, peers: map[address]*peer{}, meet: limit{perSecond: 2 * strangers}, perPeer: inPeer,
		made: make(chan making, 2*maxPeers), stop: make(chan struct{}),
	}
	for _, l := range []*lane{&w.known, &w.first} {
		l.jobs = make(chan making, maxPeers)
		w.makers.Go(func() { w.serve(l) })
	}
	return w
}

// serve is the goroutine of a lane.
func (w *ways) serve(l *lane) {
	for {
		select {
		case <-w.stop:
			return
		case m := <-l.jobs:
			select {
			case <-w.stop: // each of those that wait may take a second
				return
			default:
			}
			begun := time.Now()
			l.since.Store(&begun)
			m.handle, m.failure = w.reach(m.gid, m.lid, m.flow)
			l.since.Store(nil)
			m.took = time.Since(begun)
			w.made <- m
			w.wake()
		}
	}
}

// hang reports whether a way takes longer than anything waits for.
func (w *ways) hang() bool {
	known, first := w.known.since.Load(), w.first.since.Load()
	return known != nil && time.Since(*known) > hung || first != nil && time.Since(*first) > hung
}

// peer returns the peer at an address; nil: there is no room for it. One that is away gives room, else the one that was
// met last and is not asked: strangers do not push out those that were there before.
func (w *ways) peer(at address, own bool, now time.Time) *peer {
	p := w.peers[at]
	if p == nil {
		if !own && !w.meet.pass(now) {
			return nil
		}
		if len(w.peers) == maxPeers && !w.part(now) {
			return nil
		}
		p = &peer{address: at, met: now, share: w.perPeer, flows: map[uint32]*way{}}
		w.peers[at] = p
	}
	if own && !p.own {
		w.disown()
	}
	p.own, p.last = p.own || own, now
	return p
}

// disown makes room for one more that is asked. Who tells another address each time would else push out those that ask.
func (w *ways) disown() {
	var from *peer
	n := 0
	for _, p := range w.peers {
		if !p.own {
			continue
		}
		if n++; from == nil || p.last.Before(from.last) {
			from = p
		}
	}
	if n >= maxOwn {
		from.own = false
	}
}

func (w *ways) part(now time.Time) bool {
	var from *peer
	for _, p := range w.peers {
		gone := now.Sub(p.last) > away
		if !p.making && gone {
			from = p
			break
		}
		if !p.making && !p.own && (from == nil || p.met.After(from.met)) {
			from = p
		}
	}
	if from == nil {
		return false
	}
	w.leave(from)
	return true
}

func (w *ways) leave(p *peer) {
	for flow := range p.flows {
		w.drop(p, flow)
	}
	delete(w.peers, p.address)
}

func (w *ways) drop(p *peer, flow uint32) {
	w.gone = append(w.gone, p.flows[flow].handle)
	delete(p.flows, flow)
}

// renew drops all ways. Each keeps the place of the GID in the table of the port: an address that is removed and added
// again would get another index, and jobs that state the index would fail.
func (w *ways) renew() {
	w.era++
	for _, p := range w.peers {
		for flow := range p.flows {
			w.drop(p, flow)
		}
	}
}

// sweep destroys handles that are used no more, when nothing is being sent. A NIC that sends nothing keeps but so many.
func (w *ways) sweep(idle bool) {
	if !idle && len(w.gone) <= maxPeers*maxFlows {
		return
	}
	for _, h := range w.gone {
		w.forget(h)
	}
	w.gone = w.gone[:0]
}

// to calls then, now or later, with a way to a peer or the reason why there is none. One that cannot be made again
// stays as it was: what is sent to a peer that died gets lost.
func (w *ways) to(p *peer, flow uint32, now time.Time, then func(handle, *rdmaping.Failure)) {
	x := p.flows[flow]
	if (x == nil || !now.Before(x.renew)) && !p.making && !now.Before(p.retry) {
		l := &w.first
		if p.reached {
			l = &w.known
		}
		if p.making = p.own || p.reached || len(l.jobs) < strangers; p.making {
			l.jobs <- making{peer: p, flow: flow, era: w.era} // there is room for each peer
		}
	}
	switch {
	case x != nil:
		then(x.handle, nil)
	case p.failure != nil:
		then(nil, p.failure)
	case p.making && len(p.waits) < maxWaits:
		p.waits = append(p.waits, waiting{flow, then})
	default:
		then(nil, unmade)
	}
}

// unmade is why a message was not sent whose way is still being made. It says nothing of the fabric.
var unmade = &rdmaping.Failure{Step: rdmaping.Unmade}

// take takes what was made, and sends what waited for it.
func (w *ways) take(m making, now time.Time) {
	p, waits := m.peer, m.waits
	if m.failure == nil && m.era != w.era {
		w.forget(m.handle)
		p.making, p.waits = false, nil
		for _, one := range waits {
			w.to(p, one.flow, now, one.then)
		}
		return
	}
	p.making, p.waits, p.reached, p.failure = false, nil, m.failure == nil, nil
	if m.failure != nil {
		if m.took > 10*time.Millisecond {
			p.failure, p.retry = m.failure, now.Add(noWay*m.took)
			if p.gid == w.self { // its address was perhaps there before its routes
				p.retry = now.Add(m.took)
			}
		}
		for _, one := range waits {
			one.then(nil, m.failure)
		}
		return
	}
	x := p.flows[m.flow]
	if x == nil {
		if len(p.flows) == maxFlows {
			w.drop(p, slices.MinFunc(slices.Collect(maps.Keys(p.flows)), func(a, b uint32) int {
				return p.flows[a].renew.Compare(p.flows[b].renew)
			}))
		}
		x = &way{}
		p.flows[m.flow] = x
	}
	if x.handle != nil {
		w.gone = append(w.gone, x.handle)
	}
	x.handle, x.renew = m.handle, now.Add(wayAge)
	for _, one := range waits {
		w.to(p, one.flow, now, one.then)
	}
}

// end forgets all, when no way is being made any more.
func (w *ways) end() {
	close(w.stop)
	w.makers.Wait()
	for len(w.made) > 0 {
		if m := <-w.made; m.failure == nil {
			w.forget(m.handle)
		}
	}
	for _, p := range w.peers {
		w.leave(p)
	}
	w.sweep(true)
}
