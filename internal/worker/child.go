// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// firstForeignFD is the first file descriptor after the standard streams.
const firstForeignFD = 3

// linger is how long the pipes of a child that ended are read on: something that it started may hold them open.
const linger = 200 * time.Millisecond

// lateReap is how long a process that was killed with its group may take to die and is reaped nevertheless.
const lateReap = 10 * time.Minute

// child is one process, from before it starts until it is reaped. run is called once; the other methods may be
// called from any goroutine at any time.
type child struct {
	o       Options
	log     *logbook // of its library; nil: it has no pipe for that
	began   time.Time
	started chan struct{}           // closed when it runs, or never will
	life    context.Context         // until a caller begins to end it; its cause says why
	doom    context.CancelCauseFunc // ends life
	done    chan struct{}           // closed when it is reaped and its pipes are closed
	end     cause                   // why it ended; to be read when done is closed
	took    time.Duration           // from when we began to end it until it was reaped; 0: we did not. As end

	talk       sync.Mutex // held while a request is out
	number     uint32     // of the last request
	unanswered bool       // the last request has no answer

	mu      sync.Mutex
	process *os.Process // nil before it was started
	exited  bool        // its pid may be another's soon
	why     *cause      // why we end it; nil: we do not
	since   time.Time   // when we began to
	requests,
	replies *os.File // our ends of the pipes; nil if it was not started
}

// cause is why a child ends. The failure is empty when that was wanted.
type cause struct {
	err     error
	failure Failure
}

func notStarted(err error) cause {
	return cause{fmt.Errorf("%w: not started: %w", ErrCrashed, err), FailureStart}
}

func newChild(o Options) *child {
	c := &child{o: o, began: time.Now(), started: make(chan struct{}), done: make(chan struct{})}
	c.life, c.doom = context.WithCancelCause(context.Background())
	return c
}

// live runs the child until it is reaped, and calls ended with the cause before any other caller can see the end.
func (c *child) live(ended func(cause)) {
	onOwnThread(func() { c.end = c.run() }) // PDEATHSIG is about the thread that starts the process
	ended(c.end)
	close(c.done)
}

// run starts the process and returns why it ended.
func (c *child) run() cause {
	start := sync.OnceFunc(func() { close(c.started) })
	defer start()

	p, err := openPipes(c.log != nil)
	if err != nil {
		return notStarted(err)
	}
	defer p.close()
	cmd := &exec.Cmd{
		Path: c.o.Path, Args: c.o.Args, Env: c.o.Env, Dir: "/",
		Stdout: p.printsW, Stderr: p.printsW, ExtraFiles: p.theirs(),
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	if cmd.Env == nil {
		cmd.Env = []string{} // nil would be the environment of the exporter
	}
	c.o.Room.enter()
	defer func() { c.o.Room.leave(c.pid()) }()
	var user *User
	if c.o.User != nil {
		user = c.o.User()
	}
	if err := errors.Join(p.giveTo(user), c.o.confine(user, cmd.SysProcAttr)); err != nil {
		return notStarted(fmt.Errorf("not confined: %w", err))
	}
	// What the exporter itself inherited goes no further; what Go opens is so already. Before Linux 5.11 it is left.
	_ = unix.CloseRange(firstForeignFD, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	err = cmd.Start()
	p.closeTheirs()
	if err != nil {
		return notStarted(err)
	}
	if c.o.PinsMemory {
		liftMemlock(cmd.Process.Pid)
	}
	c.o.Room.housed(cmd.Process.Pid)
	c.mu.Lock()
	c.process, c.requests, c.replies = cmd.Process, p.requestsW, p.repliesR
	if c.why != nil { // in the meantime
		c.signal(unix.SIGKILL)
	}
	c.mu.Unlock()
	start()

	h := &harvest{log: c.o.Log, now: time.Now}
	var reading sync.WaitGroup
	reading.Go(func() { h.read(p.printsR) })
	if c.log != nil {
		reading.Go(func() { _, _ = io.Copy(c.log, p.logR) })
	}
	awaitExit(cmd.Process.Pid)
	c.mu.Lock()
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // what it left of its group; the pid is its own until it is reaped
	c.exited = true
	end := time.Now().Add(linger)
	_, _ = p.requestsW.SetWriteDeadline(end), p.repliesR.SetReadDeadline(end)
	c.mu.Unlock()
	_ = cmd.Wait() // the state says it
	if !c.since.IsZero() {
		c.took = time.Since(c.since)
	}
	reapGroup(cmd.Process.Pid)
	end = time.Now().Add(linger)
	_, _ = p.printsR.SetReadDeadline(end), p.logR.SetReadDeadline(end)
	reading.Wait()
	return c.conclude(cmd.ProcessState, h.epitaph())
}

// conclude says why a process ended that is reaped.
func (c *child) conclude(state *os.ProcessState, epitaph string) cause {
	c.talk.Lock() // a request that was out ends with the process
	answered := c.number > 0 && !c.unanswered
	c.talk.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why != nil {
		return *c.why
	}
	text := state.String()
	if epitaph != "" {
		text += ": " + epitaph
	}
	failure := FailureCrash
	if state.Success() && answered { // it retired
		failure = ""
	}
	return cause{fmt.Errorf("%w: %s", ErrCrashed, text), failure}
}

// awaitExit waits until the process has ended, without reaping it.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return // ECHILD cannot be: nothing else reaps it
		}
	}
}

