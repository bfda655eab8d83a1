// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	maxAttribute = 4 << 10 // sysfs gives a driver one page, and nothing that is read here fills it
	maxText      = 1 << 20 // of procfs and of nccl.conf
	maxProcStat  = 4 << 20 // grows with the CPUs and interrupts; one line of it is kept
	maxNames     = 1 << 16 // of a directory
	maxLinks     = 40      // on one path, as MAXSYMLINKS of the kernel
)

// tree reads below one root on behalf of a unit. Paths are relative to the root; what it reads goes to the archive
// under the name of the part.
type tree struct {
	*unit
	root     *os.Root
	part     string
	readFile func(f *os.File, p []byte) (int, error)
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

// links puts those of the names in a directory that are symbolic links into the archive.
func (t *tree) links(dir string, names ...string) {
	for _, name := range names {
		_, err := t.link(dir + "/" + name)
		t.note(dir+"/"+name, err, syscall.EINVAL)
	}
}

// list returns the sorted names in a directory and puts the directory into the archive.
func (t *tree) list(p string) []string {
	if !t.begin(t.part + "/" + p) {
		return nil
	}
	f, err := t.root.OpenFile(p, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		t.note(p, err)
		return nil
	}
	defer f.Close()
	names, err := f.Readdirnames(maxNames)
	if err != nil && !errors.Is(err, io.EOF) {
		t.note(p, err)
		return nil
	}
	t.put(t.part+"/"+p, entry{kind: directory})
	slices.Sort(names)
	return names
}

// attrs puts files of a directory without links on its path into the archive.
func (t *tree) attrs(dir string, names ...string) {
	for _, name := range names {
		t.attr(dir, name)
	}
}

// attr puts a file into the archive and returns its text; ok is false when it could not be read. One that is not
// there is nothing to note.
func (t *tree) attr(dir, name string) (text string, ok bool) {
	p := dir + "/" + name
	if !t.begin(t.part + "/" + p) {
		return "", false
	}
	if e, ok := t.have(t.part + "/" + p); ok { // two devices may lead to one file
		return e.text, true
	}
	b, err := t.attribute(p)
	if err != nil {
		t.note(p, err)
		return "", false
	}
	t.put(t.part+"/"+p, entry{kind: regular, text: string(b)})
	return string(b), true
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

// attribute reads a file of sysfs with a single read(2): every other one would ask the driver again.
func (t *tree) attribute(p string) ([]byte, error) {
	f, err := t.open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	buf := make([]byte, maxAttribute+1)
	n, err := t.readFile(f, buf)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if n > maxAttribute {
		return nil, errTooLong
	}
	return buf[:n], nil
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
