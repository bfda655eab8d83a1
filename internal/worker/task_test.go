// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// asTask is the process of a Task.
func asTask(kind string) int {
	var limits Limits
	switch kind {
	case "serve":
	case "limited":
		limits = Limits{Niceness: 10, OpenFiles: 64, AddressSpace: 1 << 46, CPU: 700 * time.Millisecond}
	case "private":
		limits = Limits{Private: true}
	case "cannot be limited": // because it cannot open a file
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{})
	case "closes all pipes":
		for fd := range logFD + 1 {
			_ = unix.Close(fd)
		}
		for {
			time.Sleep(time.Hour)
		}
	default:
		return asChild(kind)
	}
	if err := TaskChild(context.Background(), "task_test", limits, handleTaskForTest); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func handleTaskForTest(ctx context.Context, request []byte) ([]byte, error) {
	verb, rest, _ := strings.Cut(string(request), " ")
	switch verb {
	case "log": // as a library does that was given the name of a file
		f, err := os.OpenFile(LogFile, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		fmt.Fprintln(f, "first line")
		block := []byte(strings.Repeat("0123456789abcde\n", 4<<10))
		blocks, _ := strconv.Atoi(rest)
		for range blocks {
			if _, err := f.Write(block); err != nil {
				return nil, err
			}
		}
		_, err = fmt.Fprintln(f, "last line")
		return []byte("logged"), err
	case "share":
		return nil, share(rest, os.O_CREATE|os.O_EXCL)
	case "use":
		return nil, share(rest, 0)
	case "listing":
		return []byte(listing(rest)), nil
	case "spin":
		for ctx.Err() == nil {
		}
	case "limits":
		var b strings.Builder
		for _, r := range []int{unix.RLIMIT_CORE, unix.RLIMIT_NOFILE, unix.RLIMIT_AS, unix.RLIMIT_CPU} {
			var l unix.Rlimit
			if err := unix.Getrlimit(r, &l); err != nil {
				return nil, err
			}
			fmt.Fprintln(&b, l.Cur, l.Max)
		}
		return []byte(b.String()), nil
	case "dumpable":
		n, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		return []byte(strconv.Itoa(n)), err
	case "grandchild": // in the same group, with all pipes
		cmd := exec.Command("/bin/sleep", "600")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		for _, fd := range []int{requestsFD, repliesFD, logFD} {
			another, err := unix.Dup(fd)
			if err != nil {
				return nil, err
			}
			cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(another), ""))
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		return []byte(strconv.Itoa(cmd.Process.Pid)), nil
	}
	return handleForTest(ctx, request)
}

// quick is the environment of children that do not wait for a second at their end, as the race detector has them do.
func quick() []string { return []string{"GORACE=atexit_sleep_ms=0"} }

// switched is set in the environment of test processes whose tasks are of another user.
const switched = "GPUFABRIC_TEST_SWITCHED"

func optionsForTask(kind string) Options {
	o := Options{Name: "test", Path: "/proc/self/exe", Args: []string{"test", "as-task", kind}, Env: quick(), Timeout: time.Minute, Grace: 10 * time.Second}
	if os.Getenv(switched) != "" {
		o.User = func() *User { return &User{ordinary, ordinary} }
	}
	return o
}

func startTest(t *testing.T, kind string, change func(*Options)) *Task {
	t.Helper()
	o := optionsForTask(kind)
	if change != nil {
		change(&o)
	}
	task, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := task.Close(); err != nil {
			t.Error(err)
		}
	})
	return task
}

// TestPrivate keeps other processes of the user out of a task that wants it.
func TestPrivate(t *testing.T) {
	for kind, want := range map[string]string{"serve": "1", "private": "0"} {
		if got, err := startTest(t, kind, nil).Call(t.Context(), []byte("dumpable")); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", kind, got, err)
		}
	}
}

func callTask(t *testing.T, task *Task, request, want string) {
	t.Helper()
	if got, err := task.Call(t.Context(), []byte(request)); err != nil || want != "" && string(got) != want {
		t.Fatalf("%q: got %q, %v, expected %q", request, got, err, want)
	}
}

// ended waits for the end of the task.
func ended(t *testing.T, task *Task) End {
	t.Helper()
	waitUntil(t, "the task ends", func() bool { _, is := task.End(); return is })
	<-task.Done()
	end, _ := task.End()
	return end
}

func gone(pid int) bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

