// SPDX-License-Identifier: Apache-2.0

// Package prober runs the probes of a node when they are due, judges their results and remembers them. A Prober
// decides when; it asks a Machine what could be probed and has it run one probe at a time. For a real node the Machine
// is a Host: it makes a plan, has the gate opened, and runs the ranks. A Rehearsal is a Prober for runs that its
// caller invents.
//
// Their methods are safe for concurrent use, and wait neither for a probe nor for a file. What goes wrong with a probe
// is in its status and in the log; only a configuration that is not valid is an error.
package prober

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/state"
)

// Machine is what a Prober probes.
type Machine interface {
	// Targets returns what could be probed. A kind that has nothing to run on is listed once, without a device, so that
	// it is seen being skipped; none at all mean that nothing is known just now. It is asked every 5 minutes and before
	// each probe.
	Targets(ctx context.Context) []probes.Target
	// Probe enters the gate, runs the probe to its end and leaves, or says why the probe may not run now. The gate may
	// take minutes, in which GPUs are watched. Behind it Probe calls begin once, before anything touches a GPU. It kills
	// what runs when ctx is done. The Prober fills in Comparison.
	Probe(ctx context.Context, t probes.Target, begin func()) (probes.Result, *probes.Skipped)
}

// Options are what a Prober needs.
type Options struct {
	Config  probes.Config
	Machine Machine
	Host    string // name of the node: nodes with different names probe at different times
	Logger  *slog.Logger
	// Slow is called after each result below the baseline, for the cause to be looked for now; nil: it is not. It has
	// slowFor.
	Slow func(ctx context.Context)
}

// Prober runs the probes of a node: one at a time, when they are due. It is safe for concurrent use.
type Prober struct {
	config   probes.Config
	machine  Machine
	log      *slog.Logger
	slow     func(ctx context.Context)
	schedule schedule
	start    time.Time
	keeper   *state.Keeper // nil: nothing is kept

	mu      sync.Mutex
	memory  *state.Memory
	probes  map[probes.Key]*probe
	quiet   time.Time     // until when nothing is tried
	gpuTime time.Duration // since the start
	lost    error         // what was wrong with the state file at the start
}

// probe is what a Prober knows of one probe. Times are the Prober's.
type probe struct {
	target probes.Target
	here   bool      // the node could be asked for it just now
	seen   time.Time // when it last could
	status probes.ProbeStatus

	turn, turns int // among the probes of its kind

	slot             time.Time     // the moment of the schedule that it is due for; zero: it does not run by itself
	due              time.Time     // when it is tried
	delay            time.Duration // before the last try; 0: none failed
	waitingForBudget bool          // it waits for the budget of its GPUs
	confirm          bool          // it is to confirm a result below the limit
}

// How a Prober waits.
const (
	lookEvery  = 5 * time.Minute  // for probes that come and go
	lookFor    = 10 * time.Second // at most
	slowFor    = 10 * time.Second // to look for what made a probe slow
	rest       = time.Minute      // from the end of a try to the next one
	retryMost  = 10 * time.Minute
	confirmIn  = time.Minute
	endWithin  = 1500 * time.Millisecond // of a run that is killed
	savedIn    = 200 * time.Millisecond  // before a run
	savedAtEnd = 300 * time.Millisecond
	keptLost   = 24 * time.Hour  // of what was wrong with the state file at the start
	keptGone   = state.WindowAge // of a probe whose device is gone
)

// How much a Prober keeps of a probe.
const (
	keptFailures = 5
	logMost      = 16 << 10
	errorMost    = 1 << 10
	settingsMost = 100
	deviceMost   = 64
)

// New returns a Prober for Run. The error names each field of the configuration that is wrong.
func New(o Options) (*Prober, error) {
	if err := o.Config.Validate(); err != nil {
		return nil, fmt.Errorf("probes: %w", err)
	}
	p := &Prober{
		config:   o.Config,
		machine:  o.Machine,
		log:      o.Logger,
		slow:     o.Slow,
		schedule: schedule{o.Host},
		start:    time.Now(),
		memory:   state.NewMemory(o.Config.Duty, o.Config.Wall),
		probes:   map[probes.Key]*probe{},
	}
	if o.Config.StateFile != "" {
		p.keeper = state.NewKeeper(state.File(o.Config.StateFile), p.tellState)
	}
	return p, nil
}

// now is the time since the start by the monotonic clock, added to the wall clock of that moment. All times of
// the schedule, the baselines and the accounts of GPUs are by it.
func (p *Prober) now() time.Time { return p.start.Add(time.Since(p.start)).Round(0) }

