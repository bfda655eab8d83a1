// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"errors"
	"maps"
	"slices"
	"syscall"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/state"
)

// Status returns the state of the prober. It does not wait for a probe or a file.
func (p *Prober) Status() probes.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, wall := p.now(), time.Now()
	s := probes.Status{
		Enabled: len(p.config.Every) > 0, Since: wall.Add(p.start.Sub(now)), At: wall, GPUTime: p.gpuTime,
		State: p.stateReason(now),
	}
	gpus := map[string]bool{}
	for _, key := range slices.SortedFunc(maps.Keys(p.probes), probes.CompareKeys) {
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
		if r := p.memory.Records[key]; r != nil {
			ps.Baselines = len(r.Baselines)
			ps.History = r.History(ps.LastGood, now, wall)
			if !r.Began.IsZero() {
				ps.LastRun = wall.Add(r.Began.Sub(now))
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

// stateReason is what is wrong with the state file. A loss at the start is reported for a day.
func (p *Prober) stateReason(now time.Time) fabric.Reason {
	if p.keeper == nil {
		return ""
	}
	err := p.keeper.Err()
	if err == nil && now.Sub(p.start) < keptLost {
		err = p.lost
	}
	switch {
	case errors.Is(err, state.ErrState):
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
	file, err := p.keeper.Load(ctx)
	p.mu.Lock()
	if err == nil && file != nil {
		err = p.memory.Decode(file, p.now(), time.Now())
	}
	p.lost = err
	p.mu.Unlock()
	switch {
	case errors.Is(err, state.ErrNewerState):
		p.keeper.Refuse(err)
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
		"err", err, "remedy",
		"make the folder of the file writable for this process, or name another file in probes.state_file of the configuration")
}

// save writes the state file, and waits for it so long at most.
func (p *Prober) save(wait time.Duration) {
	if p.keeper == nil {
		return
	}
	p.mu.Lock()
	file, err := p.memory.Encode(p.now(), time.Now())
	p.mu.Unlock()
	if err != nil {
		p.log.Error("probe history cannot be saved", "err", err)
		return
	}
	saved := p.keeper.Save(file)
	if wait == 0 {
		return
	}
	select {
	case <-saved:
	case <-time.After(wait):
	}
}
