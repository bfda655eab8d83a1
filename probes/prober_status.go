// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"errors"
	"maps"
	"slices"
	"syscall"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Status returns the state of the prober. It does not wait for a probe or a file.
func (p *Prober) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, wall := p.now(), time.Now()
	s := Status{
		Enabled: len(p.config.Every) > 0, Since: wall.Add(p.start.Sub(now)), At: wall, GPUTime: p.gpuTime, State: p.stateReason(now),
	}
	gpus := map[string]bool{}
	for _, key := range slices.SortedFunc(maps.Keys(p.probes), compareKeys) {
		pr, every := p.probes[key], p.config.Every[key.Kind]
		for _, gpu := range pr.target.GPUs {
			gpus[gpu] = true
		}
		ps := pr.status
		if every == 0 && ps.Runs == 0 {
			continue
		}
		ps.Every = every
		ps.Failures, ps.Skips, ps.Kept = maps.Clone(ps.Failures), maps.Clone(ps.Skips), slices.Clone(ps.Kept)
		if r := p.memory.records[key]; r != nil {
			ps.Baselines = len(r.baselines)
			ps.History = r.history(ps.LastGood, now, wall)
			if !r.began.IsZero() {
				ps.LastRun = wall.Add(r.began.Sub(now))
			}
		}
		if !pr.slot.IsZero() && pr.here {
			ps.NextRun = wall.Add(max(pr.due.Sub(now), 0))
		}
		s.Probes = append(s.Probes, ps)
	}
	s.GPUs = len(gpus)
	return s
}

// history has the samples that a result was compared with, by the clock on the wall.
func (r *record) history(of *Result, now, wall time.Time) []Sample {
	if of == nil || r.baselines[of.Comparison.Fingerprint] == nil {
		return nil
	}
	var list []Sample
	for _, s := range r.baselines[of.Comparison.Fingerprint].samples {
		list = append(list, Sample{wall.Add(s.at.Sub(now)), s.value})
	}
	return list
}

// stateReason is what is wrong with the state file. A loss at the start is reported for a day.
func (p *Prober) stateReason(now time.Time) fabric.Reason {
	if p.keeper == nil {
		return ""
	}
	err := p.keeper.err()
	if err == nil && now.Sub(p.start) < keptLost {
		err = p.lost
	}
	switch {
	case errors.Is(err, ErrState):
		return fabric.ReasonMalformed
	case errors.Is(err, syscall.EROFS):
		return fabric.ReasonPrivilege
	}
	return fabric.ReasonOf(err)
}

// remember takes in the state file, if there is a good one, and sees whether it can be written.
func (p *Prober) remember(ctx context.Context) {
	if p.keeper == nil {
		return
	}
	file, err := p.keeper.load(ctx)
	p.mu.Lock()
	if err == nil && file != nil {
		err = p.memory.decode(file, p.now(), time.Now())
	}
	p.lost = err
	p.mu.Unlock()
	switch {
	case errors.Is(err, ErrNewerState):
		p.keeper.refuse(err)
		p.log.Warn("the probe history is neither read nor saved", "file", p.config.StateFile, "err", err,
			"remedy", "run the version that wrote the file, or move the file away to begin with an empty history")
	case err != nil:
		p.log.Warn("probe history is lost", "err", err)
	}
	p.save(savedIn)
}

// tellState logs that the state file cannot be written, or can again.
func (p *Prober) tellState(err error) {
	log := p.log.With("file", p.config.StateFile)
	if err == nil {
		log.Info("the probe history is saved again")
		return
	}
	log.Warn("the probe history cannot be saved and is lost with the next restart",
		"err", err, "remedy", "make the folder of the file writable for this process, or name another file in probes.state_file of the configuration")
}

// save writes the state file, and waits for it so long at most.
func (p *Prober) save(wait time.Duration) {
	if p.keeper == nil {
		return
	}
	p.mu.Lock()
	file, err := p.memory.encode(p.now(), time.Now())
	p.mu.Unlock()
	if err != nil {
		p.log.Error("probe history cannot be saved", "err", err)
		return
	}
	saved := p.keeper.save(file)
	if wait == 0 {
		return
	}
	select {
	case <-saved:
	case <-time.After(wait):
	}
}
