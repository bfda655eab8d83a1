// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"slices"
	"time"

	"gpufabric_exporter/internal/nccl/log"
)

// Fault is what is wrong with a probe, or with what it measured. A probe can have several at once.
type Fault string

// The faults. Aborted runs make and end none of those of results: they say nothing about the fabric.
const (
	FaultSocket    Fault = "socket"    // NCCL chose TCP, in a probe that is not about TCP
	FaultGPUDirect Fault = "gpudirect" // a network that can use GPUDirect RDMA went without
	FaultWrong     Fault = "wrong"     // the last run failed with a wrong result
	FaultFailing   Fault = "failing"   // the last run failed, for whatever reason
	FaultSlow      Fault = "slow"      // collapsedLeast results in a row were collapsed
	FaultRegressed Fault = "regressed" // Comparison.Regressed
	FaultDrifted   Fault = "drifted"   // Comparison.Drifted
	FaultStale     Fault = "stale"     // no success in three intervals, although the GPUs are idle and no run failed
	FaultNeverRun  Fault = "never_run" // switched on, and has not run once, although the GPUs are idle
)

const (
	collapsedLeast = 3
	staleIntervals = 3
)

// Faults returns all faults.
func Faults() []Fault {
	return []Fault{FaultSocket, FaultGPUDirect, FaultWrong, FaultFailing, FaultSlow, FaultRegressed, FaultDrifted, FaultStale, FaultNeverRun}
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

// OfBandwidth reports whether the fault is one of bandwidth against its baseline.
func (f Fault) OfBandwidth() bool { return f == FaultSlow || f == FaultRegressed || f == FaultDrifted }

// Faults returns what is wrong with a probe of this status, and since when, as far as is known: the begin of the run that
// said so, the last success or run of one that is stale, and the start of an exporter whose probe has never run.
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
	if !last.IsZero() && p.Every > 0 && s.At.Sub(last) > staleIntervals*p.Every && !failing && !p.skipsFor(inUse, divided) {
		found[FaultStale] = last
	}
	untried := p.Skipping() == nil && p.Every > 0 && s.At.Sub(s.Since) > p.Every
	refused := p.Skipping() != nil && !p.skipsFor(inUse)
	if p.LastRun.IsZero() && (untried || refused) {
		found[FaultNeverRun] = s.Since
	}
	return found
}

// FellBack reports whether NCCL chose TCP by itself, in a probe that is not about TCP. FastSocket is TCP that the
// site installed.
func (r *Result) FellBack() bool {
	return r.Path.Or("") == PathSocket && r.Network != log.FastSocket && r.Kind != Socket
}

// Faults returns what is wrong with a result.
func (r *Result) Faults() []Fault {
	var found []Fault
	if r.FellBack() {
		found = append(found, FaultSocket)
	}
	if used, ok := r.GPUDirect.Get(); ok && !used {
		found = append(found, FaultGPUDirect)
	}
	if r.Outcome != OK {
		found = append(found, FaultFailing)
		if r.Failure == FailureWrong {
			found = append(found, FaultWrong)
		}
		return found
	}
	c := &r.Comparison
	if _, ok := c.Ratio.Get(); !ok {
		return found
	}
	if c.Collapsed >= collapsedLeast && r.Kind != Socket {
		found = append(found, FaultSlow)
	}
	if c.Regressed {
		found = append(found, FaultRegressed)
	}
	if _, known := c.Best.Get(); known && c.Drifted {
		found = append(found, FaultDrifted)
	}
	return found
}

// Reasons that are no faults: the GPUs are in use, or set up so that probes have no place on them.
var (
	inUse   = []Skip{SkipProcess, SkipMemory, SkipUtilization, SkipMPS, SkipSlurm, SkipKubernetes, SkipSite, SkipMaintenance, SkipDuty}
	divided = []Skip{SkipMIG, SkipComputeMode}
)

func (p *ProbeStatus) skipsFor(reasons ...[]Skip) bool {
	s := p.Skipping()
	return s != nil && slices.ContainsFunc(reasons, func(of []Skip) bool { return slices.Contains(of, s.Why) })
}
