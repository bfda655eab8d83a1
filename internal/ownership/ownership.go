// SPDX-License-Identifier: Apache-2.0

// Package ownership reports whether anyone but root and the user of this process can have written a file, or can put
// another one in its place: what is in such a file may decide what a privileged process loads.
//
// The rule: the file, each directory on the way to it and each symbolic link belong to root or to the
// effective user, and only these may write to them. Group write is accepted for the groups of root and of
// this process where no ACL widens them. In a sticky directory that others may write to (/tmp), only what
// exists counts: they cannot rename or remove it.
//
// The way is walked one openat(2) at a time without following links, and every step is judged by fstat(2) on the
// descriptor that the next step starts from, so nothing can be swapped between the look and the read. As for a process
// that has root as its root directory, absolute links start there again and ".." ends there.
package ownership

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNotRegular is the error of Open for a file that is not regular. FIFOs and devices are never opened for reading.
var ErrNotRegular = errors.New("not a regular file")

const maxLinks = 40 // MAXSYMLINKS of the kernel

// Finding is what is known of a path, also when the walk ended early.
type Finding struct {
	File *os.File // for reading, by Open only; nil with an error
	// Others says who else could have written the file, or could do so now; nil: only root and the user of this process.
	// It wraps fs.ErrPermission.
	Others error
	Public bool // every user may read what is there, and search the directories on the way
}

// Open opens a regular file below root for reading, whatever user owns it: Others says whether to trust it.
func Open(root, name string) (Finding, error) {
	return walk(root, name, true)
}

// Check reports whether a file or directory is trusted, and does not open it for reading. The error wraps
// fs.ErrPermission if it is not, and fs.ErrNotExist if there is none and no other user can create one.
func Check(root, name string) (Finding, error) {
	f, err := walk(root, name, false)
	if f.Others != nil {
		err = f.Others
	}
	return f, err
}

// Readable reports whether every user may read a library, and all folders of libraryPath (LD_LIBRARY_PATH),
// in which the loader looks for it first. A library without a slash in its name is looked for, and is not
// judged itself.
func Readable(library, libraryPath string) bool {
	paths := strings.FieldsFunc(libraryPath, func(r rune) bool { return r == ':' || r == ';' })
	if strings.Contains(library, "/") {
		paths = append(paths, library)
	}
	for _, path := range paths {
		if found, err := Check("/", path); !found.Public && !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// walker is on its way.
type walker struct {
	Finding
	stack []step // directories from root down to where it is
	open  bool   // the file at the end
	links int
	file  bool // it arrived at something that is no directory
}

// step is an open directory.
type step struct {
	fd    int
	path  string // as it is shown
	crowd error  // others may create entries in it, but not replace them; nil: they may not
}

func walk(root, name string, open bool) (Finding, error) {
	w := &walker{Finding: Finding{Public: true}, open: open}
	defer w.close()
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return w.Finding, &fs.PathError{Op: "open", Path: root, Err: err}
	}
	if err = w.enter(fd, root); err == nil {
		err = w.follow(name)
	}
	if !w.file && len(w.stack) > 0 { // it is a directory, or there is nothing
		w.distrust(w.at().crowd)
	}
	if err != nil && w.File != nil {
		w.File.Close()
		w.File = nil
	}
	return w.Finding, err
}

func (w *walker) close() {
	for _, s := range w.stack {
		_ = unix.Close(s.fd)
	}
}

func (w *walker) at() *step { return &w.stack[len(w.stack)-1] }

// enter takes the descriptor of a directory over and judges it.
func (w *walker) enter(fd int, shown string) error {
	w.stack = append(w.stack, step{fd: fd, path: shown})
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "fstat", Path: shown, Err: err}
	}
	w.judge(fd, shown, &st)
	return nil
}

func (w *walker) follow(name string) error {
	for rest := name; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		switch {
		case part == "" || part == ".":
			continue
		case w.file:
			return &fs.PathError{Op: "open", Path: path.Join(w.at().path, part), Err: unix.ENOTDIR}
		case part == "..":
			if n := len(w.stack) - 1; n > 0 {
				_ = unix.Close(w.stack[n].fd)
				w.stack = w.stack[:n]
			}
			continue
		}
		target, err := w.step(part)
		if err != nil {
			return err
		}
		if target == "" {
			continue
		}
		if w.links++; w.links > maxLinks {
			return &fs.PathError{Op: "resolve", Path: name, Err: unix.ELOOP}
		}
		if path.IsAbs(target) {
			for _, s := range w.stack[1:] {
				_ = unix.Close(s.fd)
			}
			w.stack = w.stack[:1]
		}
		rest = target + "/" + rest
	}
	if w.open && w.File == nil {
		return &fs.PathError{Op: "read", Path: name, Err: ErrNotRegular}
	}
	return nil
}

