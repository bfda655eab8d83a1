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
	case "cannot be limited": // because it cannot open a file
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{})
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
	case "spin":
		for ctx.Err() == nil {
		}
	case "limits":
		text := ""
		for _, r := range []int{unix.RLIMIT_CORE, unix.RLIMIT_NOFILE, unix.RLIMIT_AS, unix.RLIMIT_CPU} {
			var l unix.Rlimit
			if err := unix.Getrlimit(r, &l); err != nil {
				return nil, err
			}
			text += fmt.Sprintln(l.Cur, l.Max)
		}
		return []byte(text), nil
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

func optionsForTask(kind string) Options {
	return Options{Name: "test", Path: "/proc/self/exe", Args: []string{"test", "as-task", kind}, Timeout: time.Minute, Grace: 10 * time.Second}
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
	for _, test := range []struct {
		what, kind, request string
		timeout             time.Duration
		is                  error
		text                string
		failure             Failure
	}{
		{"ends at start", "crash at start", "echo", time.Minute, ErrCrashed, "exit status 3: cannot go on", FailureCrash},
		{"is killed", "serve", "segv", time.Minute, ErrCrashed, "signal: killed: SIGSEGV: segmentation violation", FailureCrash},
		{"ends well unasked", "serve", "exit so long", time.Minute, ErrCrashed, "exit status 4: worker: so long", FailureCrash},
		{"hangs", "serve", "hang", time.Second, ErrHung, "no answer within 1s", FailureHang},
		{"hangs and ignores SIGTERM", "stubborn", "hang", time.Second, ErrHung, "no answer within 1s", FailureHang},
		{"sends garbage", "garbage", "echo", time.Minute, ErrCrashed, "not a frame", FailureProtocol},
		{"closes its pipe and stays", "closes its pipe", "echo", time.Minute, ErrCrashed, "its pipe broke: EOF", FailureProtocol},
		{"has no time left", "limited", "spin", time.Minute, ErrCrashed, "signal: killed", FailureCrash},
		{"leaves an orphan with its pipes", "serve", "orphan", time.Minute, ErrCrashed, "exit status 5", FailureCrash},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			task := startTest(t, test.kind, func(o *Options) {
				o.Timeout = test.timeout
				if test.kind == "closes its pipe" {
					o.Grace = 100 * time.Millisecond // so long it is waited for the end of such a one
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

// TestTaskLog has a library log a GiB: it costs no memory and keeps nobody waiting.
func TestTaskLog(t *testing.T) {
	const line, size = "0123456789abcde\n", 1 << 30
	task := startTest(t, "serve", nil)
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

// TestTaskIsKilled ends tasks that are in the midst of a request.
func TestTaskIsKilled(t *testing.T) {
	for _, kind := range []string{"serve", "stubborn"} {
		t.Run(kind, func(t *testing.T) {
			task, file := startTest(t, kind, nil), filepath.Join(t.TempDir(), "hangs")
			failed := make(chan error, 1)
			go func() {
				_, err := task.Call(context.Background(), []byte("hang "+file))
				failed <- err
			}()
			waitUntil(t, "the child hangs", func() bool { _, err := os.Stat(file); return err == nil })
			begin := time.Now()
			task.Kill("an intruder")
			killing := time.Since(begin)
			err := <-failed
			if !errors.Is(err, ErrKilled) || !strings.Contains(err.Error(), "an intruder") {
				t.Error(err)
			}
			returned := time.Since(begin)
			end := ended(t, task)
			t.Logf("Kill took %s, Call returned after %s, reaped after %s", killing, returned, end.Took)
			if !errors.Is(end.Err, ErrKilled) || end.Failure != "" || end.Took <= 0 || end.Took > 10*time.Second || !gone(task.PID()) {
				t.Errorf("%+v", end)
			}
			if _, err := task.Call(t.Context(), []byte("echo")); !errors.Is(err, ErrKilled) {
				t.Error(err)
			}
		})
	}
}

// TestKernelHoldsTask has a task that was killed and does not go, as one does that hangs in a driver.
func TestKernelHoldsTask(t *testing.T) {
	o := optionsForTask("serve").complete()
	o.Grace = 10 * time.Millisecond
	task := &Task{c: newChild(o), queue: newQueue(o.Name)}
	p, err := openPipes(true)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	task.c.requests, task.c.replies, task.c.log = p.requestsW, p.repliesR, new(logbook) // nobody answers
	failed := make(chan error, 1)
	go func() {
		_, err := task.Call(t.Context(), []byte("echo"))
		failed <- err
	}()
	waitUntil(t, "the request is out", func() bool { return len(task.queue.turn) == 1 })
	task.Kill("an intruder")
	if err := <-failed; !errors.Is(err, ErrKilled) { // long before the time limit of the request
		t.Error(err)
	}
	if err := task.Close(); err == nil || !strings.Contains(err.Error(), "does not let it go") {
		t.Error(err)
	}
	if _, is := task.End(); is {
		t.Error("it has ended")
	}
}

// TestTaskStopsHanging closes tasks that hang: SIGTERM ends one, SIGKILL the other.
func TestTaskStopsHanging(t *testing.T) {
	const grace = 300 * time.Millisecond
	for kind, least := range map[string]time.Duration{"serve": grace, "stubborn": 2 * grace} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			o, file := optionsForTask(kind), filepath.Join(t.TempDir(), "hangs")
			o.Grace = grace
			task, err := Start(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			impatient, giveUp := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() {
				_, err := task.Call(impatient, []byte("hang "+file))
				failed <- err
			}()
			waitUntil(t, "the child hangs", func() bool { _, err := os.Stat(file); return err == nil })
			giveUp()
			if err := <-failed; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if end, is := task.End(); is {
				t.Errorf("it has ended: %+v", end)
			}
			cancel(errors.New("the exporter ends")) // which is as Close
			end := ended(t, task)
			if !errors.Is(end.Err, ErrClosed) || !strings.Contains(end.Err.Error(), "the exporter ends") || end.Took < least {
				t.Errorf("%+v, expected at least %s", end, least)
			}
		})
	}
}

// TestGrandchildIsKilled has tasks that start something with all of their pipes, which falls to this process as it
// does to the init of a container.
func TestGrandchildIsKilled(t *testing.T) {
	adoptOrphans(t)
	for _, end := range []struct {
		how string
		do  func(*Task)
	}{
		{"closed", func(task *Task) { task.Close() }},
		{"killed", func(task *Task) { task.Kill("enough") }},
		{"killed by another", func(task *Task) { _ = unix.Kill(task.PID(), unix.SIGKILL) }},
		{"crashed", func(task *Task) { _, _ = task.Call(t.Context(), []byte("exit")) }},
	} {
		task := startTest(t, "serve", nil)
		text, err := task.Call(t.Context(), []byte("grandchild"))
		pid, _ := strconv.Atoi(string(text))
		if err != nil || pid <= 1 || gone(pid) {
			t.Fatal(err)
		}
		end.do(task)
		ended(t, task)
		waitUntil(t, end.how+": the grandchild is gone, and no zombie", func() bool { return gone(pid) })
	}
}

// adoptOrphans makes this process the parent of all that its children leave.
func adoptOrphans(t *testing.T) {
	t.Helper()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
}

// asParentOfTasks holds a lock, has three tasks that hang, says their pids and waits for its own end.
func asParentOfTasks(lock string) int {
	file, err := os.Create(lock)
	if err == nil {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, kind := range []string{"serve", "stubborn", "closes its pipe"} {
		task, err := Start(context.Background(), optionsForTask(kind))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if kind == "serve" {
			if _, err := task.Call(context.Background(), []byte("echo")); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
		go func() { _, _ = task.Call(context.Background(), []byte("hang")) }()
		fmt.Println(task.PID())
	}
	time.Sleep(time.Hour)
	runtime.KeepAlive(file)
	return 0
}

// TestParentOfTasksIsKilled proves that neither a task nor a lock outlives the exporter.
func TestParentOfTasksIsKilled(t *testing.T) {
	adoptOrphans(t)
	lock := filepath.Join(t.TempDir(), "lock")
	parent := exec.Command("/proc/self/exe", "as-parent-of-tasks", lock)
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pids [3]int
	for i := range pids {
		if _, err := fmt.Fscan(out, &pids[i]); err != nil || pids[i] <= 1 {
			t.Fatal(pids, err)
		}
	}
	file, err := os.Open(lock)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Fatal("the lock is free: ", err)
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	begin := time.Now()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Error("the lock is held: ", err)
	}
	for _, pid := range pids {
		var status unix.WaitStatus
		waitUntil(t, "a task ends", func() bool {
			got, err := unix.Wait4(pid, &status, unix.WNOHANG, nil)
			return err == nil && got == pid
		})
		if !status.Signaled() || status.Signal() != unix.SIGKILL {
			t.Errorf("ended with status %#x, expected SIGKILL", status)
		}
	}
	t.Logf("gone %s after their parent", time.Since(begin).Round(time.Millisecond))
}

// TestManyTasks runs 200 tasks, eight at a time as the ranks of a node, that end in all ways.
func TestManyTasks(t *testing.T) {
	run := func() {
		var ranks sync.WaitGroup
		for rank := range 8 {
			ranks.Go(func() {
				task := startTest(t, "serve", nil)
				switch rank % 4 {
				case 0:
					callTask(t, task, "echo x", "x")
				case 1:
					callTask(t, task, "log 1", "logged")
					task.Kill("enough")
				case 2:
					if _, err := task.Call(t.Context(), []byte("exit bye")); !errors.Is(err, ErrCrashed) {
						t.Error(err)
					}
				}
				if err := task.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		ranks.Wait()
	}
	run()
	waitUntil(t, "goroutines end", func() bool { _, _, g, _ := resources(); return g < 20 })
	f0, t0, g0, c0 := resources()
	for range 25 {
		run()
	}
	waitUntil(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= g0 })
	f1, t1, g1, c1 := resources()
	t.Logf("before and after 200 tasks: fds %d %d, threads %d %d, goroutines %d %d, children %d %d", f0, f1, t0, t1, g0, g1, c0, c1)
	if f1 > f0 || t1 > t0+8 || c1 > c0 {
		t.Error("something is left of them")
	}
}
