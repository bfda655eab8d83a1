// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"errors"
	"sync"
	"time"

	"gpufabric_exporter/internal/fabric"
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

// Guard looks who uses the GPUs of a run.
type Guard interface {
	// Intruder names a process on the GPUs that is not one of own, which are PIDs as this process sees them; empty if
	// there is none. It is asked again while it hangs, once. ErrMaintenance says that the GPUs are to be released.
	Intruder(ctx context.Context, own []int) (string, error)
	// Freed waits until nothing of own, which have ended, is left on the GPUs. The error says what is, when ctx ends, or
	// why that cannot be seen.
	Freed(ctx context.Context, own []int) error
}

// ErrMaintenance means that an operator wants to change the GPUs or their driver.
var ErrMaintenance = errors.New("maintenance")

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
			who, err := within(ctx, guardLimit, func(ctx context.Context) (string, error) { return guard.Intruder(ctx, own) })
			switch {
			case who != "":
				e.intruded(who, asked)
				return
			case ctx.Err() != nil:
				return
			case errors.Is(err, ErrMaintenance):
				e.cancel(troubled(FailureStopped, -1, "%v", err))
				return
			case err == nil:
				failures = 0
				if inARow++; inARow >= guardClear {
					allow()
				}
			default:
				inARow = 0
				if failures++; failures == guardFailures {
					e.cancel(troubled(FailureStopped, -1, "it cannot be seen who else uses the GPUs: %v", err))
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
		return troubled(FailureStopped, -1, "it cannot be seen who else uses the GPUs: no %d answers in a row within %s", guardClear, clearLimit)
	}
}

// intruded ends the run because of another process on its GPUs.
func (e *run) intruded(who string, asked time.Time) {
	who = printable(who, maxText/2)
	e.cancel(troubled(FailureIntruder, -1, "%s came to the GPUs", who)) // before ranks say that they were killed
	e.kill()
	e.intrusion, e.seen = &Intrusion{Who: who, Killed: SecondsOf(time.Since(asked))}, asked
}

// release waits until the driver shows nothing of the ranks any more, and notes how long that took. What it shows instead
// is in words.
func (e *run) release(ctx context.Context, guard Guard) (took Fact[Seconds], left string) {
	const source = "nvmlDeviceGetComputeRunningProcesses, nvmlDeviceGetMemoryInfo"
	ended := e.endedAt()
	_, err := within(ctx, releaseLimit+margin, func(ctx context.Context) (struct{}, error) {
		ctx, cancel := context.WithTimeout(ctx, releaseLimit) // so that there is time to say what is left
		defer cancel()
		return struct{}{}, guard.Freed(ctx, e.pids())
	})
	now := time.Now()
	switch {
	case err == nil:
		return Known(SecondsOf(now.Sub(ended)), source, now), ""
	case ctx.Err() != nil || errors.Is(err, ErrMaintenance):
		return UnknownFact[Seconds](fabric.ReasonNotRead, source, now), ""
	}
	return UnknownFact[Seconds](fabric.ReasonTimeout, source, now), printable(err.Error(), maxText)
}
