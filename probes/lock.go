// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrLocked says that another process holds the lock.
var ErrLocked = errors.New("another prober of this node runs")

// Lock is a file that one process of the node holds. Beside the state file it is all that probes write: an empty file
// that stays. The kernel lets go of it when the process dies, however it does.
//
// It is node-wide as long as all probers see the same folder: a container needs that of the host.
type Lock struct{ file *os.File }

// TakeLock takes the lock at once or fails, with ErrLocked if another has it. A symbolic link is not followed, and nobody
// else may open the file: who can open it can lock it.
func TakeLock(path string) (*Lock, error) {
	f, err := openLock(path)
	if err != nil {
		return nil, err
	}
	if err := claim(f, path); err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return &Lock{f}, nil
}

// CheckLock says why no process could take the lock. It makes the file and does not take the lock.
func CheckLock(path string) error {
	f, err := openLock(path)
	if err != nil {
		return err
	}
	return f.Close()
}

func openLock(path string) (*os.File, error) {
	if path == "" {
		return nil, errors.New("no lock file is configured")
	}
	// Go opens with O_CLOEXEC: a worker that outlives this process must not hold the lock on.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock file: %w", err)
	}
	return f, nil
}

func claim(f *os.File, path string) error {
	held, err := f.Stat()
	if err != nil {
		return fmt.Errorf("lock file: %w", err)
	}
	if !held.Mode().IsRegular() {
		return fmt.Errorf("lock file: %s is %s, expected a regular file", path, held.Mode().Type())
	}
	err = flock(f)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return fmt.Errorf("%w: it holds %s", ErrLocked, path)
	case err != nil:
		return fmt.Errorf("lock file %s: %w", path, err)
	}
	// Somebody may have replaced the file in the meantime; then two could hold what they think is the lock.
	if now, err := os.Lstat(path); err != nil || !os.SameFile(held, now) {
		return fmt.Errorf("lock file: %s was replaced while it was taken", path)
	}
	return nil
}

func flock(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var locked error
	if err := raw.Control(func(fd uintptr) { locked = syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB) }); err != nil {
		return err
	}
	return locked
}

// Release gives the lock back.
func (l *Lock) Release() { _ = l.file.Close() }
