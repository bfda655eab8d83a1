// SPDX-License-Identifier: Apache-2.0

package openat

import (
	"errors"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// ResolveCached is RESOLVE_CACHED of linux/openat2.h, Linux 5.12.
const ResolveCached = 0x20

// DirInRoot opens a directory of another mount namespace for reading, as PathInRoot finds it.
func DirInRoot(root int, p string, more uint64) (int, error) {
	at, err := PathInRoot(root, p, more)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(at) }()
	fd, err := Retry(func() (int, error) {
		return unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return -1, &fs.PathError{Op: "openat", Path: p, Err: err}
	}
	return fd, nil
}

// PathInRoot returns a descriptor that stands for a path of another mount namespace (O_PATH), below the
// descriptor of its root: nothing is opened. Links lead to where they lead for the processes there, and never
// out of it; magic links are refused. more are flags for resolving beside those, such as RESOLVE_CACHED.
//
// Without openat2(2), before Linux 5.6 and behind a filter (RestrictSUIDSGID of systemd), a link on the way
// or at the end is ELOOP, and RESOLVE_CACHED is ENOSYS.
func PathInRoot(root int, p string, more uint64) (int, error) {
	fd, err := Retry(func() (int, error) {
		return unix.Openat2(root, p, &unix.OpenHow{
			Flags:   unix.O_PATH | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | more,
		})
	})
	if (errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM)) && more&ResolveCached == 0 {
		fd, err = walk(root, p)
	}
	if err != nil {
		return -1, &fs.PathError{Op: "openat2", Path: p, Err: err}
	}
	return fd, nil
}

// walk goes down a path one component at a time, none of which may be a link.
func walk(root int, p string) (int, error) {
	at, err := unix.FcntlInt(uintptr(root), unix.F_DUPFD_CLOEXEC, 0)
	for name := range strings.SplitSeq(strings.Trim(p, "/"), "/") {
		if err != nil {
			break
		}
		at, err = step(at, name)
	}
	return at, err
}

// step takes over the descriptor of a directory, and returns that of what is in it.
func step(dir int, name string) (int, error) {
	defer func() { _ = unix.Close(dir) }()
	if name == ".." {
		return -1, unix.EXDEV
	}
	fd, err := Retry(func() (int, error) { return unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0) })
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = unix.ELOOP
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
