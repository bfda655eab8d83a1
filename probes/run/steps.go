// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"gpufabric_exporter/internal/errand"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/plan"
)

// run is a plan under way. Its context ends when the run is to end before its plan does, with the trouble as its
// cause, and with it all processes are killed.
type run struct {
	plan    *plan.Plan
	began   time.Time
	ctx     context.Context
	cancel  context.CancelCauseFunc
	close   func()
	members []*member

	intrusion *probes.Intrusion // written before the watch ends
	seen      time.Time         // when the sample was asked for that showed it

	// endedAt returns when the ranks were first ended: killed, or asked to close.
	endedAt func() time.Time
}

// member is a rank of a run.
type member struct {
	rank int
	held time.Time // since when it may have a context; zero: never

	mu      sync.Mutex
	process probes.RankProcess // nil before it was started
	gone    time.Time          // since when it has none
}

func (m *member) running() probes.RankProcess {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process
}

// trouble is why a run ends before its plan does.
type trouble struct {
	failure probes.Failure
	rank    int    // -1: none in particular
	node    string // of the rank, where it is another one
	silent  bool   // the rank did not answer at all
	text    string
}

func (t *trouble) Error() string {
	if t.rank < 0 {
		return t.text
	}
	if t.node != "" {
		return fmt.Sprintf("rank %d on %s: %s", t.rank, t.node, t.text)
	}
	return fmt.Sprintf("rank %d: %s", t.rank, t.text)
}

// remoteError is what NCCL says of a rank whose peer left: that one is the cause.
const remoteError = "remote process exited or there was a network error"

func (t *trouble) symptom() bool {
	return t.failure == probes.FailureNCCL && strings.Contains(t.text, remoteError)
}

// elsewhere reports whether the rank only tells that another one does not answer.
func (t *trouble) elsewhere() bool {
	return t.symptom() || t.failure == probes.FailureHang && !t.silent
}

func troubled(failure probes.Failure, rank int, format string, args ...any) *trouble {
	return &trouble{failure: failure, rank: rank, text: probes.Printable(fmt.Sprintf(format, args...), probes.MaxText)}
}

// causality orders failures of ranks in one step by how much they reveal about the cause: a rank that ended, broke the
// protocol or lost its GPU makes others report errors of NCCL, or wait; one that says nothing makes others report that
// they waited.
func causality(t *trouble) int {
	order := []probes.Failure{
		probes.FailureCrash, probes.FailureProtocol, probes.FailureLibrary,
		probes.FailureCUDA, probes.FailureInit, probes.FailureNCCL,
	}
	switch {
	case t.silent:
		return len(order)
	case t.symptom():
		return len(order) + 2
	case t.failure == probes.FailureHang: // when it gives up, others see that its connections close
		return len(order) + 1
	}
	return slices.Index(order, t.failure)
}

func newRun(ctx context.Context, p *plan.Plan) *run {
	e := &run{plan: p, began: time.Now(), endedAt: sync.OnceValue(time.Now)}
	e.ctx, e.cancel = context.WithCancelCause(ctx)
	late := time.AfterFunc(p.Settings.Deadline, func() {
		e.cancel(troubled(probes.FailureHang, -1, "did not end within %s", p.Settings.Deadline))
	})
	spare := context.AfterFunc(e.ctx, e.kill)
	e.close = func() {
		late.Stop()
		spare()
		e.cancel(nil)
	}
	for rank := range p.Ranks {
		e.members = append(e.members, &member{rank: rank})
	}
	return e
}

// stopped says why the run is to end before its plan; nil if it is not.
func (e *run) stopped() *trouble {
	if e.ctx.Err() == nil {
		return nil
	}
	cause := context.Cause(e.ctx)
	if why, ok := errors.AsType[*trouble](cause); ok {
		return why
	}
	return troubled(probes.FailureStopped, -1, "stopped: %v", cause)
}

// pids returns those of all processes that were started, as this process sees them.
func (e *run) pids() []int {
	var pids []int
	for _, m := range e.members {
		if p := m.running(); p != nil {
			pids = append(pids, p.PID())
		}
	}
	return pids
}

// kill kills all processes at once.
func (e *run) kill() {
	e.endedAt()
	var all sync.WaitGroup
	for _, m := range e.members {
		if p := m.running(); p != nil {
			all.Go(p.Kill)
		}
	}
	all.Wait()
}

// start starts all processes.
func (e *run) start(process probes.StartRank) *trouble {
	return e.each(e.members, func(m *member) *trouble {
		_, err := errand.Within(e.ctx, startLimit, func(context.Context) (struct{}, error) {
			started, err := process(e.ctx, e.plan.Ranks[m.rank])
			if err != nil {
				return struct{}{}, err
			}
			m.mu.Lock()
			m.process = started
			m.mu.Unlock()
			if e.ctx.Err() != nil { // the caller no longer waits for it
				started.Kill()
				_ = started.Close()
			}
			return struct{}{}, nil
		})
		if err != nil {
			return troubled(probes.FailureCrash, m.rank, "not started: %v", err)
		}
		return nil
	})
}

