// SPDX-License-Identifier: Apache-2.0

// Package run runs a plan: one process for each rank, asked step by step: open, make an id, connect, measure, close.
// All ranks get a step together, and the next one when all have answered. So no rank waits for another without a
// deadline, and the number of iterations is decided once for all. A guard looks meanwhile who else uses the GPUs, and
// has the ranks killed for anyone.
//
// Runs share nothing. What goes wrong is the failure of a Result, with the rank that shows most of the cause; there is
// no error.
package run

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gpufabric_exporter/internal/nccl/signature"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/plan"
)

// How long a rank may take to answer. It has a deadline of its own for what NCCL does, and answers when that passes;
// margin is for the way.
const (
	startLimit   = 10 * time.Second
	openLimit    = 10 * time.Second
	idLimit      = 5 * time.Second
	connectLimit = 20 * time.Second
	measureLimit = 10 * time.Second
	closeLimit   = 5 * time.Second
	reapLimit    = 10 * time.Second
	margin       = time.Second
)

// failureGrace is how long other ranks may report after a first rank failed: one that crashes is noticed by its peers
// as fast as by its parent, and what they report about that is not the cause.
const failureGrace = 200 * time.Millisecond

// lostGrace is how long it may take until a node counts as lost whose ranks others miss.
const lostGrace = 6 * time.Second

// Run runs a plan. It returns when all its processes are gone and the GPUs free of them, or the kernel or the driver
// does not released them. When ctx ends, the ranks are killed. Without a guard the GPUs are not watched.
func Run(ctx context.Context, p *plan.Plan, start probes.StartRank, guard Guard) probes.Result {
	e := newRun(ctx, p)
	defer e.close()
	r := probes.Result{Key: p.Key, At: e.began, Driver: p.Driver, Outcome: probes.OK}
	for _, rank := range p.Ranks {
		r.GPUs = append(r.GPUs, rank.UUID)
	}
	why := e.start(start)
	if why == nil {
		free, unwatch := e.watch(guard)
		if why = e.await(free); why == nil {
			why = e.follow(&r)
		}
		unwatch() // ranks that have released their GPUs, or are killed, disturb no job
	}
	if why != nil {
		e.cancel(why)
		e.kill()
		why = e.stopped() // by what came first
	}
	held := e.reap()
	switch {
	case why == nil:
		why = held
	case held != nil:
		why.text += "; " + held.Error()
	}
	e.conclude(&r, why)
	r.Wall = probes.SecondsOf(time.Since(e.began))
	if guard != nil && held == nil && ctx.Err() == nil {
		r.Release, r.Left = e.release(ctx, guard)
	}
	return r
}

// follow asks the ranks for everything in the plan.
func (e *run) follow(r *probes.Result) *trouble {
	opened, why := e.open(r)
	if why != nil {
		return why
	}
	r.NCCL, r.CUDA = versionOf(opened[0].Open.NCCL), cudaVersionOf(opened[0].Open.CUDA)
	for i, reply := range opened {
		if reply.Open.NCCL != opened[0].Open.NCCL {
			return troubled(probes.FailureVersions, i, "NCCL %s at %s, expected %s as rank 0 has at %s",
				versionOf(reply.Open.NCCL),
				probes.Printable(reply.Open.NCCLPath, probes.MaxText/4), r.NCCL, probes.Printable(opened[0].Open.NCCLPath,
					probes.MaxText/4))
		}
	}
	leave, why := e.turn()
	if why != nil {
		return why
	}
	defer leave()
	id, why := e.step(e.members[:1], idLimit,
		func(int, time.Duration) probes.Request { return probes.Request{NewID: &struct{}{}} })
	if why != nil {
		return why
	}
	connected, why := e.step(e.members, connectLimit+e.crowd(), func(rank int, limit time.Duration) probes.Request {
		return probes.Request{Connect: &probes.ConnectRequest{
			ID: id[0].ID, Rank: rank, Ranks: len(e.members),
			MaxCTAs: e.plan.Settings.MaxCTAs, Timeout: limit,
		}}
	})
	if why != nil {
		return why
	}
	for _, reply := range connected {
		r.Init = max(r.Init, probes.SecondsOf(reply.Connect.Took))
	}
	for _, w := range e.plan.Settings.Wants {
		if spent := time.Since(e.began); spent > e.plan.Settings.Budget {
			return troubled(probes.FailureHang, -1, "%s after its start not everything is measured, expected at most %s",
				spent.Round(time.Millisecond), e.plan.Settings.Budget)
		}
		if why := e.measure(r, w); why != nil {
			return why
		}
	}
	e.endedAt()
	_, why = e.step(e.members, closeLimit,
		func(int, time.Duration) probes.Request { return probes.Request{Close: &struct{}{}} })
	return why
}

