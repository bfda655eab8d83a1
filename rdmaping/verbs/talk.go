// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"time"

	"gpufabric_exporter/rdmaping"
)

const (
	// answersPerSecond is how many messages are answered at most; more are received and dropped.
	answersPerSecond = 256
	// idle is how long the rail waits where nothing is due.
	idle = time.Second
)

// rail answers and asks on one queue pair, which belongs to its goroutine.
type rail struct {
	port
	self    rdmaping.Endpoint
	number  uint64 // drawn anew by each process
	asks    chan *asking
	failed  chan struct{}     // closed when the queue pair is of no use any more
	failure *rdmaping.Failure // after failed
	stop    chan struct{}

	sequence   uint64
	asked      map[uint64]*asking
	back       *ways // to those who ask
	out        *ways // to peers; of the goroutine that hands messages over, which may wait for one
	free       []int // slots for sending
	posted     [sends]posted
	mayAsk     limit
	mayAnswer  limit
	answered   uint64 // messages
	strange    uint64 // messages that are none of ours, or have another key
	suppressed uint64 // messages that were not answered, because there are too many of them
}

// asking is a message on its way.
type asking struct {
	*rdmaping.Ask
	way       handle
	timeout   time.Duration
	sequence  uint64
	sent, end time.Time
	done      chan rdmaping.Pong // has room for it
	heard
}

func newRail(p port, self rdmaping.Endpoint) *rail {
	r := &rail{
		port: p, self: self, number: draw(), asks: make(chan *asking, 1),
		failed: make(chan struct{}), stop: make(chan struct{}),
		asked: map[uint64]*asking{}, back: newWays(p), out: newWays(p),
		mayAsk: limit{perSecond: rdmaping.PerSecond}, mayAnswer: limit{perSecond: answersPerSecond},
	}
	r.self.Key = draw()
	for slot := range sends {
		r.free = append(r.free, receives+slot)
	}
	return r
}

// end ends run, and destroys the queue pair.
func (r *rail) end() {
	close(r.stop)
	r.wake()
	<-r.failed
	r.back.end()
	r.out.end()
	r.close()
}

// draw returns a number that nobody else knows.
func draw() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.BigEndian.Uint64(b[:])
}

// run serves the rail until the queue pair fails.
func (r *rail) run() {
	defer close(r.failed)
	for {
		if err := r.turn(); err != nil {
			r.failure = err
			for _, a := range r.asked {
				a.done <- rdmaping.Pong{Failure: err}
			}
			r.asked = nil
			return
		}
	}
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
		a := &q.Asks[at]
		askings[i] = &asking{Ask: a, timeout: q.Timeout, done: make(chan rdmaping.Pong, 1)}
		way, f := r.out.to(destination{a.To.GID, lidOf(a.To, r.self.GID), a.Flow})
		if f != nil {
			askings[i].done <- rdmaping.Pong{Failure: f}
			continue
		}
		askings[i].way = way
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
	patience := idle
	for _, a := range r.asked {
		patience = min(patience, time.Until(a.end))
	}
	if err := r.wait(int(max(0, patience+time.Millisecond-1) / time.Millisecond)); err != nil {
		return &rdmaping.Failure{Step: err.Error()}
	}
	for {
		arrivals, err := r.poll()
		if err != nil {
			return &rdmaping.Failure{Step: err.Error()}
		}
		now := time.Now()
		for _, a := range arrivals {
			if f := r.arrived(a, now); f != nil {
				return f
			}
		}
		if len(arrivals) == 0 {
			break
		}
	}
	now := time.Now()
	for n, a := range r.asked {
		if !now.Before(a.end) {
			delete(r.asked, n)
			a.done <- a.pong(r)
		}
	}
	select {
	case <-r.stop:
		return &rdmaping.Failure{Step: "closed"}
	case a := <-r.asks:
		if f := r.ask(a); f != nil {
			a.done <- rdmaping.Pong{Failure: f}
		}
	default:
	}
	return nil
}

// arrived handles a completion.
func (r *rail) arrived(a arrival, now time.Time) *rdmaping.Failure {
	if !a.received {
		r.free = append(r.free, a.slot)
	}
	if a.status != 0 { // of a UD queue pair it is the end
		return &rdmaping.Failure{Step: "the queue pair failed", Text: statusText(a.status)}
	}
	if !a.received {
		r.left(a)
		return nil
	}
	route, text := r.buffer(a.slot)
	if a.size <= len(text) {
		r.heard(a, route, text[:a.size], now)
	}
	if err := r.receive(a.slot); err != nil {
		return &rdmaping.Failure{Step: err.Error()}
	}
	return nil
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
	case m.kind != kindAsk && m.number == r.number:
		asked := r.asked[m.sequence]
		if asked == nil || asked.To.Key != m.key || asked.To.QPN != a.qpn || !r.take(asked, m, a, now) {
			r.strange++
		}
	default:
		r.strange++
	}
}

// answer sends a message of the same size back to where one came from.
func (r *rail) answer(m message, a arrival, source rdmaping.GID, now time.Time) {
	known := source != rdmaping.GID{} || r.self.Link == rdmaping.InfiniBand && a.lid != 0
	if !known || len(r.free) == 0 || !r.mayAnswer.pass(now) {
		r.suppressed++
		return
	}
	if source == (rdmaping.GID{}) {
		source = r.self.GID // of the same subnet: the LID says where
	}
	to := destination{source, a.lid, m.flow}
	h, f := r.back.to(to)
	if f != nil {
		r.suppressed++
		return
	}
	m.kind = kindAnswer
	var p posted
	if m.timed && r.self.Timed {
		p = posted{came: a.ticks, to: to, qpn: a.qpn, answer: &m}
	}
	if f := r.post(m, a.size, h, a.qpn, func() time.Duration { return time.Since(now) }, p); f != nil {
		r.suppressed++
		return
	}
	r.answered++
}

// ask sends a message to a peer.
func (r *rail) ask(a *asking) *rdmaping.Failure {
	if !r.mayAsk.pass(time.Now()) {
		return &rdmaping.Failure{Step: "more than 64 messages in a second"}
	}
	if len(r.free) == 0 {
		return &rdmaping.Failure{Step: "the NIC has not sent the messages before"}
	}
	r.sequence++
	a.sequence, a.timed = r.sequence, r.self.Timed && a.To.Timed
	m := message{
		kind: kindAsk, timed: a.timed, flow: a.Flow, key: a.To.Key, number: r.number, sequence: r.sequence,
	}
	a.sent = time.Now()
	a.end = a.sent.Add(a.timeout)
	if f := r.post(m, a.Size, a.way, a.To.QPN, nil, posted{asked: a}); f != nil {
		return f
	}
	r.asked[r.sequence] = a
	return nil
}

// post sends a message, for which there is a free slot.
func (r *rail) post(m message, size int, h handle, qpn uint32, took func() time.Duration,
	p posted,
) *rdmaping.Failure {
	last := len(r.free) - 1
	slot := r.free[last]
	_, text := r.buffer(slot)
	if took != nil {
		m.remote = took()
	}
	m.put(text[:size])
	if f := r.send(slot, size, h, qpn); f != nil {
		return f
	}
	r.free = r.free[:last]
	r.posted[slot-receives] = p
	return nil
}
