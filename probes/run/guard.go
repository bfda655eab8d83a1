// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"sync"
	"time"

	"gpufabric_exporter/internal/errand"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
)

// How often the guard is asked, how long it may take, and how many answers in a row may be none. While it cannot look,
// it is unknown which jobs the ranks disturb.
const (
	guardInterval = 100 * time.Millisecond
	guardLimit    = time.Second
	guardFailures = 2
	// guardClear is how many answers in a row must name no one before a rank opens a GPU: a job may have come since the
	// gate looked, and a list of processes may lack it once.
	guardClear = 2
	clearLimit = 5 * time.Second // for that
)

// releaseLimit is how long the driver may take to release what ranks had that have ended.
const releaseLimit = 10 * time.Second

// watch asks the guard, if there is one, until it is stopped. The channel is closed when ranks may open their GPUs.
func (e *run) watch(guard Guard) (free <-chan struct{}, stop func()) {
	opens := make(chan struct{})
	allow := sync.OnceFunc(func() { close(opens) })
	if guard == nil {
		allow()
		return opens, func() {}
	}
	own := e.pids()
	ctx, cancel := context.WithCancel(e.ctx)
	var done sync.WaitGroup
	done.Go(func() {
		failures, inARow := 0, 0
		for ctx.Err() == nil {
			asked := time.Now()
			next := time.After(guardInterval)
			who, err := errand.Within(ctx, guardLimit, func(ctx context.Context) (string,
				error,
			) {
				return guard.Intruder(ctx, own)
			})
			switch {
			case who != "":
				e.intruded(who, asked)
				return
			case ctx.Err() != nil:
				return
			case errors.Is(err, probes.ErrMaintenance):
				e.cancel(troubled(probes.FailureStopped, -1, "%v", err))
				return
			case err == nil:
				failures = 0
				if inARow++; inARow >= guardClear {
					allow()
				}
			default:
				inARow = 0
				if failures++; failures == guardFailures {
					e.cancel(troubled(probes.FailureStopped, -1, "it cannot be seen who else uses the GPUs: %v", err))
					return
				}
			}
			select {
			case <-next:
			case <-ctx.Done():
			}
		}
	})
	return opens, func() {
		cancel()
		done.Wait()
	}
}

// await waits until ranks may open their GPUs.
func (e *run) await(free <-chan struct{}) *trouble {
	late := time.NewTimer(clearLimit)
	defer late.Stop()
	select {
	case <-free:
		return nil
	case <-e.ctx.Done():
		return e.stopped()
	case <-late.C:
		return troubled(probes.FailureStopped, -1,
			"it cannot be seen who else uses the GPUs: no %d answers in a row within %s", guardClear, clearLimit)
	}
}

// intruded ends the run because of another process on its GPUs.
func (e *run) intruded(who string, asked time.Time) {
	who = probes.Printable(who, probes.MaxText/2)
	e.cancel(troubled(probes.FailureIntruder, -1, "%s came to the GPUs", who)) // before ranks say that they were killed
	e.kill()
	e.intrusion, e.seen = &probes.Intrusion{Who: who, Killed: probes.SecondsOf(time.Since(asked))}, asked
}

// release waits until the driver shows nothing of the ranks any more, and notes how long that took. What it shows
// instead is in words.
func (e *run) release(ctx context.Context, guard Guard) (took probes.Fact[probes.Seconds], left string) {
	const source = "nvmlDeviceGetComputeRunningProcesses, nvmlDeviceGetMemoryInfo"
	ended := e.endedAt()
	_, err := errand.Within(ctx, releaseLimit+margin, func(ctx context.Context) (struct{}, error) {
		ctx, cancel := context.WithTimeout(ctx, releaseLimit) // so that there is time to say what is left
		defer cancel()
		return struct{}{}, guard.Freed(ctx, e.pids())
	})
	now := time.Now()
	switch {
	case err == nil:
		return probes.Known(probes.SecondsOf(now.Sub(ended)), source, now), ""
	case ctx.Err() != nil || errors.Is(err, probes.ErrMaintenance):
		return probes.UnknownFact[probes.Seconds](fabric.ReasonNotRead, source, now), ""
	}
	return probes.UnknownFact[probes.Seconds](fabric.ReasonTimeout, source, now), probes.Printable(err.Error(),
		probes.MaxText)
}
