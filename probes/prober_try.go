// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// try runs a probe if the budgets of its GPUs suffice and the gate is open.
func (p *Prober) try(ctx context.Context, pr *probe) {
	p.mu.Lock()
	now, target := p.now(), pr.target
	if gpu, wait := p.missingBudget(pr, now); wait > 0 && !pr.confirm {
		pr.waitingForBudget = true
		skipped := &Skipped{Why: SkipDuty, Detail: fmt.Sprintf("the time budget for probes of %s suffices in %s", gpu, wait.Round(time.Second)), At: time.Now()}
		p.skipped(pr, skipped, now.Add(max(wait, rest)))
		p.mu.Unlock()
		p.logSkipped(target.Key, skipped)
		return
	}
	pr.waitingForBudget = false
	p.mu.Unlock()

	type end struct {
		result  Result
		skipped *Skipped
	}
	done := make(chan end, 1)
	go func() {
		r, s := p.run(ctx, target)
		done <- end{r, s}
	}()
	var e end
	select {
	case e = <-done:
	case <-ctx.Done():
		select {
		case e = <-done:
		case <-time.After(endWithin):
			return // what it may have cost is charged already
		}
	}
	p.mu.Lock()
	now = p.now()
	p.quiet = now.Add(rest)
	if e.skipped != nil {
		e.skipped.Detail = fabric.Clip(e.skipped.Detail, errorMost)
		pr.delay = min(max(2*pr.delay, rest), retryMost)
		p.skipped(pr, e.skipped, now.Add(p.spread(pr)))
		p.mu.Unlock()
		p.logSkipped(target.Key, e.skipped)
		return
	}
	r := p.took(pr, e.result, now)
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
func (p *Prober) run(ctx context.Context, t Target) (r Result, skipped *Skipped) {
	began := time.Now()
	var expected time.Duration
	running := false
	defer func() {
		switch bug := recover(); {
		case bug != nil && running: // what it did cost is not known: the expected cost stays charged
			r = Result{Key: t.Key, At: began, Outcome: Failed, Failure: FailureCrash, Error: fmt.Sprintf("bug: %v", bug)}
		case bug != nil:
			skipped = &Skipped{Why: SkipCannotProveIdle, Detail: fmt.Sprintf("bug: %v", bug), At: began}
		case running:
			p.chargeActual(t, r, expected)
		}
	}()
	r, skipped = p.machine.Probe(ctx, t, func() {
		expected = p.chargeExpected(t)
		running = true
	})
	if skipped != nil {
		return Result{}, skipped
	}
	r.Key = t.Key
	return bounded(r), nil
}

// expectedCost returns what a probe will cost each of its GPUs: what it cost last time, else its limit.
func (p *Prober) expectedCost(key Key) time.Duration {
	if r := p.memory.records[key]; r != nil && r.cost > 0 {
		return r.cost
	}
	return p.config.Wall
}

// missingBudget returns the GPU whose budget takes longest to suffice for a probe, and how long. Budget that other probes have waited
// for longer is reserved for them: otherwise small probes would starve large ones.
func (p *Prober) missingBudget(pr *probe, now time.Time) (gpu string, longest time.Duration) {
	for _, g := range pr.target.GPUs {
		need := p.expectedCost(pr.target.Key)
		for _, other := range p.probes {
			if other != pr && other.waitingForBudget && other.here && other.slot.Before(pr.slot) && slices.Contains(other.target.GPUs, g) {
				need += p.expectedCost(other.target.Key)
			}
		}
		if wait := p.memory.duty.wait(g, need, now); wait > longest {
			gpu, longest = g, wait
		}
	}
	return gpu, longest
}

// chargeExpected charges a run to its GPUs before it begins, and saves that: a crash during the run must not make it free.
func (p *Prober) chargeExpected(t Target) time.Duration {
	p.mu.Lock()
	now, expected := p.now(), p.expectedCost(t.Key)
	p.memory.record(t.Key).began = now
	for _, gpu := range t.GPUs {
		p.memory.duty.charge(gpu, expected, now)
	}
	p.mu.Unlock()
	p.save(savedIn)
	return expected
}

// chargeActual charges what a run did cost instead of the expected cost.
func (p *Prober) chargeActual(t Target, r Result, expected time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, used := p.now(), r.GPUs
	for _, gpu := range t.GPUs {
		p.memory.duty.charge(gpu, -expected, now)
	}
	if len(used) == 0 {
		used = t.GPUs
	}
	p.gpuTime += r.GPUTime.Duration()
	if len(used) == 0 {
		return
	}
	p.memory.duty.open(used, now)
	costs := map[string]time.Duration{}
	for _, gpu := range used { // two ranks may share one
		costs[gpu] += r.GPUTime.Duration() / time.Duration(len(used))
	}
	var most time.Duration
	for gpu, cost := range costs {
		p.memory.duty.charge(gpu, cost, now)
		most = max(most, cost)
	}
	rec := p.memory.record(t.Key)
	if r.Outcome == OK || most > rec.cost { // what ended early says nothing of what a whole run costs
		rec.cost = most
	}
}

// skipped notes that a probe that was due did not run, and when it is tried again. Its cycles do not move.
func (p *Prober) skipped(pr *probe, s *Skipped, again time.Time) {
	pr.status.Skips[s.Why]++
	pr.status.LastSkip = s
	pr.due = again
}

// spread is the delay of a probe and up to a fifth more, so that nodes that were skipped at the same time do not try again at the same time.
func (p *Prober) spread(pr *probe) time.Duration {
	return pr.delay + time.Duration(float64(pr.delay)*2*jitter*p.schedule.fraction("retry", pr.target.Key, int64(pr.delay)))
}

// took takes in the result of a run, judges it, and plans what comes next. It returns the result as it is kept.
func (p *Prober) took(pr *probe, r Result, now time.Time) Result {
	key, s := pr.target.Key, &pr.status
	r.Comparison = Comparison{}
	suspect := false
	if print := fingerprint(r, pr.target, p.config.MaxCTAs); print != "" {
		busBW, _ := judged(r)
		var latency Seconds
		if small := r.SmallMessage(); small != nil {
			latency = small.Time
		}
		b := p.memory.record(key).baselines.of(print, now)
		r.Comparison = b.judge(busBW, latency, p.config.Warn, now)
		r.Comparison.Fingerprint = print
		suspect = b.below == 1
		if !r.Comparison.Regressed && !pr.confirm {
			b.learn(busBW, latency, r.Comparison.late(), now)
		}
		s.count(r.Comparison)
	}
	news := r.Comparison.Regressed && (s.LastGood == nil || !s.LastGood.Comparison.Regressed)
	s.Runs++
	s.Last = &r
	p.memory.record(key).last = &r
	for _, m := range r.Measurements {
		s.Wrong += m.Wrong
	}
	if r.Outcome == OK {
		if was := s.LastGood; was != nil && (len(differences(*was, r)) > 0 || suspect) {
			s.Before = was
		}
		s.LastGood = &r
	} else {
		s.Failures[r.Failure]++
	}
	if r.Outcome == Failed || news {
		s.Kept = append(slices.Clone(s.Kept[max(0, len(s.Kept)+1-keptFailures):]), r)
	}
	switch {
	case pr.slot.IsZero(): // it does not run by itself
	case r.Outcome == Aborted:
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

// count takes a comparison into the counts of results.
func (s *ProbeStatus) count(c Comparison) {
	if _, judged := c.Ratio.Get(); !judged {
		return
	}
	s.Judged++
	if c.Below > 0 {
		s.Slow++
	}
	if c.late() {
		s.Late++
	}
}

// logResult logs a result: as a warning if an operator should look at it.
func (p *Prober) logResult(r Result) {
	log := p.log.With("kind", r.Kind, "device", r.Device, "port", r.Port, "wall", r.Wall.Duration(), "gpu_time", r.GPUTime.Duration())
	if busBW, ok := judged(r); ok {
		log = log.With("busbw_bytes", busBW)
	}
	if took, known := r.Release.Get(); known {
		log = log.With("release", took.Duration())
	}
	switch c := r.Comparison; {
	case r.Outcome == Failed:
		log.Warn("probe failed", "failure", r.Failure, "err", r.Error)
	case r.Outcome == Aborted:
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
func (p *Prober) logSkipped(key Key, s *Skipped) {
	p.log.Debug("probe skipped", "kind", key.Kind, "device", key.Device, "port", key.Port, "reason", s.Why, "detail", s.Detail)
}

// bounded returns a result that takes little memory, whatever its ranks said.
func bounded(r Result) Result {
	r.Error, r.Left, r.Network = fabric.Clip(r.Error, errorMost), fabric.Clip(r.Left, errorMost), fabric.Clip(r.Network, deviceMost)
	r.NCCL, r.Driver, r.CUDA = fabric.Clip(r.NCCL, deviceMost), fabric.Clip(r.Driver, deviceMost), fabric.Clip(r.CUDA, deviceMost)
	r.Log = fabric.Clip(r.Log, logMost)
	r.Settings = slices.Clone(r.Settings[:min(len(r.Settings), settingsMost)])
	for i, s := range r.Settings {
		r.Settings[i] = fabric.Clip(s, textMost)
	}
	r.GPUs = r.GPUs[:min(len(r.GPUs), gpusMost)]
	r.Measurements = r.Measurements[:min(len(r.Measurements), settingsMost)]
	r.GPUTime = max(r.GPUTime, 0)
	if r.Outcome != OK && r.Outcome != Aborted {
		r.Outcome = Failed
	}
	if r.Outcome != OK && !slices.Contains(Failures(), r.Failure) {
		r.Failure = FailureProtocol // it must count as something
	}
	return r
}
