// SPDX-License-Identifier: Apache-2.0

// Package inside reads the environment in which a process runs, such as the container of a job: device nodes, limits,
// libraries, and variables of the scheduler. It needs no privilege and loads no library.
//
// Of device nodes, only those of libibverbs are opened, because nothing else shows what the device control
// group and the RDMA core allow: files in /sys do not, and access(2) does not ask either. The kernel's
// ib_uverbs_open calls no driver and sends no command: it allocates a file and holds the module of drivers
// that cannot be unplugged until the file is closed again, at once. A node is opened only if its number is
// the one that sysfs gives that uverbs device. Nodes of GPUs are never opened: that may
// start the GPU.
//
// Concurrency: a Reader is immutable and may be used by any number of goroutines. Folders may be on file
// systems that do not answer; then Read does not return. Errors are in the facts. Everything read is
// untrusted and bounded.
package inside

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/lazyregexp"
)

// Reader says where to read. Root is where the file system begins; LibraryPath is LD_LIBRARY_PATH.
type Reader struct {
	Dev, Sysfs, Procfs, Root string
	LibraryPath              string
	Environment              func(name string) (value string, set bool)
}

// Limits of what is read.
const (
	maxNodes    = 1024
	maxEntries  = 1 << 16 // of a folder
	maxFile     = 4096    // bytes
	maxVariable = 4096    // bytes
)

// Read reads everything.
func (r *Reader) Read(now time.Time) fabric.Inside {
	in := fabric.Inside{Environment: map[string]string{}}
	for _, name := range fabric.InsideVariables() {
		if v, set := r.Environment(name); set && len(v) <= maxVariable {
			in.Environment[name] = v
		}
	}
	in.Memlock, in.LocksAll = memlock(now), r.locksAll(now)
	in.Verbs = r.verbs(now)
	in.GPUs = r.gpus(now)
	r.libraries(&in, now)
	return in
}

func memlock(now time.Time) fabric.Fact[fabric.Memlock] {
	const source = "RLIMIT_MEMLOCK"
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); err != nil {
		return fabric.UnknownFact[fabric.Memlock](fabric.ReasonOf(err), source, now)
	}
	return fabric.Known(fabric.Memlock{Soft: l.Cur, Hard: l.Max}, source, now) // RLIM_INFINITY is fabric.NoLimit
}

// locksAll reports whether this process has CAP_IPC_LOCK where the kernel asks for it: root of another user
// namespace, as in rootless containers, has not.
func (r *Reader) locksAll(now time.Time) fabric.Fact[bool] {
	const source = "self/status"
	status, err := read(filepath.Join(r.Procfs, source))
	if err != nil {
		return fabric.UnknownFact[bool](fabric.ReasonOf(err), source, now)
	}
	users, err := read(filepath.Join(r.Procfs, "self/uid_map"))
	if err != nil {
		return fabric.UnknownFact[bool](fabric.ReasonOf(err), "self/uid_map", now)
	}
	_, rest, found := strings.Cut(status, "\nCapEff:")
	text, _, _ := strings.Cut(rest, "\n")
	caps, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
	if !found || err != nil {
		return fabric.UnknownFact[bool](fabric.ReasonMalformed, source, now)
	}
	first := slices.Equal(strings.Fields(users), []string{"0", "0", "4294967295"})
	return fabric.Known(first && caps&(1<<unix.CAP_IPC_LOCK) != 0, source, now)
}

var uverbs = lazyregexp.New(`^uverbs[0-9]{1,4}$`)

func (r *Reader) verbs(now time.Time) fabric.Fact[[]fabric.VerbsNode] {
	const source = "/dev/infiniband"
	dir := filepath.Join(r.Dev, "infiniband")
	all, err := list(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fabric.Known([]fabric.VerbsNode(nil), source, now)
	}
	if err != nil {
		return fabric.UnknownFact[[]fabric.VerbsNode](fabric.ReasonOf(err), source, now)
	}
	var nodes []fabric.VerbsNode
	for _, name := range all {
		if uverbs().MatchString(name) && len(nodes) < maxNodes {
			nodes = append(nodes, r.verbsNode(dir, name, now))
		}
	}
	return fabric.Known(nodes, source, now)
}

