// SPDX-License-Identifier: Apache-2.0

package job

import (
	"time"

	"gpufabric_exporter/internal/fabric"
)

const (
	contradictions = 2         // readings in a row that change a known verdict
	keep           = time.Hour // how long a verdict stands while nothing is seen that contradicts it
)

// settled is the verdict on a rank that is shown, and the readings that contradict it.
type settled struct {
	shown  Verdict
	since  time.Time // when the transport was first seen to be this one
	seen   time.Time // when a transport was last seen; zero: never
	unseen Reason    // why it was not at the last reading; empty: it was, or there was none to be seen
	other  Verdict
	others int // readings in a row that say other
}

// take takes the verdict of one reading. One rule holds for all that is unknown, whatever made it so: what was
// seen stands, for an hour. Else a user could end the alert about a job by keeping the exporter from seeing
// it, or keep it up for ever.
func (s *settled) take(v Verdict, at time.Time) {
	known := s.shown.Transport != "" && s.shown.Transport != Unknown
	silent := known && s.silent(v)
	s.unseen = ""
	switch {
	case v.Transport == Unknown && v.Reason.unseen():
		s.unseen = v.Reason
	case silent && v.Transport != Unknown:
		s.unseen = Unreadable
	}
	switch {
	case !known, !silent && s.same(v):
		s.show(v, at)
	case silent:
		s.others = 0
		if at.Sub(s.seen) >= keep {
			s.show(v, at)
		}
	default:
		if s.other.Transport != v.Transport {
			s.others = 0
		}
		s.other = v
		if s.others++; s.others >= contradictions {
			s.show(v, at)
		}
	}
}

// kept is why the verdict is one that is kept; empty: it is not.
func (s *settled) kept() Reason {
	if s.seen.IsZero() || s.shown.Transport == Unknown {
		return ""
	}
	return s.unseen
}

// same reports whether a verdict agrees with the one that is shown, or makes it certain.
func (s *settled) same(v Verdict) bool {
	return v.Transport == s.shown.Transport && (v.Confirmed || !s.shown.Confirmed)
}

// silent reports whether a verdict says nothing against the one that is shown: nothing moved, what decides
// was not read, or only its user says so.
func (s *settled) silent(v Verdict) bool {
	return v.Transport == Unknown && v.Reason != NoCommunicator || v.said && !s.shown.said || v.partly &&
		v.Transport == s.shown.Transport && !s.same(v)
}

func (s *settled) show(v Verdict, at time.Time) {
	if v.Transport != s.shown.Transport {
		s.since = at
	}
	switch {
	case v.Transport != Unknown:
		s.seen = at
	case v.Reason == NoCommunicator: // it is seen to have none any more
		s.seen = time.Time{}
	}
	s.shown, s.other, s.others = v, Verdict{}, 0
}

// growth follows resources of a process that grow step by step, as with communicators that are made again and
// again and not destroyed.
type growth struct {
	contexts, regions int
	steps             int // readings in a row at which both had not fallen and one had grown
}

const stepsToLeak = 10

func (g *growth) take(f fabric.Fact[fabric.VerbsUse]) {
	v, known := f.Get()
	if !known {
		return
	}
	switch {
	case v.Contexts < g.contexts || v.Regions < g.regions:
		g.steps = 0
	case g.regions > 0 && v.Contexts > g.contexts:
		g.steps++
	}
	g.contexts, g.regions = v.Contexts, v.Regions
}

func (g *growth) leaks() bool { return g.steps >= stepsToLeak }
