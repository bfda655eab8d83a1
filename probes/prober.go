// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Target is a probe that could run on the node as it is now.
type Target struct {
	Key  Key
	GPUs []string // UUIDs of those that would get a context; empty: not known
	// Conditions are what else must be equal for results to be compared, "firmware mlx5_0=28.43.1014": firmware of the HCA,
	// how the GPUs are linked. The order does not matter.
	Conditions []string
}

// Machine is what a Prober probes.
type Machine interface {
	// Targets returns what could be probed. A kind that has nothing to run on is listed once, without a device, so that
	// it is seen being skipped; none at all mean that nothing is known just now. It is asked every 5 minutes and before
	// each probe.
	Targets(ctx context.Context) []Target
	// Probe enters the gate, runs the probe to its end and leaves, or says why the probe may not run now. The gate may take
	// minutes, in which GPUs are watched. Behind it Probe calls begin once, before anything touches a GPU. It kills what
	// runs when ctx is done. The Prober fills in Comparison.
	Probe(ctx context.Context, t Target, begin func()) (Result, *Skipped)
}

// Options are what a Prober needs.
type Options struct {
	Config  Config
	Machine Machine
	Host    string // name of the node: nodes with different names probe at different times
	Logger  *slog.Logger
	// Slow is called after each result below the baseline, for the cause to be looked for now; nil: it is not. It has slowFor.
	Slow func(ctx context.Context)
}

// Prober runs the probes of a node: one at a time, when they are due. It is safe for concurrent use.
type Prober struct {
	config   Config
	machine  Machine
	log      *slog.Logger
	slow     func(ctx context.Context)
	schedule schedule
	start    time.Time
	keeper   *keeper // nil: nothing is kept

	mu      sync.Mutex
	memory  memory
	probes  map[Key]*probe
	quiet   time.Time     // until when nothing is tried
	gpuTime time.Duration // since the start
	lost    error         // what was wrong with the state file at the start
}

// probe is what a Prober knows of one probe. Times are the Prober's.
type probe struct {
	target Target
	here   bool      // the node could be asked for it just now
	seen   time.Time // when it last could
	status ProbeStatus

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
	keptLost   = 24 * time.Hour // of what was wrong with the state file at the start
	keptGone   = windowAge      // of a probe whose device is gone
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
		memory:   memory{newDuty(o.Config.Duty, o.Config.Wall), map[Key]*record{}},
		probes:   map[Key]*probe{},
	}
	if o.Config.StateFile != "" {
		p.keeper = &keeper{store: stateFile(o.Config.StateFile), changed: p.tellState}
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
		if next == nil || cmp.Or(pr.due.Compare(next.due), compareKeys(pr.target.Key, next.target.Key)) < 0 {
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
func (p *Prober) see(targets []Target) (news bool) {
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
	kinds := map[Kind][]*probe{}
	for _, t := range targets {
		pr := p.probes[t.Key]
		if len(t.Key.Device) > deviceMost || pr == nil && !p.makeRoom() {
			continue
		}
		if pr == nil {
			pr = &probe{status: ProbeStatus{Key: t.Key, Failures: map[Failure]uint64{}, Skips: map[Skip]uint64{}}}
			if r := p.memory.records[t.Key]; r != nil {
				pr.status.Last = r.last
				if r.last != nil && r.last.Outcome == OK {
					pr.status.LastGood = r.last
				}
			}
			p.probes[t.Key] = pr
		}
		pr.target, pr.here, pr.seen = t, true, now
		kinds[t.Key.Kind] = append(kinds[t.Key.Kind], pr)
		news = p.memory.duty.open(t.GPUs, now) || news
	}
	for kind, probes := range kinds {
		slices.SortFunc(probes, func(a, b *probe) int { return compareKeys(a.target.Key, b.target.Key) })
		for i, pr := range probes {
			pr.turn, pr.turns = i, len(probes)
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
	for key, r := range p.memory.records { // also those of the state file whose devices never came back
		if p.probes[key] == nil && now.Sub(r.began) > keptGone {
			delete(p.memory.records, key)
		}
	}
}

// makeRoom reports whether there is room for one more probe. Where names of devices change often, the probe whose device
// has been gone for longest makes room.
func (p *Prober) makeRoom() bool {
	if len(p.probes) < probesMost {
		return true
	}
	var oldest *probe
	for _, pr := range p.probes {
		if !pr.here && (oldest == nil || cmp.Or(pr.seen.Compare(oldest.seen), compareKeys(pr.target.Key, oldest.target.Key)) < 0) {
			oldest = pr
		}
	}
	if oldest == nil {
		return false
	}
	delete(p.probes, oldest.target.Key)
	delete(p.memory.records, oldest.target.Key)
	return true
}

// plan gives a probe its next moment.
func (p *Prober) plan(pr *probe, now time.Time) {
	key := pr.target.Key
	every, after := p.config.Every[key.Kind], now
	if r := p.memory.records[key]; r != nil && r.began.Add(every/4).After(after) {
		after = r.began.Add(every / 4) // it ran late, or there are other probes now to take turns with
	}
	pr.slot = p.schedule.next(key, pr.turn, pr.turns, every, after)
	pr.due, pr.delay, pr.waitingForBudget, pr.confirm = pr.slot, 0, false, false
}
