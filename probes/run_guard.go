// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"sync"
	"time"
)

// How often the guard is asked, how long it may take, and how many answers in a row may be none. While it cannot look,
// nobody knows whom the ranks disturb.
const (
	guardInterval = 100 * time.Millisecond
	guardLimit    = time.Second
	guardFailures = 2
)

// Guard looks who uses the GPUs of a run.
type Guard interface {
	// Intruder names a process on the GPUs that is not one of own, which are PIDs as this process sees them; empty if
	// there is none. It is asked again while it hangs, once.
	Intruder(ctx context.Context, own []int) (string, error)
}

// Intrusion is what happened when somebody else came to the GPUs of a run. Times count from when the sample was asked
// for that showed the intruder.
type Intrusion struct {
	Who    string
	Killed time.Duration // until SIGKILL was sent to all ranks
	Gone   time.Duration // until all ranks were reaped, and with them their memory freed
}

// watch asks the guard, if there is one, until it is told to stop.
func (e *execution) watch(guard Guard) (stop func()) {
	if guard == nil {
		return func() {}
	}
	var own []int
	for _, m := range e.members {
		own = append(own, m.running().PID())
	}
	ctx, cancel := context.WithCancel(e.ctx)
	var done sync.WaitGroup
	done.Go(func() {
		failures := 0
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
			case err == nil:
				failures = 0
			default:
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
	return func() {
		cancel()
		done.Wait()
	}
}

// intruded ends the run because of somebody else on its GPUs.
func (e *execution) intruded(who string, asked time.Time) {
	who = printable(who, maxText/2)
	e.cancel(troubled(FailureIntruder, -1, "%s came to the GPUs", who)) // before ranks say that they were killed
	e.kill()
	e.intrusion, e.seen = &Intrusion{Who: who, Killed: time.Since(asked)}, asked
}
