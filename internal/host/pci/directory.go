// SPDX-License-Identifier: Apache-2.0

package pci

import (
	"fmt"
	gopath "path"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/host/openat"
)

// pageSize bounds what an attribute may hold, and what configuration space does.
const pageSize = 4096

// directory is an open directory of sysfs, in which files are read with one path component each.
type directory struct {
	fd   int
	path string // relative to the root
	buf  *buffer
	rec  openat.Recorder // nil: nothing is recorded
}

// buffer is what files are read into, one after the other.
type buffer [pageSize]byte

func openDir(root *openat.Root, p string, buf *buffer) (directory, error) {
	fd, err := root.OpenDir(p)
	return directory{fd, p, buf, root.Recorder()}, err
}

func (d directory) close() { _ = unix.Close(d.fd) } // nothing was written that could be lost

// read reads a regular file with one read(2); what it returns is valid until the next read. It follows no
// link, and does not wait for a writer of a FIFO.
func (d directory) read(name string) ([]byte, error) {
	if d.rec == nil {
		return d.readFile(name)
	}
	p := d.path + "/" + name
	if err := d.rec.Begin(p); err != nil {
		return nil, err
	}
	b, err := d.readFile(name)
	d.rec.Text(p, b, err)
	return b, err
}

func (d directory) readFile(name string) ([]byte, error) {
	const flags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK
	fd, err := openat.Retry(func() (int, error) { return unix.Openat(d.fd, name, flags, 0) })
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written that could be lost
	n, err := openat.Retry(func() (int, error) { return unix.Pread(fd, d.buf[:], 0) })
	if n > 0 {
		return d.buf[:n], nil
	}
	return nil, nothingRead(fd, d.path+"/"+name, err)
}

// linkBase returns the last component of where a link points to.
func (d directory) linkBase(name string) ([]byte, error) {
	if d.rec != nil {
		d.rec.Look(d.path + "/" + name)
	}
	var target [unix.PathMax]byte
	n, err := unix.Readlinkat(d.fd, name, target[:])
	if err != nil {
		return nil, err
	}
	return []byte(gopath.Base(string(target[:n]))), nil
}

// number reads a file that holds "0x10de".
func (d directory) number(name string) (int, error) {
	b, err := d.read(name)
	if err != nil {
		return 0, err
	}
	n, ok := parseID(b)
	if !ok {
		return 0, fmt.Errorf("%s/%s: %w: %.20q, expected a hexadecimal number", d.path, name, errMalformed, b)
	}
	return n, nil
}
