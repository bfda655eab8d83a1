// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

// Package safety runs a program and judges each of its system calls: whether it writes, configures or signals
// anything that is not its own. Only tests import it. It needs root.
//
// A filter (seccomp) allows the system calls that change nothing outside of the process, and stops the process at all
// others. The tracer (ptrace) looks at their arguments, in the memory of the stopped thread, and records a
// Violation for each that no rule allows. A system call without a rule is a violation: each new one has to be
// examined. Threads and child processes are judged, too. System calls are carried out in any case: the
// program behaves as usual, and the test fails.
//
// A Process has one goroutine, locked to its thread, because the kernel accepts requests of ptrace from that
// thread only.
package safety

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Rules are what a program may write and run.
type Rules struct {
	Files    []string // files, and folders with all below, that it may write, make and remove
	Programs []string // that it may run, besides itself
}

// Record is what a program and its children did.
type Record struct {
	Exit       int            // the exit status; -1: it was killed
	Calls      map[string]int // how often: each kind of judged call that was allowed
	Violations []string
}

// String is a table of what was allowed.
func (r *Record) String() string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(r.Calls)) {
		fmt.Fprintf(&b, "%7d  %s\n", r.Calls[what], what)
	}
	return b.String()
}

// Process is a program under judgement.
type Process struct {
	PID int

	rules Rules
	self  string       // the program
	alive map[int]bool // threads
	// processes and threads, also those that have ended: a child that was not waited for keeps its number
	known  map[int]bool
	record Record
	ended  chan struct{}
	err    error
}

// Start runs a program with these arguments, args[0] being its path. The test's own TestMain calls Enter first.
func Start(rules Rules, args, env []string, dir string, stdout, stderr *os.File) (*Process, error) {
	p := &Process{rules: rules, self: args[0], alive: map[int]bool{}, known: map[int]bool{}, ended: make(chan struct{})}
	p.record.Calls = map[string]int{}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	started := make(chan error)
	var once sync.Once
	go func() {
		defer close(p.ended)
		runtime.LockOSThread() // and never unlocked: the thread ends with what it traced
		p.err = p.trace(args, &syscall.ProcAttr{
			Dir: dir, Env: append(slices.Clone(env), enter+"=1"), Files: []uintptr{null.Fd(), stdout.Fd(), stderr.Fd()},
			Sys: &syscall.SysProcAttr{Ptrace: true},
		}, func() { once.Do(func() { started <- nil }) })
		once.Do(func() { started <- p.err })
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Wait returns what the program did when it and all its children have ended.
func (p *Process) Wait() (*Record, error) {
	<-p.ended
	return &p.record, p.err
}

// trace starts the program and follows it to its end.
func (p *Process) trace(args []string, attr *syscall.ProcAttr, started func()) error {
	pid, err := syscall.ForkExec("/proc/self/exe", args, attr)
	if err != nil {
		return err
	}
	p.PID = pid
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, 0, nil); err != nil {
		return err
	}
	if !status.Stopped() {
		return fmt.Errorf("process %d: expected a stop after execve, got status %#x", pid, status)
	}
	p.alive[pid], p.known[pid] = true, true
	const options = unix.PTRACE_O_EXITKILL | unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_TRACECLONE |
		unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEEXEC
	if err := unix.PtraceSetOptions(pid, options); err != nil {
		return err
	}
	started()
	return p.follow(pid)
}

// follow continues what stops until nothing is left.
func (p *Process) follow(next int) error {
	signal := 0
	for {
		if next != 0 {
			if err := unix.PtraceCont(next, signal); err != nil && err != unix.ESRCH { // ESRCH: it was killed meanwhile
				return fmt.Errorf("thread %d: %w", next, err)
			}
		}
		var status unix.WaitStatus
		tid, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
		switch {
		case err == unix.EINTR:
			next = 0
			continue
		case err == unix.ECHILD:
			return nil
		case err != nil:
			return err
		}
		next, signal = p.stopped(tid, status)
	}
}

// stopped returns which thread to continue, 0: none, with which signal.
func (p *Process) stopped(tid int, status unix.WaitStatus) (next, signal int) {
	if !status.Stopped() { // it ended
		delete(p.alive, tid)
		if tid == p.PID {
			p.record.Exit = status.ExitStatus()
		}
		return 0, 0
	}
	fresh := !p.alive[tid]
	p.alive[tid], p.known[tid] = true, true
	switch {
	case status.TrapCause() == unix.PTRACE_EVENT_SECCOMP:
		p.judge(tid)
	case status.TrapCause() > 0: // a thread, a process or execve
	case status.StopSignal() == unix.SIGSTOP && fresh: // how a new thread is attached
	default:
		return tid, int(status.StopSignal())
	}
	return tid, 0
}

// judge looks at the system call at whose entry a thread stands.
func (p *Process) judge(tid int) {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &regs); err != nil {
		return // it was killed
	}
	c := &call{
		tid: tid, process: p, number: regs.Orig_rax,
		args: [6]uint64{regs.Rdi, regs.Rsi, regs.Rdx, regs.R10, regs.R8, regs.R9},
	}
	what, err := c.judge()
	if err != nil {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", tid))
		p.record.Violations = append(p.record.Violations,
			fmt.Sprintf("%s: %s: %v", strings.TrimSpace(string(name)), c.name(), err))
		return
	}
	p.record.Calls[what]++
}
