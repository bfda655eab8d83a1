// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"sync"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/probes"
)

const (
	rehearseEvery = 90 * time.Second // each probe of a simulated node, for which a real one takes hours
	rehearseCalm  = 15 * time.Second // from a change of the node to the probes that see it
	rehearsePast  = 64               // results of each probe that there are from the start: baselines look at those of an hour ago
	rehearseNew   = 3                // of those that are like the ones to come, enough for a verdict
	rehearseSkip  = 3                // one try in so many does not find all GPUs idle
	rehearseRetry = 30 * time.Second
)

// rehearsal has a simulated node probed: what a run would find is made up, what becomes of it is not. No process is
// started and no library is loaded.
type rehearsal struct {
	nccl    func() simulator.NCCL // of the node as it is now
	healthy simulator.NCCL        // what it was until just before the start
	observe func(ctx context.Context) *fabric.Node
	runs    *probes.Rehearsal
	stop    func()

	mu    sync.Mutex // held while probes run, and while the node changes
	until time.Time  // when all probes run, after a change; zero: there was none
	tries int        // of all GPUs, by schedule
}

// rehearsedConfig is what the site of a simulated node says of probes.
func rehearsedConfig() *probes.Config {
	c := probes.DefaultConfig()
	for kind := range c.Every {
		c.Every[kind] = rehearseEvery
	}
	c.Duty, c.StateFile = 0.5, ""
	return &c
}

// newRehearsal returns the probes of a simulated node.
func newRehearsal(nccl func() simulator.NCCL, healthy *simulator.Node) (*rehearsal, error) {
	runs, err := probes.NewRehearsal(*rehearsedConfig(), healthy.Host.Name, time.Now().Add(-rehearsePast*rehearseEvery))
	if err != nil {
		return nil, err
	}
	return &rehearsal{nccl: nccl, healthy: healthy.NCCL, runs: runs, stop: func() {}}, nil
}

// begin probes what ob observes, until close.
func (r *rehearsal) begin(ctx context.Context, ob nodeObserver) {
	r.observe = func(ctx context.Context) *fabric.Node {
		ctx, cancel := context.WithTimeout(ctx, site.FirstObservation)
		defer cancel()
		return ob.Observe(ctx, wantsOfProbes)
	}
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { r.run(ctx) })
	r.stop = func() {
		cancel()
		done.Wait()
	}
}

func (r *rehearsal) Apply(*probes.Config) error { return nil } // what is simulated does not change with a reload
func (r *rehearsal) Status() probes.Status      { return r.runs.Status() }
func (r *rehearsal) Close()                     { r.stop() }

// change makes another node of the one that is probed. All probes run soon after it, so that nobody has to wait for them, and
// none in the middle of it.
func (r *rehearsal) change(become func() error) error {
	if r == nil { // nothing is probed
		return become()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	err := become()
	r.until = time.Now().Add(rehearseCalm)
	return err
}

func (r *rehearsal) run(ctx context.Context) {
	if r.remember(ctx, time.Now()); ctx.Err() != nil {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.step(ctx, time.Now())
		}
	}
}

// remember makes up what has been until now.
func (r *rehearsal) remember(ctx context.Context, now time.Time) {
	n := r.observe(ctx)
	targets := targetsOf(n, probes.Settings{MaxCTAs: rehearsedConfig().MaxCTAs})
	r.runs.See(targets)
	for i := rehearsePast; i > 0; i-- {
		node := rehearsed{n, r.healthy, true}
		if i <= rehearseNew {
			node = rehearsed{n, r.nccl(), false}
		}
		for k, t := range targets {
			if r.planned(t.Key) {
				r.probe(node, t.Key, now.Add(time.Duration(k-i*len(targets))*rehearseEvery/time.Duration(len(targets))))
			}
		}
	}
}

// step runs what is due.
func (r *rehearsal) step(ctx context.Context, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := !r.until.IsZero()
	if now.Before(r.until) {
		return
	}
	r.until = time.Time{}
	due := r.runs.Due(now)
	if len(due) == 0 && !changed {
		return
	}
	n := r.observe(ctx)
	if ctx.Err() != nil {
		return
	}
	targets := targetsOf(n, probes.Settings{MaxCTAs: rehearsedConfig().MaxCTAs})
	r.runs.See(targets)
	node := rehearsed{n, r.nccl(), false}
	if changed {
		for _, t := range targets {
			if r.planned(t.Key) {
				r.probe(node, t.Key, now)
			}
		}
		return
	}
	for _, key := range due {
		if key.Kind == probes.Node {
			r.tries++
		}
		if key.Kind == probes.Node && r.tries%rehearseSkip == 0 && len(n.GPUDriver.GPUs) > 0 {
			busy := &probes.Skipped{Why: probes.SkipProcess, Detail: "compute process 41877 on GPU " + n.GPUDriver.GPUs[0].UUID, At: now}
			r.runs.Skipped(key, busy, now.Add(rehearseRetry))
			continue
		}
		r.probe(node, key, now)
	}
}

func (r *rehearsal) planned(key probes.Key) bool { return rehearsedConfig().Every[key.Kind] > 0 }

func (r *rehearsal) probe(node rehearsed, key probes.Key, at time.Time) {
	result, skip := node.run(key, at)
	if skip != nil {
		r.runs.Skipped(key, skip, at.Add(rehearseEvery))
		return
	}
	r.runs.Ran(result)
}
