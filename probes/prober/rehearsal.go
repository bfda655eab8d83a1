// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"cmp"
	"log/slog"
	"slices"
	"time"

	"gpufabric_exporter/probes"
)

// Rehearsal schedules and judges results as a Prober does, and has the same status, for runs that its caller invents:
// those of simulated nodes. It starts nothing, waits for nothing and keeps no file. It is safe for concurrent use.
type Rehearsal struct{ p *Prober }

// NewRehearsal returns a Rehearsal that began at since, of a node with that name. The error is that of New.
func NewRehearsal(c probes.Config, host string, since time.Time) (*Rehearsal, error) {
	c.StateFile = ""
	p, err := New(Options{Config: c, Host: host, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	p.start = since
	return &Rehearsal{p}, nil
}

// See takes in what could be probed now, as Machine.Targets lists it.
func (r *Rehearsal) See(targets []probes.Target) { r.p.see(targets) }

// Due returns the probes that are due at a time, those that have waited longest first.
func (r *Rehearsal) Due(now time.Time) []probes.Key {
	p := r.p
	p.mu.Lock()
	defer p.mu.Unlock()
	var due []*probe
	for _, pr := range p.probes {
		if pr.here && !pr.slot.IsZero() && !pr.due.After(now) {
			due = append(due, pr)
		}
	}
	slices.SortFunc(due, func(a, b *probe) int {
		return cmp.Or(a.due.Compare(b.due), probes.CompareKeys(a.target.Key, b.target.Key))
	})
	keys := make([]probes.Key, len(due))
	for i, pr := range due {
		keys[i] = pr.target.Key
	}
	return keys
}

// Ran takes in the result of a run that began at its At and ended now. What is not a probe that was seen is ignored.
func (r *Rehearsal) Ran(result probes.Result) {
	p := r.p
	p.mu.Lock()
	defer p.mu.Unlock()
	pr := p.probes[result.Key]
	if pr == nil {
		return
	}
	p.memory.Record(result.Key).Began = result.At
	p.gpuTime += result.GPUTime.Duration()
	p.took(pr, bounded(result), result.At)
}

// Skipped takes in that a probe which was due did not run, and when it is tried again.
func (r *Rehearsal) Skipped(key probes.Key, s *probes.Skipped, again time.Time) {
	p := r.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if pr := p.probes[key]; pr != nil {
		p.skipped(pr, s, again)
	}
}

// Status returns the state of the rehearsal.
func (r *Rehearsal) Status() probes.Status { return r.p.Status() }
