// SPDX-License-Identifier: Apache-2.0

// Package sysfs reads what the kernel tells in sysfs about RDMA devices, their ports, counters and GID tables,
// about their network interfaces and about GPUs. It never writes and never leaves its root directory.
//
// Reading and parsing are apart: attribute.go reads, parse.go holds pure functions over bytes. Attributes that
// are read on every scrape are kept open and cost one pread(2) each, which is twenty times cheaper than
// opening them anew; all others are opened, read once and closed.
//
// Concurrency: an FS may be used by any number of goroutines, a Device by one at a time. Every read may hang
// as long as a driver does (mlx5 waits up to 60 s for its firmware); nothing here sets deadlines, and Close
// must wait for a read that is under way.
//
// Errors: one unreadable attribute costs one fact, which is then unknown with a reason, and nothing else. What a
// driver refuses to answer is left alone for a while: see backoff.go.
// Methods of Device return an error only when the device as a whole cannot be read: ErrGone.
package sysfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Directories of sysfs, relative to the root.
const (
	infinibandClass = "class/infiniband"
	netClass        = "class/net"
	pciDevices      = "bus/pci/devices"
)

// Limits. The kernel stays far below them; a tree that does not is not a sysfs.
const (
	maxEntries = 1 << 16 // of a directory
	maxLinks   = 40      // symbolic links on one path, as MAXSYMLINKS of the kernel
)

// FS is a mounted sysfs.
type FS struct {
	root  *os.Root
	pread func(fd int, p []byte, offset int64) (int, error) // unix.Pread
}

// Open opens the sysfs mounted at root.
func Open(root string) (*FS, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("sysfs: %w", err)
	}
	return &FS{root: r, pread: unix.Pread}, nil
}

// Close closes the root. Devices that are still open can be read on but find nothing new.
func (f *FS) Close() error { return f.root.Close() }

// Devices returns the sorted names of the RDMA devices. The error wraps fs.ErrNotExist when the kernel has no
// RDMA class. Names that cannot be shown are left out and reported: names and error may both be set.
func (f *FS) Devices() ([]string, error) {
	names, err := f.list(infinibandClass)
	if errors.Is(err, fs.ErrNotExist) {
		if _, e := f.root.Stat(path.Dir(infinibandClass)); e != nil {
			// Without the check, a mistyped root would read as a kernel without RDMA.
			return nil, fmt.Errorf("%w: %s has no directory class", errMalformed, f.root.Name())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("rdma devices: %w", err)
	}
	var skipped []error
	names = slices.DeleteFunc(names, func(s string) bool {
		bad := !validDeviceName(s)
		if bad {
			skipped = append(skipped, fmt.Errorf("%s: %w: device name %q, expected at most %d bytes of UTF-8 without '/'",
				infinibandClass, errMalformed, s, maxDeviceName))
		}
		return bad
	})
	return names, errors.Join(skipped...)
}

// list returns the sorted names in a directory.
func (f *FS) list(p string) ([]string, error) {
	d := dir{fs: f, path: p}
	defer d.close()
	if _, err := d.fd(); err != nil {
		return nil, err
	}
	names, err := d.file.Readdirnames(maxEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(names) > maxEntries {
		return nil, fmt.Errorf("%s: %w: more than %d entries", p, errMalformed, maxEntries)
	}
	slices.Sort(names)
	return names, nil
}

// listNumbers returns the numbers among the names in a directory, sorted.
func (f *FS) listNumbers(p string) ([]int, error) {
	names, err := f.list(p)
	if err != nil {
		return nil, err
	}
	numbers := make([]int, 0, len(names))
	for _, s := range names {
		if n, err := strconv.Atoi(s); err == nil && n >= 0 && strconv.Itoa(n) == s {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// linkBase returns the last component of where a symbolic link points to.
func (f *FS) linkBase(p string) (string, error) {
	target, err := f.root.Readlink(p)
	return path.Base(target), err
}

// realPath follows every symbolic link in p, like realpath(3) but below the root. The error of a link that
// leads out of the root names both.
func (f *FS) realPath(p string) (string, error) {
	done, rest := ".", strings.Split(p, "/")
	link, links := p, 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if done == "." {
				return "", f.outside(link)
			}
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, name)
		target, err := f.root.Readlink(next)
		if errors.Is(err, unix.EINVAL) { // not a link
			done = next
			continue
		}
		if err != nil {
			return "", err
		}
		link = next
		if path.IsAbs(target) { // links of sysfs are relative, see fs/sysfs/symlink.c
			return "", f.outside(link)
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s: %w", p, unix.ELOOP)
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return done, nil
}

func (f *FS) outside(link string) error {
	return fmt.Errorf("%w: link %s leads out of %s", errMalformed, link, f.root.Name())
}

// dir is a directory that is opened when it is first needed, and then kept.
type dir struct {
	fs   *FS
	path string // relative to the root
	file *os.File
}

func (d *dir) fd() (int, error) {
	if d.file == nil {
		file, err := d.fs.root.OpenFile(d.path, os.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			if _, ok := errors.AsType[unix.Errno](err); !ok {
				// os.Root refused to leave, but does not tell at which link.
				if _, e := d.fs.realPath(d.path); e != nil {
					err = e
				}
			}
			return -1, err
		}
		d.file = file
	}
	return int(d.file.Fd()), nil
}

// check returns ErrGone when the open directory is not what its path leads to any more: it was removed,
// whether or not another of the same name took its place.
func (d *dir) check() error {
	if d.file == nil {
		return nil
	}
	was, err := d.file.Stat()
	if err != nil {
		return err
	}
	is, err := d.fs.root.Stat(d.path)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && !os.SameFile(was, is)) {
		return fmt.Errorf("%s: %w", d.path, ErrGone)
	}
	return nil
}

func (d *dir) close() {
	if d.file != nil {
		_ = d.file.Close()
		d.file = nil
	}
}
