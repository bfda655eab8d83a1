// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
)

// try runs a probe if the budgets of its GPUs suffice and the gate is open.
func (p *Prober) try(ctx context.Context, pr *probe) {
	p.mu.Lock()
	now, target := p.now(), pr.target
	if gpu, wait := p.missingBudget(pr, now); wait > 0 && !pr.confirm {
		pr.waitingForBudget = true
		skipped := probes.Skipf(probes.SkipDuty, "the time budget for probes of %s suffices in %s", gpu,
			wait.Round(time.Second))
		p.skipped(pr, skipped, now.Add(max(wait, rest)))
		p.mu.Unlock()
		p.logSkipped(target.Key, skipped)
		return
	}
	pr.waitingForBudget = false
	p.mu.Unlock()

	var r probes.Result
	var skipped *probes.Skipped
	done := make(chan struct{})
	go func() {
		defer close(done)
		r, skipped = p.run(ctx, target)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		select {
		case <-done:
		case <-time.After(endWithin):
			return // what it may have cost is charged already
		}
	}
	p.mu.Lock()
	now = p.now()
	p.quiet = now.Add(rest)
	if skipped != nil {
		skipped.Detail = fabric.Clip(skipped.Detail, errorMost)
		pr.delay = min(max(2*pr.delay, rest), retryMost)
		p.skipped(pr, skipped, now.Add(p.spread(pr)))
		p.mu.Unlock()
		p.logSkipped(target.Key, skipped)
		return
	}
	r = p.took(pr, r, now)
	p.mu.Unlock()
	p.logResult(r)
	p.save(0)
	if p.slow != nil && r.Comparison.Below > 0 {
		ctx, cancel := context.WithTimeout(ctx, slowFor)
		defer cancel()
		p.slow(ctx)
	}
}

// run has the machine run the probe. A panic fails only this probe.
func (p *Prober) run(ctx context.Context, t probes.Target) (r probes.Result, skipped *probes.Skipped) {
	began := time.Now()
	var expected time.Duration
	running := false
	defer func() {
		switch bug := recover(); {
		case bug != nil && running: // what it did cost is not known: the expected cost stays charged
			r = probes.Result{
				Key: t.Key, At: began, Outcome: probes.Failed, Failure: probes.FailureCrash,
				Error: fmt.Sprintf("bug: %v", bug),
			}
		case bug != nil:
			skipped = &probes.Skipped{Why: probes.SkipCannotProveIdle, Detail: fmt.Sprintf("bug: %v", bug), At: began}
		case running:
			p.chargeActual(t, r, expected)
		}
	}()
	r, skipped = p.machine.Probe(ctx, t, func() {
		expected = p.chargeExpected(t)
		running = true
	})
	if skipped != nil {
		return probes.Result{}, skipped
	}
	r.Key = t.Key
	return bounded(r), nil
}

// expectedCost returns what a probe will cost each of its GPUs: what it cost last time, else its limit.
func (p *Prober) expectedCost(key probes.Key) time.Duration {
	if r := p.memory.Records[key]; r != nil && r.Cost > 0 {
		return r.Cost
	}
	return p.config.Wall
}

// missingBudget returns the GPU whose budget takes longest to suffice for a probe, and how long. Budget that other
// probes have waited for longer is reserved for them: otherwise small probes would starve large ones.
func (p *Prober) missingBudget(pr *probe, now time.Time) (gpu string, longest time.Duration) {
	for _, g := range pr.target.GPUs {
		need := p.expectedCost(pr.target.Key)
		for _, other := range p.probes {
			if other != pr && other.waitingForBudget && other.here && other.slot.Before(pr.slot) &&
				slices.Contains(other.target.GPUs, g) {
				need += p.expectedCost(other.target.Key)
			}
		}
		if wait := p.memory.Duty.Wait(g, need, now); wait > longest {
			gpu, longest = g, wait
		}
	}
	return gpu, longest
}

// chargeExpected charges a run to its GPUs before it begins, and saves that: a crash during the run must not make it
// free.
func (p *Prober) chargeExpected(t probes.Target) time.Duration {
	p.mu.Lock()
	now, expected := p.now(), p.expectedCost(t.Key)
	p.memory.Record(t.Key).Began = now
	for _, gpu := range t.GPUs {
		p.memory.Duty.Charge(gpu, expected, now)
	}
	p.mu.Unlock()
	p.save(savedIn)
	return expected
}

// chargeActual charges what a run did cost instead of the expected cost.
func (p *Prober) chargeActual(t probes.Target, r probes.Result, expected time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, used := p.now(), r.GPUs
	for _, gpu := range t.GPUs {
		p.memory.Duty.Charge(gpu, -expected, now)
	}
	if len(used) == 0 {
		used = t.GPUs
	}
	p.gpuTime += r.GPUTime.Duration()
	if len(used) == 0 {
		return
	}
	p.memory.Duty.Open(used, now)
	costs := map[string]time.Duration{}
	for _, gpu := range used { // two ranks may share one
		costs[gpu] += r.GPUTime.Duration() / time.Duration(len(used))
	}
	var most time.Duration
	for gpu, cost := range costs {
		p.memory.Duty.Charge(gpu, cost, now)
		most = max(most, cost)
	}
	rec := p.memory.Record(t.Key)
	if r.Outcome == probes.OK || most > rec.Cost { // what ended early says nothing of what a whole run costs
		rec.Cost = most
	}
}

