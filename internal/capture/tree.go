// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	maxAttribute = 4 << 10 // sysfs gives a driver one page, and nothing that is read here fills it
	maxText      = 1 << 20 // of procfs and of nccl.conf
	maxProcStat  = 4 << 20 // grows with the CPUs and interrupts; one line of it is kept
	maxLinks     = 40      // on one path, as MAXSYMLINKS of the kernel
)

// tree reads below one root on behalf of a unit, or records what others read there. Paths are relative to the root; what it reads goes to the archive
// under the name of the part.
type tree struct {
	*unit
	root   *os.Root
	part   string
	before func(path string) error // nil: Begin calls nothing
	real   map[string]string       // directories, with what they lead to
}

// resolve follows every symbolic link in p, puts them into the archive, and returns what p leads to.
func (t *tree) resolve(p string) (string, error) {
	at, links := ".", 0
	for rest := strings.Split(p, "/"); len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if at == "." {
				return "", errOutside
			}
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, name)
		target, err := t.link(next)
		if errors.Is(err, syscall.EINVAL) { // not a link
			at = next
			continue
		}
		if err != nil {
			return "", err
		}
		if links++; links > maxLinks {
			return "", syscall.ELOOP
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at, nil
}

// link puts a symbolic link into the archive and returns its target, which is relative.
func (t *tree) link(p string) (string, error) {
	if !t.begin(t.part + "/" + p) {
		return "", errUnreadable
	}
	target, err := t.root.Readlink(p)
	if err != nil {
		return "", err
	}
	if path.IsAbs(target) {
		if t.part != rootPart { // those of sysfs are relative, see fs/sysfs/symlink.c
			return "", errOutside
		}
		// A process whose root directory this is would begin again at the root.
		target, err = filepath.Rel(path.Join("/", path.Dir(p)), target)
		if err != nil {
			return "", errOutside
		}
	}
	if outside := path.Join(path.Dir(p), target); outside == ".." || strings.HasPrefix(outside, "../") {
		return "", errOutside
	}
	t.put(t.part+"/"+p, entry{kind: link, text: target})
	return target, nil
}

// Begin implements beneath.Recorder. Vital product data hold serial numbers, and nothing else that is needed.
func (t *tree) Begin(p string) error {
	if !t.begin(t.part+"/"+p) || path.Base(p) == "vpd" {
		return errUnreadable
	}
	if t.before == nil {
		return nil
	}
	err := t.before(p)
	if err != nil {
		t.Text(p, nil, err)
	}
	return err
}

// Look implements beneath.Recorder: it puts links and directories into the archive, and of files the names.
func (t *tree) Look(p string) { t.look(p, named) }

// Entry implements beneath.Recorder.
func (t *tree) Entry(dir, name string) { t.look(dir+"/"+name, beside) }

func (t *tree) look(p string, file kind) {
	at, err := t.where(p)
	if err != nil {
		return
	}
	info, err := t.root.Lstat(at)
	if err != nil {
		return
	}
	if path.Base(path.Dir(at)) == "net" {
		t.seeDevice(path.Base(at))
	}
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		_, err = t.link(at)
		t.note(at, err)
	case mode.IsDir():
		t.put(t.part+"/"+at, entry{kind: directory})
	case mode.IsRegular():
		t.put(t.part+"/"+at, entry{kind: file})
	}
}

// Text implements beneath.Recorder. The first answer counts.
func (t *tree) Text(p string, text []byte, err error) {
	at, lost := t.where(p)
	switch err = cmp.Or(lost, err); {
	case err != nil:
		t.forget(t.part + "/" + at)
		t.note(at, err)
	case len(text) > maxAttribute:
		t.fail(t.part+"/"+at, errTooLong)
	default:
		t.put(t.part+"/"+at, entry{kind: regular, text: string(text)})
	}
}

// where returns the path without links to its last component, and puts the links into the archive.
func (t *tree) where(p string) (string, error) {
	dir := path.Dir(p)
	real, known := t.real[dir]
	if !known {
		var err error
		if real, err = t.resolve(dir); err != nil {
			return p, err
		}
		t.real[dir] = real
	}
	return path.Join(real, path.Base(p)), nil
}

// note notes an error, unless it is one that says that there is no such thing.
func (t *tree) note(p string, err error, expected ...error) {
	for _, e := range append(expected, fs.ErrNotExist, errUnreadable) {
		if errors.Is(err, e) {
			return
		}
	}
	if err != nil {
		t.fail(t.part+"/"+p, err)
	}
}

// text reads a longer file.
func (t *tree) text(p string, limit int64) ([]byte, error) {
	if !t.begin(t.part + "/" + p) {
		return nil, errUnreadable
	}
	f, err := t.open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = errTooLong
	}
	return b, err
}

// open does not wait for a writer of a FIFO, and refuses what is not a regular file.
func (t *tree) open(p string) (*os.File, error) {
	f, err := t.root.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
