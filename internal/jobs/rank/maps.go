// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// Bounds of a memory map: vm.max_map_count is 65,530 by default, and some sites raise it.
const (
	maxMaps    = 64 << 20 // bytes
	maxPlugins = 8
)

// parseMaps reads which libraries and segments a process has mapped (show_map_vma of fs/proc/task_mmu.c):
// lines "address permissions offset device inode path". In paths the kernel escapes newlines. It keeps no
// path but that of libnccl and the ends of those of plugins.
func parseMaps(f io.Reader) (fabric.MappedFiles, error) {
	var m fabric.MappedFiles
	var last string // path: a file is mapped in several pieces, one after the other
	limited := &io.LimitedReader{R: f, N: maxMaps}
	lines := bufio.NewReaderSize(limited, 64<<10)
	for {
		line, err := lines.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		if len(line) > 0 && !long {
			if p := mapped(line); len(p) > 0 && string(p) != last {
				last = string(p)
				note(&m, last)
			}
		}
		// no line of the kernel is that long
		for ; long && errors.Is(err, bufio.ErrBufferFull); _, err = lines.ReadSlice('\n') {
		}
		switch {
		case errors.Is(err, io.EOF) && limited.N == 0:
			return fabric.MappedFiles{}, fabric.Because(fabric.ReasonMalformed, "memory map of more than 64 MiB")
		case errors.Is(err, io.EOF):
			slices.Sort(m.Hints)
			return m, nil
		case err != nil:
			return fabric.MappedFiles{}, err
		}
	}
}

// mapped returns the path in a line if it is that of a file.
func mapped(line []byte) []byte {
	for range 5 {
		_, rest, ok := bytes.Cut(line, []byte(" "))
		if !ok {
			return nil
		}
		line = rest
	}
	line = bytes.TrimSuffix(bytes.TrimLeft(line, " "), []byte("\n"))
	if len(line) == 0 || line[0] != '/' {
		return nil
	}
	return bytes.TrimSuffix(line, []byte(" (deleted)"))
}

// hint is what a library says by its name, or by a folder of its path.
type hint struct{ text, hint string }

func libraryHints() []hint {
	return []hint{
		{"libefa.so", "efa"},
		{"libefa-", "efa"},
		{"libfabric.so", "fabric"},
		{"libcxi.so", "cxi"},
		{"libucp.so", "ucx"},
		{"libnvshmem", "nvshmem"},
		{"libmpi.so", "mpi"},
		{"libtcpx", "tcpx"},
	}
}

func folderHints() []hint {
	return []hint{
		{"/tcpxo/", "fastrak"},
		{"/fastrak/", "fastrak"},
		{"/tcpx/", "tcpx"},
		{"/gib/", "gib"},
		{"/aws-ofi-nccl/", "efa"},
		{"/hpcx", "hpcx"},
		{"/nccl_rdma_sharp_plugin/", "hpcx"},
	}
}

// note takes note of a mapped file.
func note(m *fabric.MappedFiles, p string) {
	base := path.Base(p)
	plugin := strings.HasPrefix(base, "libnccl-net") && strings.Contains(base, ".so")
	switch {
	case strings.HasPrefix(p, "/dev/shm/nccl-"):
		m.Segments++
		return
	case plugin:
		if len(m.Plugins) < maxPlugins {
			m.Plugins = add(m.Plugins, plain(end(p), 128))
		}
		for _, h := range folderHints() {
			if strings.Contains(strings.ToLower(p), h.text) {
				m.Hints = add(m.Hints, h.hint)
				break
			}
		}
	case strings.HasPrefix(base, "libnccl.so"):
		m.NCCL = plain(p, 256)
		m.Version = version(strings.TrimPrefix(base, "libnccl.so"))
	case strings.HasPrefix(base, "libtorch_cuda"):
		m.Torch = true
	case strings.HasPrefix(base, "libibverbs.so"):
		m.Verbs = true
	}
	for _, h := range libraryHints() {
		if strings.HasPrefix(base, h.text) {
			m.Hints = add(m.Hints, h.hint)
		}
	}
}

// end returns the last four parts of a path.
func end(p string) string {
	i := len(p)
	for range 4 {
		if i = strings.LastIndexByte(p[:i], '/'); i <= 0 {
			return strings.TrimPrefix(p, "/")
		}
	}
	return p[i+1:]
}

// version returns "2.27.3" of ".2.27.3"; empty where there is no such number.
func version(suffix string) string {
	v, ok := strings.CutPrefix(suffix, ".")
	if !ok || strings.Count(v, ".") != 2 || len(v) > 16 || strings.Trim(v, "0123456789.") != "" ||
		strings.Contains(v, "..") || v[len(v)-1] == '.' || v[0] == '.' {
		return ""
	}
	return v
}