// reapGroup reaps what a child has left of its group and what was killed with it. Such processes become children of
// this one where it is the init of a container, and nothing else would. It waits for them for as long as
// pipes are read on; those that die later, because the machine is busy or a driver holds them, are reaped in
// the background for lateReap.
func reapGroup(leader int) {
	if !reapWithin(leader, linger, time.Millisecond) {
		go reapWithin(leader, lateReap, 100*time.Millisecond)
	}
}

// reapWithin reports whether nothing is left of the group that could be reaped.
func reapWithin(leader int, limit, every time.Duration) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); {
		pid, err := unix.Wait4(-leader, nil, unix.WNOHANG, nil)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return true // ECHILD: there are none, or none of ours
		case err == nil && pid == 0:
			time.Sleep(every) // until the kernel is through with them
		}
	}
	return false
}

// signal is called with mu held.
func (c *child) signal(s syscall.Signal) {
	if c.process == nil || c.exited {
		return
	}
	if c.o.Guarded { // SIGKILL would leave what is in another session
		_ = unix.Kill(c.process.Pid, unix.SIGTERM)
		_ = unix.Kill(c.process.Pid, unix.SIGCONT)
		return
	}
	_ = unix.Kill(-c.process.Pid, s)
	_ = unix.Kill(c.process.Pid, s) // it may have left its group
}

// call sends a request and waits for the answer. When there is none the child is ended, and the error says why.
func (c *child) call(request []byte) ([]byte, error) {
	payload, err := c.ask(request)
	switch {
	case err == nil || errors.Is(err, ErrRefused):
		return payload, err
	case errors.Is(err, ErrHung):
		c.kill(cause{err, FailureHang})
	case errors.Is(err, errFrame):
		c.kill(cause{fmt.Errorf("%w: it sent what is no answer: %w", ErrCrashed, err), FailureProtocol})
	case !c.gone(c.o.Grace): // the pipe broke; its end says more
		c.kill(cause{fmt.Errorf("%w: its pipe broke: %w", ErrCrashed, err), FailureProtocol})
	}
	if !c.gone(c.o.Grace) {
		return nil, fmt.Errorf("%w: killed, but the kernel has not released it", ErrHung)
	}
	return nil, c.end.err
}

// ask is call that leaves the child as it is.
func (c *child) ask(request []byte) ([]byte, error) {
	c.talk.Lock()
	defer c.talk.Unlock()
	c.unanswered = true
	payload, err := c.exchange(request)
	c.unanswered = err != nil && !errors.Is(err, ErrRefused)
	return payload, err
}

// timeout is how long the next request may take.
func (c *child) timeout() time.Duration {
	if c.number == 0 {
		return c.o.FirstTimeout
	}
	return c.o.Timeout
}

func (c *child) exchange(request []byte) ([]byte, error) {
	c.mu.Lock()
	requests, replies := c.requests, c.replies
	if requests == nil {
		c.mu.Unlock()
		return nil, os.ErrClosed
	}
	timeout := c.timeout()
	if !c.exited { // else it is set already
		end := time.Now().Add(timeout)
		_, _ = requests.SetWriteDeadline(end), replies.SetReadDeadline(end)
	}
	c.mu.Unlock()
	c.number++
	err := writeFrame(requests, frame{kindRequest, c.number, request})
	var f frame
	if err == nil {
		f, err = readFrame(replies, maxReply)
	}
	switch {
	case err != nil && c.hasExited():
		return nil, os.ErrClosed // its end says more
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("%w: no answer within %s", ErrHung, timeout)
	case err != nil:
		return nil, err
	case f.number != c.number || f.kind == kindRequest:
		return nil, fmt.Errorf("%w: kind %q and number %d, expected an answer to number %d", errFrame, f.kind, f.number,
			c.number)
	case f.kind == kindError:
		return nil, fmt.Errorf("%w: %s", ErrRefused, fabric.Printable(string(f.payload), maxLine))
	}
	return f.payload, nil
}

func (c *child) hasExited() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exited
}

// ending reports whether a caller has begun to end the child, or it ended.
func (c *child) ending() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why != nil || c.exited
}

// because notes why the child is ended. The first one to do so is right.
func (c *child) because(why cause) {
	if c.why == nil && !c.exited {
		c.why, c.since = &why, time.Now()
		c.doom(why.err)
	}
}

// kill ends the child at once and does not wait.
func (c *child) kill(why cause) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.because(why)
	c.signal(unix.SIGKILL)
}

// stop ends the child by closing its pipe, then by SIGTERM, then by SIGKILL, each a grace after the other, and reports
// whether it is gone.
func (c *child) stop(why cause, grace time.Duration) bool {
	c.mu.Lock()
	c.because(why)
	if c.requests != nil {
		c.requests.Close() // may be the second time
	}
	c.mu.Unlock()
	for _, s := range []syscall.Signal{unix.SIGTERM, unix.SIGKILL} {
		if c.gone(grace) {
			return true
		}
		c.mu.Lock()
		c.signal(s)
		c.mu.Unlock()
	}
	return c.gone(grace)
}

// gone waits until the child is reaped, for at most d, and reports whether it is.
func (c *child) gone(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.done:
		return true
	case <-t.C:
		return false
	}
}

// unreleased is the error of a child that is not gone after stop.
func (c *child) unreleased() error {
	return fmt.Errorf("%s worker: process %d was killed, but the kernel has not released it", c.o.Name, c.pid())
}

// pid is 0 before the child was started.
func (c *child) pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return 0
	}
	return c.process.Pid
}
