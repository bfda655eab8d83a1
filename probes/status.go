// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Status is the state of a Prober. It is a copy that is never changed.
type Status struct {
	Enabled bool
	Probes  []ProbeStatus // by Key
	Since   time.Time     // the start
	At      time.Time     // when this was so
	GPUs    int           // of this node that probes may use, as far as is known
	GPUTime time.Duration // with a CUDA context since the start, summed over GPUs
	// State says what is wrong with the state file, or was in the last day: empty if nothing is.
	State fabric.Reason
}

// ProbeStatus is the history of one probe.
type ProbeStatus struct {
	Key      Key
	Runs     uint64             // ended, whatever the outcome
	Failures map[Failure]uint64 // outcomes Failed and Aborted
	Skips    map[Skip]uint64
	Wrong    uint64 // wrong elements
	// Judged counts results that were compared with a baseline, confirmations included. Of those
	// Slow were below the limit (Comparison.Below), and Late had a late small message.
	Judged, Slow, Late uint64
	LastSkip           *Skipped
	Last               *Result // newest
	LastGood           *Result // newest that is OK
	// newest that was OK before what decides on bandwidth changed, or fell below the limit; nil: nothing did
	Before    *Result
	Kept      []Result      // failures that are preserved, oldest first; bounded
	LastRun   time.Time     // zero: never, as far as the state file remembers
	NextRun   time.Time     // zero: not scheduled
	Every     time.Duration // how often it is to run; 0: it does not run by itself
	Baselines int           // fingerprints known
	// History has the bandwidths that the last good result is compared with, and its own, oldest first; at most 64.
	History []Sample
}

// Sample is the bus bandwidth of one run, in bytes per second.
type Sample struct {
	At    time.Time
	BusBW float64
}

// Results returns the newest results that say something of the fabric, and good ones before failures.
func (s *Status) Results() []Result {
	var all []Result
	for i := range s.Probes {
		p := &s.Probes[i]
		if r := p.Verdict(); r != nil {
			all = append(all, *r)
			if r.Outcome != OK && p.LastGood != nil {
				all = append(all, *p.LastGood)
			}
		}
	}
	return all
}

// Verdict is the newest result that says something about the fabric, which aborted ones do not; nil if there is none.
func (p *ProbeStatus) Verdict() *Result {
	if r := p.Last; r != nil && r.Outcome != Aborted {
		return r
	}
	newest := p.LastGood
	for i := range p.Kept {
		if r := &p.Kept[i]; r.Outcome == Failed && (newest == nil || r.At.After(newest.At)) {
			newest = r
		}
	}
	return newest
}

// Skipping is why the probe did not run when it was tried last; nil if it did, or was not tried yet.
func (p *ProbeStatus) Skipping() *Skipped {
	if s := p.LastSkip; s != nil && s.At.After(p.LastRun) {
		return s
	}
	return nil
}

// Faults returns what is wrong with a probe of this status, and since when, as far as is known: the begin of the run
// that said so, the last success or run of one that is stale, and the start of an exporter whose probe has never run.
func (s *Status) Faults(p *ProbeStatus) map[Fault]time.Time {
	found := map[Fault]time.Time{}
	r := p.Verdict()
	if r != nil {
		for _, f := range r.Faults() {
			found[f] = r.At
		}
	}
	last := p.LastRun
	if p.LastGood != nil {
		last = p.LastGood.At
	}
	failing := r != nil && r.Outcome == Failed
	if !last.IsZero() && p.Every > 0 && s.At.Sub(last) > staleIntervals*p.Every && !failing &&
		!p.skipsFor(inUse, divided) {
		found[FaultStale] = last
	}
	untried := p.Skipping() == nil && p.Every > 0 && s.At.Sub(s.Since) > p.Every
	refused := p.Skipping() != nil && !p.skipsFor(inUse)
	if p.LastRun.IsZero() && (untried || refused) {
		found[FaultNeverRun] = s.Since
	}
	return found
}

// Reasons that are no faults: the GPUs are in use, or set up so that probes have no place on them.
var (
	inUse = []Skip{
		SkipProcess, SkipMemory, SkipUtilization, SkipMPS, SkipSlurm, SkipKubernetes, SkipSite,
		SkipMaintenance, SkipDuty,
	}
	divided = []Skip{SkipMIG, SkipComputeMode}
)

func (p *ProbeStatus) skipsFor(reasons ...[]Skip) bool {
	s := p.Skipping()
	return s != nil && slices.ContainsFunc(reasons, func(of []Skip) bool { return slices.Contains(of, s.Why) })
}

// Target is a probe that could run on the node as it is now.
type Target struct {
	Key  Key
	GPUs []string // UUIDs of those that would get a context; empty: not known
	// Conditions are what else must be equal for results to be compared, "firmware mlx5_0=28.43.1014": firmware of the
	// HCA, how the GPUs are linked. The order does not matter.
	Conditions []string
}

// Count takes a comparison into the counts of results.
func (p *ProbeStatus) Count(c Comparison) {
	if _, judged := c.Ratio.Get(); !judged {
		return
	}
	p.Judged++
	if c.Below > 0 {
		p.Slow++
	}
	if c.late() {
		p.Late++
	}
}
