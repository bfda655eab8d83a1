// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"testing"
	"time"
)

// TestClockJumps goes on after the clock of the host was set, far ahead and far back.
func TestClockJumps(t *testing.T) {
	w := Windows{Length: 10 * time.Second, Grace: time.Second}
	p := Pair{From: Rail{Node: "a"}, To: Rail{Node: "b"}, Sent: 10, Bad: 5}
	now := time.Unix(1_800_000_000, 0)
	for _, jump := range []time.Duration{0, 400 * 24 * time.Hour, -800 * 24 * time.Hour, time.Hour, -time.Hour} {
		now = now.Add(jump)
		closed := 0
		for range 30 {
			w.Add(now, now, p)
			now = now.Add(time.Second)
			closed += len(w.Close(now))
		}
		if closed < 1 || closed > 4 {
			t.Errorf("%d windows in 30 s after the clock jumped by %s", closed, jump)
		}
	}
}
