// SPDX-License-Identifier: Apache-2.0

// Package gate decides whether a probe may use GPUs, and looks who else uses them while it does. A source that cannot
// be read keeps it shut. So does a scheduler whose jobs cannot be seen, unless a command of the site reports that the
// node is free.
//
// GPUs are watched for a minute before a run, every 100 ms during it, and twice before a rank opens one. After it, the
// driver is asked until it shows nothing of the ranks, for 10 s at most. Outside of the node's PID namespace the gate
// never opens: NVML lists only processes that it can see. During maintenance the worker that it asks releases the GPUs
// like that of the exporter.
//
// A Gate is safe for concurrent use; one caller at a time looks or probes, the others are refused. Why it stays shut
// is a probes.Skipped, never an error.
package gate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/state"
)

// Options says what a Gate asks. A source that is missing keeps it shut.
type Options struct {
	GPUs      GPUReader
	Processes ProcessReader
	Cgroups   CgroupReader
	Pods      PodReader
	// Maintenance says why GPUs are not to be touched; empty: they may be. It is called by several goroutines at once.
	Maintenance func() (why string, err error)
	// Site says why the node is not free, in the words of the site; empty: it is. It may take some seconds. Without it
	// the gate stays shut where a scheduler runs that cannot be asked otherwise.
	Site func(ctx context.Context) (why string, err error)
	// Lock is the path of the file that only one prober of the node holds at a time, see Lock.
	Lock string
	// IdleMemory is how many bytes of a GPU's memory NVML calls used while it is idle, 0 on most: what the driver
	// reserves for itself is not counted since 510. Before that, and where the memory of a GPU is a NUMA node of the
	// kernel (Grace), there is more.
	IdleMemory uint64
	// Allocation is that in which this process runs; nil: none. The scheduler has decided that the GPUs are for it, so
	// only what uses them beside it keeps the gate shut.
	Allocation *Allocation
	// Quiet is how long a GPU must have had nothing to do; 0: a minute. It is looked at thirty times in between.
	Quiet time.Duration
}

// Allocation is what a scheduler gave to this process.
type Allocation struct {
	SlurmJob string // its id; empty: of another scheduler
}

// What the gate accepts as evidence, and for how long it watches.
const (
	memoryMargin = 64 << 20 // bytes that may be used beyond IdleMemory
	// the same of a GPU that is not probed: instances of MIG have some each, a job has more
	othersMargin = 256 << 20
	maxAge       = 2 * time.Second  // of what is read of a GPU
	linkTime     = 10 * time.Minute // without errors of a link
	maxDetail    = 256              // bytes

	maintenanceInterval = time.Second // at which it is looked for while the driver is asked
)

// Gate decides whether a probe may use GPUs. It opens only when every source could be read and shows that no process
// uses them, or is about to: what cannot be proved is SkipCannotProveIdle. A verdict is about the whole node as far as
// jobs go (Slurm, Kubernetes, MPS, compute processes on any GPU): they share links, buses and processors with the
// probe.
//
// It remembers what it has seen of GPUs from one call to the next. All methods may be called at the same time.
type Gate struct {
	o    Options
	self int           // pid
	busy sync.Mutex    // held while a caller looks, waits or probes
	gap  time.Duration // between two samples, beyond which they are no proof of what was between

	// What has been seen; guarded by busy.
	idle  map[string]idleness // by UUID
	links map[string]counter
}

// New returns a gate, shut.
func New(o Options) *Gate {
	if o.Quiet <= 0 {
		o.Quiet = time.Minute
	}
	return &Gate{
		o: o, self: os.Getpid(), gap: max(o.Quiet/12, time.Second),
		idle: map[string]idleness{}, links: map[string]counter{},
	}
}

// refusal is why the gate stays shut.
type refusal struct {
	why    probes.Skip
	detail string
	// wait says that only time is missing: the GPUs seem idle, but they have not been watched for long
	// enough.
	wait bool
}

func refuse(why probes.Skip, format string, args ...any) *refusal {
	return &refusal{why: why, detail: fmt.Sprintf(format, args...)}
}

func unproven(format string, args ...any) *refusal {
	return refuse(probes.SkipCannotProveIdle, format, args...)
}

var held = refuse(probes.SkipLocked, "by this process")

// worse chooses the refusal that is reported: what is certain before what could not be proved, and that before what
// only takes time.
func worse(a, b *refusal) *refusal {
	rank := func(r *refusal) int {
		switch {
		case r == nil:
			return 0
		case r.wait:
			return 1
		case r.why == probes.SkipCannotProveIdle:
			return 2
		}
		return 3
	}
	if rank(b) > rank(a) {
		return b
	}
	return a
}

func (r *refusal) skipped() *probes.Skipped {
	if r == nil {
		return nil
	}
	return &probes.Skipped{Why: r.why, Detail: probes.Printable(r.detail, maxDetail), At: time.Now()}
}

// Check looks once whether a probe of these GPUs, named by UUID, may start now; nil: the gate is open. It does not
// wait: unless Enter has watched the GPUs until just now, it cannot know that they were idle for a minute.
func (g *Gate) Check(ctx context.Context, gpus []string) *probes.Skipped {
	if !g.busy.TryLock() {
		return held.skipped()
	}
	defer g.leave()
	lock, r := g.lock()
	if r != nil {
		return r.skipped()
	}
	defer lock.Release()
	r = g.look(ctx, gpus, true)
	if r == nil || r.wait {
		r = worse(r, g.askSite(ctx, gpus, nil))
	}
	return r.skipped()
}