// skipped notes that a probe that was due did not run, and when it is tried again. Its cycles do not move.
func (p *Prober) skipped(pr *probe, s *probes.Skipped, again time.Time) {
	pr.status.Skips[s.Why]++
	pr.status.LastSkip = s
	pr.due = again
}

// spread is the delay of a probe and up to a fifth more, so that nodes that were skipped at the same time do not try
// again at the same time.
func (p *Prober) spread(pr *probe) time.Duration {
	return pr.delay + time.Duration(float64(pr.delay)*2*jitter*p.schedule.fraction("retry", pr.target.Key,
		int64(pr.delay)))
}

// took takes in the result of a run, judges it, and plans what comes next. It returns the result as it is kept.
func (p *Prober) took(pr *probe, r probes.Result, now time.Time) probes.Result {
	key, s := pr.target.Key, &pr.status
	r.Comparison = p.memory.Record(key).Judge(r, pr.target, p.config, pr.confirm, now)
	suspect := r.Comparison.Below == 1
	s.Count(r.Comparison)
	news := r.Comparison.Regressed && (s.LastGood == nil || !s.LastGood.Comparison.Regressed)
	s.Runs++
	s.Last = &r
	p.memory.Record(key).Last = &r
	for _, m := range r.Measurements {
		s.Wrong += m.Wrong
	}
	if r.Outcome == probes.OK {
		if was := s.LastGood; was != nil && (len(probes.Differences(*was, r)) > 0 || suspect) {
			s.Before = was
		}
		s.LastGood = &r
	} else {
		s.Failures[r.Failure]++
	}
	if r.Outcome == probes.Failed || news {
		s.Kept = append(slices.Clone(s.Kept[max(0, len(s.Kept)+1-keptFailures):]), r)
	}
	switch {
	case pr.slot.IsZero(): // it does not run by itself
	case r.Outcome == probes.Aborted:
		pr.delay = retryMost
		pr.due = now.Add(p.spread(pr))
	case suspect:
		pr.confirm, pr.delay = true, 0
		pr.slot = now.Add(confirmIn)
		pr.due = pr.slot
	default:
		p.plan(pr, now)
	}
	return r
}

// logResult logs a result: as a warning if an operator should look at it.
func (p *Prober) logResult(r probes.Result) {
	log := p.log.With("kind", r.Kind, "device", r.Device, "port", r.Port, "wall", r.Wall.Duration(), "gpu_time",
		r.GPUTime.Duration())
	if busBW, ok := probes.Judged(r); ok {
		log = log.With("busbw_bytes", busBW)
	}
	if took, known := r.Release.Get(); known {
		log = log.With("release", took.Duration())
	}
	switch c := r.Comparison; {
	case r.Outcome == probes.Failed:
		log.Warn("probe failed", "failure", r.Failure, "err", r.Error)
	case r.Outcome == probes.Aborted:
		log.Info("probe aborted", "failure", r.Failure, "err", r.Error)
	case c.Regressed:
		log.Warn("probe is slower than before", "median_bytes", c.Median.Value, "ratio", c.Ratio.Value)
	default:
		log.Info("probe ended", "path", r.Path.Value)
	}
	if r.Left != "" {
		log.Warn("GPUs were not confirmed idle after a probe", "left", r.Left)
	}
}

// logSkipped logs a skip at level debug: there are many while jobs run.
func (p *Prober) logSkipped(key probes.Key, s *probes.Skipped) {
	p.log.Debug("probe skipped", "kind", key.Kind, "device", key.Device, "port", key.Port, "reason", s.Why, "detail",
		s.Detail)
}

// bounded returns a result that takes little memory, whatever its ranks said.
func bounded(r probes.Result) probes.Result {
	r.Error, r.Left, r.Network = fabric.Clip(r.Error, errorMost), fabric.Clip(r.Left, errorMost), fabric.Clip(r.Network,
		deviceMost)
	r.NCCL, r.Driver, r.CUDA = fabric.Clip(r.NCCL, deviceMost), fabric.Clip(r.Driver, deviceMost), fabric.Clip(r.CUDA,
		deviceMost)
	r.Log = fabric.Clip(r.Log, logMost)
	r.Settings = slices.Clone(r.Settings[:min(len(r.Settings), settingsMost)])
	for i, s := range r.Settings {
		r.Settings[i] = fabric.Clip(s, probes.TextMost)
	}
	r.GPUs = r.GPUs[:min(len(r.GPUs), probes.GPUsMost)]
	r.Measurements = r.Measurements[:min(len(r.Measurements), settingsMost)]
	r.GPUTime = max(r.GPUTime, 0)
	if r.Outcome != probes.OK && r.Outcome != probes.Aborted {
		r.Outcome = probes.Failed
	}
	if r.Outcome != probes.OK && !slices.Contains(probes.Failures(), r.Failure) {
		r.Failure = probes.FailureProtocol // it must count as something
	}
	return r
}
