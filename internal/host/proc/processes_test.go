// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

func status(name string, pid, parent int, nested ...int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Name:\t%s\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t%d\nNgid:\t0\nPid:\t%d\nPPid:\t%d\nTracerPid:\t0\nUid:\t0\t0\t0\t0\nNStgid:\t%[2]d\nNSpid:\t%[2]d", name, pid, pid, parent)
	for _, n := range nested {
		b.WriteString("\t" + strconv.Itoa(n))
	}
	return b.String() + "\nNSpgid:\t0\nVmPeak:\t   10904 kB\n"
}

// node is a procfs in the initial namespace.
func node(t *testing.T, files map[string]string) (*FS, string) {
	t.Helper()
	all := map[string]string{"1/status": status("systemd", 1, 0), "1/comm": "systemd\n", "1/cmdline": "/sbin/init\x00", "stat": stat}
	maps.Copy(all, files)
	self := strconv.Itoa(os.Getpid())
	f, root := open(t, all)
	link(t, self, filepath.Join(root, "self"))
	link(t, initialPIDs, filepath.Join(root, self, "ns/pid"))
	return f, root
}

func link(t *testing.T, to, from string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(from), 0o755); err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(from)
	if err := os.Symlink(to, from); err != nil {
		t.Fatal(err)
	}
}

func TestInitial(t *testing.T) {
	self := strconv.Itoa(os.Getpid())
	for name, c := range map[string]struct {
		change func(root string)
		want   string
	}{
		"the node":                    {func(string) {}, ""},
		"a container":                 {func(root string) { link(t, "pid:[4026532201]", filepath.Join(root, self, "ns/pid")) }, "namespace"},
		"no namespaces in the kernel": {func(root string) { os.Remove(filepath.Join(root, self, "ns/pid")) }, "namespace"},
		"procfs of a container":       {func(root string) { os.Remove(filepath.Join(root, "self")) }, "namespace"},
		"procfs of another namespace": {func(root string) {
			link(t, "7", filepath.Join(root, "self"))
			link(t, initialPIDs, filepath.Join(root, "7/ns/pid"))
		}, "another PID namespace"},
		"hidepid": {func(root string) { os.RemoveAll(filepath.Join(root, "1")) }, "hides"},
		"a lying init": {func(root string) {
			os.RemoveAll(filepath.Join(root, "1"))
			write(t, root, "1/status", status("init", 1, 0, 1))
		}, "expected 1"},
		"a broken init": {func(root string) { os.RemoveAll(filepath.Join(root, "1")); write(t, root, "1/status", "Name:\tinit\n") }, "procfs"},
	} {
		f, root := node(t, nil)
		c.change(root)
		if err := f.Initial(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %q", name, err, c.want)
		}
	}
}

// The exporter is not dumpable, and its folders in procfs belong to root: as another user it may not list all of them.
func TestInitialOfUndumpable(t *testing.T) {
	const child = "PROC_TEST_UNDUMPABLE"
	if os.Getenv(child) != "" {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		f, err := Open("/proc")
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Initial(); errors.Is(err, fs.ErrPermission) {
			t.Fatal(err)
		}
		return
	}
	c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$")
	c.Env, c.Dir = append(os.Environ(), child+"=1"), "/"
	if os.Geteuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func write(t *testing.T, root, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// named wants processes with one of the commands.
func named(commands ...string) func(string) bool {
	return func(command string) bool { return slices.Contains(commands, command) }
}

func TestFind(t *testing.T) {
	f, root := node(t, map[string]string{
		"12/comm": "slurmstepd\n", "12/status": status("slurmstepd", 12, 1), "12/cmdline": "/usr/sbin/slurmstepd infinity\x00\x00\x00",
		"13/comm": "slurmstepd\n", "13/status": status("slurmstepd", 13, 1), "13/cmdline": "slurmstepd:\x00[4.0]\x00",
		"14/comm": "python\n", "14/status": status("python", 14, 1, 8, 1),
		"15/status": status("ended", 15, 1), // between the listing and now
		"016/comm":  "slurmstepd\n", "sys/comm": "slurmstepd\n",
	})
	// A daemon in the PID namespace of a container, of a user.
	write(t, root, "19/comm", "pbs_mom\n")
	write(t, root, "19/cmdline", "/usr/sbin/pbs_mom\x00")
	write(t, root, "19/status", strings.Replace(status("pbs_mom", 19, 14, 7), "Uid:\t0\t", "Uid:\t1000\t", 1))
	found, err := f.Find(t.Context(), named("slurmd", "slurmstepd", "pbs_mom"))
	slices.SortFunc(found, func(a, b fabric.Process) int { return a.PID - b.PID })
	want := []fabric.Process{
		{PID: 12, Parent: 1, NSPIDs: []int{12}, Command: "slurmstepd", Args: []string{"/usr/sbin/slurmstepd", "infinity"}},
		{PID: 13, Parent: 1, NSPIDs: []int{13}, Command: "slurmstepd", Args: []string{"slurmstepd:", "[4.0]"}},
		{PID: 19, Parent: 14, User: 1000, NSPIDs: []int{19, 7}, Command: "pbs_mom", Args: []string{"/usr/sbin/pbs_mom"}},
	}
	if err != nil || !reflect.DeepEqual(found, want) {
		t.Errorf("%+v, %v", found, err)
	}
	if p, err := f.Process(14); err != nil || !slices.Equal(p.NSPIDs, []int{14, 8, 1}) {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := f.Process(99); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a process that is none: %v", err)
	}
	write(t, root, "17/status", status("other", 18, 1))
	if _, err := f.Process(17); err == nil {
		t.Error("the status of another process is taken")
	}
	write(t, root, "18/comm", strings.Repeat("x", 100))
	if _, err := f.Find(t.Context(), named("slurmd")); err == nil {
		t.Error("a command of 100 bytes is taken")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Find(ctx, named("slurmd")); err == nil {
		t.Error("it goes on without its context")
	}
	empty, _ := open(t, map[string]string{"stat": stat})
	if _, err := empty.Find(t.Context(), named("slurmd")); err == nil {
		t.Error("a procfs without processes is taken for a node")
	}
}

// A real child is found in the real procfs, and is ours.
func TestRealProcesses(t *testing.T) {
	f, err := Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	p, err := f.Process(cmd.Process.Pid)
	if err != nil || p.Parent != os.Getpid() || p.PID != cmd.Process.Pid || len(p.NSPIDs) == 0 {
		t.Errorf("%+v, %v, expected a child of %d", p, err, os.Getpid())
	}
	me, err := f.Process(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	found, err := f.Find(t.Context(), named(me.Command))
	if err != nil || !slices.ContainsFunc(found, func(p fabric.Process) bool { return p.PID == os.Getpid() && len(p.Args) > 0 }) {
		t.Errorf("this test (%q) is not among %+v, %v", me.Command, found, err)
	}
	t.Logf("in the initial namespace: %v", f.Initial() == nil)
}

func FuzzParseStatus(f *testing.F) {
	for _, s := range []string{status("init", 1, 0), status("a", 7, 1, 2, 3), "", "Name:\t\nPid:\t1\nPPid:\t0\nNSpid:\t1", "NSpid:\t1\nPid:\t1\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := parseStatus(b)
		if ok && (p.PID <= 0 || p.Parent < 0 || len(p.NSPIDs) == 0 || len(p.NSPIDs) > maxNesting+1 || p.NSPIDs[0] != p.PID) || !ok && p.PID != 0 {
			t.Errorf("parseStatus(%q) = %+v, %v", b, p, ok)
		}
	})
}
