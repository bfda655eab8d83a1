// SPDX-License-Identifier: Apache-2.0

package worker

import "time"

// backoff says when a child that failed may be started again. It doubles with each failure.
type backoff struct {
	least, most time.Duration

	delay time.Duration // after the last failure; 0: none since it went well
	until time.Time
}

// failed counts a failure.
func (b *backoff) failed(now time.Time) {
	b.delay = min(max(2*b.delay, b.least), b.most)
	b.until = now.Add(b.delay)
}

// answered counts a good answer of a child of that age. A child must have lived as long as the delay before it, or
// one that answers once and then crashes would be started again and again.
func (b *backoff) answered(age time.Duration) {
	if age >= b.delay {
		b.delay = 0
	}
}

// wait is how long it is until a start may be tried.
func (b *backoff) wait(now time.Time) time.Duration { return max(b.until.Sub(now), 0) }

// forget is for when the world has changed.
func (b *backoff) forget() { b.delay, b.until = 0, time.Time{} }
