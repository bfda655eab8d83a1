// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"time"

	"gpufabric_exporter/rdmaping"
)

// inAll and inPeer are how many messages of others are answered in a second at most, and how many of one of them; more
// are received and dropped. Exporters ask four times in a second at most.
var (
	inAll  = shares{exporters: limit{perSecond: 160}, people: limit{perSecond: 96}}
	inPeer = shares{exporters: limit{perSecond: 16}, people: limit{perSecond: 32}}
)

const (
	// perTurn is how many completions are handled before asks and timeouts: as many as the queue can have.
	perTurn = receives + sends
	// arrivalsPerSecond is how many messages are received at full speed: more than all that is answered and asked. Where
	// more come, the rail rests between turns, or who knows the Q_Key could have it use a processor that jobs need.
	arrivalsPerSecond = 2048
	rest              = 5 * time.Millisecond
	// idle is how long the rail waits where nothing is due.
	idle = time.Second
	// stuck is how long a NIC keeps messages that it will not send: others keep it from sending (PFC).
	stuck = time.Second
)

// rail answers and asks on one queue pair, which belongs to its goroutine.
type rail struct {
	port
	self    rdmaping.Endpoint
	asks    chan *asking
	failed  chan struct{}     // closed when the queue pair is of no use any more
	failure *rdmaping.Failure // after failed
	ended   chan struct{}     // closed when queue pair and ways are destroyed
	stop    chan struct{}

	asked      map[uint64]*asking // by number
	ways       *ways
	more       bool  // completions may be in the queue
	free       []int // slots for sending
	posted     [sends]posted
	moved      time.Time // when a message last left, or came after none
	mayAsk     limit
	mayAnswer  shares
	mayArrive  limit
	flooded    bool   // more than that came in this turn
	answered   uint64 // messages
	strange    uint64 // messages that are none of ours, or have another key
	suppressed uint64 // messages that were not answered, because there are too many of them
}

// asking is a message on its way.
type asking struct {
	*rdmaping.Ask
	timeout   time.Duration
	number    uint64
	sent, end time.Time          // sent is zero while there is no way
	done      chan rdmaping.Pong // has room for it
	heard
}

func newRail(p port, self rdmaping.Endpoint) *rail {
	r := &rail{
		port: p, self: self, asks: make(chan *asking, 1),
		failed: make(chan struct{}), ended: make(chan struct{}), stop: make(chan struct{}),
		asked: map[uint64]*asking{}, ways: newWays(p, self.GID),
		mayAsk: limit{perSecond: rdmaping.PerSecond}, mayAnswer: inAll,
		mayArrive: limit{perSecond: arrivalsPerSecond},
	}
	r.self.Key = draw()
	for slot := range sends {
		r.free = append(r.free, receives+slot)
	}
	return r
}

// end ends run, and destroys what is left.
func (r *rail) end() {
	close(r.stop)
	r.wake()
	<-r.ended
	r.close()
}

// draw returns a number that nobody else knows.
func draw() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.BigEndian.Uint64(b[:])
}

// run serves the rail until the queue pair fails. What failed keeps no way: that would keep the GID of the port.
func (r *rail) run() {
	defer close(r.ended)
	for r.failure == nil {
		r.failure = r.turn()
	}
	for _, a := range r.asked {
		a.done <- rdmaping.Pong{Failure: r.failure}
	}
	r.asked = nil
	close(r.failed)
	r.quit()
	r.ways.end()
}

// round asks from another goroutine: the messages at places, for the pongs at the same places.
func (r *rail) round(ctx context.Context, q *rdmaping.Round, places []int, pongs []rdmaping.Pong) {
	askings := make([]*asking, len(places))
	for i, at := range places {
		if i > 0 && q.Gap > 0 {
			select {
			case <-time.After(q.Gap):
			case <-ctx.Done():
				return
			}
		}
		askings[i] = &asking{Ask: &q.Asks[at], timeout: q.Timeout, done: make(chan rdmaping.Pong, 1)}
		select {
		case r.asks <- askings[i]:
			r.wake()
		case <-r.failed:
		}
	}
	for i, at := range places {
		select {
		case pongs[at] = <-askings[i].done:
		case <-r.failed:
			pongs[at] = rdmaping.Pong{Failure: r.failure}
		case <-ctx.Done():
			return
		}
	}
}

// turn waits for something to do, and does it.
func (r *rail) turn() *rdmaping.Failure {
	if r.flooded {
		time.Sleep(rest)
		r.flooded = false
	}
	patience := idle
	for _, a := range r.asked {
		patience = min(patience, time.Until(a.end))
	}
	if r.more {
		patience = 0
	}
	if f := r.wait(int(max(0, patience+time.Millisecond-1) / time.Millisecond)); f != nil {
		return f
	}
	if r.gidsChanged() {
		r.ways.renew()
	}
	begun := time.Now() // what is in the queue by now is handled below: no answer in it comes too late
	if f := r.arrivals(); f != nil {
		return f
	}
	r.ways.sweep(len(r.free) == sends)
	for n, a := range r.asked {
		if !begun.Before(a.end) {
			delete(r.asked, n)
			a.done <- a.pong(r)
		}
	}
	if r.ways.hang() {
		return &rdmaping.Failure{Step: "making a way", Text: "ibv_create_ah does not return"} // not what says: no way
	}
	for len(r.ways.made) > 0 {
		r.ways.take(<-r.ways.made, time.Now())
	}
	select {
	case <-r.stop:
		return &rdmaping.Failure{Step: "closed"}
	case a := <-r.asks:
		r.ask(a)
	default:
	}
	return nil
}

