// SPDX-License-Identifier: Apache-2.0

// Package cluster measures the fabric between nodes. A scheduler has started one process on each node and owns who may
// use its GPUs. They find each other (rendezvous); one leads, all connect to it (wire) and start ranks for it. The
// leader has pairs of nodes measure (run), and decides which are next and what it means (search).
//
// A node starts only ranks that it planned itself, while nobody else is on its GPUs. When the connection to the leader
// ends, all its ranks are killed; so they are when another process comes to the GPUs. Nothing stays on a node. What
// goes wrong on nodes is in the Report; an error is for what kept the leader or a node from taking part.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"gpufabric_exporter/internal/errand"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/cluster/wire"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/run"
)

// Agent is the part of one node.
type Agent struct {
	Hello  wire.Hello // without rank and size
	Member *plan.Member
	Start  probes.StartRank
	Guard  run.Guard // nil: the GPUs are not watched

	conn    *wire.Conn
	lasting sync.WaitGroup

	mu      sync.Mutex
	ranks   map[int]*held
	stopped string // why no rank may be started any more
	endings int    // ranks that were told to end

	looking  sync.Mutex // held while the guard is asked
	failures int        // how often in a row it could not tell
	doubts   int        // how often in a row it may have named a rank that ended
}

// held is a rank of an agent.
type held struct {
	rank    probes.Rank
	process probes.RankProcess
	told    bool // to end
	closed  bool
}

// How often the guard is asked, and how long things may take.
const (
	guardInterval = 100 * time.Millisecond
	guardLimit    = time.Second
	guardFailures = 2
	doubtsMost    = 3
	questionsMost = 4 * 64 // at a time
	endLimit      = 5 * time.Second
)

// Run serves a leader until it ends the run, and returns what it said. All ranks are gone then. Where ctx ends first,
// the leader is told why, so that it does not take the node for one that died.
func (a *Agent) Run(ctx context.Context, conn *wire.Conn) (string, error) {
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.ranks, a.conn = map[int]*held{}, conn
	defer context.AfterFunc(ctx, func() {
		if outer.Err() != nil {
			a.stop(probes.Printable(context.Cause(outer).Error(), probes.MaxText))
		}
		conn.Close()
	})()
	go conn.Beat(ctx)
	a.lasting.Go(func() { a.watch(ctx) })
	end, err := a.serve(ctx, conn)
	cancel()
	a.end()
	a.lasting.Wait()
	return end, err
}

func (a *Agent) serve(ctx context.Context, conn *wire.Conn) (string, error) {
	slots := make(chan struct{}, questionsMost)
	for {
		m, err := conn.Receive()
		switch {
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case err != nil:
			return "", fmt.Errorf("the leader is lost: %w", err)
		case m.End != nil:
			return probes.Printable(*m.End, probes.MaxText), nil
		}
		select {
		case slots <- struct{}{}:
		default:
			return "", errors.New("the leader asks for too much at once")
		}
		a.lasting.Go(func() {
			defer func() { <-slots }()
			answer := a.answer(ctx, m)
			_ = conn.Send(wire.Message{Seq: m.Seq, Answer: &answer}) // a lost leader is noticed by Receive
		})
	}
}

func (a *Agent) answer(ctx context.Context, m wire.Message) wire.Answer {
	switch {
	case m.Start != nil:
		return a.start(ctx, *m.Start)
	case m.Call != nil:
		return a.call(ctx, *m.Call)
	case m.Kill != nil:
		return a.with(*m.Kill, func(h *held) wire.Answer {
			a.ends(h)
			h.process.Kill()
			return wire.Answer{}
		})
	case m.Close != nil:
		return a.with(*m.Close, func(h *held) wire.Answer {
			a.ends(h)
			err := h.process.Close()
			a.mu.Lock()
			h.closed = true
			a.mu.Unlock()
			return trouble(err)
		})
	case m.Log != nil:
		return a.log(*m.Log)
	}
	return trouble(errors.New("a question of another kind"))
}

// trouble is the answer with an error; nil: none.
func trouble(err error) wire.Answer {
	if err == nil {
		return wire.Answer{}
	}
	a := wire.Answer{Trouble: wire.TroubleOther, Text: probes.Printable(err.Error(), probes.MaxText)}
	if errors.Is(err, probes.ErrRankHung) {
		a.Trouble = wire.TroubleHung
	} else if errors.Is(err, probes.ErrRankRefused) {
		a.Trouble = wire.TroubleRefused
	}
	return a
}

// with finds a rank.
func (a *Agent) with(id int, do func(*held) wire.Answer) wire.Answer {
	a.mu.Lock()
	h := a.ranks[id]
	a.mu.Unlock()
	if h == nil {
		return trouble(fmt.Errorf("there is no rank %d", id))
	}
	return do(h)
}

// planned is the rank that the leader means.
func (a *Agent) planned(s wire.Start) (probes.Rank, error) {
	list, at := a.Member.ByRail, s.Rail
	if s.Rail < 0 {
		list, at = a.Member.ByGPU, s.GPU
	}
	if at >= len(list) {
		return probes.Rank{}, fmt.Errorf("rank %d of %d", at, len(list))
	}
	return list[at], nil
}

