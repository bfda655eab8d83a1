// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// StartRank starts the process of a rank with that environment, by internal/worker. It is ended when ctx ends, if it was not
// before.
type StartRank func(ctx context.Context, env []string) (RankProcess, error)

// RankProcess is the process of one rank. Its methods may be called from any goroutine.
type RankProcess interface {
	// Call sends a Request and returns the Reply, both as JSON. Errors may wrap those below; any other one means that
	// the process ended, and says how.
	Call(ctx context.Context, request []byte) ([]byte, error)
	// Kill kills the process and does not wait.
	Kill()
	// Close ends the process and waits until it is gone, for a bounded time; an error means that the kernel holds it.
	Close() error
	// Log returns the beginning and the end of what NCCL logged, and how many bytes between them were dropped. With
	// nothing dropped, tail continues head.
	Log() (head, tail []byte, dropped int64)
	PID() int
}

// What Call can say beside that the process ended. The end of its context counts as ErrRankHung.
var (
	ErrRankHung    = errors.New("rank does not answer")
	ErrRankRefused = errors.New("rank answers with an error") // no Reply: its handler failed
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

// failureGrace is how long other ranks may report after a first rank failed: one that crashes is noticed by its peers as fast as by
// its parent, and what they report about that is not the cause.
const failureGrace = 200 * time.Millisecond

// Run runs a plan. It returns when all its processes are gone and the GPUs free of them, or the kernel or the driver does
// not released them. When ctx ends, the ranks are killed. Without a guard the GPUs are not watched.
func Run(ctx context.Context, p *Plan, start StartRank, guard Guard) Result {
	e := newRun(ctx, p)
	defer e.close()
	r := Result{Key: p.Key, At: e.began, Driver: p.Driver, Outcome: OK}
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
	r.Wall = SecondsOf(time.Since(e.began))
	if guard != nil && held == nil && ctx.Err() == nil {
		r.Release, r.Left = e.release(ctx, guard)
	}
	return r
}

// follow asks the ranks for everything in the plan.
func (e *run) follow(r *Result) *trouble {
	opened, why := e.open(r)
	if why != nil {
		return why
	}
	r.NCCL, r.CUDA = versionOf(opened[0].Open.NCCL), cudaVersionOf(opened[0].Open.CUDA)
	for i, reply := range opened {
		if reply.Open.NCCL != opened[0].Open.NCCL {
			return troubled(FailureVersions, i, "NCCL %s at %s, expected %s as rank 0 has at %s", versionOf(reply.Open.NCCL),
				printable(reply.Open.NCCLPath, maxText/4), r.NCCL, printable(opened[0].Open.NCCLPath, maxText/4))
		}
	}
	id, why := e.step(e.members[:1], idLimit, func(int, time.Duration) Request { return Request{NewID: &struct{}{}} })
	if why != nil {
		return why
	}
	connected, why := e.step(e.members, connectLimit, func(rank int, limit time.Duration) Request {
		return Request{Connect: &ConnectRequest{ID: id[0].ID, Rank: rank, Ranks: len(e.members), MaxCTAs: e.plan.Settings.MaxCTAs, Timeout: limit}}
	})
	if why != nil {
		return why
	}
	for _, reply := range connected {
		r.Init = max(r.Init, SecondsOf(reply.Connect.Took))
	}
	for _, w := range e.plan.Settings.Wants {
		if spent := time.Since(e.began); spent > e.plan.Settings.Budget {
			return troubled(FailureHang, -1, "%s after its start not everything is measured, expected at most %s", spent.Round(time.Millisecond), e.plan.Settings.Budget)
		}
		if why := e.measure(r, w); why != nil {
			return why
		}
	}
	e.endedAt()
	_, why = e.step(e.members, closeLimit, func(int, time.Duration) Request { return Request{Close: &struct{}{}} })
	return why
}

// open has the ranks load the libraries and take their GPUs. From here on contexts cost time of the GPUs.
func (e *run) open(r *Result) ([]Reply, *trouble) {
	e.hold()
	opened, why := e.step(e.members, openLimit, func(rank int, _ time.Duration) Request {
		return Request{Open: &OpenRequest{NCCL: e.plan.Settings.NCCL, CUDA: e.plan.Settings.CUDA, GPU: e.plan.Ranks[rank].Address}}
	})
	if why != nil {
		return nil, why
	}
	for i, reply := range opened {
		if want := e.plan.Ranks[i].UUID; !strings.EqualFold(reply.Open.GPU, want) { // another one may be busy
			return nil, troubled(FailureProtocol, i, "opened GPU %q, expected %s", printable(reply.Open.GPU, 64), want)
		}
	}
	return opened, nil
}

// conclude writes down how the run ended, and what NCCL logged.
func (e *run) conclude(r *Result, why *trouble) {
	r.GPUTime = SecondsOf(e.gpuTime())
	logs := e.harvest(r, why)
	r.Expected = AbsentFact[float64]("plan", r.At)
	if n := len(r.Measurements); why == nil && n > 0 && e.plan.Expected > 0 {
		r.Expected = Known(r.Measurements[n-1].BusBW/e.plan.Expected, "plan", r.At)
	}
	if why == nil {
		return
	}
	r.Outcome, r.Failure = Failed, why.failure
	text := why.Error()
	switch {
	case why.failure == FailureIntruder || why.failure == FailureStopped:
		r.Outcome = Aborted
		r.Intrusion = e.intrusion
	case why.rank >= 0 && len(logs[why.rank].Warnings) > 0:
		if w := logs[why.rank].Warnings[0]; !strings.Contains(text, w) {
			text += "; NCCL warned: " + w
		}
	}
	if why.failure == FailureInit && strings.Contains(text, "Mismatched NCCL version") { // a library that says another version than it has
		r.Failure = FailureVersions
	}
	r.Error = printable(text, maxText)
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

// maxText is the length in bytes of errors and other words in a Result.
const maxText = 512

// printable makes foreign text fit for a page, a log and the state file: at most n bytes that can be printed, without
// credentials.
func printable(s string, n int) string {
	return fabric.Clip(fabric.MaskCredentials(fabric.Printable(s, len(s))), n)
}
