// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestLogIsBounded has a child print without end.
func TestLogIsBounded(t *testing.T) {
	var out counted
	p := newTest(t, "serve", func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o.Timeout = 10 * time.Minute
	})
	call(t, p, "echo x", "x")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call(t, p, "print 128", "printed")
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20 {
		t.Errorf("allocated %d bytes", grown)
	}
	_ = p.Close()
	waitUntil(t, "the child is reaped", func() bool { return !p.Running() })
	if n := out.Load(); n > 64<<10 {
		t.Errorf("logged %d bytes", n)
	}
}

// counted counts what is written to it, also by a harvest that goes on after its child.
type counted struct{ atomic.Int64 }

func (c *counted) Write(p []byte) (int, error) {
	c.Add(int64(len(p)))
	return len(p), nil
}

// resources counts what this process has.
func resources() (fds, threads, goroutines, children int) {
	list, _ := os.ReadDir("/proc/self/fd")
	tasks, _ := os.ReadDir("/proc/self/task")
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, s := range stats {
		b, _ := os.ReadFile(s)
		_, rest, _ := strings.Cut(string(b), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(os.Getpid()) {
			children++
		}
	}
	return len(list), len(tasks), runtime.NumGoroutine(), children
}

// leavesNothing does something again and again, and fails if descriptors, children or threads (except a few
// of the runtime's) become more.
func leavesNothing(t *testing.T, what string, times, threads int, do func()) {
	t.Helper()
	g := runtime.NumGoroutine()
	do()
	waitUntil(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= g })
	f0, t0, g0, c0 := resources()
	for range times {
		do()
	}
	waitUntil(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= g0 })
	f1, t1, g1, c1 := resources()
	t.Logf("before and after %s: fds %d %d, threads %d %d, goroutines %d %d, children %d %d", what, f0, f1, t0, t1, g0, g1, c0, c1)
	if f1 > f0 || t1 > t0+threads || c1 > c0 {
		t.Error("something is left of them")
	}
}

// TestCrashCycles is a child that crashes at each request, 200 times.
func TestCrashCycles(t *testing.T) {
	p := newTest(t, "serve", func(o *Options) { o.Grace = time.Minute }) // however long the machine takes to reap a child
	cycle := func() {
		if _, err := p.Call(t.Context(), []byte("exit bye")); !errors.Is(err, ErrCrashed) {
			t.Fatal(err)
		}
		waitUntil(t, "the child is reaped", func() bool { return !p.Running() })
	}
	leavesNothing(t, "200 crashes", 200, 4, cycle)
	if s := p.Statistics(); s.Starts != 201 || s.Failures[FailureCrash] != 201 {
		t.Errorf("%+v", s)
	}
}

// TestThreadsComeAndGo ends many threads of this process: the child must not depend on any of them.
func TestThreadsComeAndGo(t *testing.T) {
	p := newTest(t, "serve", nil)
	pid, err := p.Call(t.Context(), []byte("pid"))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
				time.Sleep(time.Millisecond)
			})
		}
		all.Wait()
	}
	call(t, p, "pid", string(pid))
}

// TestParentIsKilled proves that no child outlives the exporter: neither one that would notice by itself, nor one
// that hangs and ignores SIGTERM.
func TestParentIsKilled(t *testing.T) {
	adoptOrphans(t)
	for _, kind := range []string{"serve", "stubborn"} {
		parent := exec.Command("/proc/self/exe", "as-parent", kind)
		parent.Stderr = os.Stderr
		out, err := parent.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := parent.Start(); err != nil {
			t.Fatal(err)
		}
		var pid int
		if _, err := fmt.Fscan(out, &pid); err != nil || pid <= 1 {
			t.Fatal(pid, err)
		}
		_ = parent.Process.Kill()
		_ = parent.Wait()
		begin := time.Now()
		var status unix.WaitStatus
		waitUntil(t, "the child ends", func() bool {
			got, err := unix.Wait4(pid, &status, unix.WNOHANG, nil)
			return err == nil && got == pid
		})
		if byItself := kind == "serve" && status.Exited(); !byItself && status.Signal() != unix.SIGKILL { // -1: no signal
			t.Errorf("%s: ended with status %#x, expected SIGKILL", kind, status)
		}
		t.Logf("%s: gone %s after its parent", kind, time.Since(begin).Round(time.Millisecond))
	}
}

