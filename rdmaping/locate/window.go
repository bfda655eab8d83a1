// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"maps"
	"slices"
	"time"
)

// Windows sums up what is reported into windows of one length, and hands each over when it is closed: when no message
// that was sent in it can still be answered. A report that comes later is dropped, and so is one from a clock that is
// ahead. It is for one goroutine.
type Windows struct {
	Length time.Duration
	Grace  time.Duration // after the end of a window until it is closed

	open   map[int64]map[ends]*Pair // by number since the epoch
	closed int64                    // number of the last window that is closed; 0: none
}

// ends is what a pair is known by.
type ends struct{ from, to Rail }

// ahead is how many windows a clock may be ahead.
const ahead = 2

// Add counts messages that were sent at a time, as of now, and reports whether they are still in time.
func (w *Windows) Add(at, now time.Time, p Pair) bool {
	n, current := w.number(at), w.number(now)
	if current < w.closed-ahead { // the clock was set back, and the windows of that time never were
		w.open, w.closed = nil, 0
	}
	if w.closed == 0 {
		w.closed = current - 1 - int64(w.Grace/w.Length) // what is older was never watched
	}
	if n <= w.closed || n > current+ahead {
		return false
	}
	if w.open == nil {
		w.open = map[int64]map[ends]*Pair{}
	}
	pairs := w.open[n]
	if pairs == nil {
		pairs = map[ends]*Pair{}
		w.open[n] = pairs
	}
	sum := pairs[ends{p.From, p.To}]
	if sum == nil {
		pairs[ends{p.From, p.To}] = &p
		return true
	}
	sum.Sent, sum.Bad = sum.Sent+p.Sent, sum.Bad+p.Bad
	return true
}

// Close returns the pairs of the windows that have closed since the last call, oldest window first.
func (w *Windows) Close(now time.Time) [][]Pair {
	last := w.number(now.Add(-w.Grace)) - 1
	if w.closed == 0 || last <= w.closed {
		return nil // none was open, or the clock went back
	}
	var out [][]Pair
	for _, n := range slices.Sorted(maps.Keys(w.open)) {
		if n > last {
			break
		}
		pairs := make([]Pair, 0, len(w.open[n]))
		for _, p := range w.open[n] {
			pairs = append(pairs, *p)
		}
		out = append(out, pairs)
		delete(w.open, n)
	}
	w.closed = last
	return out
}

func (w *Windows) number(t time.Time) int64 { return t.UnixNano() / int64(w.Length) }
