// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// Handler answers a request. The text of its error goes to the one who asked.
type Handler func(ctx context.Context, request []byte) ([]byte, error)

// Where a child finds its pipes. They are not the standard streams, because a vendor's library prints there.
const (
	requestsFD = 3
	repliesFD  = 4
	logFD      = 5 // of a Task only
)

// LogFile is where the library in a Task shall write its log: opening it gives the pipe whose other end is read.
const LogFile = "/proc/self/fd/5"

// niceness is how far the worker of a Process stands back when processors are scarce.
const niceness = 5

// Child makes this process the worker that a Process has started, and answers requests until the Process closes the
// pipe. Signals get back their default meaning first, so that SIGTERM ends the process even while handle hangs in
// foreign code; those that are meant for the exporter are ignored.
func Child(ctx context.Context, name string, handle Handler) error {
	if err := prepare(name, requestsFD, repliesFD); err != nil {
		return err
	}
	_ = Limits{Niceness: niceness}.apply() // what is refused is left
	Undumpable()
	return serve(ctx, handle)
}

// TaskChild is Child for a Task, which stays dumpable unless Limits are Private: tasks of one user may have to
// reach into each other's memory or take descriptors from each other (process_vm_readv, pidfd_getfd). If a
// limit cannot be set nothing is handled, and each request is refused with the reason.
func TaskChild(ctx context.Context, name string, limits Limits, handle Handler) error {
	if err := prepare(name, requestsFD, repliesFD, logFD); err != nil {
		return err
	}
	if err := limits.apply(); err != nil {
		handle = func(context.Context, []byte) ([]byte, error) { return nil, fmt.Errorf("not confined: %w", err) }
	}
	if limits.Private { // /proc/self belongs to root from here on
		Undumpable()
	}
	return serve(ctx, handle)
}

// prepare prepares a process that has just been started, with pipes at fds.
func prepare(name string, fds ...int) error {
	for _, fd := range fds {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
			return fmt.Errorf("%s: file descriptor %d is no pipe: only %s itself can start this", name, fd, os.Args[0])
		}
		unix.CloseOnExec(fd) // what the library starts must not keep them open
	}
	dumpable()
	signal.Reset(syscall.SIGTERM, os.Interrupt)
	signal.Ignore(syscall.SIGHUP, syscall.SIGUSR1)
	_ = os.WriteFile("/proc/self/comm", []byte(name), 0) // it would be "exe"
	return nil
}

func serve(ctx context.Context, handle Handler) error {
	in, out := os.NewFile(requestsFD, "requests"), os.NewFile(repliesFD, "replies")
	defer in.Close()
	defer out.Close()
	return Serve(ctx, in, out, handle)
}

// Serve answers the requests in in on out, one at a time, until in ends, which is no error, or ctx ends between two
// of them. The answer of a handler that panics is its panic, and Serve ends: the state that the handler left
// is unknown.
func Serve(ctx context.Context, in io.Reader, out io.Writer, handle Handler) error {
	for ctx.Err() == nil {
		q, err := readFrame(in, maxRequest)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading a request: %w", err)
		case q.kind != kindRequest:
			return fmt.Errorf("reading a request: %w: kind %q, expected %q", errFrame, q.kind, kindRequest)
		}
		answer, panicked, err := handled(ctx, handle, q.payload)
		if err == nil && len(answer) > maxReply {
			err = fmt.Errorf("the answer has %d bytes, expected at most %d", len(answer), maxReply)
		}
		f := frame{kind: kindAnswer, number: q.number, payload: answer}
		if err != nil {
			f.kind, f.payload = kindError, []byte(fabric.Printable(err.Error(), maxLine))
		}
		if err := writeFrame(out, f); err != nil {
			return fmt.Errorf("writing an answer: %w", err)
		}
		if panicked {
			return err
		}
	}
	return nil
}

func handled(ctx context.Context, handle Handler, request []byte) (answer []byte, panicked bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			answer, panicked, err = nil, true, fmt.Errorf("the handler panicked: %v", p)
		}
	}()
	answer, err = handle(ctx, request)
	return answer, false, err
}