func TestTask(t *testing.T) {
	task := startTest(t, "serve", nil)
	callTask(t, task, "pid", strconv.Itoa(task.PID()))
	callTask(t, task, "echo hello", "hello")
	if _, err := task.Call(t.Context(), []byte("refuse")); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	callTask(t, task, "log 0", "logged")
	if end, is := task.End(); is {
		t.Errorf("it has ended: %+v", end)
	}
	var closing sync.WaitGroup
	for range 3 {
		closing.Go(func() {
			if err := task.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	closing.Wait()
	end := ended(t, task)
	if !errors.Is(end.Err, ErrClosed) || end.Failure != "" || end.Took <= 0 || !gone(task.PID()) {
		t.Errorf("%+v", end)
	}
	if log := task.Log(); log.String() != "first line\nlast line\n" || log.Bytes != 21 || len(log.Tail) != 0 {
		t.Errorf("%+v", log)
	}
	if _, err := task.Call(t.Context(), []byte("echo")); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	task.Kill("too late")
	if again := ended(t, task); !errors.Is(again.Err, ErrClosed) {
		t.Errorf("%+v", again)
	}
}

// TestTaskFailures makes tasks fail. None is started again.
func TestTaskFailures(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what, kind, request string
		timeout             time.Duration
		is                  error
		text                string
		failure             Failure
	}{
		{"ends at start", "crash at start", "echo", 10 * time.Minute, ErrCrashed, "exit status 3: cannot go on", FailureCrash},
		{"is killed", "serve", "segv", 10 * time.Minute, ErrCrashed, "signal: killed: SIGSEGV: segmentation violation", FailureCrash},
		{"ends well unasked", "serve", "exit so long", 10 * time.Minute, ErrCrashed, "exit status 4: worker: so long", FailureCrash},
		{"hangs", "serve", "hang", time.Second, ErrHung, "no answer within 1s", FailureHang},
		{"hangs and ignores SIGTERM", "stubborn", "hang", time.Second, ErrHung, "no answer within 1s", FailureHang},
		{"sends garbage", "garbage", "echo", 10 * time.Minute, ErrCrashed, "not a frame", FailureProtocol},
		{"closes its pipe and stays", "closes its pipe", "echo", 10 * time.Minute, ErrCrashed, "its pipe broke: EOF", FailureProtocol},
		{"closes all its pipes and stays", "closes all pipes", "echo", 10 * time.Minute, ErrCrashed, "its pipe broke: ", FailureProtocol},
		{"has no time left", "limited", "spin", 10 * time.Minute, ErrCrashed, "signal: killed", FailureCrash},
		{"leaves an orphan with its pipes", "serve", "orphan", 10 * time.Minute, ErrCrashed, "exit status 5", FailureCrash},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			task := startTest(t, test.kind, func(o *Options) {
				o.Timeout = test.timeout
				if test.failure == FailureProtocol {
					o.Grace = 2 * time.Second // how long its end is waited for
				}
			})
			request := test.request
			if request == "orphan" {
				file := filepath.Join(t.TempDir(), "pid")
				request += " " + file
				defer killOrphan(t, file)
			}
			for range 2 {
				if _, err := task.Call(t.Context(), []byte(request)); !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.text) {
					t.Errorf("got %v, expected %v with %q", err, test.is, test.text)
				}
			}
			end := ended(t, task)
			if !errors.Is(end.Err, test.is) || !strings.Contains(end.Err.Error(), test.text) || end.Failure != test.failure || !gone(task.PID()) {
				t.Errorf("%+v", end)
			}
			if weEnded := test.failure != FailureCrash; weEnded != (end.Took > 0) {
				t.Errorf("took %s", end.Took)
			}
		})
	}
}

func TestTaskIsNotStarted(t *testing.T) {
	f0, _, _, c0 := resources()
	o := optionsForTask("serve")
	o.Path = "/nonexistent"
	if task, err := Start(t.Context(), o); task != nil || !errors.Is(err, ErrCrashed) || !strings.Contains(err.Error(), "not started: ") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if task, err := Start(ctx, optionsForTask("serve")); task != nil || err == nil || !strings.Contains(err.Error(), "not started: enough") {
		t.Error(err)
	}
	if f1, _, _, c1 := resources(); f1 > f0 || c1 > c0 {
		t.Errorf("%d more fds, %d more children", f1-f0, c1-c0)
	}
}

