// SPDX-License-Identifier: Apache-2.0

package pci

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/host/openat"
)

// often is an index of the files of a function that are read every minute.
type often int

const (
	runtimeStatus often = iota
	aerCorrectable
	aerNonFatal
	aerFatal
	linkSpeed
	linkWidth

	oftenFiles
)

var oftenNames = [oftenFiles]string{
	runtimeStatus: "power/runtime_status", aerCorrectable: "aer_dev_correctable", aerNonFatal: "aer_dev_nonfatal",
	aerFatal:  "aer_dev_fatal",
	linkSpeed: "current_link_speed", linkWidth: "current_link_width",
}

// files are those of one function. They are opened when they are first read, and then kept: opening costs
// many times what reading does.
type files struct {
	sources [oftenFiles]string // paths relative to the root
	fds     [oftenFiles]int    // -1 while closed
	kept    *openat.Budget
}

func newFiles(dir string, kept *openat.Budget) *files {
	f := &files{kept: kept}
	for i, name := range oftenNames {
		f.sources[i], f.fds[i] = dir+"/"+name, -1
	}
	return f
}

func (f *files) close() {
	for i, fd := range f.fds {
		if fd >= 0 {
			_ = unix.Close(fd) // nothing was written that could be lost
			f.kept.Give()
		}
		f.fds[i] = -1
	}
}

// read reads a file with one read(2). The answer of a function that went away and came back is that it is
// gone: then its files are opened anew.
func (f *files) read(root *openat.Root, which often, buf *buffer) ([]byte, error) {
	rec := root.Recorder()
	if rec == nil {
		return f.readAgain(root, which, buf)
	}
	if err := rec.Begin(f.sources[which]); err != nil {
		return nil, err
	}
	b, err := f.readAgain(root, which, buf)
	rec.Text(f.sources[which], b, err)
	return b, err
}

func (f *files) readAgain(root *openat.Root, which often, buf *buffer) ([]byte, error) {
	b, err := f.readOpen(root, which, buf)
	if errors.Is(err, unix.ENODEV) {
		f.close()
		b, err = f.readOpen(root, which, buf)
	}
	return b, err
}

func (f *files) readOpen(root *openat.Root, which often, buf *buffer) ([]byte, error) {
	fd := f.fds[which]
	if fd < 0 {
		var err error
		if fd, err = root.OpenAttr(f.sources[which]); err != nil {
			return nil, err
		}
		if f.kept.Take() {
			f.fds[which] = fd
		} else {
			defer func() { _ = unix.Close(fd) }() // nothing was written that could be lost
		}
	}
	n, err := openat.Retry(func() (int, error) { return unix.Pread(fd, buf[:], 0) })
	if n > 0 {
		return buf[:n], nil
	}
	return nil, nothingRead(fd, f.sources[which], err)
}

// nothingRead says why nothing was read of a file: err, or that it is no file.
func nothingRead(fd int, source string, err error) error {
	var st unix.Stat_t
	if e := unix.Fstat(fd, &st); e != nil {
		return e
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG { // a container may hide a file behind /dev/null
		return fmt.Errorf("%s: %w: expected a regular file", source, errMalformed)
	}
	return err
}
