// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"gpufabric_exporter/internal/ownership"
)

// ErrLocked says that another process holds the lock.
var ErrLocked = errors.New("another prober of this node is running")

// Lock is a file that one process of the node holds. Beside the state file it is all that probes write: an empty file
// that stays, and its folder if there is none yet. The kernel releases it when the process dies, however it does.
//
// It is node-wide as long as all probers see the same folder: a container needs that of the host. The folder belongs
// to one user: the prober of another one is refused, and does not probe without the lock. Probers with different lock
// files do not see each other's lock, but each other's processes on the GPUs.
type Lock struct{ file *os.File }

// TakeLock takes the lock at once or fails, with ErrLocked if another has it. The folder is made (0700) if only it is
// missing. Folder and file must be out of reach of other users, because who can open the file can lock it; symbolic
// links are not followed.
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
	if err := lockFolder(filepath.Dir(path)); err != nil {
		return nil,
			fmt.Errorf("lock file: %w (probes.lock_file needs a folder that belongs to the user of this process or root, and to which no one else may write)", err)
	}
	// Go opens with O_CLOEXEC: a worker that outlives this process must not hold the lock on.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil,
			fmt.Errorf("lock file: %w (probes of a node run as one user, which may write to the folder of probes.lock_file)",
				err)
	}
	return f, nil
}

// lockFolder makes the folder if only it is missing, and says why others could get at what is in it: the folder and
// those above it belong to root or the user of this process, and others may not write to them. A sticky folder such as
// /tmp may be above it, where they cannot replace what is not theirs.
func lockFolder(dir string) error {
	above := filepath.Dir(dir)
	_, err := ownership.Check("/", above)
	if at, e := filepath.EvalSymlinks(above); err != nil && e == nil && sticky(at) { // it may be a link: /var/run is one
		_, err = ownership.Check("/", filepath.Dir(above))
		if err == nil {
			_, err = ownership.Check("/", filepath.Dir(at))
		}
	}
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is %s, expected a folder", dir, kindOf(info))
	}
	return ours(dir, info)
}

// sticky reports whether only root and the user of this process can replace what others made in a folder.
func sticky(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode()&fs.ModeSticky == 0 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}

// ours returns an error if others could change a file.
func ours(path string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return fmt.Errorf("%s: no owner", path)
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d, expected 0 or %d: probes of a node run as one user", path, st.Uid,
			os.Geteuid())
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s has mode %v: others may write to it", path, info.Mode())
	}
	return nil
}

func kindOf(info fs.FileInfo) string {
	switch info.Mode().Type() {
	case 0:
		return "a file"
	case fs.ModeSymlink:
		return "a symbolic link"
	}
	return info.Mode().Type().String()
}

func claim(f *os.File, path string) error {
	held, err := f.Stat()
	if err != nil {
		return fmt.Errorf("lock file: %w", err)
	}
	if !held.Mode().IsRegular() {
		return fmt.Errorf("lock file: %s is %s, expected a regular file", path, held.Mode().Type())
	}
	if err := ours(path, held); err != nil {
		return fmt.Errorf("lock file: %w", err)
	}
	if held.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("lock file: %s has mode %v: others may lock it (chmod 600)", path, held.Mode())
	}
	err = flock(f)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return fmt.Errorf("%w: it holds %s", ErrLocked, path)
	case err != nil:
		return fmt.Errorf("lock file %s: %w", path, err)
	}
	// The owner may have replaced the file in the meantime; then two could hold what they think is the lock.
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
	if err := raw.Control(func(fd uintptr) {
		locked = syscall.Flock(int(fd),
			syscall.LOCK_EX|syscall.LOCK_NB)
	}); err != nil {
		return err
	}
	return locked
}

// Release gives the lock back.
func (l *Lock) Release() { _ = l.file.Close() }
