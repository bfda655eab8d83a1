// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"maps"
	"time"
)

// Windows sums up what becomes known into windows of one or several steps. A window ends with each step. What is of
// later than now is forgotten: the clock was set back. It is for one goroutine.
type Windows struct {
	Step  time.Duration
	Steps int // of a window

	steps map[int64]map[ends]Pair // by number since the epoch
	begun int64                   // the step in which Close was called last
}

// ends is what a pair is known by.
type ends struct{ from, to Rail }

// Add counts messages whose fate became known now.
func (w *Windows) Add(now time.Time, p Pair) {
	n := w.number(now)
	if w.steps == nil {
		w.steps = map[int64]map[ends]Pair{}
	}
	if w.steps[n] == nil {
		w.steps[n] = map[ends]Pair{}
	}
	add(w.steps[n], p)
}

// Close returns the pairs of the window that ended with the last step that is over, once. Nil: there are none.
func (w *Windows) Close(now time.Time) []Pair {
	n := w.number(now)
	maps.DeleteFunc(w.steps, func(step int64, _ map[ends]Pair) bool { return step < n-int64(w.Steps) || step > n })
	again := n <= w.begun
	if w.begun = n; again {
		return nil
	}
	sum := map[ends]Pair{}
	for step, pairs := range w.steps {
		if step == n {
			continue
		}
		for _, p := range pairs {
			add(sum, p)
		}
	}
	var window []Pair
	for _, p := range sum {
		window = append(window, p)
	}
	return window
}

func add(sum map[ends]Pair, p Pair) {
	was := sum[ends{p.From, p.To}]
	p.Sent, p.Bad = p.Sent+was.Sent, p.Bad+was.Bad
	sum[ends{p.From, p.To}] = p
}

func (w *Windows) number(t time.Time) int64 { return t.UnixNano() / int64(w.Step) }
