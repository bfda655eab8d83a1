// SPDX-License-Identifier: Apache-2.0

package library

import (
	"bufio"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"gpufabric_exporter/internal/ownership"
)

const maxMaps = 64 << 20 // bytes of a memory map

// MappedNCCL returns the version of the libnccl that a process of this procfs has mapped; empty: it has none
// or several, or the file that it mapped is no longer there, or says no version. It may hang with the file
// system of the library.
func MappedNCCL(procfs string, pid int) string {
	dir := filepath.Join(procfs, strconv.Itoa(pid))
	maps, err := os.Open(filepath.Join(dir, "maps"))
	if err != nil {
		return ""
	}
	defer maps.Close()
	name, inode := mappedNCCL(maps)
	if name == "" {
		return ""
	}
	opened, err := ownership.Open(filepath.Join(dir, "root"), name)
	if err != nil {
		return ""
	}
	defer opened.File.Close()
	info, err := opened.File.Stat()
	if err != nil {
		return ""
	}
	// Another file may be at this path by now, such as that of an upgrade: the process still runs the one that it mapped.
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Ino != inode {
		return ""
	}
	return ncclVersion(opened.File, info.Size())
}

// mappedNCCL finds the path and the inode of libnccl in a memory map (show_map_vma of fs/proc/task_mmu.c):
// lines "address permissions offset device inode path". The kernel adds " (deleted)" to the path of a file
// that is gone, which then does not end as it has to.
func mappedNCCL(r io.Reader) (name string, inode uint64) {
	lines := bufio.NewScanner(io.LimitReader(r, maxMaps))
	for lines.Scan() {
		f := strings.SplitN(lines.Text(), " ", 6)
		if len(f) < 6 {
			continue
		}
		p := strings.TrimLeft(f[5], " ")
		if !strings.HasPrefix(p, "/") || !strings.HasPrefix(path.Base(p), "libnccl.so") {
			continue
		}
		n, err := strconv.ParseUint(f[4], 10, 64)
		if err != nil || name != "" && (p != name || n != inode) {
			return "", 0
		}
		name, inode = p, n
	}
	if lines.Err() != nil || strings.ContainsAny(name, " \\") {
		return "", 0
	}
	return name, inode
}