// graceAfter is how long others may still report after a first failure. Ranks that waited in vain report so before the
// one they waited for counts as silent.
func graceAfter(t *trouble) time.Duration {
	if t.symptom() && t.node != "" {
		return lostGrace
	}
	if t.failure == probes.FailureHang && !t.silent {
		return margin + failureGrace
	}
	return failureGrace
}

// each does something with some members at the same time. It ends when all are done, or some time after the first
// trouble, and returns the one that shows most of the cause. What is done must end with the run.
func (e *run) each(members []*member, do func(*member) *trouble) *trouble {
	ends := make(chan *trouble, len(members))
	for _, m := range members {
		go func() {
			t := do(m)
			if t != nil && t.rank >= 0 {
				t.node = e.plan.Ranks[t.rank].Node
			}
			ends <- t
		}()
	}
	var worst *trouble
	var settled <-chan time.Time
	for range members {
		select {
		case t := <-ends:
			switch {
			case t == nil:
			case worst == nil:
				worst, settled = t, time.After(graceAfter(t))
			case causality(t) >= 0 && (causality(worst) < 0 || causality(t) < causality(worst)):
				worst = t
			}
			continue
		case <-settled:
		}
		break
	}
	if why := e.stopped(); why != nil {
		return why
	}
	return worst
}

// step asks some members at the same time, and returns their replies. request makes the request of a rank, which has
// so long for what it does.
func (e *run) step(members []*member, limit time.Duration, request func(rank int,
	limit time.Duration) probes.Request,
) ([]probes.Reply, *trouble) {
	if left := e.plan.Settings.Deadline - time.Since(e.began) - 2*margin; left < limit {
		limit = max(left, time.Millisecond)
	}
	replies := make([]probes.Reply, len(e.members))
	why := e.each(members, func(m *member) *trouble {
		q := request(m.rank, limit)
		question, err := json.Marshal(q)
		if err != nil {
			return troubled(probes.FailureProtocol, m.rank, "request: %v", err)
		}
		asked := time.Now()
		answer, err := errand.Within(e.ctx, limit+margin, func(ctx context.Context) ([]byte, error) {
			return m.running().Call(ctx, question)
		})
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			why := troubled(probes.FailureHang, m.rank, "%s: no answer within %s", q.Name(), limit+margin)
			why.silent = true
			return why
		case errors.Is(err, probes.ErrRankHung):
			return troubled(probes.FailureHang, m.rank, "%s: %v", q.Name(), err)
		case errors.Is(err, probes.ErrRankRefused):
			return troubled(probes.FailureProtocol, m.rank, "%s: %v", q.Name(), err)
		case err != nil:
			return troubled(probes.FailureCrash, m.rank, "%s: %v", q.Name(), err)
		}
		reply, why := readReply(answer, &q, time.Since(asked))
		if why != nil {
			return troubled(why.failure, m.rank, "%s: %s", q.Name(), why.text)
		}
		replies[m.rank] = reply
		return nil
	})
	if why != nil {
		return nil, why // abandoned ranks may still write
	}
	return replies, nil
}

// turn waits until no other run of these nodes measures. What is returned ends that.
func (e *run) turn() (leave func(), why *trouble) {
	if e.plan.Turn == nil {
		return func() {}, nil
	}
	select {
	case e.plan.Turn <- struct{}{}:
		return func() { <-e.plan.Turn }, nil
	case <-e.ctx.Done():
		return nil, e.stopped()
	}
}

// hold notes that from now on all members may have a context.
func (e *run) hold() {
	now := time.Now()
	for _, m := range e.members {
		m.held = now
	}
}

// reap ends all processes and waits until they are gone. It returns trouble if one is not.
func (e *run) reap() *trouble {
	var held *trouble
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, m := range e.members {
		p := m.running()
		if p == nil {
			continue
		}
		all.Go(func() {
			_, err := errand.Within(context.WithoutCancel(e.ctx), reapLimit,
				func(context.Context) (struct{}, error) { return struct{}{}, p.Close() })
			m.mu.Lock()
			m.gone = time.Now()
			m.mu.Unlock()
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				held = troubled(probes.FailureHang, m.rank, "process %d is not gone: %v", p.PID(), err)
			}
		})
	}
	all.Wait()
	if e.intrusion != nil {
		e.intrusion.Gone = probes.SecondsOf(time.Since(e.seen))
	}
	return held
}

// gpuTime is for how long GPUs had a context, each counted once.
func (e *run) gpuTime() time.Duration {
	type span struct{ from, to time.Time }
	spans := map[string]span{}
	for i, m := range e.members {
		if m.held.IsZero() || m.gone.IsZero() {
			continue
		}
		id := e.plan.Ranks[i].UUID
		s, ok := spans[id]
		if !ok || m.held.Before(s.from) {
			s.from = m.held
		}
		if m.gone.After(s.to) {
			s.to = m.gone
		}
		spans[id] = s
	}
	var sum time.Duration
	for _, s := range spans {
		sum += s.to.Sub(s.from)
	}
	return sum
}
