// SPDX-License-Identifier: Apache-2.0

package ping

import (
	"strings"
	"testing"

	"gpufabric_exporter/rdmaping"
)

// TestSlowWay is a neighbour that is waited for longer than for an answer: the command says what came of it.
func TestSlowWay(t *testing.T) {
	n := connect(t)
	n.timeout = "100ms"
	n.plant("nobody 127.0.1.2 1")
	code, out := n.ping(n.peer, "--count=1")
	if code != exitLost || !strings.Contains(out, "ibv_create_ah: connection timed out: no neighbour has this address") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// TestOfFlow asks a flow more often where others lose messages, too.
func TestOfFlow(t *testing.T) {
	for _, c := range []struct{ asked, answered, want int }{{2, 2, leastOfFlow}, {4, 3, 9}, {4, 2, 18}} {
		tally := &tally{flows: map[uint32]*count{0: {asked: 5}}}
		for flow := range uint32(15) {
			tally.flows[1+flow] = &count{asked: c.asked, answers: make([]rdmaping.Pong, c.answered)}
		}
		if got := tally.ofFlow(); got != c.want {
			t.Errorf("%d of %d answered: %d messages", c.answered, c.asked, got)
		}
	}
}
