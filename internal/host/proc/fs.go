// SPDX-License-Identifier: Apache-2.0

// Package proc reads from procfs when the node booted, which kernel it runs, whether a hypervisor is below it, which
// network interfaces its default routes leave through, how much memory the daemons that start jobs may lock, and which
// processes run. It never writes and never leaves its root directory.
//
// An FS may be used by any number of goroutines, Daemons by one at a time. A file that cannot be read costs
// one fact, which is then unknown with a reason; only routes and processes, which are no facts of their own,
// come with an error.
package proc

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/openat"
)

// maxSize bounds what is read of one file. The longest, stat and the routing tables, grow with the CPUs and
// the routes of a node and stay below a tenth of it.
const maxSize = 4 << 20

var errMalformed = fabric.Because(fabric.ReasonMalformed, "not what procfs promises")

// FS is a mounted procfs.
type FS struct {
	root     *os.Root
	recorder openat.Recorder // nil outside of a capture
}

// Open opens the procfs mounted at root.
func Open(root string) (*FS, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("procfs: %w", err)
	}
	return &FS{root: r}, nil
}

// Close closes the root; nothing can be read after it.
func (f *FS) Close() error { return f.root.Close() }

// Record reports the files that are read from now on to rec. Call it before the first read. Redactions say
// what of them may leave the node.
func (f *FS) Record(rec openat.Recorder) { f.recorder = rec }

// Host reads what the node itself is. What cannot change while its kernel runs it takes from last, once that is known.
func (f *FS) Host(last fabric.Host, now time.Time) fabric.Host {
	h := fabric.Host{BootTime: readFact(f, "stat", now, parseBootTime), Kernel: last.Kernel, Hypervisor: last.Hypervisor}
	if h.Kernel.State != fabric.OK {
		h.Kernel = f.kernel(now)
	}
	if h.Hypervisor.State != fabric.OK {
		h.Hypervisor = f.hypervisor(now)
	}
	return h
}

// kernel asks the kernel itself where procfs has nothing but processes (subset=pid).
func (f *FS) kernel(now time.Time) fabric.Fact[string] {
	release := readFact(f, "sys/kernel/osrelease", now, parseRelease)
	var name unix.Utsname
	if release.State == fabric.OK || !f.isKernel() || unix.Uname(&name) != nil {
		return release
	}
	if s, ok := parseRelease([]byte(unix.ByteSliceToString(name.Release[:]))); ok {
		return fabric.Known(s, "uname", now)
	}
	return release
}

// isKernel reports whether the root is a mounted procfs, and not a copy of one.
func (f *FS) isKernel() bool {
	dir, err := f.root.Open(".")
	if err != nil {
		return false
	}
	defer func() { _ = dir.Close() }()
	var st unix.Statfs_t
	return unix.Fstatfs(int(dir.Fd()), &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}

// hypervisor looks at the first processor only: the file grows with their number.
func (f *FS) hypervisor(now time.Time) fabric.Fact[bool] {
	const name, enough = "cpuinfo", 16 << 10
	b, err := f.readStart(name, enough)
	if err != nil {
		return fabric.UnknownFact[bool](fabric.ReasonOf(err), name, now)
	}
	is, ok := parseHypervisor(b)
	if !ok { // processors of ARM have no such flag
		return fabric.UnknownFact[bool](fabric.ReasonMissing, name, now)
	}
	return fabric.Known(is, name, now)
}

func readFact[T any](f *FS, name string, now time.Time, parse func([]byte) (T, bool)) fabric.Fact[T] {
	b, err := f.read(name)
	if err != nil {
		return fabric.UnknownFact[T](fabric.ReasonOf(err), name, now)
	}
	v, ok := parse(b)
	if !ok {
		return fabric.UnknownFact[T](fabric.ReasonMalformed, name, now)
	}
	return fabric.Known(v, name, now)
}

// read reads a whole file.
func (f *FS) read(name string) ([]byte, error) {
	b, err := f.readStart(name, maxSize+1)
	if err == nil && len(b) > maxSize {
		return nil, fmt.Errorf("%s: %w: longer than %d bytes", name, errMalformed, maxSize)
	}
	return b, err
}

// readStart reads so many bytes of a file.
func (f *FS) readStart(name string, limit int64) ([]byte, error) {
	if f.recorder == nil {
		return f.readRegular(name, limit)
	}
	if err := f.recorder.Begin(name); err != nil {
		return nil, err
	}
	b, err := f.readRegular(name, limit)
	f.recorder.Text(name, b, err)
	return b, err
}

// readRegular does not wait for a writer of a FIFO, and refuses what is not a regular file.
func (f *FS) readRegular(name string, limit int64) ([]byte, error) {
	file, err := f.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // nothing was written that could be lost
	switch info, err := file.Stat(); {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s: %w", name, unix.EISDIR)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: %w: expected a regular file", name, errMalformed)
	}
	b, err := io.ReadAll(io.LimitReader(file, limit))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

// Starved is how long the threads of this process have waited for a processor so far, all of them together; 0 where
// the kernel does not say (CONFIG_SCHED_INFO), or the root is a copy.
func (f *FS) Starved() (waited time.Duration) {
	tasks, err := fs.Glob(f.root.FS(), "self/task/*/schedstat")
	if err != nil {
		return 0
	}
	for _, task := range tasks {
		text, err := f.root.ReadFile(task)
		if fields := strings.Fields(string(text)); err == nil && len(fields) == 3 { // on a processor, waiting, how often
			ns, _ := strconv.ParseInt(fields[1], 10, 64)
			waited += time.Duration(ns)
		}
	}
	return waited
}
