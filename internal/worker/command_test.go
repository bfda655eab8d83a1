// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// shell is a command of a shell. A minute is for what must not take it.
func shell(script string) *Command {
	return &Command{Args: []string{"/bin/sh", "-c", script}, Timeout: time.Minute}
}

func TestCommandSpeaksByItsStatus(t *testing.T) {
	for script, want := range map[string]Ended{
		"exit 0":                            {},
		"echo free":                         {Said: "free"},
		"echo one; echo two >&2; exit 3":    {3, "two"},
		`printf 'job 17\033[31m \n\n'`:      {0, "job 17 [31m"},
		"cat; exit 4":                       {4, ""}, // there is no input
		"head -c 9000000 /dev/zero; exit 5": {5, ""},
		"yes | head -n 500000; echo end":    {0, "end"},
	} {
		if got, err := shell(script).Run(t.Context()); err != nil || got != want {
			t.Errorf("%s: %+v, %v, expected %+v", script, got, err, want)
		}
	}
	if got, err := shell("head -c 100000 /dev/zero | tr '\\0' x").Run(t.Context()); err != nil || len(got.Said) > maxLine {
		t.Errorf("%d bytes are kept of a long line, %v", len(got.Said), err)
	}
}

func TestCommandThatDoesNotEndByItself(t *testing.T) {
	for script, want := range map[string]error{"kill -KILL $$": ErrCrashed, "kill -TERM $$": ErrCrashed} {
		if got, err := shell(script).Run(t.Context()); !errors.Is(err, want) || got != (Ended{}) {
			t.Errorf("%s: %+v, %v", script, got, err)
		}
	}
	for name, args := range map[string][]string{
		"no program": nil, "relative": {"sh", "-c", "exit 0"}, "missing": {"/nonexistent/program"}, "a folder": {"/"}, "no program at all": {"/etc/passwd"},
	} {
		if got, err := (&Command{Args: args}).Run(t.Context()); err == nil || got != (Ended{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("maintenance")) })
	if _, err := shell("sleep 600").Run(ctx); err == nil || !strings.Contains(err.Error(), "maintenance") {
		t.Errorf("after its context ended: %v", err)
	}
}

// A command that hangs is killed with all that it has started, and the next one runs.
func TestCommandIsKilledWithItsChildren(t *testing.T) {
	pids := filepath.Join(folderOfAll(t), "pids")
	if err := os.WriteFile(pids, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(pids, 0o666); err != nil {
		t.Fatal(err)
	}
	c := shell(fmt.Sprintf(`trap "" TERM; sleep 600 & echo $! >> %[1]s; (sleep 600 & echo $! >> %[1]s; wait) & echo $! >> %[1]s; wait`, pids))
	c.Timeout = 6 * time.Second // a loaded machine takes long to start them all
	_, err := c.Run(t.Context())
	if !errors.Is(err, ErrHung) || !strings.Contains(err.Error(), "/bin/sh") || !strings.Contains(err.Error(), "6s") {
		t.Errorf("%v", err)
	}
	b, err := os.ReadFile(pids)
	list := strings.Fields(string(b))
	if err != nil || len(list) != 3 {
		t.Fatalf("the command has started %q, %v", list, err)
	}
	for _, pid := range list {
		awaitGone(t, pid)
	}
	if got, err := (&Command{Args: []string{"/bin/sh", "-c", "exit 1"}}).Run(t.Context()); err != nil || got.Status != 1 {
		t.Errorf("the next one: %+v, %v", got, err)
	}
}

// What a command leaves behind is killed when it ends. What has a session of its own is not found, and holds
// nothing up.
func TestCommandLeavesNothing(t *testing.T) {
	began := time.Now()
	got, err := shell("sleep 600 & echo $!").Run(t.Context())
	if err != nil || time.Since(began) > 5*time.Minute {
		t.Fatalf("%+v, %v after %s", got, err, time.Since(began))
	}
	awaitGone(t, got.Said)
	got, err = shell("setsid sleep 600 & echo $!").Run(t.Context())
	if err != nil || time.Since(began) > 5*time.Minute {
		t.Errorf("%+v, %v after %s", got, err, time.Since(began))
	}
	if pid, err := strconv.Atoi(got.Said); err == nil && pid > 1 {
		_ = unix.Kill(pid, unix.SIGKILL) // as setsid does not fork where it leads no group
	}
}

// A command has a few variables, no files and no privileges of the exporter.
func TestCommandHasNoPrivileges(t *testing.T) {
	t.Setenv("GPUFABRIC_SECRET", "1")
	inherited, err := os.Create(filepath.Join(t.TempDir(), "inherited"))
	if err != nil {
		t.Fatal(err)
	}
	defer inherited.Close()
	if _, err := unix.FcntlInt(inherited.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	for script, want := range map[string][]string{
		"echo $(env | cut -d= -f1 | sort)": {"HOME LC_ALL PATH PWD", "HOME LC_ALL PATH PWD _", "HOME LC_ALL OLDPWD PATH PWD SHLVL _"},
		"pwd":                              {"/"},
		"ls -l /proc/self/fd | grep -c inherited": {"0"},
	} {
		if got, err := shell(script).Run(t.Context()); err != nil || !slices.Contains(want, got.Said) {
			t.Errorf("%s: %+v, %v, expected one of %q", script, got, err, want)
		}
	}
	const confined = `echo $(id -u) $(id -g) $(id -G) $(sed -n "s/^CapEff:\t//p; s/^CapPrm:\t//p; s/^NoNewPrivs:\t/nnp /p" /proc/self/status)`
	got, err := shell(confined).Run(t.Context())
	want := "65534 65534 65534 0000000000000000 0000000000000000"
	if !mayChangeUser() {
		want = "nnp 1"
		t.Log("this test is not root: the command keeps its user and has no_new_privs")
	}
	if err != nil || !strings.Contains(got.Said, want) {
		t.Errorf("%+v, %v, expected %s", got, err, want)
	}
	// The thread that started it is not one of the exporter's any more.
	status, err := os.ReadFile("/proc/self/status")
	if err != nil || mayChangeUser() && strings.Contains(string(status), "NoNewPrivs:\t1") {
		t.Errorf("this process has no_new_privs, %v", err)
	}
}

// Nothing is run that is not trusted, and what was checked is what is run.
func TestCommandIsTrusted(t *testing.T) {
	dir := folderOfAll(t)
	program, link := filepath.Join(dir, "program"), filepath.Join(dir, "link")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexit 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	var checked string
	c := &Command{Args: []string{link}, Trusted: func(path string) error { checked = path; return nil }}
	if got, err := c.Run(t.Context()); err != nil || got.Status != 7 || checked != program {
		t.Errorf("%+v, %v, checked %s", got, err, checked)
	}
	c.Trusted = func(string) error { return fs.ErrPermission }
	if got, err := c.Run(t.Context()); !errors.Is(err, fs.ErrPermission) || got != (Ended{}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// folderOfAll is a folder that any user may enter.
func folderOfAll(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for at := dir; at != filepath.Clean(os.TempDir()) && len(at) > 1; at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// awaitGone waits until a process is gone, or a zombie of the process that adopted it.
func awaitGone(t *testing.T, pid string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		b, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(b), ") Z ") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %s is still there: %s", pid, b)
		}
	}
}