func (r *Reader) verbsNode(dir, name string, now time.Time) fabric.VerbsNode {
	class := filepath.Join(r.Sysfs, "class/infiniband_verbs", name)
	device, _ := read(filepath.Join(class, "ibdev"))
	node := fabric.VerbsNode{Name: name, Device: strings.TrimSpace(device)}
	source := filepath.Join(dir, name)
	unknown := func(err error) fabric.VerbsNode {
		node.Usable = fabric.UnknownFact[bool](fabric.ReasonOf(err), source, now)
		return node
	}
	number, err := read(filepath.Join(class, "dev"))
	if err != nil {
		return unknown(err)
	}
	fd, err := unix.Open(source, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return unknown(err)
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return unknown(err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || fmt.Sprintf("%d:%d", unix.Major(st.Rdev),
		unix.Minor(st.Rdev)) != strings.TrimSpace(number) {
		return unknown(fabric.Because(fabric.ReasonMalformed, "not the node of this device"))
	}
	opened, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	switch {
	case err == nil:
		_ = unix.Close(opened)
		node.Usable = fabric.Known(true, source, now)
	case errors.Is(err, fs.ErrPermission):
		node.Usable = fabric.Known(false, source, now)
	default:
		return unknown(err)
	}
	return node
}

// gpuNode is the node of a GPU, and not nvidiactl or nvidia-uvm.
var gpuNode = lazyregexp.New(`^nvidia([0-9]{1,3})$`)

func (r *Reader) gpus(now time.Time) fabric.Fact[[]fabric.GPUNode] {
	const source = "/dev"
	all, err := list(r.Dev)
	if err != nil {
		return fabric.UnknownFact[[]fabric.GPUNode](fabric.ReasonOf(err), source, now)
	}
	byMinor := r.information()
	var nodes []fabric.GPUNode
	for _, name := range all {
		m := gpuNode().FindStringSubmatch(name)
		if m == nil {
			continue
		}
		minor, _ := strconv.Atoi(m[1])
		node := byMinor[minor]
		node.Minor = minor
		nodes = append(nodes, node)
	}
	slices.SortFunc(nodes, func(a, b fabric.GPUNode) int { return a.Minor - b.Minor })
	return fabric.Known(nodes, source, now)
}

var (
	pciAddress = lazyregexp.New(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	gpuUUID    = lazyregexp.New(`^GPU-[0-9a-f-]{8,36}$`)
)

// information reads what the driver reports about its GPUs (driver/nvidia/gpus of procfs), by minor number.
func (r *Reader) information() map[int]fabric.GPUNode {
	byMinor := map[int]fabric.GPUNode{}
	dir := filepath.Join(r.Procfs, "driver/nvidia/gpus")
	addresses, _ := list(dir)
	for _, address := range addresses {
		if !pciAddress().MatchString(address) || len(byMinor) == maxNodes {
			continue
		}
		text, err := read(filepath.Join(dir, address, "information"))
		if err != nil {
			continue
		}
		node, minor := fabric.GPUNode{Address: address}, -1
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(line, ":")
			switch value = strings.TrimSpace(value); name {
			case "GPU UUID":
				if gpuUUID().MatchString(value) {
					node.UUID = value
				}
			case "Device Minor":
				if n, err := strconv.Atoi(value); err == nil && n >= 0 {
					minor = n
				}
			}
		}
		if minor >= 0 {
			byMinor[minor] = node
		}
	}
	return byMinor
}

// list returns the names in a folder, sorted.
func list(dir string) ([]string, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(maxEntries)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	slices.Sort(names)
	return names, err
}

// read returns the beginning of a file of procfs or sysfs.
func read(file string) (string, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	return string(b), err
}
