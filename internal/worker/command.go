// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// nobody is the user and the group that a Command has when the exporter is root: the kernel's overflow user, which owns
// nothing.
const nobody = 65534

// maxPrinted is how many bytes of the end of what a Command prints are kept. The rest is read and dropped.
const maxPrinted = 4 << 10

// Command is a program of the site that is run to its end and speaks by its exit status.
//
// It runs in a process group of its own, which is killed as a whole when the program ends, when its time is
// over, and when ctx ends; what puts itself into another session is not found. It has /dev/null for input,
// "/" for its directory, no variables but PATH, HOME and LC_ALL. Where the exporter may become another user
// it runs as nobody (65534), so that helpers with the set-user-ID bit, as the clients of several schedulers
// have, still work; elsewhere with no_new_privs. No program is started after one that the kernel does not
// end.
type Command struct {
	Args    []string      // the first one is the absolute path of the program
	Timeout time.Duration // 0: DefaultTimeout
	// Trusted says why a file, of which the path has no symbolic links, must not be run.
	Trusted func(path string) error

	held atomic.Bool // a process is there
}

// Ended is how a Command ended by itself.
type Ended struct {
	Status int    // that it exited with
	Said   string // the last line that it printed; bounded and printable
}

// Run runs the program. An error says that it was not started, was killed, or did not end in time (ErrHung).
func (c *Command) Run(ctx context.Context) (Ended, error) {
	timeout := cmp.Or(c.Timeout, DefaultTimeout)
	if len(c.Args) == 0 || !filepath.IsAbs(c.Args[0]) {
		return Ended{}, fmt.Errorf("command %q: expected an absolute path first", c.Args)
	}
	if !c.held.CompareAndSwap(false, true) {
		return Ended{}, fmt.Errorf("%s: %w: the process before was killed, but the kernel has not released it", c.Args[0],
			ErrHung)
	}
	late := fmt.Errorf("%w: it did not end within %s", ErrHung, timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, late)
	type end struct {
		Ended
		error
	}
	ends := make(chan end, 1)
	go func() {
		defer cancel()
		ended, err := c.run(ctx)
		c.held.Store(false)
		ends <- end{ended, err}
	}()
	var e end
	select {
	case e = <-ends:
	case <-ctx.Done():
		patience := time.NewTimer(DefaultGrace)
		defer patience.Stop()
		select {
		case e = <-ends:
		case <-patience.C:
			e.error = context.Cause(ctx)
		}
	}
	if e.error != nil {
		return Ended{}, fmt.Errorf("%s: %w", c.Args[0], e.error)
	}
	return e.Ended, nil
}

func (c *Command) run(ctx context.Context) (Ended, error) {
	// What is run is what was checked, and not what a symbolic link names meanwhile.
	path, err := filepath.EvalSymlinks(c.Args[0])
	if err != nil {
		return Ended{}, err
	}
	if c.Trusted != nil {
		if err := c.Trusted(path); err != nil {
			return Ended{}, err
		}
	}
	said := &tail{}
	cmd := &exec.Cmd{
		Path: path, Args: c.Args, Dir: "/", Stdout: said, Stderr: said, WaitDelay: linger,
		Env:         []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "LC_ALL=C"},
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	// PDEATHSIG and no_new_privs are about this thread. It is never unlocked, so that it ends with this goroutine.
	runtime.LockOSThread()
	if mayChangeUser() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	} else if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return Ended{}, fmt.Errorf("no_new_privs: %w", err)
	}
	_ = unix.CloseRange(firstForeignFD, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) // what the exporter itself inherited
	if err := cmd.Start(); err != nil {
		return Ended{}, fmt.Errorf("not started: %w", err)
	}
	killed := killGroup(ctx, cmd.Process.Pid)
	err = cmd.Wait()
	switch state := cmd.ProcessState; {
	case killed && ctx.Err() != nil:
		return Ended{}, context.Cause(ctx)
	case state == nil:
		return Ended{}, err
	case !state.Exited():
		return Ended{}, fmt.Errorf("%w: %s", ErrCrashed, state)
	default: // an error beside it is about its pipes
		return Ended{Status: state.ExitCode(), Said: said.lastLine()}, nil
	}
}

// killGroup waits until the process has ended, without reaping it, and kills what is left of its group; all
// of it when ctx ends first, which it returns.
func killGroup(ctx context.Context, leader int) (early bool) {
	var mu sync.Mutex
	exited := false
	kill := func() {
		mu.Lock()
		defer mu.Unlock()
		if !exited {
			early = true
			_ = unix.Kill(-leader, unix.SIGKILL)
		}
	}
	stop := context.AfterFunc(ctx, kill)
	awaitExit(leader)
	stop()
	mu.Lock()
	defer mu.Unlock()
	exited = true
	_ = unix.Kill(-leader, unix.SIGKILL) // the pid is its own until it is reaped
	return early
}

// mayChangeUser reports whether this process can start one of another user, and kill it.
func mayChangeUser() bool {
	const needed = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_KILL
	have, err := capabilities()
	return err == nil && os.Geteuid() == 0 && have&needed == needed
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p[max(0, len(p)-maxPrinted):]...)
	t.kept = append(t.kept[:0], t.kept[max(0, len(t.kept)-maxPrinted):]...)
	return len(p), nil
}

func (t *tail) lastLine() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := bytes.Split(bytes.TrimSpace(t.kept), []byte("\n"))
	return fabric.Printable(string(lines[len(lines)-1]), maxLine)
}
