// SPDX-License-Identifier: Apache-2.0

//go:build hang

package hang

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// behaviour is what happens to a request before it is answered. It gets the text of the file if that is read.
type behaviour func(text []byte) ([]byte, error)

// hang answers once released is closed.
func hang(released <-chan struct{}) behaviour {
	return func(text []byte) ([]byte, error) {
		<-released
		return text, nil
	}
}

func fail(err unix.Errno) behaviour {
	return func([]byte) ([]byte, error) { return nil, err }
}

func slow(by time.Duration) behaviour {
	return func(text []byte) ([]byte, error) {
		time.Sleep(by)
		return text, nil
	}
}

// tick adds to a counter with every read.
func tick() behaviour {
	var ticks atomic.Uint64
	return func(text []byte) ([]byte, error) {
		n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
		return append(strconv.AppendUint(nil, n+ticks.Add(1), 10), '\n'), err
	}
}

// guarded is the mount point that a child process guards.
const guarded = "GPUFABRIC_TEST_HANG_GUARD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(guarded); dir != "" {
		waitAndAbort(dir)
		return
	}
	if os.Getenv(child) != "" {
		if code := runChild(); code != 0 {
			panic(code) // which its parent sees
		}
		return
	}
	m.Run()
}

// guard starts a process that aborts the mount when this one dies before it could. Else a thread that hangs in
// the file system that its own process serves could never end, not even by SIGKILL.
func guard(t *testing.T, dir string) {
	t.Helper()
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), guarded+"="+dir)
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	started, stop, stopped := make(chan error), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		runtime.LockOSThread() // whose death signals the child
		defer runtime.UnlockOSThread()
		ready, err := child.StdoutPipe()
		if err == nil {
			err = child.Start()
		}
		if err == nil {
			_, err = ready.Read(make([]byte, 1))
		}
		started <- err
		<-stop
		if child.Process != nil {
			child.Process.Kill()
			child.Wait()
		}
	}()
	if err := <-started; err != nil {
		close(stop)
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(stop)
		<-stopped
	})
}

func waitAndAbort(dir string) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGTERM)
	signal.Ignore(syscall.SIGINT, syscall.SIGQUIT)
	os.Stdout.Write([]byte{'!'})
	<-died
	unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH)
}
