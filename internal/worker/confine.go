// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// User is who a child runs as. Only a process with the capabilities to become, kill and give pipes to another user can
// start one (canBe).
type User struct{ UID, GID uint32 }

// onOwnThread runs f on a thread that ends with it, so that what f changes of its thread (capabilities, no_new_privs,
// namespaces) reaches the children that it starts and nothing else in this process: Go starts no thread from
// one that is locked. f is never run on the first thread of the process, which cannot end and is what /proc
// shows of it.
func onOwnThread(f func()) {
	runtime.LockOSThread() // and never unlock
	if unix.Gettid() != unix.Getpid() {
		f()
		return
	}
	elsewhere, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		close(elsewhere)
		f()
	}()
	<-elsewhere
	runtime.UnlockOSThread()
	<-done
}

// confine has the calling thread, which must end afterwards, start children that can never have more privileges than
// are left here: no_new_privs, no capabilities but those that memory of theirs needs, and the namespace of the room.
func (o *Options) confine(user *User, attr *syscall.SysProcAttr) error {
	have, err := capabilities()
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	var keep uint64
	if o.PinsMemory && !raisesMemlock(have) {
		keep = have & (1 << unix.CAP_IPC_LOCK)
	}
	if keep != 0 {
		attr.AmbientCaps = []uintptr{unix.CAP_IPC_LOCK}
	}
	for c := range uintptr(64) {
		if set, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err != nil || set == 0 || keep&(1<<c) != 0 {
			continue
		}
		// Without CAP_SETPCAP it stays, and nothing can be gained from it: no_new_privs and nothing permitted.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("bounding set: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil &&
		!errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("ambient capabilities: %w", err)
	}
	left := keep
	if user != nil { // becoming another user takes capabilities, and drops them
		attr.Credential = &syscall.Credential{Uid: user.UID, Gid: user.GID}
		left = have
	}
	err = setCapabilities(left)
	if errors.Is(err, unix.EPERM) && left == 0 && os.Getuid() != 0 && os.Geteuid() != 0 {
		// A filter of system calls (@privileged of systemd) denies capset. A child of an ordinary user has none
		// after execve(2): there are no ambient ones, and with no_new_privs those of files do not count.
		return nil
	}
	return err
}

// raisesMemlock reports whether this process can lift the limit of locked memory for its children, or need not.
func raisesMemlock(have uint64) bool {
	var l unix.Rlimit
	return have&(1<<unix.CAP_SYS_RESOURCE) != 0 && inFirstUsers() || unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l) == nil &&
		l.Max == unix.RLIM_INFINITY
}

// inFirstUsers reports whether this process is in the user namespace that the kernel starts with, in which
// alone capabilities count for limits and locked memory: PROC_USER_INIT_INO of linux/proc_ns.h. Where procfs
// does not say so, it is in none that helps.
func inFirstUsers() bool {
	ns, err := os.Readlink("/proc/self/ns/user")
	return err == nil && ns == "user:[4026531837]"
}

// CanLock returns why tasks that pin memory (Options.PinsMemory) could not lock so many bytes; nil: they can.
func CanLock(bytes uint64) error {
	have, err := capabilities()
	if err != nil {
		return err
	}
	if raisesMemlock(have) || have&(1<<unix.CAP_IPC_LOCK) != 0 && inFirstUsers() {
		return nil
	}
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); err != nil {
		return fmt.Errorf("RLIMIT_MEMLOCK: %w", err)
	}
	if l.Max < bytes {
		return fmt.Errorf("the limit of locked memory (RLIMIT_MEMLOCK) is %d bytes, expected at least %d", l.Max, bytes)
	}
	return nil
}

// liftMemlock lets a child that was just started lock as much memory as it wants to, or as its hard limit
// allows: RDMA pins what it registers.
func liftMemlock(pid int) {
	done := make(chan struct{})
	go func() { // this thread may have no capabilities any more
		defer close(done)
		l := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
		if unix.Prlimit(pid, unix.RLIMIT_MEMLOCK, &l, nil) == nil || unix.Prlimit(pid, unix.RLIMIT_MEMLOCK, nil, &l) != nil {
			return
		}
		l.Cur = l.Max
		_ = unix.Prlimit(pid, unix.RLIMIT_MEMLOCK, &l, nil) // else it has CAP_IPC_LOCK, or what it inherited
	}()
	<-done
}

// canBe says why this process cannot have children of a user; nil: it can.
func canBe(u User) error {
	for file, id := range map[string]uint32{"/proc/self/uid_map": u.UID, "/proc/self/gid_map": u.GID} {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !mapped(string(text), uint64(id)) {
			return fmt.Errorf("%s has no %d: %q", file, id, text)
		}
	}
	have, err := capabilities()
	const need = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_KILL | 1<<unix.CAP_CHOWN | 1<<unix.CAP_SYS_PTRACE
	if err == nil && have&need != need {
		err = fmt.Errorf("capabilities %#x, expected CAP_SETUID, CAP_SETGID, CAP_KILL, CAP_CHOWN and CAP_SYS_PTRACE", have)
	}
	return err
}

// mapped reports whether a user namespace has an id, by its map: lines of the first id inside, the first
// outside, and how many.
func mapped(idMap string, id uint64) bool {
	for line := range strings.Lines(idMap) {
		var inside, outside, count uint64
		if n, _ := fmt.Sscan(line, &inside, &outside, &count); n == 3 && id >= inside && id-inside < count {
			return true
		}
	}
	return false
}

// capabilities returns the effective ones of the calling thread, by number.
func capabilities() (uint64, error) {
	var data [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return 0, fmt.Errorf("capget: %w", err)
	}
	return uint64(data[0].Effective) | uint64(data[1].Effective)<<32, nil
}

// setCapabilities leaves the calling thread those, and none to inherit.
func setCapabilities(set uint64) error {
	low, high := uint32(set), uint32(set>>32)
	data := [2]unix.CapUserData{{Effective: low, Permitted: low}, {Effective: high, Permitted: high}}
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	return nil
}

// Undumpable keeps other processes of the user out of this one: none can trace it, read its memory or take its
// descriptors, and it leaves no core.
func Undumpable() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// dumpable undoes what a child of an undumpable process, or of another user, begins with: its limits are set through
// files in /proc that belong to root else.
func dumpable() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) }
