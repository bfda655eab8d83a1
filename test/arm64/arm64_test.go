// SPDX-License-Identifier: Apache-2.0

//go:build qemu

// Package arm64 runs the unit tests as programs for arm64, by qemu-user (make arm64-test). It needs root,
// Linux 6.7 and CC, the compiler of releases for arm64.
package arm64

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "gpufabric_exporter"

// units are the packages whose tests run here: what depends on the architecture (system calls, layouts of the
// kernel, C, processes), and of pure Go what emulation is fast enough for.
var units = []string{
	"./internal/host/...", "./internal/worker", "./ncclprobe/...", "./internal/files", "./internal/capture", "./internal/fabric",
	"./internal/counters", "./internal/config", "./internal/exposition", "./internal/command", "./internal/command/jobs",
	"./collector", "./internal/nccl/advice", "./internal/command/explain", "./internal/demo", "./internal/diagnose", "./internal/nccl/explain", "./internal/nccl/failure", "./internal/jobs/inquiry", "./internal/inventory", "./internal/library",
	"./internal/nccl/lint", "./internal/logging", "./internal/observer", "./internal/ownership", "./internal/page", "./internal/jobs/progress",
	"./internal/nccl/signature", "./internal/site", "./internal/spelling",
}

// elsewhere are the other packages. Their tests run on amd64.
var elsewhere = []struct {
	packages []string
	because  string
}{
	{
		[]string{
			".", "./exporter", "./internal/program", "./internal/command/check", "./internal/command/lint", "./internal/command/probe",
			"./internal/command/rules", "./internal/command/topology", "./probes/...",
		},
		"they start the whole program again and again, or wait for it in real time, for which emulation is too slow",
	},
	{[]string{"./internal/jobs/job", "./internal/simulator"}, "pure Go over whole nodes, which takes emulation more than six minutes"},
	{
		[]string{"./internal/command/advise", "./internal/command/report", "./internal/document", "./internal/drawing", "./internal/report", "./internal/status"},
		"pure Go that has not been tried under emulation",
	},
	{[]string{"./alerts", "./packaging/...", "./test/..."}, "they test files, machines and clusters, and no code for an architecture"},
}

// leftOut are tests that qemu-user 7.2 cannot run, by package. They run on amd64.
var leftOut = []struct{ of, tests, because string }{
	{"internal/host/dcbnl", "TestSocket", "qemu translates messages of netlink, and refuses types that it does not know: DCB"},
	{"internal/host/rdmanl", "TestSocket", "qemu translates messages of netlink, and refuses types that it does not know: RDMA"},
	{"internal/jobs/rank", "TestPrivileges", "qemu refuses sockets of NETLINK_SOCK_DIAG"},
	{"internal/host/ethtool", "TestHost", "qemu has no ioctl SIOCETHTOOL"},
	{"internal/jobs/inspector", "TestFormats|TestRefused|TestFolder|TestUnchanged|TestGrowing|TestCost", "qemu has no openat2, without which the reader refuses every file"},
	{"internal/host/nvml", "TestGateWithRealReaders", "it wants GPUs looked at several times in 300 ms, for which emulation is too slow"},
	{"internal/nccl/lint", "TestSpeed|TestHostileSize", "they bound time, for which emulation is too slow"},
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
	here := tested(t, units...)
	others := map[string]bool{}
	for _, e := range elsewhere {
		t.Logf("left out: %s: %s", strings.Join(e.packages, " "), e.because)
		for _, p := range tested(t, e.packages...) {
			others[p] = true
		}
	}
	for _, p := range tested(t, "./...") {
		if slices.Contains(here, p) == others[p] {
			t.Errorf("%s: expected in units or in elsewhere, with the reason", p)
		}
	}
	for _, p := range here {
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

// tested are the packages of these patterns that have tests.
func tested(t *testing.T, patterns ...string) []string {
	t.Helper()
	args := append([]string{"list", "-C", "../..", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}"}, patterns...)
	list, err := exec.CommandContext(t.Context(), "go", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(list))
}