// Enter watches these GPUs, named by UUID, for a minute (Quiet) and opens the gate if everything says idle all the
// time and at its end. As soon as anything says otherwise, it returns, and at the latest after a minute and a
// half. A Pass must be left.
func (g *Gate) Enter(ctx context.Context, gpus []string) (*Pass, *probes.Skipped) {
	if !g.busy.TryLock() {
		return nil, held.skipped()
	}
	lock, r := g.enter(ctx, gpus)
	if r != nil {
		g.leave()
		return nil, r.skipped()
	}
	return &Pass{gate: g, gpus: gpus, lock: lock}, nil
}

func (g *Gate) enter(ctx context.Context, gpus []string) (*state.Lock, *refusal) {
	ctx, cancel := context.WithTimeout(ctx, g.o.Quiet*3/2)
	defer cancel()
	// The lock is tried before the GPUs are watched for a minute, so that a probe that cannot have it is skipped now, and
	// is not held during that minute, so that others can have it.
	lock, r := g.lock()
	if r != nil {
		return nil, r
	}
	lock.Release()
	tick := time.NewTicker(g.o.Quiet / 30)
	defer tick.Stop()
	for full := true; ; full = false {
		r := g.look(ctx, gpus, full)
		if r == nil {
			break
		}
		if !r.wait {
			return nil, r
		}
		if full { // before the minute, too: it need not be waited for where the site says no
			if r := g.askSite(ctx, gpus, tick.C); r != nil {
				return nil, r
			}
		}
		select {
		case <-ctx.Done():
			return nil, unproven("%s: %v", r.detail, context.Cause(ctx))
		case <-tick.C:
		}
	}
	if lock, r = g.lock(); r != nil {
		return nil, r
	}
	if r = g.askSite(ctx, gpus, tick.C); r == nil {
		r = g.look(ctx, gpus, true)
	}
	if r != nil {
		lock.Release()
		return nil, r
	}
	return lock, nil
}

func (g *Gate) lock() (*state.Lock, *refusal) {
	lock, err := state.TakeLock(g.o.Lock)
	switch {
	case errors.Is(err, state.ErrLocked):
		return nil, refuse(probes.SkipLocked, "%v", err)
	case err != nil:
		return nil, unproven("%v", err)
	}
	return lock, nil
}

func (g *Gate) leave() {
	if g.o.GPUs != nil {
		g.o.GPUs.Release()
	}
	g.busy.Unlock()
}

// look asks the sources. The full look asks all; the others only what shows the GPUs at work.
func (g *Gate) look(ctx context.Context, gpus []string, full bool) *refusal {
	if r := g.maintenance(); r != nil {
		return r // and touch nothing
	}
	ctx, end := g.untilMaintenance(ctx)
	r := g.lookAtGPUs(ctx, gpus, full)
	if full && (r == nil || r.why == probes.SkipCannotProveIdle) {
		r = worse(r, g.lookAtHost(ctx))
	}
	if err := ctx.Err(); err != nil && r == nil {
		r = unproven("%v", err)
	}
	if began := end(); began != nil {
		return began
	}
	return r
}

// Pass is the permission to use GPUs. While it lasts it reports other processes that come to them.
type Pass struct {
	gate *Gate
	gpus []string
	lock *state.Lock
	left atomic.Bool
}

// Leave gives the GPUs and the lock back. No Intruder may be running any more but one whose context has ended.
func (p *Pass) Leave() {
	if p.left.CompareAndSwap(false, true) {
		p.lock.Release()
		p.gate.leave()
	}
}

// Freed waits until the driver shows none of own, PIDs of ranks that have ended, on the GPUs any more, and no memory
// in use on those without other processes: memory of others does not show what the ranks left. It looks ten times a
// second. In maintenance it does not look at all: ErrMaintenance.
func (p *Pass) Freed(ctx context.Context, own []int) error {
	ctx, end := p.gate.untilMaintenance(ctx)
	err := p.freed(ctx, own)
	if began := end(); began != nil && err != nil {
		return fmt.Errorf("%w: %s", probes.ErrMaintenance, probes.Printable(began.detail, maxDetail))
	}
	return err
}

func (p *Pass) freed(ctx context.Context, own []int) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if r := p.gate.maintenance(); r != nil && r.why == probes.SkipMaintenance {
			return fmt.Errorf("%w: %s", probes.ErrMaintenance, probes.Printable(r.detail, maxDetail))
		}
		r := p.inUse(ctx, own)
		if r == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", probes.Printable(r.detail, maxDetail), context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func (p *Pass) inUse(ctx context.Context, own []int) *refusal {
	if p.left.Load() {
		return unproven("the gate was left")
	}
	d, err := p.gate.o.GPUs.Read(ctx, false)
	if err != nil {
		return unproven("GPUs: %v", err)
	}
	var r *refusal
	seen := 0
	for i := range d.GPUs {
		gpu := &d.GPUs[i]
		if !slices.Contains(p.gpus, gpu.UUID) {
			continue
		}
		seen++
		list, unread := need(gpu.Processes, "processes", gpu, time.Now())
		switch of := slices.IndexFunc(list, func(l fabric.GPUProcess) bool { return slices.Contains(own, l.PID) }); {
		case unread != nil:
			r = worse(r, unread)
		case of >= 0:
			r = worse(r, processOn(gpu, list[of]))
		case len(list) == 0:
			r = worse(r, p.gate.inUse(gpu, time.Now()))
		}
	}
	if seen != len(p.gpus) {
		r = worse(r, unproven("the driver shows %d of %d GPUs", seen, len(p.gpus)))
	}
	return r
}
