// SPDX-License-Identifier: Apache-2.0

// Package sysfs reads what the kernel shows in sysfs of RDMA devices, their ports, counters and GID tables,
// of their network interfaces and of GPUs. It never writes and never leaves its root directory.
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
	"io/fs"
	"path"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/openat"
)

// Directories of sysfs, relative to the root.
const (
	infinibandClass = "class/infiniband"
	netClass        = "class/net"
	pciDevices      = "bus/pci/devices"
)

// The kernel stays far below it; a tree that does not is not a sysfs.
const maxEntries = 1 << 16 // of a directory

// FS is a mounted sysfs.
type FS struct {
	root  *openat.Root
	pread func(fd int, p []byte, offset int64) (int, error) // unix.Pread
	// openat is unix.Openat. Nothing is opened with it but single names, and no link is followed.
	openat func(fd int, name string, flags int, mode uint32) (int, error)
	ledger ledger
	gpus   gpus
	kept   *openat.Budget
	moved  moved
}

// Open opens the sysfs mounted at root.
func Open(root string) (*FS, error) {
	r, err := openat.Open(root)
	if err != nil {
		return nil, fmt.Errorf("sysfs: %w", err)
	}
	return &FS{
		root: r, pread: unix.Pread, openat: unix.Openat,
		ledger: ledger{asked: fabric.Commands{}, refused: map[string]backoff{}},
	}, nil
}

// Keep has descriptors stay open within a budget, except one of each device. What is open already stays.
func (f *FS) Keep(b *openat.Budget) { f.kept = b }

// Record reports the files that are read from now on to rec.
func (f *FS) Record(rec openat.Recorder) { f.root.Record(rec) }

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
	return d.names()
}

// names returns the sorted names in a directory; once, while it is open.
func (d *dir) names() ([]string, error) {
	var names []string
	err := d.each(func(name []byte, _ uint64) { names = append(names, string(name)) })
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

// listNumbers returns the numbers among the names in a directory, sorted.
func (f *FS) listNumbers(p string) ([]int, error) {
	d := dir{fs: f, path: p}
	defer d.close()
	return d.numbers()
}

// numbers returns the numbers among the names in a directory, sorted; once, while it is open.
func (d *dir) numbers() ([]int, error) {
	var numbers []int
	err := d.each(func(name []byte, _ uint64) {
		n, ok := parseDigits(string(name))
		if ok && (name[0] != '0' || len(name) == 1) {
			numbers = append(numbers, n)
		}
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(numbers)
	return numbers, nil
}

// scratch is what the kernel writes to. It is kept off the stacks of goroutines, which live for one read and start
// small.
var scratch = sync.Pool{New: func() any { return new([8192]byte) }}

// each calls found for each entry of a directory, in no order; once, while it is open. The number
// distinguishes an entry from any other that has been there.
func (d *dir) each(found func(name []byte, number uint64)) error {
	if !d.stays() {
		defer d.close()
	}
	rec := d.fs.root.Recorder()
	if rec != nil {
		if err := rec.Begin(d.path); err != nil {
			return err
		}
	}
	at, err := d.fd()
	if err != nil {
		return err
	}
	buf := scratch.Get().(*[8192]byte)
	defer scratch.Put(buf)
	entries := 0
	_, err = openat.Entries(at, buf[:], func(e openat.Entry) error {
		if entries++; entries > maxEntries {
			return fmt.Errorf("%w: more than %d entries", errMalformed, maxEntries)
		}
		if rec != nil {
			rec.Entry(d.path, string(e.Name))
		}
		found(e.Name, e.Inode)
		return nil
	})
	if err != nil {
		return &fs.PathError{Op: "getdents", Path: d.path, Err: err}
	}
	return nil
}

// linkBase returns the last component of where a symbolic link points to.
func (f *FS) linkBase(p string) (string, error) {
	target, err := f.root.Readlink(p)
	return path.Base(target), err
}

// realPath follows every symbolic link in p. The error of a link that leads out of the root names both.
func (f *FS) realPath(p string) (string, error) {
	return openat.Follow(p, func(link string) (string, error) {
		target, err := f.root.Readlink(link)
		if err == nil && path.IsAbs(target) { // links of sysfs are relative, see fs/sysfs/symlink.c
			err = f.outside(link)
		}
		return target, err
	}, f.outside)
}

func (f *FS) outside(link string) error {
	return fmt.Errorf("%w: link %s leads out of %s", errMalformed, link, f.root.Name())
}

// dir is a directory that is opened when it is first needed, and then kept.
type dir struct {
	fs   *FS
	path string // relative to the root
	open bool
	kept bool          // its descriptor counts in fs.kept
	at   int           // its descriptor while it is open
	is   *openat.Inode // the file of that descriptor, set when it is first needed

	spare  bool // it is read without it, if there are no descriptors to keep it open
	parent *dir // of a directory that sub made
	err    error
}

// sub returns the directory of that name in d. It is opened with one system call, relative to d. Where it does
// not exist it is looked for once, however much is to be read in it, until it is closed.
func (d *dir) sub(name string) *dir {
	return &dir{fs: d.fs, path: d.path + "/" + name, spare: true, parent: d}
}

// stays reports whether d is open, or may be opened and stay so.
func (d *dir) stays() bool {
	if !d.open && !d.kept && d.spare {
		d.kept = d.fs.kept.Take()
		return d.kept
	}
	return true
}

func (d *dir) fd() (int, error) {
	if d.open {
		return d.at, nil
	}
	if d.err != nil {
		return -1, d.err
	}
	fd, err := d.openAnew()
	if err != nil {
		d.unkeep()
		return -1, err
	}
	d.open, d.at = true, fd
	return fd, nil
}

func (d *dir) openAnew() (int, error) {
	if d.parent != nil && d.parent.stays() {
		fd, err := d.openSub()
		d.err = err
		return fd, err
	}
	fd, err := d.fs.root.OpenDir(d.path)
	if err != nil {
		if _, ok := errors.AsType[unix.Errno](err); !ok {
			// os.Root refused to leave, but does not report at which link.
			if _, e := d.fs.realPath(d.path); e != nil {
				err = e
			}
		}
	}
	return fd, err
}

func (d *dir) unkeep() {
	if d.kept {
		d.fs.kept.Give()
		d.kept = false
	}
}

func (d *dir) openSub() (int, error) {
	if rec := d.fs.root.Recorder(); rec != nil {
		rec.Look(d.path)
	}
	at, err := d.parent.fd()
	if err != nil {
		return -1, err
	}
	const flags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_DIRECTORY
	return openat.Retry(func() (int, error) { return d.fs.openat(at, path.Base(d.path), flags, 0) })
}

// check returns ErrGone when the open directory is not what its path leads to any more: it was removed,
// whether or not another of the same name took its place.
func (d *dir) check() error {
	if !d.open {
		return nil
	}
	there, err := d.fs.root.Stat(d.path)
	return d.compare(there, err)
}

// compare is check with what the path leads to.
func (d *dir) compare(there openat.Inode, err error) error {
	if d.is == nil {
		is, err := openat.InodeOfFD(d.at)
		if err != nil {
			return err
		}
		d.is = &is
	}
	if errors.Is(err, fs.ErrNotExist) || (err == nil && *d.is != there) {
		return fmt.Errorf("%s: %w", d.path, ErrGone)
	}
	return nil
}

func (d *dir) close() {
	if d.open {
		_ = unix.Close(d.at) // nothing was written that could be lost
		d.open, d.is = false, nil
	}
	d.unkeep()
	d.err = nil
}
