// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// capabilityNames are those that docs/PRIVILEGES.md says a process of root keeps.
var capabilityNames = map[string]int{
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

// A process of root has no capability on any thread, nor can it gain one, but those that the document gives a reason for.
func TestCapabilitiesAreDropped(t *testing.T) {
	before := threadSets(t, os.Getpid(), "CapPrm")[fmt.Sprintf("/proc/%[1]d/task/%[1]d/status", os.Getpid())]
	if os.Geteuid() != 0 || before == 0 {
		t.Skip("only a process with capabilities can drop some")
	}
	text, err := os.ReadFile("docs/PRIVILEGES.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n| kept | for |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var documented uint64
	for row := range strings.Lines(table) {
		kept, _, _ := strings.Cut(strings.TrimPrefix(row, "|"), "|")
		for _, name := range regexp.MustCompile(`CAP_\w+`).FindAllString(kept, -1) {
			c, known := capabilityNames[name]
			if !known {
				t.Errorf("docs/PRIVILEGES.md keeps %s, which the program drops", name)
			}
			documented |= 1 << c
		}
	}
	for name, c := range capabilityNames {
		if documented&(1<<c) == 0 {
			t.Errorf("docs/PRIVILEGES.md has no reason for %s", name)
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
