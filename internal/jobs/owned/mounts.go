// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/host/openat"
)

// mounts says of which file systems files are read: that of the folder of the site, and those of this machine.
type mounts struct {
	root  int // descriptor that stands for the folder
	own   mount
	sync  bool // the file system of the folder has to be asked for what is new
	local map[mount]bool
	types map[uint64]string // by device; nil: not read yet
}

// mount is a mount, before Linux 5.8 a file system.
type mount struct{ device, number uint64 }

func newMounts(root string) (*mounts, error) {
	fd, err := openat.Retry(func() (int, error) { return unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: root, Err: err}
	}
	m := &mounts{root: fd, local: map[mount]bool{}}
	var st unix.Statx_t
	var system unix.Statfs_t
	if err = statx(fd, "", 0, &st); err == nil {
		err = unix.Fstatfs(fd, &system)
	}
	if err != nil {
		m.close()
		return nil, &fs.PathError{Op: "stat", Path: root, Err: err}
	}
	m.own = mountOf(&st)
	m.sync = !slices.Contains([]int64{
		unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC,
		unix.TMPFS_MAGIC,
	}, int64(system.Type))
	return m, nil
}

func (m *mounts) close() { _ = unix.Close(m.root) }

// statx asks nothing of a server, nor of the program behind FUSE, unless flags say so.
func statx(fd int, name string, flags int, st *unix.Statx_t) error {
	const mask = unix.STATX_BASIC_STATS | unix.STATX_BTIME | unix.STATX_MNT_ID
	return unix.Statx(fd, name, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|flags, mask, st)
}

func mountOf(st *unix.Statx_t) mount {
	v := mount{device: unix.Mkdev(st.Dev_major, st.Dev_minor)}
	if st.Mask&unix.STATX_MNT_ID != 0 {
		v.number = st.Mnt_id
	}
	return v
}

func identityOf(st *unix.Statx_t) Identity {
	return Identity{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino}
}

// stat returns what is known of a name in a folder, or of the descriptor itself.
func (m *mounts) stat(fd int, name string) (unix.Statx_t, error) {
	var st unix.Statx_t
	err := statx(fd, name, unix.AT_STATX_DONT_SYNC, &st)
	if err == nil && !m.allowed(&st) {
		err = errElsewhere
	}
	if err == nil && m.sync && mountOf(&st) == m.own {
		err = statx(fd, name, 0, &st)
	}
	return st, err
}

// step returns a descriptor that stands for a name in a folder.
func (m *mounts) step(dir int, name string) (int, error) {
	if name == ".." || strings.Contains(name, "/") {
		return -1, unix.EXDEV
	}
	fd, err := openat.Retry(func() (int, error) {
		return unix.Openat(dir, name,
			unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return -1, err
	}
	st, err := m.stat(fd, "")
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = unix.ELOOP
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// allowed reports whether files of a mount are read.
func (m *mounts) allowed(st *unix.Statx_t) bool {
	of := mountOf(st)
	if of == m.own {
		return true
	}
	is, known := m.local[of]
	if !known {
		if m.types == nil {
			m.types = mountTypes()
		}
		is = slices.Contains([]string{"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "tmpfs", "ramfs", "overlay"},
			m.types[of.device])
		m.local[of] = is
	}
	return is
}

// mountTypes returns the types of file systems by device, see proc_pid_mountinfo(5). Asking a file system for
// its type might wait for it.
func mountTypes() map[uint64]string {
	const most = 8 << 20
	types := map[uint64]string{}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return types
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return types
	}
	for line := range bytes.Lines(text) {
		if device, kind, err := parseMount(string(line)); err == nil {
			types[device] = kind
		}
	}
	return types
}

var errMount = errors.New("not a line of mountinfo")

// parseMount parses "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue".
func parseMount(line string) (device uint64, kind string, err error) {
	before, after, found := strings.Cut(line, " - ")
	fields := strings.Fields(before)
	types := strings.Fields(after)
	if !found || len(fields) < 3 || len(types) == 0 {
		return 0, "", errMount
	}
	major, minor, found := strings.Cut(fields[2], ":")
	a, errA := parseUint(major)
	b, errB := parseUint(minor)
	if !found || errA != nil || errB != nil {
		return 0, "", errMount
	}
	return unix.Mkdev(a, b), types[0], nil
}

func parseUint(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err
}