// arrivals handles what has come, but not without end where messages come as fast.
func (r *rail) arrivals() *rdmaping.Failure {
	r.more = true
	for n := 0; n < perTurn; {
		arrivals, f := r.poll()
		if f != nil {
			return f
		}
		now := time.Now()
		for _, a := range arrivals {
			if f := r.arrived(a, now); f != nil {
				return f
			}
		}
		if n += len(arrivals); len(arrivals) == 0 {
			r.more = false
			break
		}
	}
	return nil
}

// arrived handles a completion.
func (r *rail) arrived(a arrival, now time.Time) *rdmaping.Failure {
	if !a.received {
		r.free, r.moved = append(r.free, a.slot), now
	}
	if a.status != 0 { // of a UD queue pair it is the end
		return &rdmaping.Failure{Step: "the queue pair failed", Text: statusText(a.status)}
	}
	if !a.received {
		r.left(a)
		return nil
	}
	r.flooded = !r.mayArrive.pass(now) || r.flooded
	route, text := r.buffer(a.slot)
	if a.size <= len(text) {
		r.heard(a, route, text[:a.size], now)
	}
	return r.receive(a.slot)
}

// heard handles a message. Whatever is not expected is counted, and costs nothing else.
func (r *rail) heard(a arrival, route, text []byte, now time.Time) {
	m, err := parseMessage(text)
	if err != nil {
		r.strange++
		return
	}
	var source rdmaping.GID
	if a.routed {
		source, _ = sourceOf(route)
	}
	switch {
	case m.kind == kindAsk && m.key == r.self.Key:
		r.answer(m, a, source, now)
	case m.kind != kindAsk:
		asked := r.asked[m.number]
		if asked == nil || asked.To.Key != m.key || asked.To.QPN != a.qpn || !r.take(asked, m, a, now) {
			r.strange++
		}
	default:
		r.strange++
	}
}

// answer sends a message of the same size back to where one came from, when there is a way. What the rail asks itself,
// nobody else's messages keep it from answering.
func (r *rail) answer(m message, a arrival, source rdmaping.GID, now time.Time) {
	known := source != rdmaping.GID{} || r.self.Link == rdmaping.InfiniBand && a.lid != 0
	if source == (rdmaping.GID{}) {
		source = r.self.GID // of the same subnet: the LID says where
	}
	asked := r.asked[m.number]
	own := asked != nil && asked.To.Key == r.self.Key
	var p *peer
	if known && source.IsOfOne() { // many would receive an answer to others
		p = r.ways.peer(address{source, a.lid}, own, now)
	}
	if p == nil || !own && (!p.share.of(m.byHand).pass(now) || !r.mayAnswer.of(m.byHand).pass(now)) {
		r.suppressed++
		return
	}
	to := remote{p, a.qpn, m.qkey}
	m.kind = kindAnswer
	var then posted
	if m.timed && r.self.Timed {
		then = posted{came: a.ticks, to: to, answer: &m}
	}
	r.ways.to(p, m.flow, now, func(h handle, f *rdmaping.Failure) {
		if f == nil {
			m.remote = time.Since(now)
			f = r.post(m, a.size, h, to, then)
		}
		if f != nil {
			r.suppressed++
			return
		}
		r.answered++
	})
}

// ask sends a message to a peer, when there is a way.
func (r *rail) ask(a *asking) {
	now := time.Now()
	p := r.ways.peer(address{a.To.GID, lidOf(a.To, r.self.GID)}, true, now)
	switch {
	case !r.mayAsk.pass(now):
		a.done <- rdmaping.Pong{Failure: &rdmaping.Failure{Step: rdmaping.TooFast}}
		return
	case p == nil:
		a.done <- rdmaping.Pong{Failure: &rdmaping.Failure{Step: rdmaping.TooMany}}
		return
	}
	a.number, a.timed, a.end = draw(), r.self.Timed && a.To.Timed, now.Add(a.timeout)
	r.asked[a.number] = a
	r.ways.to(p, a.Flow, now, func(h handle, f *rdmaping.Failure) {
		if r.asked[a.number] != a {
			return // it waited for too long
		}
		m := message{
			kind: kindAsk, timed: a.timed, byHand: a.ByHand, flow: a.Flow, key: a.To.Key, number: a.number, qkey: r.self.QKey,
		}
		if f == nil {
			a.sent = time.Now()
			a.end = a.sent.Add(a.timeout)
			f = r.post(m, a.Size, h, remote{p, a.To.QPN, a.To.QKey}, posted{asked: a})
		}
		if f != nil {
			delete(r.asked, a.number)
			a.done <- rdmaping.Pong{Failure: f}
		}
	})
}

// remote is a queue pair of a peer.
type remote struct {
	*peer
	qpn, qkey uint32
}

// post sends a message.
func (r *rail) post(m message, size int, h handle, to remote, p posted) *rdmaping.Failure {
	last := len(r.free) - 1
	switch now := time.Now(); {
	case last == sends-1:
		r.moved = now
	case last < 0 && now.Sub(r.moved) > stuck:
		return &rdmaping.Failure{Step: "ibv_post_send", Text: "the NIC sends nothing"}
	case last < 0:
		return &rdmaping.Failure{Step: rdmaping.Busy}
	}
	slot := r.free[last]
	_, text := r.buffer(slot)
	m.put(text[:size])
	if f := r.send(slot, size, h, to.qpn, to.qkey); f != nil {
		return f
	}
	r.free = r.free[:last]
	r.posted[slot-receives] = p
	return nil
}
