// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"time"

	"gpufabric_exporter/rdmaping"
)

const (
	// maxWays is how many ways to peers are kept, and wayAge for how long: each has a MAC address in it, which changes
	// when a peer or a router is replaced.
	maxWays = 256
	wayAge  = time.Minute
	// noWay is how many times as long as a failure took none is made again: it may wait for a neighbour that does not
	// answer, and others wait with it.
	noWay = 10
)

// destination is what a way leads to.
type destination struct {
	gid  rdmaping.GID
	lid  uint16
	flow uint32
}

// ways are address handles of a queue pair. Each ways belongs to one goroutine.
type ways struct {
	port
	known map[destination]*way
}

type way struct {
	handle  handle // nil: there is none
	failure *rdmaping.Failure
	renew   time.Time // when it is made again
}

func newWays(p port) *ways { return &ways{p, map[destination]*way{}} }

// to returns a way to a peer. One that cannot be made again stays as it was: what is sent to a peer that died gets
// lost.
func (w *ways) to(d destination) (handle, *rdmaping.Failure) {
	now := time.Now()
	known := w.known[d]
	if known == nil {
		if len(w.known) == maxWays {
			w.end()
		}
		known = &way{}
		w.known[d] = known
	}
	if now.Before(known.renew) {
		return known.handle, known.failure
	}
	h, f := w.reach(d.gid, d.lid, d.flow)
	switch {
	case f == nil && known.handle != nil:
		w.forget(known.handle)
		fallthrough
	case f == nil:
		known.handle, known.failure, known.renew = h, nil, now.Add(wayAge)
	default:
		if took := time.Since(now); took > 10*time.Millisecond {
			known.renew = time.Now().Add(noWay * took)
		}
		if known.handle == nil {
			known.failure = f
		}
	}
	return known.handle, known.failure
}

// end forgets all.
func (w *ways) end() {
	for _, known := range w.known {
		if known.handle != nil {
			w.forget(known.handle)
		}
	}
	clear(w.known)
}
