// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// root is a directory that no path leads out of. os.Root goes down a path and every link in it one openat(2) at a
// time, two dozen of them for a file of a PCI function; openat2(2) of Linux 5.6 does it in one. Whatever openat2
// refuses is left to os.Root: a path that leads out, a kernel or a sandbox that does not have it.
type root struct {
	*os.Root
	dir *os.File
}

func openRoot(p string) (*root, error) {
	r, err := os.OpenRoot(p)
	if err != nil {
		return nil, err
	}
	dir, err := r.Open(".")
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	return &root{Root: r, dir: dir}, nil
}

// Close closes the root, and no file that was opened below it.
func (r *root) Close() error { return errors.Join(r.dir.Close(), r.Root.Close()) }

// openDir opens a directory for reading.
func (r *root) openDir(p string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY
	fd, err := r.openat2(p, flags)
	if !unanswered(err) {
		return fd, err
	}
	dir, err := r.OpenFile(p, flags, 0)
	if err != nil {
		return -1, err
	}
	defer dir.Close()
	return unix.FcntlInt(dir.Fd(), unix.F_DUPFD_CLOEXEC, 0)
}

// Stat is Stat of os.Root.
func (r *root) Stat(p string) (inode, error) {
	fd, err := r.openat2(p, unix.O_PATH)
	if unanswered(err) {
		return inodeOf(r.Root.Stat(p))
	}
	return inodeAt(fd, err)
}

// Lstat is Lstat of os.Root.
func (r *root) Lstat(p string) (inode, error) {
	fd, err := r.openat2(p, unix.O_PATH|unix.O_NOFOLLOW)
	if unanswered(err) {
		return inodeOf(r.Root.Lstat(p))
	}
	return inodeAt(fd, err)
}

// inode tells a file from any other that exists at the same time.
type inode struct{ device, number uint64 }

func inodeOf(info fs.FileInfo, err error) (inode, error) {
	if err != nil {
		return inode{}, err
	}
	st := info.Sys().(*syscall.Stat_t)
	return inode{st.Dev, st.Ino}, nil
}

// inodeAt takes the descriptor over.
func inodeAt(fd int, err error) (inode, error) {
	if err != nil {
		return inode{}, err
	}
	defer func() { _ = unix.Close(fd) }()
	return inodeOfFD(fd)
}

// inodeBelow tells what is at a path below an open directory.
func inodeBelow(at int, p string) (inode, error) {
	var st unix.Stat_t
	err := unix.Fstatat(at, p, &st, unix.AT_SYMLINK_NOFOLLOW)
	return inode{st.Dev, st.Ino}, err
}

func inodeOfFD(fd int) (inode, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return inode{st.Dev, st.Ino}, err
}

// Readlink is Readlink of os.Root.
func (r *root) Readlink(p string) (string, error) {
	fd, err := r.openat2(p, unix.O_PATH|unix.O_NOFOLLOW)
	if unanswered(err) {
		return r.Root.Readlink(p)
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	target := scratch.Get().(*[8192]byte)
	defer scratch.Put(target)
	n, err := unix.Readlinkat(fd, "", target[:])
	if errors.Is(err, unix.ENOENT) { // how the empty path says that there is something, but no link
		err = unix.EINVAL
	}
	if err != nil {
		return "", &fs.PathError{Op: "readlinkat", Path: p, Err: err}
	}
	return string(target[:n]), nil
}

// unanswered tells that openat2 has no answer that can be relied on.
func unanswered(err error) bool { return err != nil && !errors.Is(err, unix.ENOENT) }

func (r *root) openat2(p string, flags uint64) (int, error) {
	raw, err := r.dir.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd, failed := -1, error(nil)
	err = raw.Control(func(at uintptr) { // keeps the root open meanwhile
		fd, failed = retry(func() (int, error) {
			return unix.Openat2(int(at), p, &unix.OpenHow{
				Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
			})
		})
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return -1, &fs.PathError{Op: "openat2", Path: p, Err: err}
	}
	return fd, nil
}