// Run probes until ctx is done, and returns within 2 s then, whatever hangs. It is called once.
func (p *Prober) Run(ctx context.Context) {
	p.remember(ctx)
	for ctx.Err() == nil {
		p.look(ctx)
		next, wait := p.next()
		if wait == 0 {
			p.try(ctx, next)
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C: // look once more, before anything is tried
		}
		timer.Stop()
	}
	p.save(savedAtEnd)
}

// next returns the probe that is tried next and how long that is off; lookEvery at most.
func (p *Prober) next() (*probe, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var next *probe
	for _, pr := range p.probes {
		if pr.slot.IsZero() || !pr.here {
			continue
		}
		if next == nil || cmp.Or(pr.due.Compare(next.due), probes.CompareKeys(pr.target.Key, next.target.Key)) < 0 {
			next = pr
		}
	}
	if next == nil {
		return nil, lookEvery
	}
	now := p.now()
	return next, min(max(next.due.Sub(now), p.quiet.Sub(now), 0), lookEvery)
}

// look asks the machine what could be probed now, and schedules what is new.
func (p *Prober) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	targets := p.machine.Targets(ctx)
	if len(targets) == 0 {
		return // the machine does not know just now: what is due is tried, and the skip says why it does not run
	}
	if p.see(targets) {
		p.save(0) // from now on GPUs earn, whether the exporter goes on or not
	}
}

// see records what could be probed, and reports whether there are GPUs that were not there before.
func (p *Prober) see(targets []probes.Target) (news bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for _, pr := range p.probes {
		pr.here = false
	}
	for _, t := range targets {
		if pr := p.probes[t.Key]; pr != nil {
			pr.here, pr.seen = true, now
		}
	}
	p.forget(now)
	kinds := map[probes.Kind][]*probe{}
	for _, t := range targets {
		pr := p.probes[t.Key]
		if len(t.Key.Device) > deviceMost || pr == nil && !p.makeRoom() {
			continue
		}
		if pr == nil {
			pr = &probe{status: probes.ProbeStatus{
				Key: t.Key, Failures: map[probes.Failure]uint64{},
				Skips: map[probes.Skip]uint64{},
			}}
			if r := p.memory.Records[t.Key]; r != nil {
				pr.status.Last = r.Last
				if r.Last != nil && r.Last.Outcome == probes.OK {
					pr.status.LastGood = r.Last
				}
			}
			p.probes[t.Key] = pr
		}
		pr.target, pr.here, pr.seen = t, true, now
		kinds[t.Key.Kind] = append(kinds[t.Key.Kind], pr)
		news = p.memory.Duty.Open(t.GPUs, now) || news
	}
	for kind, turns := range kinds {
		slices.SortFunc(turns, func(a, b *probe) int { return probes.CompareKeys(a.target.Key, b.target.Key) })
		for i, pr := range turns {
			pr.turn, pr.turns = i, len(turns)
			if p.config.Every[kind] > 0 && pr.slot.IsZero() {
				p.plan(pr, now)
			}
		}
	}
	return news
}

// forget drops probes whose devices have been gone for a week, with what is remembered of them.
func (p *Prober) forget(now time.Time) {
	for key, pr := range p.probes {
		if now.Sub(pr.seen) > keptGone {
			delete(p.probes, key)
		}
	}
	for key, r := range p.memory.Records { // also those of the state file whose devices never came back
		if p.probes[key] == nil && now.Sub(r.Began) > keptGone {
			delete(p.memory.Records, key)
		}
	}
}

// makeRoom reports whether there is room for one more probe. Where names of devices change often, the probe whose
// device has been gone for longest makes room.
func (p *Prober) makeRoom() bool {
	if len(p.probes) < state.ProbesMost {
		return true
	}
	var oldest *probe
	for _, pr := range p.probes {
		if !pr.here && (oldest == nil || cmp.Or(pr.seen.Compare(oldest.seen),
			probes.CompareKeys(pr.target.Key, oldest.target.Key)) < 0) {
			oldest = pr
		}
	}
	if oldest == nil {
		return false
	}
	delete(p.probes, oldest.target.Key)
	delete(p.memory.Records, oldest.target.Key)
	return true
}

// plan gives a probe its next moment.
func (p *Prober) plan(pr *probe, now time.Time) {
	key := pr.target.Key
	every, after := p.config.Every[key.Kind], now
	if r := p.memory.Records[key]; r != nil && r.Began.Add(every/4).After(after) {
		after = r.Began.Add(every / 4) // it ran late, or there are other probes now to take turns with
	}
	pr.slot = p.schedule.next(key, pr.turn, pr.turns, every, after)
	pr.due, pr.delay, pr.waitingForBudget, pr.confirm = pr.slot, 0, false, false
}
