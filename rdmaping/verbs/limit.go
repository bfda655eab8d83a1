// SPDX-License-Identifier: Apache-2.0

package verbs

import "time"

// limit lets so many pass in a second, and as many at once.
type limit struct {
	perSecond int
	tokens    float64
	last      time.Time
}

// shares are limits of what exporters ask, and of what people ask by hand: neither keeps the other from its answers.
type shares struct{ exporters, people limit }

func (s *shares) of(byHand bool) *limit {
	if byHand {
		return &s.people
	}
	return &s.exporters
}

func (l *limit) pass(now time.Time) bool {
	if elapsed := now.Sub(l.last); l.last.IsZero() || elapsed > time.Second {
		l.tokens = float64(l.perSecond)
	} else if elapsed > 0 {
		l.tokens = min(float64(l.perSecond), l.tokens+elapsed.Seconds()*float64(l.perSecond))
	}
	l.last = now
	if l.tokens < 1 {
		return false
	}
	l.tokens--
	return true
}