// step goes to one entry of the directory, and returns where it points to if it is a link.
func (w *walker) step(part string) (target string, err error) {
	dir := w.at()
	shown := path.Join(dir.path, part)
	fail := func(op string, err error) (string, error) { return "", &fs.PathError{Op: op, Path: shown, Err: err} }
	var st unix.Stat_t
	if err := unix.Fstatat(dir.fd, part, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fail("lstat", err)
	}
	kind := st.Mode & unix.S_IFMT
	flags := unix.O_NOFOLLOW | unix.O_CLOEXEC
	switch {
	case kind == unix.S_IFDIR:
		flags |= unix.O_PATH | unix.O_DIRECTORY // which mounts what is mounted on demand
	case kind == unix.S_IFREG && w.open:
		flags |= unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY
	case kind == unix.S_IFLNK || !w.open:
		flags |= unix.O_PATH
	default:
		return fail("read", ErrNotRegular)
	}
	fd, err := unix.Openat(dir.fd, part, flags, 0)
	if err != nil {
		return fail("open", err)
	}
	if kind == unix.S_IFDIR {
		return "", w.enter(fd, shown)
	}
	f := os.NewFile(uintptr(fd), shown)
	if err := unix.Fstat(fd, &st); err != nil {
		f.Close()
		return fail("fstat", err)
	}
	if now := st.Mode & unix.S_IFMT; now != kind {
		f.Close()
		return fail("open", ErrNotRegular) // it has changed meanwhile
	}
	w.judge(fd, shown, &st)
	if kind == unix.S_IFLNK {
		defer f.Close()
		to := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(fd, "", to)
		if err != nil || n == 0 {
			return fail("readlink", errors.Join(err, unix.EINVAL))
		}
		return string(to[:n]), nil
	}
	w.file = true
	if w.open {
		w.File = f
	} else {
		f.Close()
	}
	return "", nil
}

// judge applies the rule to what a descriptor is of. The first trouble is kept.
func (w *walker) judge(fd int, shown string, st *unix.Stat_t) {
	w.judgeFUSE(fd, shown, st)
	kind, mode := st.Mode&unix.S_IFMT, st.Mode
	switch kind {
	case unix.S_IFLNK: // its mode means nothing
		mode = 0
	case unix.S_IFDIR:
		w.Public = w.Public && mode&0o001 != 0
	case unix.S_IFCHR, unix.S_IFBLK: // who may write to a device does not change what it is
		mode &^= 0o022
		w.Public = w.Public && mode&0o004 != 0
	default:
		w.Public = w.Public && mode&0o004 != 0
	}
	trouble := func() error {
		return fmt.Errorf("%s: owner %d:%d, mode %04o: %w: others could have put it there; expected owner root or %d, and no write access for others",
			shown, st.Uid, st.Gid, st.Mode&0o7777, fs.ErrPermission, os.Geteuid())
	}
	if int(st.Uid) != 0 && int(st.Uid) != os.Geteuid() {
		w.distrust(trouble())
		return
	}
	if mode&0o002 == 0 && !groupWrites(fd, mode, st.Gid) {
		return
	}
	if kind == unix.S_IFDIR && mode&unix.S_ISVTX != 0 {
		w.at().crowd = trouble()
		return
	}
	w.distrust(trouble())
}

func (w *walker) distrust(err error) {
	if w.Others == nil {
		w.Others = err
	}
}

// groupWrites reports whether other users may write because of the group bits, which with an ACL are the most that any
// user or group in it has.
func groupWrites(fd int, mode, gid uint32) bool {
	switch {
	case mode&0o020 == 0:
		return false
	case gid != 0 && int(gid) != os.Getegid():
		return true
	}
	_, err := unix.Getxattr(fmt.Sprintf("/proc/self/fd/%d", fd), "system.posix_acl_access", nil)
	return !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.EOPNOTSUPP)
}