func (a *Agent) start(ctx context.Context, s wire.Start) wire.Answer {
	rank, err := a.planned(s)
	if err != nil {
		return trouble(err)
	}
	for a.idle() && !a.look(ctx) {
		wait(ctx)
	}
	a.mu.Lock()
	_, twice := a.ranks[s.ID]
	why, running := a.stopped, a.running()
	if !twice && why == "" && running < 2*len(a.Member.ByGPU)+len(a.Member.ByRail) {
		a.ranks[s.ID] = nil // taken
	}
	a.mu.Unlock()
	switch {
	case why != "":
		return trouble(errors.New(why))
	case twice:
		return trouble(fmt.Errorf("rank %d is started twice", s.ID))
	case running >= 2*len(a.Member.ByGPU)+len(a.Member.ByRail):
		return trouble(fmt.Errorf("%d ranks are running", running))
	}
	p, err := a.Start(ctx, rank)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		delete(a.ranks, s.ID)
		return trouble(err)
	}
	a.ranks[s.ID] = &held{rank: rank, process: p}
	if a.stopped != "" || ctx.Err() != nil {
		p.Kill()
	}
	return wire.Answer{PID: p.PID()}
}

// running counts ranks that are not closed. Callers hold mu.
func (a *Agent) running() int {
	n := 0
	for _, h := range a.ranks {
		if h == nil || !h.closed {
			n++
		}
	}
	return n
}

// call hands a request to a rank. What it opens is what this node planned.
func (a *Agent) call(ctx context.Context, c wire.Call) wire.Answer {
	return a.with(c.ID, func(h *held) wire.Answer {
		var q probes.Request
		if err := json.Unmarshal(c.Request, &q); err != nil {
			return trouble(fmt.Errorf("%w: %w", probes.ErrRankRefused, err))
		}
		if q.Open != nil {
			q = probes.Request{Open: &probes.OpenRequest{
				NCCL: a.Member.Settings.NCCL, CUDA: a.Member.Settings.CUDA, GPU: h.rank.Address,
			}}
		}
		request, err := json.Marshal(q)
		if err != nil {
			return trouble(err)
		}
		ctx, cancel := context.WithTimeout(ctx, c.Timeout)
		defer cancel()
		reply, err := h.process.Call(ctx, request)
		if err != nil {
			return trouble(err)
		}
		return wire.Answer{Reply: reply}
	})
}

// log returns what a rank logged, and forgets one that is closed.
func (a *Agent) log(id int) wire.Answer {
	return a.with(id, func(h *held) wire.Answer {
		var l wire.Log
		l.Head, l.Tail, l.Dropped = h.process.Log()
		a.mu.Lock()
		defer a.mu.Unlock()
		if h.closed {
			delete(a.ranks, id)
		}
		return wire.Answer{Log: &l}
	})
}

func (a *Agent) all() []*held {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []*held
	for _, h := range a.ranks {
		if h != nil && !h.closed {
			list = append(list, h)
		}
	}
	return list
}

// idle reports whether no rank runs, and one may be started.
func (a *Agent) idle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stopped == "" && a.running() == 0
}

// watch asks the guard while there are ranks.
func (a *Agent) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if len(a.all()) > 0 {
			a.look(ctx)
		}
		wait(ctx)
	}
}

// wait is the time between two questions.
func wait(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(guardInterval):
	}
}

// look asks the guard, and reports whether nobody else is on the GPUs. For anyone else, all ranks are killed, and no
// more started; so they are when the guard cannot tell.
func (a *Agent) look(ctx context.Context) bool {
	a.looking.Lock()
	defer a.looking.Unlock()
	if a.Guard == nil || ctx.Err() != nil || a.over() {
		return true
	}
	var own []int
	for _, h := range a.all() {
		own = append(own, h.process.PID())
	}
	before, ending := a.ending()
	who, err := errand.Within(ctx, guardLimit, func(ctx context.Context) (string, error) {
		return a.Guard.Intruder(ctx, own)
	})
	after, _ := a.ending()
	if a.failures++; err == nil {
		a.failures = 0
	}
	if a.doubts++; who == "" {
		a.doubts = 0
	}
	switch {
	case who != "" && (ending || before != after) && a.doubts <= doubtsMost: // a rank that has just ended is nobody's
		return false
	case who != "":
		who += " came to the GPUs"
	case errors.Is(err, probes.ErrMaintenance), a.failures >= guardFailures:
		who = fmt.Sprintf("it cannot be seen who else uses the GPUs: %v", err)
	}
	if who != "" && ctx.Err() == nil {
		a.stop(probes.Printable(who, probes.MaxText))
	}
	return who == "" && err == nil
}

// ends notes that a rank is told to end.
func (a *Agent) ends(h *held) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !h.told {
		h.told = true
		a.endings++
	}
}

// ending is how many ranks were told to end, and whether some of them have not.
func (a *Agent) ending() (told int, some bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.ranks {
		some = some || h != nil && h.told && !h.closed
	}
	return a.endings, some
}

// over reports whether no rank may be started any more.
func (a *Agent) over() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stopped != ""
}

// stop kills all ranks and says why.
func (a *Agent) stop(why string) {
	a.mu.Lock()
	a.stopped = why
	a.mu.Unlock()
	for _, h := range a.all() {
		h.process.Kill()
	}
	_ = a.conn.Send(wire.Message{Stop: &why})
}

// end kills all ranks and waits until they are gone, or the kernel holds them.
func (a *Agent) end() {
	a.mu.Lock()
	a.stopped = "the run is over"
	a.mu.Unlock()
	var all sync.WaitGroup
	for _, h := range slices.Clone(a.all()) {
		all.Go(func() {
			h.process.Kill()
			_, _ = errand.Within(context.Background(), endLimit, func(context.Context) (struct{}, error) {
				return struct{}{}, h.process.Close()
			})
		})
	}
	all.Wait()
}
