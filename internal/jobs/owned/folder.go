// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/host/openat"
)

// folder is a folder below that of the site.
type folder struct {
	root  string
	below []string
}

func (f folder) path(name string) string { return path.Join(f.root, path.Join(f.below...), name) }

// inside is the path below the folder of the site.
func (f folder) inside(name string) string { return path.Join(path.Join(f.below...), name) }

func (f folder) sub(name string) folder {
	return folder{f.root, append(slices.Clone(f.below), name)}
}

// at returns a descriptor that stands for the folder. Nothing is opened, so that nothing is asked of its file system.
func (f folder) at(m *mounts) (int, error) {
	fd, err := unix.FcntlInt(uintptr(m.root), unix.F_DUPFD_CLOEXEC, 0)
	for _, name := range f.below {
		if err != nil {
			break
		}
		var next int
		next, err = m.step(fd, name)
		_ = unix.Close(fd)
		fd = next
	}
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: f.path(""), Err: err}
	}
	return fd, nil
}

// open opens it to be listed.
func (f folder) open(m *mounts) (int, error) {
	at, err := f.at(m)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(at) }()
	fd, err := openat.Retry(func() (int, error) {
		return unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: f.path(""), Err: err}
	}
	return fd, nil
}

// Open opens a file that was found, for reading. The error is fs.ErrNotExist if another one has its name now.
func (f *File) Open() (*os.File, error) {
	m, err := newMounts(f.folder.root)
	if err != nil {
		return nil, err
	}
	defer m.close()
	dir, err := f.folder.at(m)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(dir) }()
	at, err := m.step(dir, f.Name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: f.Path(), Err: err}
	}
	defer func() { _ = unix.Close(at) }()
	st, err := m.stat(at, "")
	switch {
	case err != nil:
		return nil, &fs.PathError{Op: "stat", Path: f.Path(), Err: err}
	case identityOf(&st) != f.Identity || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1:
		return nil, &fs.PathError{Op: "open", Path: f.Path(), Err: fs.ErrNotExist}
	}
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC // a lease of a user is EAGAIN
	fd, err := openat.Retry(func() (int, error) { return unix.Open("/proc/self/fd/"+strconv.Itoa(at), flags, 0) })
	if errors.Is(err, fs.ErrNotExist) { // no procfs
		fd, err = openat.Retry(func() (int, error) { return unix.Openat(dir, f.Name, flags|unix.O_NOFOLLOW, 0) })
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: f.Path(), Err: err}
	}
	return os.NewFile(uintptr(fd), f.Path()), nil
}
