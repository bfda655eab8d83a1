// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"fmt"
	"time"
)

// Task is a child for one run: it is started once, asked some things one after the other, and ended. It has a pipe
// for the log of its library, see LogFile. Its other end is TaskChild. Many tasks may run at once.
type Task struct {
	c     *child
	queue queue // before the child
}

// End is how a task ended.
type End struct {
	Err     error         // why, with what is known of it: ErrClosed, ErrKilled, ErrHung or ErrCrashed
	Failure Failure       // empty: it was ended, or ended well after its last answer
	Took    time.Duration // from the first call that ends it until it was reaped; 0: it ended by itself
}

// Start starts a task. When ctx ends, it is ended as by Close. Of the options those about back-off have no meaning.
func Start(ctx context.Context, o Options) (*Task, error) {
	o = o.complete()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s worker: not started: %w", o.Name, context.Cause(ctx))
	}
	t := &Task{c: newChild(o), queue: newQueue(o.Name)}
	t.c.log = new(logbook)
	forget := context.AfterFunc(ctx, func() {
		t.c.stop(cause{err: fmt.Errorf("%w: %w", ErrClosed, context.Cause(ctx))},
			o.Grace)
	})
	go t.c.live(func(cause) { forget() })
	<-t.c.started
	if t.PID() == 0 {
		<-t.c.done
		return nil, fmt.Errorf("%s worker: %w", o.Name, t.c.end.err)
	}
	return t, nil
}

// Call sends a request and returns the answer. It returns without one as soon as the task is ended. When it is ctx
// that ends, the request goes on, and the next one waits for it. A task that does not answer in time, or not with an
// answer, is killed.
func (t *Task) Call(ctx context.Context, request []byte) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.c.life, func() { cancel(context.Cause(t.c.life)) })()
	return t.queue.call(ctx, request, t.c.call)
}

// Kill ends the task and all of its process group at once, by SIGKILL. It waits for nothing; End returns how long it
// took. Later calls, and one of an ended task, do nothing new.
func (t *Task) Kill(reason string) { t.c.kill(cause{err: fmt.Errorf("%w: %s", ErrKilled, reason)}) }

// Close ends the task by closing its pipe, then by SIGTERM, then by SIGKILL, each Options.Grace after the other, and
// returns when it is reaped. It fails when the kernel has not released it another grace later. It can be called
// again, and must be called once.
func (t *Task) Close() error {
	if t.c.stop(cause{err: ErrClosed}, t.c.o.Grace) {
		return nil
	}
	return t.c.unreleased()
}

// PID is the process, in the name space of the caller. It may be another one's once the task has ended.
func (t *Task) PID() int { return t.c.pid() }

// Done is closed when the task has been reaped and its log was read.
func (t *Task) Done() <-chan struct{} { return t.c.done }

// End returns how the task ended, and false as long as it has not.
func (t *Task) End() (End, bool) {
	select {
	case <-t.c.done:
		return End{t.c.end.err, t.c.end.failure, t.c.took}, true
	default:
		return End{}, false
	}
}

// Log is what came of the log so far, and all that is kept of it after Done.
func (t *Task) Log() Excerpt { return t.c.log.excerpt() }
