// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

// The children of these tests are this very binary: os.Args[1] says what it shall be.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "as-child" {
		os.Exit(asChild(os.Args[2]))
	}
	if len(os.Args) > 2 && os.Args[1] == "as-task" {
		os.Exit(asTask(os.Args[2]))
	}
	if len(os.Args) > 2 && os.Args[1] == "as-parent-of-tasks" {
		os.Exit(asParentOfTasks(os.Args[2]))
	}
	if len(os.Args) > 2 && os.Args[1] == "as-room" {
		os.Exit(exitOf(asRoom(os.Args[2])))
	}
	if len(os.Args) > 2 && os.Args[1] == "as-runner" {
		os.Exit(exitOf(asRunner()))
	}
	if len(os.Args) > 2 && os.Args[1] == "as-parent" {
		os.Exit(asParent(os.Args[2]))
	}
	os.Exit(m.Run())
}

func asChild(kind string) int {
	replies := os.NewFile(repliesFD, "replies")
	defer runtime.KeepAlive(replies) // another file with the same descriptor would be closed
	switch kind {
	case "crash at start":
		fmt.Fprintln(os.Stderr, "cannot go on\n\n  ")
		return 3
	case "symbol":
		fmt.Fprintf(os.Stderr, "%s: symbol lookup error: %s: undefined symbol: nvmlDeviceGetGpuFabricInfoV\n", os.Args[0], os.Args[0])
		return 127
	case "garbage":
		fmt.Fprintln(replies, "NVML: something went wrong")
	case "too long":
		_, _ = replies.Write([]byte{0x7f, 0xff, 0xff, 0xff, kindAnswer, 0, 0, 0, 1})
	case "half an answer":
		_, _ = replies.Write([]byte{0, 0, 0, 100, kindAnswer, 0, 0, 0, 1, 'x'})
		return 0
	case "wrong number":
		_ = writeFrame(replies, frame{kindAnswer, 77, []byte("old")})
	case "closes its pipe":
		replies.Close()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		if q, err := readFrame(os.NewFile(requestsFD, "requests"), maxRequest); err == nil {
			_, _ = handleForTest(context.Background(), q.payload)
		}
	case "serve":
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		if err := Child(ctx, "worker_test", func(ctx context.Context, request []byte) ([]byte, error) {
			if string(request) == "retire" {
				stop()
				return []byte("so long"), nil
			}
			return handleForTest(ctx, request)
		}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	default:
		return 99
	}
	for {
		time.Sleep(time.Hour)
	}
}

// handleForTest does what the request says.
func handleForTest(_ context.Context, request []byte) ([]byte, error) {
	verb, rest, _ := strings.Cut(string(request), " ")
	switch verb {
	case "echo":
		return []byte(rest), nil
	case "pid":
		return []byte(strconv.Itoa(os.Getpid())), nil
	case "refuse":
		return nil, errors.New("driver not loaded\n\x1b[31m")
	case "panic":
		panic("out of luck")
	case "exit":
		fmt.Fprintln(os.Stderr, "worker: "+rest)
		os.Exit(4)
	case "segv":
		fmt.Fprintln(os.Stderr, "SIGSEGV: segmentation violation")
		fmt.Fprintln(os.Stderr, "goroutine 1 [running]:")
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		time.Sleep(time.Hour)
	case "hang":
		_ = os.WriteFile(rest, nil, 0o600)
		time.Sleep(time.Hour)
	case "slow":
		time.Sleep(500 * time.Millisecond)
		return []byte("done"), nil
	case "big":
		return make([]byte, maxReply+1), nil
	case "print":
		block := bytes.Repeat([]byte("Lorem ipsum "), 8<<10)
		n, _ := strconv.Atoi(rest) // MiB, on each
		for _, f := range []*os.File{os.Stdout, os.Stderr} {
			for sent := 0; sent < n<<20; sent += len(block) {
				_, _ = f.Write(block)
			}
		}
		return []byte("printed"), nil
	case "orphan": // something that outlives the child, in a session of its own, with all its pipes
		cmd := exec.Command("/bin/sleep", "600")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.ExtraFiles = []*os.File{os.NewFile(requestsFD, ""), os.NewFile(repliesFD, "")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		_ = os.WriteFile(rest, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600)
		os.Exit(5)
	case "status":
		var b strings.Builder
		fds, _ := filepath.Glob("/proc/self/fd/*")
		for _, fd := range fds {
			to, _ := os.Readlink(fd)
			fmt.Fprintf(&b, "fd %s %s\n", filepath.Base(fd), to)
		}
		score, _ := os.ReadFile("/proc/self/oom_score_adj")
		comm, _ := os.ReadFile("/proc/self/comm")
		nice, _ := unix.Getpriority(unix.PRIO_PROCESS, 0) // 20 less the niceness
		var core unix.Rlimit
		_ = unix.Getrlimit(unix.RLIMIT_CORE, &core)
		dir, _ := os.Getwd()
		fmt.Fprintf(&b, "score %scomm %snice %d\ncore %d\ndir %s\nleader %v\n", score, comm, 20-nice, core.Max, dir, unix.Getpgrp() == os.Getpid())
		for _, v := range os.Environ() {
			fmt.Fprintf(&b, "env %s\n", v)
		}
		return []byte(b.String()), nil
	}
	return nil, fmt.Errorf("unknown request %q", request)
}

// asParent has a child that hangs, says its pid and waits for its own end.
func asParent(kind string) int {
	p := New(Options{Name: "test", Path: "/proc/self/exe", Args: []string{"test", "as-child", kind}})
	if kind == "serve" {
		if _, err := p.Call(context.Background(), []byte("pid")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	go func() { _, _ = p.Call(context.Background(), []byte("hang")) }()
	for p.Statistics().PID == 0 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println(p.Statistics().PID)
	time.Sleep(time.Hour)
	return 0
}

func newTest(t *testing.T, kind string, change func(*Options)) *Process {
	t.Helper()
	o := Options{
		Name: "test", Path: "/proc/self/exe", Args: []string{"test", "as-child", kind}, Env: quick(), Timeout: time.Minute,
		Grace:      3 * time.Second, // a loaded machine takes long to reap a child that was killed
		MinBackoff: time.Nanosecond, MaxBackoff: time.Nanosecond,
	}
	if change != nil {
		change(&o)
	}
	p := New(o)
	t.Cleanup(func() { closeTest(t, p) })
	return p
}

// closeTest closes p and returns how long Close took. A child that a loaded machine has not reaped by then goes later.
func closeTest(t *testing.T, p *Process) time.Duration {
	t.Helper()
	begin := time.Now()
	err := p.Close()
	took := time.Since(begin)
	if err != nil {
		t.Log(err)
	} else if p.Running() {
		t.Error("a child after Close")
	}
	waitUntil(t, "the child is gone", func() bool { return !p.Running() })
	return took
}

func call(t *testing.T, p *Process, request, want string) {
	t.Helper()
	if got, err := p.Call(t.Context(), []byte(request)); err != nil || string(got) != want {
		t.Fatalf("%q: got %q, %v, expected %q", request, got, err, want)
	}
}

// TestFailures makes children fail in every way. Its log is the table of the outcomes.
func TestFailures(t *testing.T) {
	const hang = time.Second // the time limit where it is to be met
	tests := []struct {
		what, kind, request string
		timeout             time.Duration // 0: long
		is                  error
		text                string
		failure             Failure // empty: not counted, and the child lives on
		again               bool    // the next request is answered
	}{
		{"ends at start", "crash at start", "echo", 0, ErrCrashed, "exit status 3: cannot go on", FailureCrash, false},
		{"lacks a symbol", "symbol", "echo", 0, ErrCrashed, "exit status 127: test: symbol lookup error", FailureCrash, false},
		{"no such program", "", "echo", 0, ErrCrashed, "not started: ", FailureStart, false},
		{"ends at a request", "serve", "exit so long", 0, ErrCrashed, "exit status 4: worker: so long", FailureCrash, true},
		{"is killed", "serve", "segv", 0, ErrCrashed, "signal: killed: SIGSEGV: segmentation violation", FailureCrash, true},
		{"panics", "serve", "panic", 0, ErrRefused, "the handler panicked: out of luck", FailureCrash, true},
		{"leaves an orphan with its pipes", "serve", "orphan", 0, ErrCrashed, "exit status 5", FailureCrash, true},
		{"hangs", "serve", "hang", hang, ErrHung, "no answer within 1s", FailureHang, true},
		{"hangs and ignores SIGTERM", "stubborn", "hang", hang, ErrHung, "no answer within 1s", FailureHang, false},
		{"sends garbage", "garbage", "echo", 0, ErrCrashed, `not a frame: length 1314278732 ("NVML")`, FailureProtocol, false},
		{"announces 2 GiB", "too long", "echo", 0, ErrCrashed, "not a frame: length 2147483647", FailureProtocol, false},
		{"sends half an answer", "half an answer", "echo", 0, ErrCrashed, "exit status 0", FailureCrash, false},
		{"answers another request", "wrong number", "echo", 0, ErrCrashed, "number 77, expected an answer to number 1", FailureProtocol, false},
		{"closes its pipe and stays", "closes its pipe", "echo", 0, ErrCrashed, "its pipe broke: EOF", FailureProtocol, false},
		{"has too much to say", "serve", "big", 0, ErrRefused, "the answer has 4194305 bytes, expected at most 4194304", "", true},
		{"says no", "serve", "refuse", 0, ErrRefused, "refused: driver not loaded  [31m", "", true},
		{"prints 64 MiB", "serve", "print 32", 0, nil, "printed", "", true},
	}
	rows := make([]string, len(tests))
	t.Run("all", func(t *testing.T) {
		for i, test := range tests {
			t.Run(test.what, func(t *testing.T) {
				t.Parallel()
				p := newTest(t, test.kind, func(o *Options) {
					if test.timeout != 0 {
						o.Timeout = test.timeout
					}
					if test.again {
						o.FirstTimeout = time.Minute // with the start
					}
					if test.kind == "" {
						o.Path = "/nonexistent"
					}
				})
				request := test.request
				if request == "orphan" {
					file := filepath.Join(t.TempDir(), "pid")
					request += " " + file
					defer killOrphan(t, file)
				}
				if test.failure == FailureHang && test.again {
					call(t, p, "echo x", "x")
				}
				begin := time.Now()
				got, err := p.Call(t.Context(), []byte(request))
				took := time.Since(begin)
				if !errors.Is(err, test.is) || !strings.Contains(fmt.Sprint(string(got), err), test.text) {
					t.Errorf("got %q, %v, expected %v with %q", got, err, test.is, test.text)
				}
				if test.failure != "" {
					waitUntil(t, "the failure is counted", func() bool { return p.Statistics().Failures[test.failure] == 1 })
				}
				next := "fails again"
				if test.again {
					call(t, p, "echo again", "again")
					next = "answered"
				} else if _, err := p.Call(t.Context(), []byte("echo again")); !errors.Is(err, test.is) {
					t.Errorf("the next request: %v", err)
				}
				s := p.Statistics()
				wantStarts := uint64(2)
				if test.failure == "" {
					wantStarts = 1
				}
				if s.Starts != wantStarts || test.failure == "" && len(s.Failures) != 0 {
					t.Errorf("got %d starts and failures %v, expected %d starts", s.Starts, s.Failures, wantStarts)
				}
				closing := closeTest(t, p)
				if closing > time.Minute { // three times closeGrace at most; a loaded machine takes longer
					t.Errorf("closing took %s", closing)
				}
				text := strings.TrimPrefix(fmt.Sprint(err), "test worker: ")
				rows[i] = fmt.Sprintf("%s\t%.60s\t%s\t%s\t%s\t%s", test.what, text, test.failure,
					took.Round(time.Millisecond), next, closing.Round(time.Millisecond))
			})
		}
	})
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "the child ...\tthe caller gets\tcounted as\tafter\tnext request\tclosed in\n%s\n", strings.Join(rows, "\n"))
	w.Flush()
	t.Logf("\n%s", table.String())
}

func killOrphan(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
		return
	}
	pid, _ := strconv.Atoi(string(text))
	if pid > 1 {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

func waitUntil(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatal("not within a minute: " + what)
}

// TestSurroundings proves what a child inherits: three pipes, /dev/null and the variables that were given to it.
func TestSurroundings(t *testing.T) {
	t.Setenv("SECRET", "password")
	file, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETFD, 0); err != nil { // as if inherited
		t.Fatal(err)
	}
	p := newTest(t, "serve", func(o *Options) {
		o.Env = Environment([]string{"SECRET=password", "LD_LIBRARY_PATH=/opt", "LD_LIBRARY_PATH_OLD=x"}, "LD_LIBRARY_PATH", "NONE")
	})
	got, err := p.Call(t.Context(), []byte("status"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", got)
	for _, want := range []string{
		"fd 0 /dev/null\n", "fd 1 pipe:", "fd 2 pipe:", "fd 3 pipe:", "fd 4 pipe:", "comm worker_test\n", "score 1000\n",
		"core 0\n", "dir /\n", "leader true\n", "env LD_LIBRARY_PATH=/opt\n",
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("lacks %q", want)
		}
	}
	for _, not := range []string{"SECRET", "_OLD", "/dev/zero", "socket"} {
		if strings.Contains(string(got), not) {
			t.Errorf("has %q", not)
		}
	}
	if n := strings.Count(string(got), " pipe:"); n != 4 {
		t.Errorf("%d pipes", n)
	}
	nice, _ := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if want := fmt.Sprintf("nice %d\n", max(20-nice, niceness)); !strings.Contains(string(got), want) {
		t.Errorf("lacks %q", want)
	}
}

func TestContextEndsFirst(t *testing.T) {
	t.Parallel()
	p := newTest(t, "serve", func(o *Options) { o.Timeout, o.FirstTimeout = 5*time.Second, time.Minute })
	call(t, p, "echo x", "x")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := p.Call(ctx, []byte("hang")); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	short, cancelShort := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancelShort()
	if _, err := p.Call(short, []byte("echo x")); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the request before") {
		t.Fatal(err)
	}
	call(t, p, "echo waited", "waited") // for the end of the one that hangs
	if s := p.Statistics(); s.Failures[FailureHang] != 1 || s.Starts != 2 {
		t.Errorf("%+v", s)
	}
}

// TestRetirement has children that end in peace after each answer.
func TestRetirement(t *testing.T) {
	p := newTest(t, "serve", func(o *Options) { o.MinBackoff, o.MaxBackoff = time.Hour, time.Hour })
	for range 3 {
		call(t, p, "retire", "so long")
		waitUntil(t, "it is gone", func() bool { return !p.Running() })
	}
	if s := p.Statistics(); s.Starts != 3 || len(s.Failures) != 0 {
		t.Errorf("%+v", s)
	}
}

// TestFirstTimeout has a first request that takes longer than the others may.
func TestFirstTimeout(t *testing.T) {
	t.Parallel()
	p := newTest(t, "serve", func(o *Options) { o.Timeout, o.FirstTimeout = 200*time.Millisecond, time.Minute })
	call(t, p, "slow", "done")
	if _, err := p.Call(t.Context(), []byte("slow")); !errors.Is(err, ErrHung) {
		t.Error(err)
	}
	call(t, p, "slow", "done")
}

// The child is killed from outside while no request is made.
func TestIdleChildDies(t *testing.T) {
	p := newTest(t, "serve", nil)
	call(t, p, "echo x", "x")
	_ = unix.Kill(p.Statistics().PID, unix.SIGKILL)
	waitUntil(t, "it is noticed", func() bool { return p.Statistics().Failures[FailureCrash] == 1 && !p.Running() })
	call(t, p, "echo y", "y")
}

func TestLongRequest(t *testing.T) {
	p := newTest(t, "serve", nil)
	if _, err := p.Call(t.Context(), make([]byte, maxRequest+1)); err == nil || p.Statistics().Starts != 0 {
		t.Error(err)
	}
	word := strings.Repeat("x", maxRequest-len("echo "))
	call(t, p, "echo "+word, word)
}

// TestChildByHand checks what a user sees who runs the sub-command of a worker.
func TestChildByHand(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "as-child", "serve")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "file descriptor 3 is no pipe") {
		t.Errorf("%v: %s", err, out)
	}
}
