// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"
	"sync/atomic"

	"gpufabric_exporter/internal/counters"
	"gpufabric_exporter/internal/fabric"
)

// maxPlans is more than a node has drivers times places. A driver that never shows the same names twice costs time,
// but not memory.
const maxPlans = 32

// plans keeps what follows from the names of a list of counters, which hardly ever change: those of all ports of a
// driver are the same, scrape for scrape. It may be used by any number of goroutines.
type plans struct{ made atomic.Pointer[[]*plan] }

// plan says what becomes of a list of counters.
type plan struct {
	place  counters.Place
	driver string
	names  []string

	counts   []planned // without those whose label would be that of an earlier one
	families []*Family // those that the list has all parts of
}

// planned is a counter of a list.
type planned struct {
	at   int    // in the list
	name string // as a label
	spec counters.Spec
	part int // of which of the families it is a part; -1: of none
}

// of returns the plan for a list.
func (p *plans) of(place counters.Place, driver string, list []fabric.Counter) *plan {
	var made []*plan
	if known := p.made.Load(); known != nil {
		made = *known
	}
	for _, m := range made {
		if m.fits(place, driver, list) {
			return m
		}
	}
	m := newPlan(place, driver, list)
	if len(made) == maxPlans {
		made = nil
	}
	made = append(slices.Clip(made), m)
	p.made.Store(&made) // one that another goroutine made meanwhile is made again
	return m
}

func (p *plan) fits(place counters.Place, driver string, list []fabric.Counter) bool {
	if p.place != place || p.driver != driver || len(p.names) != len(list) {
		return false
	}
	for i, name := range p.names {
		if list[i].Name != name {
			return false
		}
	}
	return true
}

func newPlan(place counters.Place, driver string, list []fabric.Counter) *plan {
	specOf := map[counters.Place]func(driver, name string) (counters.Spec, bool){
		counters.PlacePMA: counters.PMASpec, counters.PlacePort: counters.PortSpec, counters.PlaceDevice: counters.DeviceSpec,
	}[place]
	p := &plan{place: place, driver: driver}
	seen, parts := map[string]bool{}, map[counters.Meaning]int{}
	for i, c := range list {
		p.names = append(p.names, c.Name)
		n := planned{at: i, name: label(c.Name), part: -1}
		if seen[n.name] {
			continue
		}
		seen[n.name] = true
		n.spec, _ = specOf(driver, c.Name)
		parts[n.spec.Meaning]++
		p.counts = append(p.counts, n)
	}
	for i := range p.counts {
		n := &p.counts[i]
		f := countFamilies[n.spec.Meaning]
		if f == nil || parts[n.spec.Meaning] != n.spec.Parts {
			continue
		}
		if n.part = slices.Index(p.families, f); n.part < 0 {
			n.part = len(p.families)
			p.families = append(p.families, f)
		}
	}
	return p
}
