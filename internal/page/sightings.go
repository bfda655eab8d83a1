// SPDX-License-Identifier: Apache-2.0

package page

import (
	"sync"
	"time"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/verdict"
)

// Sightings keeps since when current failures have lasted, as far as this process has seen: at each scrape with checks,
// and at each request of the page. All methods may be called at the same time. It keeps only what fails.
type Sightings struct {
	mu      sync.Mutex
	at      time.Time       // of the last node
	judged  map[string]bool // IDs of checks that gave a verdict: as many as the catalogue has
	failing map[failure]sighting
}

// failure is what a check found about a subject.
type failure struct {
	check   string
	subject verdict.Subject
}

// sighting is when a finding was seen.
type sighting struct {
	first, last time.Time
	// before says that it was unknown just before, so that it may have failed earlier.
	before bool
}

// rateGap is how long bad traffic that has not been judged again still counts as bad: as long as readings of statistics
// are compared.
const rateGap = 5 * time.Minute

// See records the verdicts on a node at a time: those of all checks or, if rates is false, only of those that do not
// compare readings. Unknown verdicts change nothing.
func (s *Sightings) See(list []verdict.Verdict, rates bool, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Before(s.at) {
		return // a newer scrape was recorded first
	}
	s.at = at
	if s.judged == nil {
		s.judged, s.failing = map[string]bool{}, map[failure]sighting{}
	}
	stands := map[failure]bool{} // what still fails, or may
	for i := range list {
		v := &list[i]
		if v.Status == verdict.OK {
			continue
		}
		key := failure{v.Check.ID, v.Subject.Key()}
		stands[key] = true
		if v.Status == verdict.Failed {
			s.fails(key, v.Check, at)
		}
	}
	for key := range s.failing {
		if !stands[key] && (rates || !diagnose.Find(key.check).Rate) {
			delete(s.failing, key)
		}
	}
	for i := range list {
		if list[i].Status != verdict.Unknown {
			s.judged[list[i].Check.ID] = true
		}
	}
}

func (s *Sightings) fails(key failure, c *verdict.Check, at time.Time) {
	seen, is := s.failing[key]
	gap := is && c.Rate && at.Sub(seen.last) > rateGap
	if !is || gap {
		seen = sighting{first: at, before: gap || !s.judged[c.ID]}
	}
	seen.last = at
	s.failing[key] = seen
}

// first returns when any of these verdicts, all of which fail, was seen first, and whether it may have failed before.
func (s *Sightings) first(list []verdict.Verdict) (at time.Time, atLeast, known bool) {
	var first sighting
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range list {
		seen, is := s.failing[failure{list[i].Check.ID, list[i].Subject.Key()}]
		if is && (!known || seen.first.Before(first.first)) {
			first, known = seen, true
		}
	}
	return first.first, first.before, known
}
