// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package safety

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// call is a system call that a thread is about to make.
type call struct {
	process *Process
	tid     int
	number  uint64
	args    [6]uint64
}

// rule says what a call is, for the record, or why it is a violation.
type rule func(*call) (string, error)

// at is the rule for what changes a name in a folder; dir -1: the working directory.
func at(what string, dir, path int) rule {
	return func(c *call) (string, error) { return c.owns(what, dir, path) }
}

// of is the rule for what changes the file that a descriptor is of.
func of(what string) rule {
	return func(c *call) (string, error) { return what + " own file", c.owned(c.link("fd", int(int32(c.args[0])))) }
}

// rules are for calls that may be allowed.
var rules = map[uint64]rule{
	unix.SYS_OPEN: (*call).open, unix.SYS_OPENAT: (*call).open, unix.SYS_OPENAT2: (*call).open,
	unix.SYS_WRITE: (*call).send, unix.SYS_WRITEV: (*call).send, unix.SYS_SENDTO: (*call).send,
	unix.SYS_SENDMSG:  (*call).send,
	unix.SYS_PWRITE64: of("pwrite"), unix.SYS_FTRUNCATE: of("ftruncate"), unix.SYS_FCHMOD: of("fchmod"),
	unix.SYS_FCHOWN: of("fchown"),
	unix.SYS_UNLINK: at("unlink", -1, 0), unix.SYS_UNLINKAT: at("unlink", 0, 1), unix.SYS_RMDIR: at("rmdir", -1, 0),
	unix.SYS_MKDIR: at("mkdir", -1, 0), unix.SYS_MKDIRAT: at("mkdir", 0, 1), unix.SYS_SYMLINKAT: at("symlink", 1, 2),
	unix.SYS_FCHMODAT: at("chmod", 0, 1), unix.SYS_UTIMENSAT: at("utimensat", 0, 1),
	unix.SYS_RENAME: (*call).rename, unix.SYS_RENAMEAT: (*call).rename, unix.SYS_RENAMEAT2: (*call).rename,
	unix.SYS_SOCKET: (*call).socket, unix.SYS_CONNECT: (*call).connect, unix.SYS_IOCTL: (*call).ioctl,
	unix.SYS_SETNS: (*call).setns,
	unix.SYS_KILL:  (*call).kill, unix.SYS_TKILL: (*call).kill, unix.SYS_TGKILL: (*call).kill,
	unix.SYS_PIDFD_SEND_SIGNAL: (*call).kill,
	unix.SYS_EXECVE:            (*call).execve, unix.SYS_SETPRIORITY: (*call).priority, unix.SYS_PRLIMIT64: (*call).own,
	unix.SYS_SETPGID: (*call).own, unix.SYS_SCHED_SETAFFINITY: (*call).own,
}

func (c *call) judge() (string, error) {
	r := rules[c.number]
	if r == nil {
		return "", errors.New("expected a system call that is known to change nothing: no rule names it")
	}
	return r(c)
}

// name has the arguments as numbers, as the kernel gets them.
func (c *call) name() string {
	return fmt.Sprintf("system call %d(%#x, %#x, %#x, %#x)", c.number, c.args[0], c.args[1], c.args[2], c.args[3])
}

// memory is what the thread has at an address.
func (c *call) memory(address uint64, size int) ([]byte, error) {
	b := make([]byte, size)
	n, err := unix.ProcessVMReadv(c.tid, []unix.Iovec{{Base: &b[0], Len: uint64(size)}},
		[]unix.RemoteIovec{{Base: uintptr(address), Len: size}}, 0)
	if err != nil || n != size {
		return nil, fmt.Errorf("%d of %d bytes of the memory of thread %d: %w", n, size, c.tid, err)
	}
	return b, nil
}

// text is the string at an address.
func (c *call) text(address uint64) (string, error) {
	const page = 4096
	var text []byte
	for len(text) <= unix.PathMax {
		b, err := c.memory(address, int(page-address%page)) // what follows on the next page may not be there
		if err != nil {
			return "", err
		}
		before, _, ended := bytes.Cut(b, []byte{0})
		text = append(text, before...)
		if ended {
			return string(text), nil
		}
		address += uint64(len(b))
	}
	return "", errors.New("a path without an end")
}

// link follows a link in /proc of the thread.
func (c *call) link(name string, fd int) string {
	path := fmt.Sprintf("/proc/%d/%s", c.tid, name)
	if fd >= 0 {
		path += "/" + strconv.Itoa(fd)
	}
	to, _ := os.Readlink(path)
	return to
}

