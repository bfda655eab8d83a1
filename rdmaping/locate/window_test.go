// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"slices"
	"testing"
	"time"
)

// TestWindows hands over the sum of the last steps that are over, once each.
func TestWindows(t *testing.T) {
	w := Windows{Step: 5 * time.Second, Steps: 2}
	start := time.Unix(1000, 0)
	p := Pair{From: Rail{Node: "a"}, To: Rail{Node: "b"}, Sent: 1}
	closed := func(after time.Duration, want ...int) {
		t.Helper()
		var got []int
		for _, p := range w.Close(start.Add(after)) {
			got = append(got, p.Sent)
		}
		if !slices.Equal(got, want) {
			t.Errorf("after %s: %v, expected %v", after, got, want)
		}
	}
	for second := range 12 {
		w.Add(start.Add(time.Duration(second)*time.Second), p)
		switch second {
		case 5:
			closed(5*time.Second, 5)
		case 10:
			closed(10*time.Second, 10)
		default:
			closed(time.Duration(second) * time.Second)
		}
	}
	closed(17*time.Second, 7)
	closed(3 * time.Second) // the clock went back
	w.Add(start.Add(4*time.Second), p)
	closed(6*time.Second, 1)
	closed(10000 * time.Hour)
	closed(10000*time.Hour + time.Minute)
}

// TestClockJumps goes on after the clock of the host was set, far ahead and far back.
func TestClockJumps(t *testing.T) {
	w := Windows{Step: 5 * time.Second, Steps: 2}
	p := Pair{From: Rail{Node: "a"}, To: Rail{Node: "b"}, Sent: 10, Bad: 5}
	now := time.Unix(1_800_000_000, 0)
	for _, jump := range []time.Duration{0, 400 * 24 * time.Hour, -800 * 24 * time.Hour, time.Hour, -time.Hour} {
		now = now.Add(jump)
		closed := 0
		for range 30 {
			w.Add(now, p)
			now = now.Add(time.Second)
			closed += len(w.Close(now))
		}
		if closed < 5 || closed > 7 || len(w.steps) > 3 {
			t.Errorf("%d windows in 30 s after the clock jumped by %s, %d steps", closed, jump, len(w.steps))
		}
	}
}
