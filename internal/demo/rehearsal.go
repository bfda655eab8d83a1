// SPDX-License-Identifier: Apache-2.0

// Package demo simulates the probes of simulated nodes: what NCCL would find on a node follows from the
// observation of the node and from its scenario. No process is started and no library is loaded.
//
// A Rehearsal probes in a goroutine of its own. Its methods may be called from any goroutine.
package demo

import (
	"context"
	"sync"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/prober"
)

// Every is how often each probe of a simulated node runs, for which a real one takes hours.
const Every = 90 * time.Second

const (
	calm = 15 * time.Second // from a change of the node to the probes that see it
	// results of each probe that there are from the start: baselines look at those of an hour ago
	past      = 64
	recent    = 3 // of those that are like the ones to come, enough for a verdict
	skipOneIn = 3 // one try in so many does not find all GPUs idle
	retry     = 30 * time.Second
)

// Rehearsal has a simulated node probed: what a run would find is made up, what becomes of it is not.
type Rehearsal struct {
	nccl    func() simulator.NCCL // of the node as it is now
	healthy simulator.NCCL        // what it was until just before the start
	observe func(ctx context.Context) *fabric.Node
	runs    *prober.Rehearsal
	stop    func()

	mu    sync.Mutex // held while probes run, and while the node changes
	until time.Time  // when all probes run, after a change; zero: there was none
	tries int        // of all GPUs, by schedule
}

// Config has the settings of a simulated site for probes.
func Config() *probes.Config {
	c := probes.DefaultConfig()
	for kind := range c.Every {
		c.Every[kind] = Every
	}
	c.Duty, c.StateFile = 0.5, ""
	return &c
}

// NewRehearsal returns the probes of a simulated node.
func NewRehearsal(nccl func() simulator.NCCL, healthy *simulator.Node) (*Rehearsal, error) {
	runs, err := prober.NewRehearsal(*Config(), healthy.Host.Name, time.Now().Add(-past*Every))
	if err != nil {
		return nil, err
	}
	return &Rehearsal{nccl: nccl, healthy: healthy.NCCL, runs: runs, stop: func() {}}, nil
}

// Observer is what is probed.
type Observer interface {
	Observe(ctx context.Context, want fabric.Want) *fabric.Node
}

// observation bounds how long a node is waited for that does not answer.
const observation = 10 * time.Second

// Past returns what probes of a node would have found until now, without probing on.
func (r *Rehearsal) Past(n *fabric.Node, now time.Time) probes.Status {
	r.remember(context.Background(), n, now)
	return r.runs.Status()
}

// Begin probes what ob observes, until Close.
func (r *Rehearsal) Begin(ctx context.Context, ob Observer) {
	r.observe = func(ctx context.Context) *fabric.Node {
		ctx, cancel := context.WithTimeout(ctx, observation)
		defer cancel()
		return ob.Observe(ctx, plan.Wants)
	}
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { r.run(ctx) })
	r.stop = func() {
		cancel()
		done.Wait()
	}
}

// Apply does nothing: what is simulated does not change with a reload.
func (r *Rehearsal) Apply(*probes.Config) error { return nil }

// Status says what became of all probes.
func (r *Rehearsal) Status() probes.Status { return r.runs.Status() }

// Close ends probing and waits for it.
func (r *Rehearsal) Close() { r.stop() }

// Change makes another node of the one that is probed. All probes run soon after it, so that users need not
// wait for them, and none in the middle of it.
func (r *Rehearsal) Change(become func() error) error {
	if r == nil { // nothing is probed
		return become()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	err := become()
	r.until = time.Now().Add(calm)
	return err
}

func (r *Rehearsal) run(ctx context.Context) {
	r.remember(ctx, r.observe(ctx), time.Now())
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

// remember makes up what has been until now, or until ctx ends.
func (r *Rehearsal) remember(ctx context.Context, n *fabric.Node, now time.Time) {
	targets := plan.Targets(n, plan.Settings{MaxCTAs: Config().MaxCTAs})
	r.runs.See(targets)
	plans := map[probes.Key]planned{}
	for i := past; i > 0; i-- {
		node := rehearsed{n, r.healthy, true, plans}
		if i <= recent {
			node = rehearsed{n, r.nccl(), false, plans}
		}
		for k, t := range targets {
			if ctx.Err() != nil {
				return
			}
			if r.planned(t.Key) {
				r.probe(node, t.Key, now.Add(time.Duration(k-i*len(targets))*Every/time.Duration(len(targets))))
			}
		}
	}
}

// step runs what is due.
func (r *Rehearsal) step(ctx context.Context, now time.Time) {
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
	targets := plan.Targets(n, plan.Settings{MaxCTAs: Config().MaxCTAs})
	r.runs.See(targets)
	node := rehearsed{n, r.nccl(), false, map[probes.Key]planned{}}
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
		if key.Kind == probes.Node && r.tries%skipOneIn == 0 && len(n.GPUDriver.GPUs) > 0 {
			busy := &probes.Skipped{
				Why: probes.SkipProcess, Detail: "compute process 41877 on " + n.GPUDriver.GPUs[0].UUID,
				At: now,
			}
			r.runs.Skipped(key, busy, now.Add(retry))
			continue
		}
		r.probe(node, key, now)
	}
}

func (r *Rehearsal) planned(key probes.Key) bool { return Config().Every[key.Kind] > 0 }

func (r *Rehearsal) probe(node rehearsed, key probes.Key, at time.Time) {
	result, skip := node.run(key, at)
	if skip != nil {
		r.runs.Skipped(key, skip, at.Add(Every))
		return
	}
	r.runs.Ran(result)
}
