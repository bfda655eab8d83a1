// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"gpufabric_exporter/internal/host/openat"
)

const (
	maxAttribute = 4 << 10 // sysfs gives a driver one page, and nothing that is read here fills it
	maxText      = 4 << 20 // of procfs and of nccl.conf: the limit of their readers
)

// tree records on behalf of a unit what readers read below one root. Paths are relative to the root; in the
// archive they are below the part.
type tree struct {
	*unit
	root   *os.Root
	part   string
	rules  []openat.Redaction      // without one a file stays on the node; nil: rewrite.go knows the part
	before func(path string) error // nil: Begin calls nothing
	real   map[string]string       // directories, with what they lead to
}

// resolve follows every symbolic link in p, puts them into the archive, and returns what p leads to.
func (t *tree) resolve(p string) (string, error) {
	return openat.Follow(p, t.link, func(string) error { return errOutside })
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

// Begin implements openat.Recorder. Vital product data hold serial numbers, and nothing else that is needed.
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

// Look implements openat.Recorder: it puts links, directories and the names of files into the archive.
func (t *tree) Look(p string) { t.look(p, named) }

// Entry implements openat.Recorder.
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

// Text implements openat.Recorder. The first answer counts.
func (t *tree) Text(p string, text []byte, err error) {
	at, lost := t.where(p)
	limit := maxAttribute
	var rule openat.Redaction
	known := true
	if t.rules != nil {
		limit = maxText
		rule, known = openat.RedactionOf(t.rules, p)
	}
	switch err = cmp.Or(lost, err); {
	case err != nil:
		t.forget(t.part + "/" + at)
		t.note(at, err, syscall.ENOTDIR, syscall.ESRCH) // no file, and a process that ended
	case !known:
		t.leaveOut(t.part+"/"+at, noRule)
	case len(text) > limit:
		t.fail(t.part+"/"+at, errTooLong)
	default:
		t.put(t.part+"/"+at, entry{kind: regular, text: string(text), keep: rule.Keep, empty: rule.Empty})
	}
}

// noRule is why a file stays on the node.
const noRule = "of no known kind: no rule says what of it may leave the node"

// where returns the path in the archive, and puts the links on the way there into it: all of them of the root
// file system, whose files are read through links; all but the last of sysfs; none of procfs, where they
// depend on the reading process.
func (t *tree) where(p string) (string, error) {
	switch t.part {
	case procPart:
		return p, nil
	case rootPart:
		at, err := t.resolve(p)
		if err != nil {
			return p, err
		}
		return at, nil
	}
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
