// SPDX-License-Identifier: Apache-2.0

package page

import (
	"sync"
	"time"

	"gpufabric_exporter/internal/diagnose"
)

// Sightings remembers since when what fails now has failed, as far as this process has looked: with each scrape that asks
// the checks, and with each look at the page. All methods may be called at the same time. It holds no more than what fails.
type Sightings struct {
	mu      sync.Mutex
	at      time.Time // of the node that was looked at last
	judged  map[*diagnose.Check]bool
	failing map[failure]sighting
}

// failure is what a check found about a subject.
type failure struct {
	check   string
	subject diagnose.Subject
}

// sighting is when a finding was seen.
type sighting struct {
	first, last time.Time
	// before says that nothing was known of it just before: it may have been there.
	before bool
}

// rateGap is how long traffic that looked bad, and was not looked at since, counts as bad all the time: as long as readings
// of statistics are compared.
const rateGap = 5 * time.Minute

// See takes note of the verdicts on a node as it was at a time: those of all checks, or where rates is false of those only
// that do not compare readings. What cannot be told changes nothing.
func (s *Sightings) See(list []diagnose.Verdict, rates bool, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Before(s.at) {
		return // a scrape that was overtaken
	}
	s.at = at
	if s.judged == nil {
		s.judged, s.failing = map[*diagnose.Check]bool{}, map[failure]sighting{}
	}
	told := map[failure]bool{} // what still fails, or may
	for i := range list {
		v := &list[i]
		if v.Status == diagnose.OK {
			continue
		}
		key := failure{v.Check.ID, v.Subject.Key()}
		told[key] = true
		if v.Status == diagnose.Failed {
			s.fails(key, v.Check, at)
		}
	}
	for key := range s.failing {
		if !told[key] && (rates || !diagnose.Find(key.check).Rate) {
			delete(s.failing, key)
		}
	}
	for i := range list {
		if list[i].Status != diagnose.Unknown {
			s.judged[list[i].Check] = true
		}
	}
}

func (s *Sightings) fails(key failure, c *diagnose.Check, at time.Time) {
	seen, is := s.failing[key]
	gap := is && c.Rate && at.Sub(seen.last) > rateGap
	if !is || gap {
		seen = sighting{first: at, before: gap || !s.judged[c]}
	}
	seen.last = at
	s.failing[key] = seen
}

// first returns when any of these verdicts, all of which fail, was seen first, and whether it may have failed before.
func (s *Sightings) first(list []diagnose.Verdict) (at time.Time, atLeast, known bool) {
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

// String is the sighting in words.
func (s sighting) String() string {
	at := s.first.UTC().Format("2006-01-02 15:04:05 UTC")
	if s.before {
		return "at least since " + at + "; this exporter has not run for longer"
	}
	return "since " + at
}
