// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const maxMounts = 4 << 20 // bytes of /proc/self/mountinfo

// judgeFUSE distrusts what lies in a file system that a process of another user serves: it shows any owner
// that it likes, and other content with each read. A user can mount one on a directory that is theirs, such
// as /home/alice, and let root in where /etc/fuse.conf has user_allow_other.
func (w *walker) judgeFUSE(fd int, shown string, st *unix.Stat_t) {
	var is unix.Statfs_t
	if unix.Fstatfs(fd, &is) != nil || is.Type != unix.FUSE_SUPER_MAGIC {
		return
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		w.distrust(fmt.Errorf("%s: %w: a FUSE file system, of which is not known whose it is: %w", shown, fs.ErrPermission,
			err))
		return
	}
	defer f.Close()
	mounts, err := io.ReadAll(io.LimitReader(f, maxMounts))
	if err == nil && servedByUs(mounts, st.Dev) {
		return
	}
	w.distrust(fmt.Errorf("%s: %w: a FUSE file system that root or user %d is not known to have mounted shows any owner: others could have put it there",
		shown, fs.ErrPermission, os.Geteuid()))
}

// servedByUs reports whether root or the user of this process mounted the FUSE file system of that device, as
// /proc/self/mountinfo says (proc_pid_mountinfo(5); user_id of fuse_show_options, fs/fuse/inode.c). The host
// of a virtual machine serves virtiofs, which is of that kind, too.
func servedByUs(mountinfo []byte, dev uint64) bool {
	device := fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev))
	for line := range bytes.Lines(mountinfo) {
		before, after, ok := strings.Cut(strings.TrimSuffix(string(line), "\n"), " - ")
		mount, super := strings.Fields(before), strings.Fields(after)
		if !ok || len(mount) < 3 || len(super) < 3 || mount[2] != device {
			continue
		}
		if super[0] == "virtiofs" {
			return true
		}
		for option := range strings.SplitSeq(super[2], ",") {
			if text, ok := strings.CutPrefix(option, "user_id="); ok {
				uid, err := strconv.Atoi(text)
				return err == nil && (uid == 0 || uid == os.Geteuid())
			}
		}
	}
	return false
}
