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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestTaskIsKilled ends tasks during a request.
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
			if !errors.Is(end.Err, ErrKilled) || end.Failure != "" || end.Took <= 0 || end.Took > time.Minute || !gone(task.PID()) {
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
	task.c.requests, task.c.replies, task.c.log = p.requestsW, p.repliesR, new(logbook) // nothing answers
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
	if err := task.Close(); err == nil || !strings.Contains(err.Error(), "has not released it") {
		t.Error(err)
	}
	if _, is := task.End(); is {
		t.Error("it has ended")
	}
}

// TestHangingTaskIsStopped closes tasks that hang: SIGTERM ends one, SIGKILL the other.
func TestHangingTaskIsStopped(t *testing.T) {
	t.Parallel()
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

// A process that a child left behind may take long to die after it was killed, on a loaded machine or in a
// driver: it is reaped then.
func TestLateGrandchildIsReaped(t *testing.T) {
	late := exec.Command("sleep", "600")
	late.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := late.Start(); err != nil {
		t.Fatal(err)
	}
	reapGroup(late.Process.Pid)
	if gone(late.Process.Pid) {
		t.Fatal("it was ended")
	}
	_ = unix.Kill(late.Process.Pid, unix.SIGKILL)
	waitUntil(t, "it is no zombie", func() bool { return gone(late.Process.Pid) })
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
		fmt.Fprintln(os.Stdout, task.PID())
	}
	time.Sleep(time.Hour)
	runtime.KeepAlive(file)
	return 0
}

// Neither a task nor a lock outlives the exporter, whatever user the task runs as.
func TestParentOfTasksIsKilled(t *testing.T) {
	t.Run("its own user", parentOfTasksIsKilled)
	t.Run("another user", func(t *testing.T) {
		if err := canBe(User{ordinary, ordinary}); err != nil {
			t.Skip(err)
		}
		t.Setenv(switched, "1")
		parentOfTasksIsKilled(t)
	})
}

func parentOfTasksIsKilled(t *testing.T) {
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
	for i, pid := range pids {
		var status unix.WaitStatus
		waitUntil(t, "a task ends", func() bool {
			got, err := unix.Wait4(pid, &status, unix.WNOHANG, nil)
			return err == nil && got == pid
		})
		if byItself := i == 0 && status.Exited(); !byItself && status.Signal() != unix.SIGKILL { // -1: no signal
			t.Errorf("ended with status %#x, expected SIGKILL", status)
		}
	}
	t.Logf("gone %s after their parent", time.Since(begin).Round(time.Millisecond))
}

// TestManyTasks runs 200 tasks, eight at a time as the ranks of a node, that end in all ways.
func TestManyTasks(t *testing.T) {
	use := func(rank int) error {
		task, err := Start(t.Context(), optionsForTask("serve"))
		if err != nil {
			return err
		}
		switch rank % 4 {
		case 0:
			_, err = task.Call(t.Context(), []byte("echo x"))
		case 1:
			_, err = task.Call(t.Context(), []byte("log 1"))
			task.Kill("enough")
		case 2:
			if _, err = task.Call(t.Context(), []byte("exit bye")); errors.Is(err, ErrCrashed) {
				err = nil
			}
		}
		return errors.Join(err, task.Close())
	}
	run := func() {
		var ranks sync.WaitGroup
		for rank := range 8 {
			ranks.Go(func() {
				if err := use(rank); err != nil {
					t.Error(err)
				}
			})
		}
		ranks.Wait()
	}
	leavesNothing(t, "200 tasks", 25, 8, run)
}
