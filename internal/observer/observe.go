// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"errors"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// look is one call of Observe, which fills in a node step by step.
type look struct {
	*Observer
	ctx, half context.Context // the second ends half way to the first's deadline
	now       time.Time
	want      fabric.Want
	site      *fabric.Policy
	n         *fabric.Node
	oldest    time.Time // when the oldest read in n began

	pciDone, gpusDone <-chan struct{} // reads that were started; nil: none was
}

// implied is what else is read for who wants any of these, in an order in which nothing that is implied comes back.
var implied = []struct{ want, also fabric.Want }{
	{fabric.WantRanks, fabric.WantGPU | fabric.WantCounters}, // their GPUs and their devices
	// which chooses among GIDs, and whether to use GPUDirect RDMA
	{fabric.WantGID | fabric.WantGPU, fabric.WantNCCL},
	{fabric.WantGPU | fabric.WantFreshPCI, fabric.WantPCI}, // where they are
	{
		fabric.WantGID | fabric.WantCounters | fabric.WantCM | fabric.WantPCI | fabric.WantTrafficClass | wantPhysical,
		fabric.WantHCA,
	},
}

// steps are what a look does, each for who wants any of what it is for; 0: always. Those that start a read do
// not wait for it: what takes long goes on beside the others.
var steps = []struct {
	want fabric.Want
	do   func(*look)
}{
	{0, (*look).startHost},
	{fabric.WantGPU, (*look).startGPUs},
	{wantNCCLFiles, (*look).startNCCL},
	{fabric.WantHCA, (*look).listDevices},
	{fabric.WantHCA, (*look).startPCI}, // for the devices that are listed
	{fabric.WantHCA, (*look).readDevices},
	{fabric.WantHCA, (*look).assembleDevices},
	{0, (*look).countAsked},
	{fabric.WantHCA, (*look).observeNetDevs}, // that the devices name
	{0, (*look).awaitHost},
	{wantNCCLFiles, (*look).awaitNCCL},
	{fabric.WantInside, (*look).observeInside},
	{fabric.WantHCA, (*look).assemblePCI},
	{fabric.WantGPU, (*look).assembleGPUs},
	{0, func(l *look) { l.n.LocateMoved() }}, // devices and PCI functions
	{0, (*look).assembleHost},
	{wantNCCLFiles, (*look).assembleNCCL},
	{fabric.WantRanks, (*look).observeRanks}, // of the GPUs
	{fabric.WantRanks, (*look).observeInspector},
	{fabric.WantLogs, (*look).observeLogs},
	{0, (*look).recognize},
	{0, func(l *look) { l.n.DerivePorts() }},
	{fabric.WantGID, func(l *look) { l.n.DeriveGIDs() }},
	{fabric.WantPCI, func(l *look) { l.n.DeriveRails() }},
	{wantPhysical, func(l *look) { l.n.DeriveRoCE() }},
	{fabric.WantGPU, func(l *look) { l.n.DeriveGDR() }},
}

// errClosed is why nothing is known after Close.
var errClosed = errors.New("closed: nothing is read any more")

// unread is the node of which nothing is known, because the observer is closed.
func unread(now time.Time, policy *fabric.Policy) *fabric.Node {
	return &fabric.Node{At: now, Policy: policy, Sources: []fabric.Source{{
		Name:   fabric.SourceClass,
		Reason: fabric.ReasonNotRead, Err: errClosed,
	}}}
}

// Observe returns the node as it is now, at most FastInterval old; after Close one of which nothing is known.
// Half of the time until ctx's deadline is for the devices, the rest for what depends on their answers.
func (ob *Observer) Observe(ctx context.Context, want fabric.Want) *fabric.Node {
	for _, i := range implied {
		if want&i.want != 0 {
			want |= i.also
		}
	}
	now := time.Now()
	ob.mu.Lock()
	last, policy, closed := ob.last, ob.policy, ob.closed
	if last != nil && (now.Sub(ob.lastAt) >= ob.o.FastInterval || ob.lastWant&want != want) {
		last = nil
	}
	ob.mu.Unlock()
	switch {
	case last != nil:
		return last
	case closed:
		return unread(now, policy)
	}
	half, cancel := halfOf(ctx, now)
	defer cancel()
	l := &look{
		Observer: ob, ctx: ctx, half: half, now: now, want: want, site: policy,
		n: &fabric.Node{At: now, Policy: policy, Commands: fabric.Commands{}}, oldest: now,
	}
	for _, s := range steps {
		if s.want == 0 || want&s.want != 0 {
			s.do(l)
		}
	}
	return l.finish()
}

// finish returns the node, and keeps it for callers who accept its age.
func (l *look) finish() *fabric.Node {
	if l.uncached != nil {
		l.n.Uncached = l.uncached()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed { // meanwhile: what could not be read has not failed
		return unread(l.now, l.site)
	}
	if !errors.Is(l.ctx.Err(), context.Canceled) { // a caller who left is no failing source
		l.logSources(l.n)
	}
	if complete(l.n) && l.policy == l.site {
		l.last, l.lastWant, l.lastAt = l.n, l.want, l.oldest
	}
	return l.n
}

// asOf notes when something in the node was read.
func (l *look) asOf(began time.Time) {
	if began.Before(l.oldest) {
		l.oldest = began
	}
}

// sourced returns the value of a reading, and notes how its source does.
func sourced[T any](l *look, r *reading[T], name string, fresh func(T, time.Time) bool) (T, fabric.Source) {
	v, src := r.get(name, "", fresh)
	l.n.Sources = append(l.n.Sources, src)
	return v, src
}

// recognize looks which profile fits the node. A bus that does not answer for a while does not make it
// another machine: then what was recognized before stands.
func (l *look) recognize() {
	n := l.n
	n.DeriveProfile()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.policy != n.Policy:
	case n.Recognition.Why == fabric.RecognizedIncomplete && l.profile != nil:
		n.Profile, n.Recognition = l.profile, l.why
	default:
		l.profile, l.why = n.Profile, n.Recognition
	}
}

// halfOf returns a context that ends half way to ctx's deadline.
func halfOf(ctx context.Context, now time.Time) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, now.Add(end.Sub(now)/2))
}

// since reports whether values of reads that began within age of now are fresh.
func since[T any](now time.Time, age time.Duration) func(T, time.Time) bool {
	return func(_ T, began time.Time) bool { return now.Sub(began) < age }
}

func complete(n *fabric.Node) bool {
	return !slices.ContainsFunc(n.Sources, func(s fabric.Source) bool { return !s.Since.IsZero() })
}
