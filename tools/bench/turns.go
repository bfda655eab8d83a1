// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"time"
)

// turns is a process that is scraped at a distance, and what its scrapes cost.
type turns struct {
	program
	*process
	distance time.Duration

	next    time.Time
	series  int
	scrapes []time.Duration // CPU time of each, without what the process did between them
	first   usage           // after the warm-up
	last    usage
	rss     int // MiB
}

// Of each process the first scrapes are not counted: they open files and build what is kept.
const warmUp = 3

// settle is how long after an answer the process may be busy with it.
const settle = 50 * time.Millisecond

// measure starts programs, each once for each distance, and scrapes them one at a time for so long, at least: whatever
// else the machine does costs all of them.
func measure(programs []program, distances []time.Duration, how request, length time.Duration) ([]*turns, error) {
	var all []*turns
	defer func() {
		for _, t := range all {
			t.stop()
		}
	}()
	for _, d := range distances {
		for i, p := range programs {
			r, err := start(p)
			if err != nil {
				return nil, err
			}
			all = append(all, &turns{
				program: p, process: r, distance: d,
				next: time.Now().Add(d * time.Duration(i) / time.Duration(len(programs))),
			})
		}
	}
	for end := time.Now().Add(length); ; {
		t := slices.MinFunc(all, func(a, b *turns) int { return a.next.Compare(b.next) })
		if t.next.After(end) {
			return all, nil
		}
		time.Sleep(time.Until(t.next))
		if err := t.take(how); err != nil {
			return nil, err
		}
		if t.next = t.next.Add(t.distance); t.next.Before(time.Now()) { // too slow for the distance: it rests once for all
			t.next = time.Now().Add(t.distance)
		}
	}
}

// take scrapes once.
func (t *turns) take(how request) error {
	before, err := t.cpu()
	if err != nil {
		return err
	}
	if t.series, err = t.scrape(how); err != nil {
		return err
	}
	if t.distance > 10*settle {
		time.Sleep(settle)
	}
	u, err := t.usage()
	if err != nil {
		return err
	}
	if t.scrapes = append(t.scrapes, u.cpu-before); len(t.scrapes) == warmUp {
		t.first = u
	}
	t.last, t.rss = u, t.resident()
	return nil
}

// cost is what a scrape costs.
type cost struct {
	series       int
	total        time.Duration // CPU time of the process divided by the scrapes
	median, mean time.Duration // CPU time of a scrape
	between      time.Duration // mean CPU time from a scrape to the next
	faults       float64
	switches     float64
	rss          int
}

func (t *turns) cost() cost {
	counted := slices.Sorted(slices.Values(t.scrapes[warmUp:]))
	n := len(counted)
	var sum time.Duration
	for _, s := range counted {
		sum += s
	}
	u := t.last.since(t.first)
	return cost{
		series: t.series, total: u.cpu / time.Duration(n), median: counted[n/2], mean: sum / time.Duration(n),
		between: (u.cpu - sum) / time.Duration(n),
		faults:  float64(u.faults) / float64(n), switches: float64(u.switches) / float64(n), rss: t.rss,
	}
}
