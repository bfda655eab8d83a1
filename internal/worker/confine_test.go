// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ordinary is a user without privileges, and bystander what others have in /dev/shm.
const (
	ordinary  = 65534
	bystander = "nccl-others"
)

// asRoom is a process with a /dev/shm of its own, which starts tasks in a Room, has them make files and be killed, and
// prints what is left. As "ordinary" it has itself started again as a user who may have no namespaces.
func asRoom(kind string) error {
	if kind != "as-ordinary" {
		if err := errors.Join(
			unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount("tmpfs", sharedMemory, "tmpfs", 0, "mode=1777"),
			os.WriteFile(filepath.Join(sharedMemory, bystander), []byte("x"), 0o666),
			os.Chmod(filepath.Join(sharedMemory, bystander), 0o666),
		); err != nil {
			return err
		}
	}
	if kind == "ordinary" {
		cmd := exec.Command("/proc/self/exe", "as-room", "as-ordinary")
		cmd.Stdout, cmd.Stderr, cmd.Dir = os.Stdout, os.Stderr, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}, Pdeathsig: syscall.SIGKILL}
		return cmd.Run()
	}
	if err := os.WriteFile(filepath.Join(sharedMemory, "nccl-before"), nil, 0o600); err != nil {
		return err
	}
	room := new(Room)
	var tasks []*Task
	for range 3 {
		o := optionsForTask("serve")
		o.Room, o.PinsMemory = room, true
		if kind == "switched" {
			o.User = func() *User { return &User{ordinary, ordinary} }
		}
		task, err := Start(context.Background(), o)
		if err != nil {
			return err
		}
		tasks = append(tasks, task)
	}
	for i, task := range tasks {
		if _, err := task.Call(context.Background(), fmt.Appendf(nil, "share nccl-%06d", i)); err != nil {
			return err
		}
	}
	answer, err := tasks[2].Call(context.Background(), []byte("listing "+sharedMemory))
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, "inside:", string(answer))
	if _, err := tasks[1].Call(context.Background(), []byte("use "+bystander)); err != nil && kind != "root" && kind != "switched" {
		return err // a broom that takes what is used for what was made would take it
	}
	if room.Why() != nil {
		time.Sleep(3 * broomInterval) // what it promises
	}
	for _, task := range tasks {
		task.Kill("enough")
	}
	for _, task := range tasks {
		if err := task.Close(); err != nil {
			return err
		}
	}
	fmt.Fprintln(os.Stdout, "namespace:", room.Why() == nil)
	fmt.Fprintln(os.Stdout, "outside:", listing(sharedMemory))
	return nil
}

func listing(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// TestRoom kills tasks that share memory: they leave nothing, what was there before stays, and they see each other's.
func TestRoom(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root for a /dev/shm of its own")
	}
	const all = "nccl-000000 nccl-000001 nccl-000002"
	for kind, want := range map[string]string{
		"root":     "inside: " + all + "\nnamespace: true\noutside: nccl-before nccl-others\n",
		"switched": "inside: " + all + "\nnamespace: true\noutside: nccl-before nccl-others\n",
		"ordinary": "inside: " + all + " nccl-before nccl-others\nnamespace: false\noutside: nccl-before nccl-others\n",
	} {
		t.Run(kind, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "as-room", kind)
			cmd.Stderr = os.Stderr
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
			if got, err := cmd.Output(); err != nil || string(got) != want {
				t.Errorf("%v:\n%s\nexpected\n%s", err, got, want)
			}
		})
	}
}

// asRunner starts a task as the user that it runs as, and prints its status until its input ends.
func asRunner() error {
	task, err := Start(context.Background(), optionsForTask("serve"))
	if err != nil {
		return err
	}
	if _, err := task.Call(context.Background(), []byte("echo")); err != nil {
		return err
	}
	fmt.Fprint(os.Stdout, privileges(task.PID()))
	return task.Close()
}

// privileges returns those of a process, as the kernel shows them.
func privileges(pid int) string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		if slices.Contains([]string{"Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs"}, name) {
			fmt.Fprintf(&b, "%s %s\n", name, strings.Join(strings.Fields(value), " "))
		}
	}
	return b.String()
}

const none = "0000000000000000"

