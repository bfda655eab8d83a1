// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// What Call ends with when there is no answer. An error can be two of them: ErrBackoff comes with the failure that
// was the reason.
var (
	ErrReleased = errors.New("released")            // Release was called
	ErrClosed   = errors.New("closed")              // Close was called
	ErrBackoff  = errors.New("waits for a restart") // the child failed a short while ago
	// it could not be started, ended, or sent something that is not an answer
	ErrCrashed = errors.New("crashed")
	ErrHung    = errors.New("hung")    // it did not answer in time
	ErrRefused = errors.New("refused") // it answered with an error
	ErrKilled  = errors.New("killed")  // Kill was called
)

// Failure is a way in which a child fails.
type Failure string

// The failures.
const (
	FailureStart    Failure = "start"    // the kernel did not start it
	FailureCrash    Failure = "crash"    // it ended without being asked to
	FailureHang     Failure = "hang"     // it did not answer in time
	FailureProtocol Failure = "protocol" // it sent something that is not an answer
)

// Defaults and limits of Options.
const (
	DefaultTimeout    = 30 * time.Second
	DefaultGrace      = time.Second
	DefaultMinBackoff = time.Second
	DefaultMaxBackoff = 5 * time.Minute

	// closeGrace is the grace of Close: the exporter ends within two seconds, whatever hangs.
	closeGrace = 150 * time.Millisecond
)

// Options says what a Process runs.
type Options struct {
	Name string   // in errors and in the log: "gpu"
	Path string   // of the program; "/proc/self/exe" is this one, even after its file was replaced
	Args []string // the first one is the program's name
	Env  []string // its whole environment, see Environment

	// User is asked before each start: devices come with their driver. nil, or if it returns nil: that of this process.
	User func() *User
	Room *Room // that it shares with others; nil: none
	// Guarded says that the program is a guard: it has a child that answers, and ends that and all that came of
	// it, whatever session that is in, on SIGTERM, when this process dies, and before it ends as its child did.
	Guarded    bool
	PinsMemory bool // it registers memory for RDMA, and is not kept from it by RLIMIT_MEMLOCK where that can be helped

	Timeout      time.Duration // how long a request may take before the child counts as hung; 0: DefaultTimeout
	FirstTimeout time.Duration // the same for the first request of each child, which comes with its start; 0: Timeout
	// how long Release waits after closing the pipe, after SIGTERM and after SIGKILL; 0: DefaultGrace
	Grace      time.Duration
	MinBackoff time.Duration // from a first failure to the next start; 0: DefaultMinBackoff
	MaxBackoff time.Duration // 0: DefaultMaxBackoff
	Log        *slog.Logger  // nil: none
}

// complete fills in what is not given.
func (o Options) complete() Options {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.FirstTimeout = cmp.Or(o.FirstTimeout, o.Timeout)
	o.Grace = cmp.Or(o.Grace, DefaultGrace)
	o.MinBackoff = cmp.Or(o.MinBackoff, DefaultMinBackoff)
	o.MaxBackoff = cmp.Or(o.MaxBackoff, DefaultMaxBackoff)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Log = o.Log.With("worker", o.Name)
	return o
}

// Environment returns those variables of environ, which has the form of os.Environ, that have one of the names.
func Environment(environ []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return !slices.Contains(names, name)
	})
}

// Process is described in the package comment.
type Process struct {
	o     Options
	queue queue // before the child

	mu       sync.Mutex
	child    *child // nil: none
	barred   error  // why no child may start; nil: it may
	backoff  backoff
	last     error // the last failure
	starts   uint64
	failures map[Failure]uint64
}

// Statistics counts what became of the children of a Process.
type Statistics struct {
	PID      int // of the child; 0: none runs
	Starts   uint64
	Failures map[Failure]uint64
}

// New returns a Process that has no child yet.
func New(o Options) *Process {
	o = o.complete()
	return &Process{
		o: o, queue: newQueue(o.Name), failures: map[Failure]uint64{},
		backoff: backoff{least: o.MinBackoff, most: max(o.MaxBackoff, o.MinBackoff)},
	}
}

// Call sends a request to the child, which it starts if there is none, and returns the answer. Requests are answered
// one after the other. When ctx ends before the answer is there, its error is returned; the request goes on, and the
// next one waits for it.
func (p *Process) Call(ctx context.Context, request []byte) ([]byte, error) {
	return p.queue.call(ctx, request, p.exchange)
}

// exchange has the turn.
func (p *Process) exchange(request []byte) ([]byte, error) {
	c, err := p.ready()
	if err != nil {
		return nil, err
	}
	payload, err := c.call(request)
	if err == nil || errors.Is(err, ErrRefused) {
		p.mu.Lock()
		p.backoff.answered(time.Since(c.began))
		p.mu.Unlock()
	}
	return payload, err
}

// ready returns a child that can be asked.
func (p *Process) ready() (*child, error) {
	for {
		p.mu.Lock()
		c, err := p.child, p.barred
		var begin *child
		switch wait := p.backoff.wait(time.Now()); {
		case err != nil:
		case c != nil:
		case wait > 0:
			err = fmt.Errorf("%w in %s after it %w", ErrBackoff, wait.Round(10*time.Millisecond), p.last)
		default:
			begin = newChild(p.o)
			p.child = begin
			p.starts++
		}
		p.mu.Unlock()
		switch {
		case err != nil:
			return nil, err
		case begin != nil:
			go begin.live(p.buried)
			<-begin.started
			return begin, nil
		case !c.ending():
			return c, nil
		case !c.gone(p.o.Grace):
			return nil, fmt.Errorf("%w: the one before was killed, but the kernel has not released it", ErrHung)
		}
	}
}

// buried counts how the child ended.
func (p *Process) buried(why cause) {
	p.mu.Lock()
	p.child = nil
	if why.failure != "" {
		p.last = why.err
		p.failures[why.failure]++
		p.backoff.failed(time.Now())
	}
	delay := p.backoff.delay
	p.mu.Unlock()
	if why.failure != "" {
		p.o.Log.Warn("worker failed", "failure", string(why.failure), "err", why.err, "restart_not_before", delay)
	} else {
		p.o.Log.Debug("worker ended", "reason", why.err)
	}
}

// Release ends the child and lets none start before Resume. It takes at most three times the grace, and fails if the
// kernel has not released the child by then. A request that is being answered ends with ErrReleased.
func (p *Process) Release(reason string) error {
	return p.bar(fmt.Errorf("%w: %s", ErrReleased, reason), p.o.Grace)
}

// Resume lets a child start again, with the next Call and without back-off: the world may have changed since.
func (p *Process) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if errors.Is(p.barred, ErrReleased) {
		p.barred = nil
		p.backoff.forget()
	}
}

// Close ends the child and lets none start again. It does not wait for one that the kernel does not end.
func (p *Process) Close() error { return p.bar(ErrClosed, closeGrace) }

func (p *Process) bar(why error, grace time.Duration) error {
	p.mu.Lock()
	if !errors.Is(p.barred, ErrClosed) {
		p.barred = why
	}
	c := p.child
	p.mu.Unlock()
	if c == nil || c.stop(cause{err: why}, grace) {
		return nil
	}
	return c.unreleased()
}

// Running reports whether there is a child, be it one that is being ended.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.child != nil
}

// Statistics returns what was counted so far.
func (p *Process) Statistics() Statistics {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Statistics{Starts: p.starts, Failures: maps.Clone(p.failures)}
	if p.child != nil {
		s.PID = p.child.pid()
	}
	return s
}
