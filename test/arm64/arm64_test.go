// SPDX-License-Identifier: Apache-2.0

//go:build qemu

// Package arm64 runs the unit tests as programs for arm64, by qemu-user (make arm64-test). It needs root, Linux 6.7 and CC, the
// compiler of releases for arm64.
package arm64

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

const module = "gpufabric_exporter"

// units are the packages that depend on the architecture: system calls, layouts of the kernel, C, processes. Others are pure Go, or
// start the whole program again and again, for which emulation is too slow.
var units = []string{
	"./internal/host/...", "./internal/worker", "./ncclprobe/...", "./internal/files", "./internal/capture", "./internal/fabric",
	"./internal/counters", "./internal/config", "./internal/exposition", "./internal/command", "./internal/command/jobs",
}

// leftOut are tests that qemu-user 7.2 cannot run, by package. They run on amd64.
var leftOut = []struct{ of, tests, because string }{
	{"internal/host/dcbnl", "TestSocket", "qemu translates messages of netlink, and refuses types that it does not know: DCB"},
	{"internal/host/rdmanl", "TestSocket", "qemu translates messages of netlink, and refuses types that it does not know: RDMA"},
	{"internal/host/rank", "TestPrivileges", "qemu refuses sockets of NETLINK_SOCK_DIAG"},
	{"internal/host/ethtool", "TestHost", "qemu has no ioctl SIOCETHTOOL"},
	{"internal/host/inspector", "TestFormats|TestRefused|TestFolder|TestUnchanged|TestGrowing|TestCost", "qemu has no openat2, without which the reader refuses every file"},
	{"internal/host/nvml", "TestGateWithRealReaders", "it wants GPUs looked at several times in 300 ms, for which emulation is too slow"},
	{"internal/worker", "TestMemlock|TestTaskSurroundings", "qemu does not limit the address space (setrlimit), because it needs it itself"},
	{"internal/worker", "TestGrandchildIsKilled|TestParentOfTasksIsKilled|TestParentIsKilled", "qemu refuses prctl(PR_SET_CHILD_SUBREAPER), by which these tests see processes end"},
	{"internal/worker", "TestManyTasks|TestCrashCycles", "they start 200 processes, for which emulation is too slow"},
}

// skipped is the line of a test that skipped itself, with the one before it.
var skipped = regexp.MustCompile(`(?m)^.*\n--- SKIP.*$`)

func TestUnits(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("users and mounts of a namespace need root")
	}
	for _, program := range []string{emulate, "aarch64-linux-gnu-gcc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%v (Debian: apt-get install qemu-user-static gcc-aarch64-linux-gnu)", err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("of the packages, only these run here: %s", strings.Join(units, " "))
	args := append([]string{"list", "-C", "../..", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}"}, units...)
	list, err := exec.CommandContext(t.Context(), "go", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for p := range strings.FieldsSeq(string(list)) {
		name := strings.TrimPrefix(p, module+"/")
		t.Run(name, func(t *testing.T) {
			c := exec.CommandContext(t.Context(), "go", "test", "-C", "../..", "-v", "-vet=off", "-short", "-timeout=15m", "-exec="+self)
			var tests []string
			for _, l := range leftOut {
				if l.of == name {
					t.Logf("left out: %s: %s", strings.ReplaceAll(l.tests, "|", ", "), l.because)
					tests = append(tests, l.tests)
				}
			}
			if len(tests) > 0 {
				c.Args = append(c.Args, "-skip=^("+strings.Join(tests, "|")+")$")
			}
			c.Args = append(c.Args, p)
			c.Env = append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=1", stage+"=outside")
			out, err := c.CombinedOutput()
			for _, line := range skipped.FindAllString(string(out), -1) {
				t.Log(line) // with its reason
			}
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			t.Logf("%d tests passed", strings.Count("\n"+string(out), "\n--- PASS: "))
		})
	}
}
