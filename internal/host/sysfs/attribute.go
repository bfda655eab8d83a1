// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/openat"
)

// pageSize bounds what an attribute may hold: sysfs gives a driver one page to fill (fs/sysfs/file.c), and
// nothing that is read here fills more than the smallest page.
const pageSize = 4096

// noPMA is how kernels before 4.5 said that a driver does not support something (show_pma_counter of
// drivers/infiniband/core/sysfs.c).
const noPMA = "N/A (no PMA)"

// attr is one attribute file. It is opened when it is first read, and stays open until close.
type attr struct {
	dir    *dir
	name   string
	source string // path relative to the root, made once: every fact carries it
	fd     int    // -1 while closed
	kept   bool   // it counts in dir.fs.kept
	head   bool   // one page of it is wanted, however long it is
}

func newAttr(d *dir, name string) attr {
	return attr{dir: d, name: name, source: d.path + "/" + name, fd: -1}
}

// open follows no link, and does not wait for a writer of a FIFO.
func (a *attr) open() error {
	if !a.dir.stays() {
		fd, err := a.dir.fs.root.OpenAttr(a.dir.path + "/" + a.name)
		if err == nil {
			a.fd = fd
		}
		return err
	}
	at, err := a.dir.fd()
	if err != nil {
		return err
	}
	const flags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK
	fd, err := openat.Retry(func() (int, error) { return a.dir.fs.openat(at, a.name, flags, 0) })
	if err == nil {
		a.fd = fd
	}
	return err
}

// check refuses what is not a regular file: a container may hide an attribute behind /dev/null.
func (a *attr) check() error {
	var st unix.Stat_t
	if err := unix.Fstat(a.fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%s: %w: expected a regular file", a.source, errMalformed)
	}
	return nil
}

func (a *attr) close() {
	if a.dir == nil {
		return // it has no descriptor
	}
	if a.fd >= 0 {
		_ = unix.Close(a.fd) // nothing was written that could be lost
		a.fd = -1
	}
	if a.kept {
		a.dir.fs.kept.Give()
		a.kept = false
	}
}

// reading is what one read of an attribute gave.
type reading struct {
	source string
	data   []byte // valid until the reader reads again
	err    error
}

// reader reads attributes, one at a time, into one buffer.
type reader struct {
	pread  func(fd int, p []byte, offset int64) (int, error)
	buf    [pageSize + 1]byte
	preads int // made so far
	asked  fabric.Commands
	lost   bool // something was not there, or not any more: perhaps the whole device is gone
}

func (f *FS) reader() *reader { return &reader{pread: f.pread, asked: fabric.Commands{}} }

// read reads an attribute and leaves it open if the descriptors suffice.
func (r *reader) read(a *attr) reading {
	if a.dir == nil {
		return reading{err: errUnnamed}
	}
	rec := a.dir.fs.root.Recorder()
	if rec == nil {
		return r.understand(a, r.readFile(a))
	}
	p := a.dir.path + "/" + a.name
	if err := rec.Begin(p); err != nil {
		return r.failed(a, err)
	}
	got := r.readFile(a)
	rec.Text(p, got.data, got.err)
	return r.understand(a, got)
}

// understand finds the error in a text that is one.
func (r *reader) understand(a *attr, got reading) reading {
	if got.err == nil && string(line(got.data)) == noPMA {
		return r.failed(a, unix.EOPNOTSUPP)
	}
	return got
}

func (r *reader) readFile(a *attr) reading {
	if a.fd < 0 {
		if err := a.open(); err != nil {
			return r.failed(a, err)
		}
		if a.kept = a.dir.fs.kept.Take(); !a.kept {
			defer a.close()
		}
	}
	p := r.buf[:]
	if a.head {
		p = p[:pageSize]
	}
	n, err := openat.Retry(func() (int, error) {
		r.preads++
		return r.pread(a.fd, p, 0)
	})
	if n <= 0 && !errors.Is(err, unix.EISDIR) { // a file that is not an attribute has no answer either
		if e := a.check(); e != nil {
			a.close()
			return r.failed(a, e)
		}
	}
	switch {
	case err != nil:
		return r.failed(a, err)
	case n > pageSize:
		return r.failed(a, fmt.Errorf("%s: %w: longer than %d bytes", a.source, errMalformed, pageSize))
	}
	return reading{source: a.source, data: r.buf[:n]}
}

// readOnce opens, reads and closes an attribute.
func (r *reader) readOnce(d *dir, name string) reading {
	a := newAttr(d, name)
	defer a.close()
	return r.read(&a)
}

func (r *reader) failed(a *attr, err error) reading {
	switch fabric.ReasonOf(err) {
	case fabric.ReasonGone, fabric.ReasonMissing:
		r.lost = true
		a.close() // an attribute that was removed and made again needs a new descriptor
	}
	return reading{source: a.source, err: err}
}

// factOf makes a fact of a reading.
func factOf[T any](got reading, now time.Time, parse func([]byte) (T, bool)) fabric.Fact[T] {
	if got.err != nil {
		return fabric.UnknownFact[T](fabric.ReasonOf(got.err), got.source, now)
	}
	v, ok := parse(got.data)
	if !ok {
		return fabric.UnknownFact[T](fabric.ReasonMalformed, got.source, now)
	}
	return fabric.Known(v, got.source, now)
}

// textFact makes a fact of a line of text; an empty line says that the device has no such thing.
func textFact(got reading, now time.Time) fabric.Fact[string] {
	if got.err == nil && len(bytes.TrimSpace(got.data)) == 0 {
		return fabric.AbsentFact[string](got.source, now)
	}
	return factOf(got, now, parseText)
}

// optional turns a missing attribute into an absent fact: not every driver has one to offer.
func optional[T any](f fabric.Fact[T]) fabric.Fact[T] {
	if f.State == fabric.Unknown && f.Reason == fabric.ReasonMissing {
		return fabric.AbsentFact[T](f.Source, f.At)
	}
	return f
}
