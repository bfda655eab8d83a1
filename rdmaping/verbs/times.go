// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"time"

	"gpufabric_exporter/rdmaping"
)

// Where both NICs have clocks, four completions have times: T2, the message left; T3, it came to the other NIC; T4, the
// answer left that one; T5, it came. The other host tells T4-T3 in a message of its own, because the NIC only knows T4
// when the answer has left. So (T5-T2)-(T4-T3) is without either host, and no clock is compared with another one.

// heard is what is known of a message that was sent.
type heard struct {
	timed     bool // times of the NICs are waited for
	left      *uint64
	came      uint64         // T5
	told      *time.Duration // T4-T3
	answered  bool
	reordered bool
	rtt       time.Duration // by the clock of this host, as is remote
	remote    time.Duration
}

// posted is what the NIC is sending.
type posted struct {
	asked  *asking
	answer *message // whose times are to be told
	came   uint64   // T3
	to     remote
}

// left handles a message that was sent.
func (r *rail) left(a arrival) {
	p := r.posted[a.slot-receives]
	r.posted[a.slot-receives] = posted{}
	switch {
	case p.asked != nil:
		p.asked.left = &a.ticks
		r.settle(p.asked)
	case p.answer != nil:
		r.tell(p, a.ticks)
	}
}

// tell says how long a message was here. It costs as little as an answer, and follows none that was suppressed.
func (r *rail) tell(p posted, left uint64) {
	if r.ways.peers[p.to.address] != p.to.peer {
		return // it gave room to another one
	}
	m := *p.answer
	m.kind, m.remote = kindTimes, r.between(p.came, left)
	r.ways.to(p.to.peer, m.flow, time.Now(), func(h handle, f *rdmaping.Failure) {
		if f == nil {
			_ = r.post(m, rdmaping.Least, h, p.to, posted{}) // the slot of the answer is free
		}
	})
}

// take takes an answer, or what follows it, and reports whether it was expected.
func (r *rail) take(a *asking, m message, by arrival, now time.Time) bool {
	switch {
	case m.kind == kindAnswer && !a.answered && a.Size == by.size:
		a.answered, a.came, a.rtt, a.remote = true, by.ticks, now.Sub(a.sent), m.remote
		for _, other := range r.asked {
			before := !other.sent.IsZero() && other.sent.Before(a.sent)
			if before && !other.answered && other.To == a.To && other.Flow == a.Flow {
				other.reordered = true
			}
		}
	case m.kind == kindTimes && a.timed && a.told == nil:
		a.told, a.reordered = &m.remote, a.reordered || !a.answered
	default:
		return false
	}
	r.settle(a)
	return true
}

// settle ends a message of which all is known.
func (r *rail) settle(a *asking) {
	if r.asked[a.number] != a || !a.answered || a.timed && (a.left == nil || a.told == nil) {
		return
	}
	delete(r.asked, a.number)
	a.done <- a.pong(r)
}

// pong is what came of a message. Who tells a time that cannot be has none.
func (a *asking) pong(r *rail) rdmaping.Pong {
	switch {
	case a.sent.IsZero():
		return rdmaping.Pong{Failure: unmade}
	case !a.answered:
		return rdmaping.Pong{Lost: true}
	}
	p := rdmaping.Pong{RTT: a.rtt, Remote: a.remote, Reordered: a.reordered}
	outside := a.rtt // of this host
	if a.timed && a.left != nil && a.told != nil {
		p.Timed, p.Remote, outside = true, *a.told, r.between(*a.left, a.came)
	}
	p.Network = outside - p.Remote
	const drift = 100 // a hundredth, between the clocks of NIC and host
	if p.Remote < 0 || p.Network < 0 || outside > a.rtt+a.rtt/drift {
		p.Timed, p.Doubtful, p.Remote, p.Network = false, true, 0, 0
	}
	return p
}

// lidOf is where a message to an endpoint leaves the subnet, as NCCL chooses it: the LID of the endpoint, but between
// subnets that of its GID (FLID), where there is one. RoCE has none.
func lidOf(e rdmaping.Endpoint, self rdmaping.GID) uint16 {
	if e.Link != rdmaping.InfiniBand {
		return 0
	}
	flid := uint16(e.GID[4])<<8 | uint16(e.GID[5])
	if [2]byte(e.GID[6:8]) != [2]byte(self[6:8]) && flid != 0 {
		return flid
	}
	return e.LID
}