func TestRelease(t *testing.T) {
	const grace = 3 * DefaultGrace // longer than a loaded machine takes to end a process
	for _, test := range []struct {
		kind, request string
		least, most   time.Duration
	}{
		{"serve", "", 0, grace},                    // the end of its pipe ends it
		{"serve", "hang", grace, 2 * grace},        // SIGTERM does
		{"stubborn", "hang", 2 * grace, 3 * grace}, // SIGKILL does
	} {
		t.Run(test.kind+" "+test.request, func(t *testing.T) {
			t.Parallel()
			p := newTest(t, test.kind, func(o *Options) { o.Grace = grace })
			failed, file := make(chan error, 1), filepath.Join(t.TempDir(), "hangs")
			if test.request == "" {
				call(t, p, "echo x", "x")
				failed <- ErrReleased
			} else {
				go func() {
					_, err := p.Call(context.Background(), []byte(test.request+" "+file))
					failed <- err
				}()
				waitUntil(t, "the child hangs", func() bool { _, err := os.Stat(file); return err == nil })
			}
			begin := time.Now()
			if err := p.Release("the maintenance file /run/x"); err != nil {
				t.Error(err)
			}
			took := time.Since(begin)
			t.Logf("gone after %s", took.Round(time.Millisecond))
			if took < test.least || took > test.most || p.Running() {
				t.Errorf("took %s, running %v", took, p.Running())
			}
			if err := <-failed; !errors.Is(err, ErrReleased) {
				t.Error(err)
			}
			if _, err := p.Call(t.Context(), []byte("echo x")); !errors.Is(err, ErrReleased) || !strings.Contains(err.Error(), "/run/x") {
				t.Error(err)
			}
			if s := p.Statistics(); len(s.Failures) != 0 || s.Starts != 1 {
				t.Errorf("%+v", s)
			}
			p.Resume()
			if test.kind == "serve" {
				call(t, p, "echo y", "y")
			}
			_ = p.Close()
			p.Resume()
			if _, err := p.Call(t.Context(), []byte("echo x")); !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		})
	}
}

// TestBackoffIsKept asks a child that cannot start again and again.
func TestBackoffIsKept(t *testing.T) {
	p := newTest(t, "symbol", func(o *Options) { o.MinBackoff, o.MaxBackoff = time.Hour, time.Hour })
	for i := range 1000 {
		_, err := p.Call(t.Context(), []byte("echo"))
		if !errors.Is(err, ErrCrashed) || errors.Is(err, ErrBackoff) != (i > 0) || !strings.Contains(err.Error(), "symbol lookup error") {
			t.Fatal(i, err)
		}
	}
	if s := p.Statistics(); s.Starts != 1 {
		t.Errorf("%d starts", s.Starts)
	}
	p.Resume() // it was not released
	if _, err := p.Call(t.Context(), []byte("echo")); !errors.Is(err, ErrBackoff) {
		t.Error(err)
	}
	if err := p.Release("for a while"); err != nil {
		t.Error(err)
	}
	p.Resume()
	if _, err := p.Call(t.Context(), []byte("echo")); errors.Is(err, ErrBackoff) || p.Statistics().Starts != 2 {
		t.Error(err)
	}
}

// TestKernelHoldsChild has a child that was killed and does not go, as one does that hangs in a driver.
func TestKernelHoldsChild(t *testing.T) {
	p := New(Options{Name: "test", Path: "/proc/self/exe", Args: []string{"test", "as-child", "serve"}, Grace: 10 * time.Millisecond})
	held := newChild(p.o)
	held.kill(cause{ErrHung, FailureHang})
	p.child = held
	for range 3 {
		if _, err := p.Call(t.Context(), []byte("echo x")); !errors.Is(err, ErrHung) || !strings.Contains(err.Error(), "has not released it") {
			t.Error(err)
		}
	}
	if err := p.Release("x"); err == nil || !p.Running() || p.Statistics().Starts != 0 {
		t.Error(err)
	}
	begin := time.Now()
	if err := p.Close(); err == nil || time.Since(begin) > time.Minute { // 3 * closeGrace; waiting for the held process would take longer
		t.Errorf("%v after %s", err, time.Since(begin))
	}
}
