// SPDX-License-Identifier: Apache-2.0

// Package openat opens files below a directory that no path can leave, as os.Root does, with one system call
// for each path where the kernel has openat2(2).
//
// Concurrency: a Root may be used by any number of goroutines. Errors are those of os.Root.
package openat

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Root is a directory that no path leads out of. os.Root goes down a path and every link in it one openat(2) at a
// time, two dozen of them for a file of a PCI function; openat2(2) of Linux 5.6 does it in one. Whatever openat2
// refuses is left to os.Root: a path that leads out, a kernel or a sandbox that does not have it.
type Root struct {
	*os.Root
	dir      *os.File
	recorder Recorder // nil: nothing is recorded
}

// Open opens the directory at p.
func Open(p string) (*Root, error) {
	r, err := os.OpenRoot(p)
	if err != nil {
		return nil, err
	}
	dir, err := r.Open(".")
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	return &Root{Root: r, dir: dir}, nil
}

// Close closes the root, and no file that was opened below it.
func (r *Root) Close() error { return errors.Join(r.dir.Close(), r.Root.Close()) }

// FileSystem is the magic number of the file system that the root is on, see statfs(2).
func (r *Root) FileSystem() (int64, error) {
	var st unix.Statfs_t
	err := unix.Fstatfs(int(r.dir.Fd()), &st)
	return st.Type, err
}

// OpenDir opens a directory for reading.
func (r *Root) OpenDir(p string) (int, error) {
	r.look(p)
	const flags = unix.O_RDONLY | unix.O_DIRECTORY
	fd, err := r.openat2(p, flags)
	if !unanswered(err) {
		return fd, err
	}
	return dup(r.OpenFile(p, flags, 0))
}

// OpenAttr opens an attribute, which is a file, for reading. It follows no link at the end of the path, and
// does not wait for a writer of a FIFO.
func (r *Root) OpenAttr(p string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK
	fd, err := r.openat2(p, flags)
	if !unanswered(err) {
		return fd, err
	}
	return dup(r.OpenFile(p, flags, 0))
}

// dup returns a descriptor that no *os.File closes.
func dup(f *os.File, err error) (int, error) {
	if err != nil {
		return -1, err
	}
	defer f.Close()
	return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
}

// Stat is Stat of os.Root.
func (r *Root) Stat(p string) (Inode, error) {
	r.look(p)
	fd, err := r.openat2(p, unix.O_PATH)
	if unanswered(err) {
		return inodeOf(r.Root.Stat(p))
	}
	return inodeAt(fd, err)
}

// Lstat is Lstat of os.Root.
func (r *Root) Lstat(p string) (Inode, error) {
	r.look(p)
	fd, err := r.openat2(p, unix.O_PATH|unix.O_NOFOLLOW)
	if unanswered(err) {
		return inodeOf(r.Root.Lstat(p))
	}
	return inodeAt(fd, err)
}

// Inode distinguishes a file from all others that exist at the same time.
type Inode struct{ device, number uint64 }

func inodeOf(info fs.FileInfo, err error) (Inode, error) {
	if err != nil {
		return Inode{}, err
	}
	st := info.Sys().(*syscall.Stat_t)
	return Inode{st.Dev, st.Ino}, nil
}

// inodeAt takes the descriptor over.
func inodeAt(fd int, err error) (Inode, error) {
	if err != nil {
		return Inode{}, err
	}
	defer func() { _ = unix.Close(fd) }()
	return InodeOfFD(fd)
}

// InodeBelow returns what is at a path below an open directory.
func InodeBelow(at int, p string) (Inode, error) {
	var st unix.Stat_t
	err := unix.Fstatat(at, p, &st, unix.AT_SYMLINK_NOFOLLOW)
	return Inode{st.Dev, st.Ino}, err
}

// InodeOfFD returns what a descriptor is of.
func InodeOfFD(fd int) (Inode, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return Inode{st.Dev, st.Ino}, err
}

// Readlink is Readlink of os.Root.
func (r *Root) Readlink(p string) (string, error) {
	r.look(p)
	fd, err := r.openat2(p, unix.O_PATH|unix.O_NOFOLLOW)
	if unanswered(err) {
		return r.Root.Readlink(p)
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	target := make([]byte, 256)
	n, err := unix.Readlinkat(fd, "", target)
	if n == len(target) {
		target = make([]byte, unix.PathMax)
		n, err = unix.Readlinkat(fd, "", target)
	}
	if errors.Is(err, unix.ENOENT) { // how the empty path says that there is something, but no link
		err = unix.EINVAL
	}
	if err != nil {
		return "", &fs.PathError{Op: "readlinkat", Path: p, Err: err}
	}
	return string(target[:n]), nil
}

// unanswered reports whether openat2 has no answer that can be relied on.
func unanswered(err error) bool { return err != nil && !errors.Is(err, unix.ENOENT) }

func (r *Root) openat2(p string, flags uint64) (int, error) {
	raw, err := r.dir.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd, failed := -1, error(nil)
	err = raw.Control(func(at uintptr) { // keeps the root open meanwhile
		fd, failed = Retry(func() (int, error) {
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

// Retry repeats a system call that a signal interrupted: the Go runtime sends signals to its own threads.
func Retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
