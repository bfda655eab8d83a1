// SPDX-License-Identifier: Apache-2.0

// Package ncclprobe is one rank of a probe: it loads libnccl.so.2 and libcuda.so.1 into its process, makes a
// communicator on one GPU, runs collectives, times them and verifies their results. It must run in a process
// of its own, which is killed when it does not answer; only the code of that process may import it. It needs
// neither headers nor libraries when it is built. Find returns where NCCL is.
//
// A Server answers one request at a time, those of probes.Request. Everything that touches the libraries happens in one
// thread, because CUDA's current context belongs to a thread. A request is answered in time even while that thread
// hangs in a library; the answer names the function. Communicators do not block, so that one that gets nowhere can be
// aborted; that is done after the failure was reported, because aborting may hang as well.
//
// An error of Handle means a request that makes no sense; the rank is as good as before. Whatever goes wrong with the
// libraries, the GPU or other ranks is a Failure in the answer.
package ncclprobe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
)

// How long the steps may take that have no timeout of their own, which is no longer than probes.Run waits: an
// answer says in which function the time went.
const (
	openTimeout  = 10 * time.Second
	idTimeout    = 5 * time.Second
	closeTimeout = 3 * time.Second
	abortTimeout = time.Second // closing after a failure: who waits will kill
)

// grace is how much longer than its timeout a step may take to report by itself that it did not finish. It is less
// than what probes.Run allows.
const grace = 500 * time.Millisecond

// maxError is how long the text of a failure gets, in bytes.
const maxError = 600

// Server is described in the package comment.
type Server struct {
	steps  chan step
	failed atomic.Pointer[probes.Reply] // the first failure
	inside atomic.Pointer[string]       // the foreign function that the thread is in
}

type step struct {
	q        probes.Request
	deadline time.Time
	answer   chan<- answer
}

type answer struct {
	reply probes.Reply
	err   error
}

// failure is an error with its kind.
type failure struct {
	why  probes.Failure
	text string
}

func (f *failure) Error() string { return f.text }

func failed(why probes.Failure, format string, args ...any) error {
	return &failure{why, fmt.Sprintf(format, args...)}
}

// NewServer returns a Server that has loaded nothing yet. It has a thread until the process ends.
func NewServer() *Server {
	s := &Server{steps: make(chan step)}
	go s.serve()
	return s
}

// Handle answers a request. It may not be called again before it has returned.
func (s *Server) Handle(ctx context.Context, request []byte) ([]byte, error) {
	q, err := decode(request)
	if err != nil {
		return nil, err
	}
	given := timeout(q)
	if r := s.failed.Load(); r != nil {
		if q.Close == nil {
			return json.Marshal(r)
		}
		given = abortTimeout
	}
	a := s.ask(ctx, q, given)
	if a.err != nil {
		return nil, a.err
	}
	return json.Marshal(a.reply)
}

func timeout(q probes.Request) time.Duration {
	switch {
	case q.Open != nil:
		return openTimeout
	case q.NewID != nil:
		return idTimeout
	case q.Connect != nil:
		return q.Connect.Timeout
	case q.Measure != nil:
		return q.Measure.Timeout
	default:
		return closeTimeout
	}
}

// ask has the thread do a step, and gives up when it does not come back.
func (s *Server) ask(ctx context.Context, q probes.Request, timeout time.Duration) answer {
	done := make(chan answer, 1)
	patience := time.NewTimer(timeout + grace)
	defer patience.Stop()
	steps := s.steps
	for {
		select {
		case steps <- step{q, time.Now().Add(timeout), done}:
			steps = nil
		case a := <-done:
			return a
		case <-ctx.Done():
			return answer{err: ctx.Err()}
		case <-patience.C:
			where := "the probe"
			if f := s.inside.Load(); f != nil {
				where = *f
			}
			return answer{reply: *s.fail(failed(probes.FailureHang, "%s does not return, %v were given", where, timeout))}
		}
	}
}

// fail makes the answer of a failure, and remembers the first one.
func (s *Server) fail(err error) *probes.Reply {
	r := &probes.Reply{Failure: probes.FailureCrash, Error: fabric.Printable(err.Error(), maxError)}
	if f, ok := errors.AsType[*failure](err); ok {
		r.Failure = f.why
	}
	s.failed.CompareAndSwap(nil, r)
	return r
}

// serve is the thread.
func (s *Server) serve() {
	runtime.LockOSThread()
	r := &rank{inside: &s.inside}
	for st := range s.steps {
		reply, err := r.do(st.q, st.deadline)
		switch {
		case err == nil:
			st.answer <- answer{reply: reply}
		case errors.Is(err, errRequest):
			st.answer <- answer{err: err}
		case st.q.Close != nil && s.failed.Load() != nil:
			st.answer <- answer{} // what failed cannot be closed in order
		default:
			st.answer <- answer{reply: *s.fail(err)}
		}
		if s.failed.Load() != nil {
			r.abort()
		}
	}
}
