// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// lockHolder is set in the environment of a copy of this test that holds a lock until it dies.
const lockHolder = "GPUFABRIC_LOCK_HOLDER"

func TestLockDiesWithItsProcess(t *testing.T) {
	if path := os.Getenv(lockHolder); path != "" {
		lock, err := TakeLock(path)
		fmt.Fprintln(os.Stderr, "holds:", err)
		_, _ = io.Copy(io.Discard, os.Stdin)
		lock.Release()
		return
	}
	path := filepath.Join(t.TempDir(), "lock")
	holder := exec.Command(os.Args[0], "-test.run=^TestLockDiesWithItsProcess$")
	holder.Env = append(os.Environ(), lockHolder+"="+path)
	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stderr, err := holder.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stderr).ReadString('\n'); line != "holds: <nil>\n" {
		t.Errorf("the other process says %q, %v", line, err)
	}
	if lock, err := TakeLock(path); !errors.Is(err, ErrLocked) || lock != nil {
		t.Errorf("while another process holds it: %v", err)
	}
	_ = holder.Process.Signal(syscall.SIGKILL)
	_ = holder.Wait()
	lock, err := TakeLock(path)
	if err != nil {
		t.Fatalf("after it was killed: %v", err)
	}
	lock.Release()
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	first, err := TakeLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TakeLock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("twice: %v", err)
	}
	first.Release()
	second, err := TakeLock(path)
	if err != nil {
		t.Fatalf("after it was given back: %v", err)
	}
	defer second.Release()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || info.Size() != 0 {
		t.Errorf("%v, %v", info, err)
	}
	// A child must not hold it on.
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, second.file.Fd(), syscall.F_GETFD, 0)
	if errno != 0 || flags&syscall.FD_CLOEXEC == 0 {
		t.Errorf("flags %x, %v: it is inherited", flags, errno)
	}

	if err := os.Symlink(filepath.Join(dir, "target"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", dir, filepath.Join(dir, "link"), filepath.Join(dir, "fifo"), filepath.Join(dir, "no/no/lock"), "/proc/lock"} {
		if lock, err := TakeLock(bad); err == nil || errors.Is(err, ErrLocked) || lock != nil {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "target")); err == nil {
		t.Error("a symbolic link was followed")
	}
	// A deleted lock file excludes no process.
	old, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	second.Release()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := claim(old, path); err == nil {
		t.Error("a file that was removed is taken for the lock")
	}
}

// The check says why the lock could not be taken, and blocks no other process.
func TestCheckLock(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	if err := CheckLock(path); err != nil {
		t.Errorf("a folder that can be written: %v", err)
	}
	lock, err := TakeLock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if err := CheckLock(path); err != nil {
		t.Errorf("a lock that is held: %v", err)
	}
	if err := os.Symlink(path, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", filepath.Join(dir, "none", "none", "lock"), filepath.Join(path, "lock"), filepath.Join(dir, "link")} {
		if err := CheckLock(path); err == nil {
			t.Errorf("%q could be opened", path)
		}
	}
}
