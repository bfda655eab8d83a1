// SPDX-License-Identifier: Apache-2.0

// Package pinger has the rails of a node ping those of others all the time, and sums up what comes of it.
//
// A Pinger has three goroutines: one looks every few seconds at maintenance, the node and the targets, one asks peers
// over HTTP where their rails answer, and one opens rails and sends a round of messages in each interval. Only the last
// one talks to the worker. Whatever hangs, the others go on. Status and Rails may be called by any goroutine, and wait
// for nothing.
//
// A message counts only when its fate is known. What a peer does not answer is held until it answers again, or until
// it was asked over HTTP: where the exporter of a peer was restarted or has ended, nothing was lost.
package pinger

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"gpufabric_exporter/internal/errand"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/rdmaping"
	"gpufabric_exporter/rdmaping/peers"
)

// Options are what a Pinger needs.
type Options struct {
	Config      rdmaping.Config
	Start       Start
	Observe     func(ctx context.Context) *fabric.Node
	Maintenance func() (string, error) // why no device may be opened; empty: they may be
	Client      *http.Client
	// Host has the names and addresses of this node, the first of which is its name. It may hang.
	Host   func() ([]string, error)
	Lookup func(ctx context.Context, host string) ([]string, error)
	Log    *slog.Logger
}

// Wants is what of a node is looked at.
const Wants = fabric.WantHCA | fabric.WantGID | fabric.WantNCCL | fabric.WantTrafficClass

const (
	lookEvery = 10 * time.Second
	lookFor   = 5 * time.Second
	largeIn   = time.Minute // each peer gets a message of the path MTU
	longest   = 500 * time.Millisecond
	flows     = 8               // labels at a time
	flowsFor  = 5 * time.Minute // then there are others
)

// Pinger is described in the package comment.
type Pinger struct {
	o      Options
	source peers.Source

	mu      sync.Mutex
	plan    plan
	told    map[string]*told
	reasons map[string]time.Time // why peers tell no rails, as it was logged, and when that was last seen
	status  rdmaping.Status
	ends    []rdmaping.Endpoint

	asking sync.WaitGroup // questions to peers

	// of the goroutine that sends
	worker  Worker
	retry   time.Time // when a worker that failed is started again
	starts  int
	why     string // what was last logged of it
	rails   map[string]*rail
	rounds  uint32
	pinging map[string]bool // devices that asked a peer in the last round
	judge   *judge
	// of the goroutine that looks
	seen    []peers.Target
	owns    []Own
	numbers map[string]int  // of rails by device, also of those that are gone
	ports   map[string]int  // that ping, by device, since they had a link
	unseen  []string        // devices that pods had before: they have numbers, and no rails
	trouble map[string]bool // as of the last look
	missing bool            // this node is not among the targets
	read    []string        // names of this node as they were last read, the first of which is that of the host
	names   []string        // those that it is found by; nil: not known yet
	own     []peers.Target  // that are this node
	naming  errand.Errand[[]string]
}

// plan is what there is to ping, as of the last look.
type plan struct {
	paused  string // why nothing is opened
	rails   []planned
	targets int
	leftOut int
}

// planned is a rail and the peers that it asks.
type planned struct {
	Own
	excess bool // there are too many rails
	self   peers.Target
	peers  []peers.Target
}

// New returns a Pinger for Run.
func New(o Options) *Pinger {
	return &Pinger{
		o: o, told: map[string]*told{}, reasons: map[string]time.Time{}, rails: map[string]*rail{}, judge: newJudge(),
		ports: map[string]int{},
		source: peers.Source{
			Files: o.Config.Files, Names: o.Config.Names, LeafLabel: o.Config.LeafLabel, Lookup: o.Lookup,
		},
		status: rdmaping.Status{Enabled: true},
	}
}

// Run pings until ctx ends, and returns when the worker has ended.
func (p *Pinger) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { every(ctx, lookEvery, p.look) })
	all.Go(func() { every(ctx, time.Second, p.inquire) })
	every(ctx, p.o.Config.Interval, p.round)
	p.end()
	all.Wait()
	p.asking.Wait()
}

// every calls f at once, and then each interval, but never twice at the same time.
func every(ctx context.Context, interval time.Duration, f func(context.Context)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		f(ctx)
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// Status is what was found so far.
func (p *Pinger) Status() rdmaping.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// Rails is where this node answers.
func (p *Pinger) Rails() []rdmaping.Endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ends
}

func (p *Pinger) current() plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.plan
}

// round opens what is to be opened, and sends one message to each peer and to each own rail.
func (p *Pinger) round(ctx context.Context) {
	pl := p.current()
	if pl.paused != "" {
		p.end()
		p.publish(&pl)
		return
	}
	p.take(&pl)
	if p.worker == nil && len(pl.rails) > 0 && !p.begin(ctx) {
		p.publish(&pl)
		return
	}
	p.open(ctx, &pl)
	q, of := p.messages(&pl)
	if len(q.Asks) > 0 {
		now := time.Now()
		pongs, err := Session{p.worker}.Round(ctx, &q)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			p.failed("RDMA ping failed, and begins again", err)
		}
		for i := range pongs {
			r := of[i].rail
			was := r.end
			if of[i].came(&pongs[i], now); was != nil && r.end == nil {
				p.o.Log.Info("a rail failed, and is opened anew", "device", r.Device, "err", pongs[i].Failure)
			}
		}
	}
	p.judge.close(p.rails, time.Now())
	p.publish(&pl)
}

