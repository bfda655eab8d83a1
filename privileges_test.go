// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// neededCapabilities are those that docs/SECURITY.md says a process of root keeps.
var neededCapabilities = map[string]int{
	"CAP_CHOWN": unix.CAP_CHOWN, "CAP_DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE, "CAP_DAC_READ_SEARCH": unix.CAP_DAC_READ_SEARCH,
	"CAP_KILL": unix.CAP_KILL, "CAP_SETGID": unix.CAP_SETGID, "CAP_SETUID": unix.CAP_SETUID, "CAP_SETPCAP": unix.CAP_SETPCAP,
	"CAP_NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE, "CAP_IPC_LOCK": unix.CAP_IPC_LOCK, "CAP_SYS_PTRACE": unix.CAP_SYS_PTRACE,
	"CAP_SYS_ADMIN": unix.CAP_SYS_ADMIN, "CAP_SYS_RESOURCE": unix.CAP_SYS_RESOURCE, "CAP_SYSLOG": unix.CAP_SYSLOG,
}

// threadSets returns a set of capabilities of each thread of a process.
func threadSets(t *testing.T, pid int, set string) map[string]uint64 {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(files) < 2 {
		t.Fatalf("threads %v, %v", files, err)
	}
	sets := map[string]uint64{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		m := regexp.MustCompile(`\n` + set + `:\t([0-9a-f]+)\n`).FindStringSubmatch(string(text))
		if m == nil {
			t.Fatalf("%s has no %s", file, set)
		}
		if sets[file], err = strconv.ParseUint(m[1], 16, 64); err != nil {
			t.Fatal(err)
		}
	}
	return sets
}

// A process of root has no capability on any thread, nor can it gain one, but those that the document gives a
// reason for.
func TestCapabilitiesAreDropped(t *testing.T) {
	before := threadSets(t, os.Getpid(), "CapPrm")[fmt.Sprintf("/proc/%[1]d/task/%[1]d/status", os.Getpid())]
	if os.Geteuid() != 0 || before == 0 {
		t.Skip("only a process with capabilities can drop some")
	}
	text, err := os.ReadFile("docs/SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n| kept | for |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var documented uint64
	for row := range strings.Lines(table) {
		kept, _, _ := strings.Cut(strings.TrimPrefix(row, "|"), "|")
		for _, name := range regexp.MustCompile(`CAP_\w+`).FindAllString(kept, -1) {
			c, known := neededCapabilities[name]
			if !known {
				t.Errorf("docs/SECURITY.md keeps %s, which the program drops", name)
			}
			documented |= 1 << c
		}
	}
	for name, c := range neededCapabilities {
		if documented&(1<<c) == 0 {
			t.Errorf("docs/SECURITY.md has no reason for %s", name)
		}
	}
	h := startHost(t, self)
	for _, set := range []string{"CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb"} {
		for thread, has := range threadSets(t, h.exporter.Process.Pid, set) {
			if has&^documented != 0 {
				t.Errorf("%s: %s %#x, want nothing beyond %#x", thread, set, has, documented)
			}
			// The thread that starts a worker has dropped the rest.
			first := strings.HasSuffix(thread, fmt.Sprintf("/task/%d/status", h.exporter.Process.Pid))
			if lost := before & documented &^ has; first && lost != 0 && (set == "CapPrm" || set == "CapEff") {
				t.Errorf("%s: %s lacks %#x", thread, set, lost)
			}
		}
	}
}

// withoutCapset is the first argument of a process that becomes the program of the others, under a filter
// that refuses capset(2). It drops nothing itself, as go test does not.
const withoutCapset = "-test.without-capset"

func execWithoutCapset(args []string) {
	runtime.LockOSThread()
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the system call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_CAPSET},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x00050000 | uint32(unix.EPERM)}, // SECCOMP_RET_ERRNO
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000},                      // SECCOMP_RET_ALLOW
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		panic(err)
	}
	panic(syscall.Exec(self, args, os.Environ()))
}

// Where the kernel refuses, the log says once which capabilities stay, and the exporter serves.
func TestCapabilitiesThatStayAreLogged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only a process with capabilities can drop some")
	}
	before := threadSets(t, os.Getpid(), "CapPrm")[fmt.Sprintf("/proc/%[1]d/task/%[1]d/status", os.Getpid())]
	if before&(1<<unix.CAP_NET_RAW) == 0 {
		t.Skipf("CapPrm %#x has no CAP_NET_RAW to drop", before)
	}
	h := startHost(t, self, gpusAlone...)
	_ = h.exporter.Process.Kill()
	if log := <-h.log; strings.Contains(log, "not dropped") {
		t.Errorf("nothing was refused:\n%s", log)
	}
	program, err := os.Executable() // self would be the shell
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "refused")
	if err := os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\nexec %s %s %s \"$@\"\n", program, withoutCapset, program), 0o700); err != nil {
		t.Fatal(err)
	}
	h = startHost(t, script, gpusAlone...)
	_ = h.exporter.Process.Kill()
	log := <-h.log
	if strings.Count(log, "privileges that are not needed were not dropped") != 1 || !strings.Contains(log, "operation not permitted: CAP_") || !strings.Contains(log, "CAP_NET_RAW") {
		t.Errorf("not said once:\n%s", log)
	}
	if strings.Contains(log, "CAP_SYS_PTRACE") {
		t.Errorf("what is needed is named:\n%s", log)
	}
}
