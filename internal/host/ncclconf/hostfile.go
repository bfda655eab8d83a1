// SPDX-License-Identifier: Apache-2.0

package ncclconf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// maxFile is how much of a file is read. Real ones have a few hundred bytes.
const maxFile = 1 << 20

var (
	errNoRoot     = errors.New("root file system of the host")
	errNotRegular = errors.New("not a regular file")
)

// readHostFile returns the first MiB of a regular file of the host. whole is false if there is more.
//
// A name is looked up as a process whose root directory is root would do it: an absolute symbolic link, which
// os.Root refuses, starts again at root, and ".." stops there. Every step goes through os.Root, so that a
// link that changes meanwhile cannot lead outside either.
//
// The files may belong to a user. A FIFO or device is not opened, or opened without waiting if it takes the
// place of a file at that moment, and never read. Reading ends at the size the file had when it was opened,
// which is 0 in procfs, so that a link to /proc/kmsg neither blocks nor consumes anything.
func readHostFile(root *os.Root, name string) (data []byte, whole bool, err error) {
	resolved, err := resolve(root, name)
	if err != nil {
		return nil, false, err
	}
	f, err := root.OpenFile(resolved, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	if !info.Mode().IsRegular() {
		return nil, false, &fs.PathError{Op: "read", Path: resolved, Err: errNotRegular}
	}
	data, err = io.ReadAll(io.LimitReader(f, min(info.Size(), maxFile)))
	return data, info.Size() <= maxFile, err
}

// resolve returns the name of a regular file below root without any symbolic link in it.
func resolve(root *os.Root, name string) (string, error) {
	const maxLinks = 40 // MAXSYMLINKS of the kernel
	at, links := ".", 0
	mode := fs.ModeDir
	for rest := name; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		if part == ".." {
			at, mode = path.Dir(at), fs.ModeDir
		}
		if part == "" || part == "." || part == ".." {
			continue
		}
		next := path.Join(at, part)
		info, err := root.Lstat(next)
		if err != nil {
			return "", err
		}
		if mode = info.Mode(); mode.Type() != fs.ModeSymlink {
			at = next
			continue
		}
		target, err := root.Readlink(next)
		if err != nil {
			return "", err
		}
		if links++; links > maxLinks {
			return "", &fs.PathError{Op: "resolve", Path: name, Err: syscall.ELOOP}
		}
		if path.IsAbs(target) {
			at = "."
		}
		rest = target + "/" + rest
	}
	if !mode.IsRegular() {
		return "", &fs.PathError{Op: "read", Path: name, Err: errNotRegular}
	}
	return at, nil
}

// displayPath makes a path fit for output: it may come from a file.
func displayPath(p string) string {
	if quoted := fmt.Sprintf("%q", p); quoted != `"`+p+`"` {
		return quoted
	}
	return p
}
