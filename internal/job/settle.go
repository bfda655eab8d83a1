// SPDX-License-Identifier: Apache-2.0

package job

import (
	"time"

	"gpufabric_exporter/internal/fabric"
)

const (
	contradictions = 2                // readings in a row that change a known verdict
	keepIdle       = 15 * time.Minute // how long a verdict is kept while nothing moves
)

// settled is the verdict on a rank that is shown, and the readings that contradict it.
type settled struct {
	shown  Verdict
	since  time.Time // when the transport was first seen to be this one
	seen   time.Time // when it was last seen to be
	other  Verdict
	others int // readings in a row that say other
}

// take takes the verdict of one reading.
func (s *settled) take(v Verdict, at time.Time) {
	known := s.shown.Transport != "" && s.shown.Transport != Unknown
	switch {
	case !known, s.same(v):
		s.show(v, at)
	case v.Reason == Idle || v.Reason == NoTraffic || v.Reason == LittleTraffic || v.Reason == FirstReading:
		s.others = 0
		if at.Sub(s.seen) >= keepIdle {
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

// same reports whether a verdict agrees with the one that is shown, or makes it certain.
func (s *settled) same(v Verdict) bool {
	return v.Transport == s.shown.Transport && (v.Confirmed || !s.shown.Confirmed)
}

func (s *settled) show(v Verdict, at time.Time) {
	if v.Transport != s.shown.Transport {
		s.since = at
	}
	s.shown, s.seen, s.other, s.others = v, at, Verdict{}, 0
}

// growth follows resources of a process that grow step by step, as with communicators that are made again and again and not
// destroyed.
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
