// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package safety

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// enter is the environment variable that makes this test program become the program under judgement.
const enter = "GPUFABRIC_SAFETY_ENTER"

// Enter is called first in TestMain: it becomes the program that Start was given, behind the filter, or returns.
func Enter() {
	if os.Getenv(enter) == "" {
		return
	}
	runtime.LockOSThread() // the filter is that of a thread, and of what it becomes
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, enter+"=") })
	path, args := os.Args[0], os.Args
	err := install()
	if err == nil {
		err = syscall.Exec(path, args, env)
	}
	fmt.Fprintln(os.Stderr, "safety:", err)
	os.Exit(1) //nolint:forbidigo // it is main of the process that Start began
}

// passed are system calls that read, wait, or change what belongs to the calling process alone. Memory that a
// file backs (mmap) and descriptors that are written to were opened before, which is judged.
var passed = []uint32{
	unix.SYS_READ, unix.SYS_READV, unix.SYS_PREAD64, unix.SYS_PREADV, unix.SYS_CLOSE, unix.SYS_CLOSE_RANGE,
	unix.SYS_LSEEK, unix.SYS_GETDENTS64,
	unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_FSTAT, unix.SYS_NEWFSTATAT, unix.SYS_STATX, unix.SYS_STATFS, unix.SYS_FSTATFS,
	unix.SYS_ACCESS, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_READLINK, unix.SYS_READLINKAT, unix.SYS_GETCWD,
	unix.SYS_CHDIR, unix.SYS_FCHDIR,
	unix.SYS_DUP, unix.SYS_DUP2, unix.SYS_DUP3, unix.SYS_FCNTL, unix.SYS_FLOCK, unix.SYS_FSYNC, unix.SYS_FDATASYNC,
	unix.SYS_FADVISE64, unix.SYS_UMASK,
	unix.SYS_PIPE, unix.SYS_PIPE2, unix.SYS_EVENTFD2, unix.SYS_MEMFD_CREATE, unix.SYS_SOCKETPAIR, unix.SYS_SIGNALFD4,
	unix.SYS_POLL, unix.SYS_PPOLL, unix.SYS_SELECT, unix.SYS_PSELECT6, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL,
	unix.SYS_EPOLL_WAIT, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2,
	unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_SHUTDOWN, unix.SYS_GETSOCKNAME,
	unix.SYS_GETPEERNAME,
	unix.SYS_GETSOCKOPT, unix.SYS_SETSOCKOPT, unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_RECVMMSG,
	unix.SYS_MMAP, unix.SYS_MPROTECT, unix.SYS_MUNMAP, unix.SYS_MREMAP, unix.SYS_MADVISE, unix.SYS_MINCORE, unix.SYS_BRK,
	unix.SYS_MLOCK, unix.SYS_MUNLOCK,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGTIMEDWAIT,
	unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES, unix.SYS_GETTIMEOFDAY,
	unix.SYS_TIME, unix.SYS_TIMES,
	unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_DELETE, unix.SYS_TIMERFD_CREATE,
	unix.SYS_TIMERFD_SETTIME, unix.SYS_SETITIMER,
	unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_MEMBARRIER, unix.SYS_RSEQ,
	unix.SYS_SET_ROBUST_LIST, unix.SYS_SET_TID_ADDRESS, unix.SYS_ARCH_PRCTL,
	unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_GETPPID, unix.SYS_GETPGID, unix.SYS_GETPGRP, unix.SYS_GETSID,
	unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID,
	unix.SYS_GETGROUPS, unix.SYS_GETRESUID, unix.SYS_GETRESGID, unix.SYS_GETPRIORITY, unix.SYS_GETRUSAGE,
	unix.SYS_GETRLIMIT, unix.SYS_SETRLIMIT, unix.SYS_SYSINFO, unix.SYS_UNAME, unix.SYS_GETRANDOM,
	unix.SYS_CLONE, unix.SYS_CLONE3, unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_WAIT4,
	unix.SYS_WAITID, unix.SYS_PIDFD_OPEN,
	unix.SYS_SETSID, unix.SYS_SETUID, unix.SYS_SETGID, unix.SYS_SETGROUPS, unix.SYS_SETRESUID, unix.SYS_SETRESGID,
	unix.SYS_CAPGET, unix.SYS_CAPSET, unix.SYS_PRCTL,
}

// changes are the flags of open(2) that make files or allow to write them.
const changes = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC | unix.O_APPEND

// install installs the filter in this thread: what is not passed stops for the tracer. Nor do files that are
// opened to read, unless by openat2, whose flags are in memory: a stop at each would slow an emulated machine
// down too much.
func install() error {
	const number, architecture, secondArgument, thirdArgument = 0, 4, 24, 32 // offsets in struct seccomp_data
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	unless := func(value uint32) unix.SockFilter { // skips the next instruction
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jf: 1}
	}
	answer := func(value uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
	}
	filter := []unix.SockFilter{
		load(architecture),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.AUDIT_ARCH_X86_64, Jt: 1},
		answer(unix.SECCOMP_RET_KILL_PROCESS), // the calls of 32 bit have other numbers
		load(number),
	}
	for _, n := range passed {
		filter = append(filter, unless(n), answer(unix.SECCOMP_RET_ALLOW))
	}
	for n, flags := range map[uint32]uint32{unix.SYS_OPEN: secondArgument, unix.SYS_OPENAT: thirdArgument} {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: n, Jf: 4}, load(flags),
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: changes, Jt: 1},
			answer(unix.SECCOMP_RET_ALLOW), answer(unix.SECCOMP_RET_TRACE))
	}
	filter = append(filter, answer(unix.SECCOMP_RET_TRACE))
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0,
		0); err != nil {
		return fmt.Errorf("seccomp filter: %w (expected root)", err)
	}
	return nil
}