// path is an absolute path: the argument, from the folder that another argument is, -1: the working directory.
func (c *call) path(dir, path int) (string, error) {
	text, err := c.text(c.args[path])
	if own, ok := strings.CutPrefix(text, "/proc/self/"); ok { // of the thread, and not of the tracer
		return fmt.Sprintf("/proc/%d/%s", c.tid, filepath.Clean(own)), err
	}
	if err != nil || strings.HasPrefix(text, "/") {
		return filepath.Clean(text), err
	}
	if dir < 0 || int32(c.args[dir]) == unix.AT_FDCWD {
		return filepath.Join(c.link("cwd", -1), text), nil
	}
	return filepath.Join(c.link("fd", int(int32(c.args[dir]))), text), nil
}

// owned says why a path is not one that the program may write. Folders count where links lead.
func (c *call) owned(path string) error {
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	if target, err := filepath.EvalSymlinks(path); err == nil && target != path {
		path = target
	}
	for _, own := range c.process.rules.Files {
		if path == own || strings.HasPrefix(path, own+"/") {
			return nil
		}
	}
	return fmt.Errorf("%s: expected a file of its own", path)
}

func (c *call) owns(what string, dir, path int) (string, error) {
	name, err := c.path(dir, path)
	if err != nil {
		return "", err
	}
	if folder, e := filepath.EvalSymlinks(filepath.Dir(name)); e == nil {
		name = filepath.Join(folder, filepath.Base(name))
	}
	for _, own := range c.process.rules.Files { // the name itself, wherever it leads
		if name == own || strings.HasPrefix(name, own+"/") {
			return what + " own file", nil
		}
	}
	return "", fmt.Errorf("%s %s: expected a file of its own", what, name)
}

func (c *call) rename() (string, error) {
	from, to := [2]int{0, 1}, [2]int{2, 3}
	if c.number == unix.SYS_RENAME {
		from, to = [2]int{-1, 0}, [2]int{-1, 1}
	}
	if what, err := c.owns("rename", from[0], from[1]); err != nil {
		return what, err
	}
	return c.owns("rename", to[0], to[1])
}

// rdmaDevice is how device nodes for verbs begin.
const rdmaDevice = "/dev/infiniband/uverbs"

// open allows to read everything, and to write what is its own.
func (c *call) open() (string, error) {
	dir, path, flags := 0, 1, c.args[2]
	switch c.number {
	case unix.SYS_OPEN:
		dir, path, flags = -1, 0, c.args[1]
	case unix.SYS_OPENAT2:
		how, err := c.memory(c.args[2], 8) // struct open_how begins with the flags
		if err != nil {
			return "", err
		}
		flags = binary.NativeEndian.Uint64(how)
	}
	if flags&unix.O_PATH != 0 || flags&changes == 0 {
		return "open to read (openat2)", nil
	}
	name, err := c.path(dir, path)
	switch {
	case err != nil:
		return "", err
	case name == os.DevNull:
		return "open " + os.DevNull, nil
	}
	if what, found := c.ownProcess(name); found {
		return "open own " + what, nil
	}
	// lint and preflight open what NCCL opens, to see whether they may. They write nothing to it (send), and ask
	// nothing of it (ioctl).
	if target, err := filepath.EvalSymlinks(name); err == nil && strings.HasPrefix(target, rdmaDevice) &&
		flags&changes == unix.O_RDWR {
		return "open " + rdmaDevice, nil
	}
	if err := c.owned(name); err != nil {
		return "", fmt.Errorf("open with flags %#x: %w", flags, err)
	}
	return "open own file to write", nil
}

// ownProcess says what a file in /proc sets of a process under judgement: its name, and that the kernel is to
// end it first.
func (c *call) ownProcess(path string) (what string, found bool) {
	pid, what, _ := strings.Cut(strings.TrimPrefix(path, "/proc/"), "/")
	n, _ := strconv.Atoi(pid)
	return what, (pid == "self" || c.process.known[n]) && (what == "comm" || what == "oom_score_adj")
}

// socket allows TCP, unix and netlink, and a socket for ioctl; see send.
func (c *call) socket() (string, error) {
	kind := c.args[1] & 0xf
	switch family := c.args[0]; {
	case family == unix.AF_NETLINK:
		return "socket netlink " + protocolName(int(c.args[2])), nil
	case family == unix.AF_UNIX:
		return "socket unix", nil
	case (family == unix.AF_INET || family == unix.AF_INET6) && kind == unix.SOCK_STREAM:
		return "socket tcp", nil
	case (family == unix.AF_INET || family == unix.AF_INET6) && kind == unix.SOCK_DGRAM:
		return "socket for ioctl", nil
	}
	return "", fmt.Errorf("family %d, type %d: expected TCP, unix or netlink", c.args[0], kind)
}