// TestTaskSurroundings proves what a task inherits, and what binds it.
func TestTaskSurroundings(t *testing.T) {
	t.Setenv("SECRET", "password")
	task := startTest(t, "limited", func(o *Options) { o.Env = []string{"NCCL_DEBUG_FILE=" + LogFile} })
	got, err := task.Call(t.Context(), []byte("status"))
	if err != nil {
		t.Fatal(err)
	}
	nice, _ := unix.Getpriority(unix.PRIO_PROCESS, 0)
	for _, want := range []string{
		"fd 0 /dev/null\n", "fd 1 pipe:", "fd 2 pipe:", "fd 3 pipe:", "fd 4 pipe:", "fd 5 pipe:", "comm task_test\n", "score 1000\n",
		"dir /\n", "leader true\n", "env NCCL_DEBUG_FILE=/proc/self/fd/5\n", fmt.Sprintf("nice %d\n", max(20-nice, 10)),
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(string(got), "SECRET") || strings.Count(string(got), " pipe:") != 5 {
		t.Errorf("%s", got)
	}
	callTask(t, task, "limits", fmt.Sprintln("0 0\n64 64\n70368744177664 70368744177664\n1 1"))
}

// TestTaskIsNotLimited has a process that cannot bind itself: it does nothing.
func TestTaskIsNotLimited(t *testing.T) {
	task := startTest(t, "cannot be limited", nil)
	for range 2 {
		if _, err := task.Call(t.Context(), []byte("echo x")); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "not confined: open /proc/self/oom_score_adj") {
			t.Error(err)
		}
	}
}

// A library that logs a GiB costs no memory and delays no caller.
func TestTaskLog(t *testing.T) {
	const line, size = "0123456789abcde\n", 1 << 28
	task := startTest(t, "serve", func(o *Options) { o.Timeout = 10 * time.Minute })
	callTask(t, task, "echo x", "x")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin, rss := time.Now(), resident(t)
	callTask(t, task, "log "+strconv.Itoa(size/(64<<10)), "logged")
	runtime.ReadMemStats(&after)
	t.Logf("%s, allocated %d KiB, RSS %d KiB more", time.Since(begin).Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)>>10, (resident(t)-rss)>>10)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("allocated %d bytes", grown)
	}
	if grown := resident(t) - rss; grown > 8<<20 {
		t.Errorf("%d bytes more are resident", grown)
	}
	if err := task.Close(); err != nil {
		t.Fatal(err)
	}
	log, text := task.Log(), task.Log().String()
	if log.Bytes != size+21 || len(log.Head) != keptOfLog || len(log.Tail) != keptOfLog {
		t.Errorf("%d bytes, %d and %d kept", log.Bytes, len(log.Head), len(log.Tail))
	}
	if !strings.HasPrefix(text, "first line\n"+line) || !strings.HasSuffix(text, line+"last line\n") ||
		!strings.Contains(text, fmt.Sprintf("\n[%d bytes left out]\n", size+21-2*keptOfLog)) {
		t.Errorf("%.100s ... %s", text, text[len(text)-100:])
	}
}

// resident is the memory of this process in bytes.
func resident(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	f := strings.Fields(string(b))
	if err != nil || len(f) < 2 {
		t.Fatal(err)
	}
	pages, _ := strconv.Atoi(f[1])
	return pages * os.Getpagesize()
}

func TestLogbook(t *testing.T) {
	var all []byte
	var l logbook
	for n := range 400 { // 0 to 399*7 bytes at a time, more than four times what is kept
		p := []byte(strings.Repeat(strconv.Itoa(n), n*7)[:n*7])
		_, _ = l.Write(p)
		all = append(all, p...)
		if n%7 != 0 {
			continue
		}
		e := l.excerpt()
		head := min(len(all), keptOfLog)
		tail := min(len(all)-head, keptOfLog)
		if e.Bytes != uint64(len(all)) || !slices.Equal(e.Head, all[:head]) || !slices.Equal(e.Tail, all[len(all)-tail:]) {
			t.Fatalf("after %d bytes: %d, %d and %d are kept", len(all), e.Bytes, len(e.Head), len(e.Tail))
		}
	}
	_, _ = l.Write(all) // at once
	if e := l.excerpt(); len(all) < 4*keptOfLog || !slices.Equal(e.Tail, all[len(all)-keptOfLog:]) || e.Bytes != uint64(2*len(all)) {
		t.Errorf("%d of %d", e.Bytes, len(all))
	}
}
