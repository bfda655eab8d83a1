// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/openat"
)

const (
	confFile = "/etc/nccl.conf"
	maxConf  = 64 << 10 // bytes
)

// conf reads nccl.conf as a process sees it; no variables where there is no file. The file is opened only
// after it is known to be a regular file of a local file system: to open a device may start something, and
// that of a server may never return. Two paths lead there: one without links through mounts that are all
// known, and one through links that leaves no mount.
func (r *Reader) conf(dir string) ([]fabric.NCCLVariable, error) {
	types, err := r.mounts(dir)
	if err != nil {
		return nil, err
	}
	for _, at := range []string{"/", "/etc", confFile} {
		if t := types[at]; t != "" && !isLocal(t) {
			return nil, fmt.Errorf("%s/root%s: %w", dir, at, errRemote)
		}
	}
	root, err := r.open(dir+"/root", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(root) }()
	file, err := openat.PathInRoot(root, confFile, unix.RESOLVE_NO_SYMLINKS)
	if errors.Is(err, unix.ELOOP) {
		file, err = openat.PathInRoot(root, confFile, unix.RESOLVE_NO_XDEV)
	}
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return nil, nil
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ELOOP):
		return nil, fabric.Because(fabric.ReasonUnsupported,
			confFile+": a link that leads to another file system, or that cannot be followed here")
	case err != nil:
		return nil, err
	}
	defer func() { _ = unix.Close(file) }()
	text, err := readConf(file)
	defer clear(text)
	if err != nil || r.sources.Conf == nil {
		return nil, err
	}
	return r.sources.Conf(text), nil
}

func readConf(file int) ([]byte, error) {
	f, err := regular(file, confFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConf+1))
	if err == nil && len(text) > maxConf {
		err = fabric.Because(fabric.ReasonMalformed, fmt.Sprintf("%s: more than %d bytes", confFile, maxConf))
	}
	return text, err
}

// regular opens the file that a descriptor of O_PATH stands for, if it is a regular one of a local file
// system. name is for errors.
func regular(file int, name string) (*os.File, error) {
	var st unix.Stat_t
	var fs unix.Statfs_t
	switch err := errors.Join(unix.Fstat(file, &st), unix.Fstatfs(file, &fs)); {
	case err != nil:
		return nil, err
	case !isLocalMagic(fs.Type):
		return nil, fmt.Errorf("%s: %w", name, errRemote)
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, fabric.Because(fabric.ReasonMalformed, name+": not a regular file")
	}
	// A program that has a lease on its file is not waited for.
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", file),
		unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, fabric.Because(fabric.ReasonUnsupported, name+": a program has a lease on it (F_SETLEASE)")
	case err != nil:
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// isMountOfInterest reports whether files that are read of a root are below the mount point.
func isMountOfInterest(at string) bool {
	switch at {
	case "/", "/dev", "/dev/infiniband", "/etc", confFile:
		return true
	}
	return false
}
