// SPDX-License-Identifier: Apache-2.0

package pinger

import "time"

// tries is what came of the small messages to a peer since the minute began, by flow. One of several equal paths that
// is dead loses all messages of the flows that take it, while the peer answers those of others. What a peer lost that
// answered nothing at all is not held against its flows.
type tries struct {
	answered, lost [flows]int
	heard          uint32 // round in which it answered last; 0: not yet
}

// leastTries is how many messages of a flow there are at least, before anything is said of it.
const leastTries = 3

func (t *tries) add(round uint32, lost bool) {
	switch flow := round % flows; {
	case !lost:
		t.answered[flow]++
		t.heard = round
	case t.heard > 0 && round-t.heard < flows:
		t.lost[flow]++
	}
}

// closeFlows sums up the flows of the last minute, when it is over.
func (r *rail) closeFlows(now time.Time) {
	minute := now.Unix() / 60 // labels change with a minute, too
	if minute == r.minute {
		return
	}
	r.minute = minute
	for _, p := range r.peers {
		for flow := range flows {
			if p.tries.answered[flow]+p.tries.lost[flow] < leastTries {
				continue
			}
			r.flows.Sent++
			if p.tries.answered[flow] == 0 {
				r.flows.Lost++
			}
		}
		p.tries = tries{heard: p.tries.heard}
	}
}