// crowd is how much longer ranks may take to meet where there are many.
func (e *run) crowd() time.Duration { return time.Duration(len(e.members)/32) * time.Second }

// open has the ranks load the libraries and take their GPUs. From here on contexts cost time of the GPUs.
func (e *run) open(r *probes.Result) ([]probes.Reply, *trouble) {
	e.hold()
	opened, why := e.step(e.members, openLimit, func(rank int, _ time.Duration) probes.Request {
		return probes.Request{Open: &probes.OpenRequest{
			NCCL: e.plan.Settings.NCCL, CUDA: e.plan.Settings.CUDA,
			GPU: e.plan.Ranks[rank].Address,
		}}
	})
	if why != nil {
		return nil, why
	}
	for i, reply := range opened {
		if want := e.plan.Ranks[i].UUID; !strings.EqualFold(reply.Open.GPU, want) { // another one may be busy
			return nil, troubled(probes.FailureProtocol, i, "opened GPU %q, expected %s", probes.Printable(reply.Open.GPU, 64),
				want)
		}
	}
	return opened, nil
}

// conclude writes down how the run ended, and what NCCL logged.
func (e *run) conclude(r *probes.Result, why *trouble) {
	r.GPUTime = probes.SecondsOf(e.gpuTime())
	logs := e.harvest(r, why)
	r.Expected = probes.AbsentFact[float64]("plan", r.At)
	if n := len(r.Measurements); why == nil && n > 0 && e.plan.Expected > 0 {
		r.Expected = probes.Known(r.Measurements[n-1].BusBW/e.plan.Expected, "plan", r.At)
	}
	if why == nil {
		return
	}
	r.Outcome, r.Failure = probes.Failed, why.failure
	if why.rank >= 0 {
		if why.node = e.plan.Ranks[why.rank].Node; !why.elsewhere() {
			r.Node = why.node
		}
	}
	text := why.Error()
	switch {
	case why.failure == probes.FailureIntruder || why.failure == probes.FailureStopped:
		r.Outcome = probes.Aborted
		r.Intrusion = e.intrusion
	case why.rank >= 0:
		if w := warning(logs[why.rank].Warnings); !strings.Contains(text, w) {
			text += "; NCCL warned: " + w
		}
	}
	// a library that says another version than it has
	if why.failure == probes.FailureInit && strings.Contains(text, "Mismatched NCCL version") {
		r.Failure = probes.FailureVersions
	}
	r.Error = probes.Printable(text, probes.MaxText)
}

// warning is the first of NCCL's warnings that may say why a run failed; empty: none.
func warning(all []string) string {
	for _, w := range all {
		if s, _ := signature.Match(signature.NCCL, w); s == nil || s.Kind != signature.Note {
			return w
		}
	}
	return ""
}

// versionOf is ncclGetVersion's number as people write it: 22703 is 2.27.3, and 2804 was 2.8.4.
func versionOf(code int) string {
	if code < 10000 {
		return fmt.Sprintf("%d.%d.%d", code/1000, code/100%10, code%100)
	}
	return fmt.Sprintf("%d.%d.%d", code/10000, code/100%100, code%100)
}

// cudaVersionOf is cuDriverGetVersion's number as people write it: 13000 is 13.0. It is empty for 0.
func cudaVersionOf(code int) string {
	if code == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d", code/1000, code%1000/10)
}

// Guard looks who uses the GPUs of a run.
type Guard interface {
	// Intruder names a process on the GPUs that is not one of own, which are PIDs as this process sees them; empty if
	// there is none. It is asked again while it hangs, once. ErrMaintenance says that the GPUs are to be released.
	Intruder(ctx context.Context, own []int) (string, error)
	// Freed waits until nothing of own, which have ended, is left on the GPUs. The error says what is, when ctx ends, or
	// why that cannot be seen.
	Freed(ctx context.Context, own []int) error
}
