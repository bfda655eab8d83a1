// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/openat"
)

const (
	maxMounts  = 4 << 20 // bytes of mountinfo
	maxDevices = 1 << 12 // entries of a folder
)

// errRemote means that an answer could only come from a server or a daemon: it may never come.
var errRemote = fabric.Because(fabric.ReasonUnsupported, "file system of a network or of FUSE, which may hang")

// devices counts the device nodes that a process can open, in /dev of its mount namespace.
func (r *Reader) devices(dir string) (v fabric.ProcessDevices, err error) {
	types, err := r.mounts(dir)
	if err != nil {
		return v, err
	}
	more := uint64(0)
	switch {
	case isLocal(types["/"]):
	case types["/dev"] == "": // it is on the root
		return v, fmt.Errorf("%s/root/dev: %w", dir, errRemote)
	default: // a mount point is cached: the kernel answers without asking the file system, or not at all
		more = openat.ResolveCached
	}
	for _, p := range []string{"/dev", "/dev/infiniband"} {
		if t := types[p]; t != "" && !isLocal(t) {
			return v, fmt.Errorf("%s/root%s: %w", dir, p, errRemote)
		}
	}
	root, err := r.open(dir+"/root", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return v, err
	}
	defer func() { _ = unix.Close(root) }()
	if v.GPUs, err = nodes(root, "dev", "nvidia", more); err != nil {
		return fabric.ProcessDevices{}, err
	}
	v.Uverbs, err = nodes(root, "dev/infiniband", "uverbs", more)
	if errors.Is(err, unix.ENOENT) {
		v.Uverbs, err = 0, nil
	}
	if err != nil {
		return fabric.ProcessDevices{}, err
	}
	return v, nil
}

// nodes counts the character devices in a folder whose name is a prefix and a number.
func nodes(root int, folder, prefix string, more uint64) (n int, err error) {
	fd, err := openat.DirInRoot(root, folder, more)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return 0, err
	}
	if !isLocalMagic(st.Type) {
		return 0, fmt.Errorf("%s: %w", folder, errRemote)
	}
	seen := 0
	_, err = openat.Entries(fd, make([]byte, 8<<10), func(e openat.Entry) error {
		if seen++; seen > maxDevices {
			return fabric.Because(fabric.ReasonMalformed, fmt.Sprintf("%s: more than %d entries", folder, maxDevices))
		}
		if _, is := number(e.Name, []byte(prefix)); !is {
			return nil
		}
		var node unix.Stat_t // what a runtime mounts over a file is a device, too
		err := unix.Fstatat(fd, string(e.Name), &node, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT)
		if err == nil && node.Mode&unix.S_IFMT == unix.S_IFCHR {
			n++
		}
		return nil
	})
	return n, err
}

// layered is the type that an overlay has whose layers are not known.
const layered = "overlay of a user"

// mounts returns the types of the file systems on the way to what is read of a root. A user can mount an
// overlay in a user namespace of his own, and have FUSE below it: one there counts as a file system that may
// hang.
func (r *Reader) mounts(dir string) (map[string]string, error) {
	types, err := parsed(r, dir+"/mountinfo", parseMounts)
	if err != nil {
		return nil, err
	}
	for at, kind := range types {
		if kind == "overlay" && !r.mountsOfNode(dir) {
			types[at] = layered
		}
	}
	return types, nil
}

// mountsOfNode reports whether only root of the node can mount where a process is: its mount namespace is
// owned by the first user namespace (NS_GET_USERNS). Linux before 4.9 does not say, and lets no user mount an
// overlay.
func (r *Reader) mountsOfNode(dir string) bool {
	const initial, getUserNS = 0xEFFFFFFD, 0xb701 // PROC_USER_INIT_INO of linux/proc_ns.h; linux/nsfs.h
	fd, err := r.open(dir+"/ns/mnt", unix.O_RDONLY)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	owner, err := unix.IoctlRetInt(fd, getUserNS)
	if err != nil {
		return errors.Is(err, unix.ENOTTY)
	}
	defer func() { _ = unix.Close(owner) }()
	var st unix.Stat_t
	return unix.Fstat(owner, &st) == nil && st.Ino == initial
}

// parseMounts reads the types of the file systems on the way to what is read of a root, from mountinfo
// (show_mountinfo of fs/proc_namespace.c): "id parent device root mountpoint options ... - type source
// options". The last one is on top.
func parseMounts(f io.Reader) (map[string]string, error) {
	types := map[string]string{}
	limited := &io.LimitedReader{R: f, N: maxMounts}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, 64<<10) // options of an overlay are a page at most
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(before)
		if !ok || len(fields) < 6 {
			return nil, malformed("mountinfo")
		}
		kind, _, _ := strings.Cut(after, " ")
		if at := fields[4]; isMountOfInterest(at) {
			types[at] = kind
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, malformed("mountinfo")
	case err != nil:
		return nil, err
	case limited.N == 0:
		return nil, fabric.Because(fabric.ReasonMalformed, "mountinfo of more than 4 MiB")
	case types["/"] == "":
		return nil, malformed("mountinfo without a root")
	}
	return types, nil
}

// isLocal reports whether a file system of that type answers without another host or process. Others may hang.
func isLocal(kind string) bool {
	switch kind {
	case "overlay", "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "tmpfs", "devtmpfs", "ramfs", "rootfs",
		"squashfs", "erofs":
		return true
	}
	return false
}

// isLocalMagic is isLocal for the numbers of statfs(2).
func isLocalMagic(magic int64) bool {
	const zfs = 0x2fc12fc1
	switch magic {
	case unix.OVERLAYFS_SUPER_MAGIC, unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC,
		unix.F2FS_SUPER_MAGIC,
		unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.SQUASHFS_MAGIC, unix.EROFS_SUPER_MAGIC_V1, zfs:
		return true
	}
	return false
}