// connect allows this host.
func (c *call) connect() (string, error) {
	b, err := c.memory(c.args[1], int(min(c.args[2], 128)))
	if err != nil {
		return "", err
	}
	switch family := binary.NativeEndian.Uint16(b); {
	case family == unix.AF_NETLINK:
		return "connect netlink", nil
	case family == unix.AF_UNIX:
		return "connect unix", nil
	case family == unix.AF_INET && len(b) >= 8 && b[4] == 127, family == unix.AF_INET6 && len(b) >= 24 &&
		bytes.Equal(b[8:24], append(make([]byte, 15), 1)):
		return "connect loopback", nil
	}
	return "", fmt.Errorf("connect %x: expected an address of loopback", b)
}

// ioctl allows requests that read.
func (c *call) ioctl() (string, error) {
	switch request := c.args[1]; request {
	case unix.TCGETS, unix.TIOCGWINSZ, unix.TIOCINQ:
		return "ioctl of a descriptor", nil
	case unix.SIOCGIFINDEX, unix.SIOCGIFNAME, unix.SIOCGIFFLAGS:
		return "ioctl SIOCGIF", nil
	case unix.SIOCETHTOOL:
		ifreq, err := c.memory(c.args[2], 24)
		if err != nil {
			return "", err
		}
		command, err := c.memory(binary.NativeEndian.Uint64(ifreq[16:]), 4)
		if err != nil {
			return "", err
		}
		names := map[uint32]string{
			unix.ETHTOOL_GDRVINFO: "GDRVINFO", unix.ETHTOOL_GSTRINGS: "GSTRINGS",
			unix.ETHTOOL_GSTATS: "GSTATS", unix.ETHTOOL_GSSET_INFO: "GSSET_INFO",
		}
		if name := names[binary.NativeEndian.Uint32(command)]; name != "" {
			return "ioctl ETHTOOL_" + name, nil
		}
		return "", fmt.Errorf("ioctl SIOCETHTOOL, command %x: expected one that reads", command)
	default:
		return "", fmt.Errorf("ioctl %#x of %s: expected one that reads", request, c.link("fd", int(int32(c.args[0]))))
	}
}

// setns allows a thread to enter a network namespace.
func (c *call) setns() (string, error) {
	if to := c.link("fd", int(int32(c.args[0]))); c.args[1] == unix.CLONE_NEWNET || strings.HasPrefix(to, "net:[") {
		return "setns of a thread, network", nil
	}
	return "", errors.New("setns: expected a network namespace")
}

// kill allows signal 0, and signals to processes under the same judgement.
func (c *call) kill() (string, error) {
	to, signal := int(int32(c.args[0])), c.args[1]
	switch c.number {
	case unix.SYS_TGKILL:
		signal = c.args[2]
	case unix.SYS_PIDFD_SEND_SIGNAL:
		info, _ := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", c.tid, to))
		_, pid, _ := strings.Cut(string(info), "Pid:\t")
		pid, _, _ = strings.Cut(pid, "\n")
		to, _ = strconv.Atoi(pid)
	}
	if to < -1 {
		to = -to // the leader of the group
	}
	if signal == 0 || to > 1 && c.process.known[to] {
		return "signal to itself or its child", nil
	}
	return "", fmt.Errorf("signal %d to process %d: expected a process of its own", signal, to)
}

// priority allows a process to lower or raise its own, and that of its group.
func (c *call) priority() (string, error) {
	if c.args[0] != unix.PRIO_USER && c.args[1] == 0 {
		return "priority of itself", nil
	}
	return "", errors.New("setpriority: expected its own")
}

// own allows what concerns the calling process or its child.
func (c *call) own() (string, error) {
	if pid := int(int32(c.args[0])); pid == 0 || c.process.known[pid] || c.number == unix.SYS_PRLIMIT64 && c.args[2] == 0 {
		return "limits and group of itself or its child", nil
	}
	return "", errors.New("expected a process of its own")
}

func (c *call) execve() (string, error) {
	path, err := c.text(c.args[0])
	if err != nil {
		return "", err
	}
	if path == c.process.self || path == "/proc/self/exe" || slices.Contains(c.process.rules.Programs, path) {
		return "execve " + filepath.Base(path), nil
	}
	return "", fmt.Errorf("execve %s: expected itself", path)
}