// TestPrivileges reads in /proc what children may do, for each user that may start them.
func TestPrivileges(t *testing.T) {
	before := privileges(os.Getpid())
	have, err := capabilities()
	if err != nil {
		t.Fatal(err)
	}
	nothing := fmt.Sprintf("CapInh %[1]s\nCapPrm %[1]s\nCapEff %[1]s\nCapBnd %[1]s\nCapAmb %[1]s\nNoNewPrivs 1\n", none)
	pins := nothing
	if !raisesMemlock(have) && have&(1<<unix.CAP_IPC_LOCK) != 0 { // some containers
		pins = strings.ReplaceAll(nothing, none, "0000000000004000")
	}
	run := func(name string, change func(*Options), want ...string) {
		t.Run(name, func(t *testing.T) {
			task := startTest(t, "serve", change)
			callTask(t, task, "echo x", "x")
			got := privileges(task.PID())
			for _, w := range want {
				if !strings.Contains(got, w) {
					t.Errorf("lacks %q:\n%s", w, got)
				}
			}
			callTask(t, task, "log 0", "logged") // which is opened by its name
		})
	}
	if os.Geteuid() == 0 {
		run("of root", nil, "Uid 0 0 0 0\n", nothing)
		run("of root, with memory to pin", func(o *Options) { o.PinsMemory = true }, "Uid 0 0 0 0\n", pins)
		run("another user", func(o *Options) { o.User, o.PinsMemory = func() *User { return &User{ordinary, ordinary} }, true },
			"Uid 65534 65534 65534 65534\nGid 65534 65534 65534 65534\nGroups \n", pins)
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "as-runner", "x")
		cmd.Stderr, cmd.Dir = os.Stderr, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}, Pdeathsig: syscall.SIGKILL}
		got, err := cmd.Output()
		if err != nil || !strings.Contains(string(got), "Uid 65534 ") || !strings.Contains(string(got), "CapEff "+none) || !strings.Contains(string(got), "NoNewPrivs 1\n") {
			t.Errorf("of an ordinary user: %v\n%s", err, got)
		}
	} else {
		run("of an ordinary user", nil, "CapPrm "+none, "CapEff "+none, "CapAmb "+none, "NoNewPrivs 1\n")
	}
	// This process has what it had, in each of its threads.
	tasks, err := filepath.Glob("/proc/self/task/*")
	if err != nil || len(tasks) == 0 {
		t.Fatal(err)
	}
	waitUntil(t, "threads that gave something up end", func() bool {
		return !slices.ContainsFunc(tasks, func(task string) bool {
			status, err := os.ReadFile(task + "/status")
			return err == nil && strings.Contains(string(status), "NoNewPrivs:\t1")
		})
	})
	if after := privileges(os.Getpid()); after != before {
		t.Errorf("this process:\n%s\nit had\n%s", after, before)
	}
}

// TestMemlock has children that register memory not be kept from it by a limit: they have none, or the capability.
func TestMemlock(t *testing.T) {
	have, err := capabilities()
	if err != nil {
		t.Fatal(err)
	}
	if !raisesMemlock(have) && have&(1<<unix.CAP_IPC_LOCK) == 0 {
		t.Skip("this process can neither lift the limit nor hand on CAP_IPC_LOCK")
	}
	for _, user := range []*User{nil, {ordinary, ordinary}} {
		if user != nil && canBe(*user) != nil {
			t.Logf("not as another user: %v", canBe(*user))
			continue
		}
		task := startTest(t, "serve", func(o *Options) { o.PinsMemory, o.User = true, func() *User { return user } })
		callTask(t, task, "echo x", "x")
		limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", task.PID()))
		if err != nil {
			t.Fatal(err)
		}
		unlimited := regexp.MustCompile(`(?m)^Max locked memory +unlimited +unlimited`).Match(limits)
		if locks := strings.Contains(privileges(task.PID()), "CapEff 0000000000004000"); !unlimited && !locks {
			t.Errorf("%+v: %s", user, limits)
		} else if unlimited && locks {
			t.Errorf("%+v: it has a capability that it does not need", user)
		}
	}
}

// A container whose user namespace has no other users keeps its children as they are.
func TestMapped(t *testing.T) {
	for _, c := range []struct {
		text string
		want bool
	}{
		{"         0          0 4294967295\n", true},
		{"0 1000 1\n", false},
		{"0 1000 1\n1 100000 65536\n", true},
		{"0 100000 65534\n", false},
		{"", false},
		{"x\n", false},
	} {
		if got := mapped(c.text, ordinary); got != c.want {
			t.Errorf("%q: %t", c.text, got)
		}
	}
}

// share makes a file as NCCL does and keeps it mapped; with name of one that exists it only uses it.
func share(name string, flags int) error {
	f, err := os.OpenFile(filepath.Join(sharedMemory, name), os.O_RDWR|flags, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(4096); err != nil {
		return err
	}
	_, err = unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return err
}

func exitOf(err error) int {
	if err != nil {
		_, _ = io.WriteString(os.Stderr, err.Error()+"\n")
		return 1
	}
	return 0
}

// What CanLock says is what the kernel does: a capability of another user namespace is none for locked memory.
func TestCanLock(t *testing.T) {
	const child = "WORKER_TEST_LOCK"
	const limit, more = 64 << 10, 1 << 20
	if os.Getenv(child) != "" {
		if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			t.Fatal(err)
		}
		memory, err := unix.Mmap(-1, 0, more, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			t.Fatal(err)
		}
		can := CanLock(more)
		liftMemlock(os.Getpid()) // as for a task
		locked := unix.Mlock(memory)
		t.Logf("mlock: %v; CanLock: %v", locked, can)
		if (locked == nil) != (can == nil) {
			t.Error("they differ")
		}
		return
	}
	for name, attr := range map[string]*syscall.SysProcAttr{
		"here": {},
		"a user namespace": {
			Cloneflags:  unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.v", "-test.run=^TestCanLock$")
			c.Env, c.SysProcAttr = append(os.Environ(), child+"=1"), attr
			out, err := c.CombinedOutput()
			t.Logf("%s", out)
			if err != nil && len(out) == 0 {
				t.Skip("no user namespace can be made here: ", err)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}