// begin starts the worker, unless it failed a short while ago.
func (p *Pinger) begin(ctx context.Context) bool {
	if time.Now().Before(p.retry) {
		return false
	}
	w, err := p.o.Start(ctx, p.o.Config.Library, p.o.Log)
	if err != nil {
		p.failed("RDMA ping cannot begin", err)
		return false
	}
	p.worker = w
	p.starts++
	return true
}

// failed ends the worker, and logs why unless it did already.
func (p *Pinger) failed(what string, err error) {
	if why := err.Error(); why != p.why {
		p.o.Log.Warn(what, "err", err)
		p.why = why
	}
	p.end()
	p.retry = time.Now().Add(lookEvery)
}

// end ends the worker, and with it all queue pairs.
func (p *Pinger) end() {
	if p.worker != nil {
		if err := p.worker.Close(); err != nil {
			p.o.Log.Warn("the worker of RDMA ping did not exit", "err", err)
		}
		p.worker = nil
	}
	for _, r := range p.rails {
		r.end = nil
	}
}

// take takes over what is to be pinged. The end of the worker is the only way to close a rail.
func (p *Pinger) take(pl *plan) {
	here := map[string]bool{}
	for i := range pl.rails {
		own := &pl.rails[i]
		r := p.rails[own.Device]
		if r == nil {
			r = newRail(p.judge.add)
			p.rails[own.Device] = r
		}
		r.plan(own)
		here[own.Device] = !own.Moved && !own.excess
	}
	for device, r := range p.rails {
		if here[device] {
			continue
		}
		if r.end != nil {
			p.end()
		}
		if _, moved := here[device]; !moved {
			delete(p.rails, device)
		}
	}
}

// open opens rails that are not open, or whose GID or settings have changed.
func (p *Pinger) open(ctx context.Context, pl *plan) {
	for i := range pl.rails {
		own := &pl.rails[i]
		r := p.rails[own.Device]
		if !r.stale() || p.worker == nil || time.Since(r.tried) < lookEvery && !r.changed {
			continue
		}
		r.tried, r.changed = time.Now(), false
		end, err := rdmaping.Endpoint{}, fmt.Errorf("%s: no GID of its port fits (as NCCL chooses: %s): give its interface such an "+
			"address, or state in /etc/nccl.conf which GID jobs use (NCCL_IB_ADDR_FAMILY, NCCL_IB_ROCE_VERSION_NUM, "+
			"NCCL_IB_ADDR_RANGE, NCCL_IB_GID_INDEX)", own.Device, fabric.Printable(own.Unfit, 200))
		if own.Unfit == "" {
			r.opened = own.Own
			end, err = Session{p.worker}.Open(ctx, own.Own)
		}
		if err != nil {
			r.end = nil
			if why := err.Error(); r.why != why {
				p.o.Log.Warn("a rail cannot be pinged from", "device", own.Device, "err", err)
				r.why = why
			}
			continue
		}
		r.begin(end)
	}
}

// messages are those of a round, and what waits for what comes of each.
func (p *Pinger) messages(pl *plan) (q rdmaping.Round, of []*message) {
	p.rounds++
	flow := uint32(time.Now().Unix()/int64(flowsFor.Seconds())*flows) + p.rounds%flows
	most := 1
	p.pinging = map[string]bool{}
	for i := range pl.rails {
		r := p.rails[pl.rails[i].Device]
		if r.end == nil {
			continue
		}
		begun := len(of)
		r.closeFlows(time.Now())
		for _, m := range r.messages(p.endOf, time.Now()) {
			m.round = p.rounds
			p.pinging[pl.rails[i].Device] = p.pinging[pl.rails[i].Device] || m.peer != nil
			size := min(r.end.MTU, m.to.MTU)
			if !m.large {
				size = min(size, p.o.Config.Size)
			}
			q.Asks = append(q.Asks, rdmaping.Ask{Device: pl.rails[i].Device, To: m.to, Size: size, Flow: flow & 0xfffff})
			of = append(of, m)
		}
		most = max(most, len(of)-begun)
	}
	q.Timeout = min(longest, p.o.Config.Interval/2)
	q.Gap = min(p.o.Config.Interval/2, time.Second/2) / time.Duration(most)
	return q, of
}

// publish replaces what others see.
func (p *Pinger) publish(pl *plan) {
	s := rdmaping.Status{Enabled: true, Targets: pl.targets, LeftOut: pl.leftOut, Starts: p.starts}
	var ends []rdmaping.Endpoint
	for i := range pl.rails {
		own := &pl.rails[i]
		r := p.rails[own.Device]
		if r == nil {
			r = newRail(nil)
		}
		one := r.status(own)
		switch {
		case pl.paused != "":
			one.Uncovered = rdmaping.UncoveredPaused
		case own.Moved:
			one.Uncovered = rdmaping.UncoveredMoved
		case own.excess:
			one.Uncovered = rdmaping.UncoveredMany
		case p.worker == nil:
			one.Uncovered = rdmaping.UncoveredLoader
		case r.end == nil:
			one.Uncovered = rdmaping.UncoveredFailed
		case !p.pinging[own.Device]:
			one.Uncovered = rdmaping.UncoveredAlone
		}
		if r.end != nil {
			ends = append(ends, *r.end)
		}
		s.Rails = append(s.Rails, one)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Untold = p.untold()
	p.status, p.ends = s, slices.Clip(ends)
}
