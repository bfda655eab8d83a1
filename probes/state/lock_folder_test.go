// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The folder of the lock is made if only it is missing, for its user alone, and is taken as it is afterwards.
func TestLockMakesItsFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gpufabric_exporter")
	for range 2 {
		lock, err := TakeLock(filepath.Join(dir, "probe.lock"))
		if err != nil {
			t.Fatal(err)
		}
		lock.Release()
	}
	if info, err := os.Stat(dir); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("%v, %v, expected a folder of mode 0700", info.Mode(), err)
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v, expected the folder alone", entries, err)
	}
}

// The lock is not taken where another user could take it, hold it or replace it. The error names the setting.
func TestLockWhereOthersCouldReachIt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: gives files to another user")
	}
	for name, c := range map[string]struct {
		change func(dir string) error
		want   string
	}{
		"world-writable":  {func(dir string) error { return os.Chmod(dir, 0o777) }, "others may write"},
		"as /run/lock is": {func(dir string) error { return os.Chmod(dir, os.ModeSticky|0o777) }, "others may write"},
		"group-writable":  {func(dir string) error { return os.Chmod(dir, 0o770) }, "others may write"},
		"of another user": {func(dir string) error { return os.Chown(dir, 1000, 1000) }, "belongs to user 1000"},
		"a link": {func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.Symlink(dir+".old", dir))
		}, "a symbolic link"},
		"a file":                     {func(dir string) error { return errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)) }, "a file"},
		"below a writable one":       {func(dir string) error { return os.Chmod(filepath.Dir(dir), 0o777) }, "others could have put it there"},
		"below that of another user": {func(dir string) error { return os.Chown(filepath.Dir(dir), 1000, 1000) }, "others could have put it there"},
		"below a link of another user": {func(dir string) error {
			above := filepath.Dir(dir)
			return errors.Join(os.Rename(above, above+".old"), os.Symlink(above+".old", above), os.Lchown(above, 1000, 1000), os.Chmod(filepath.Dir(above), os.ModeSticky|0o777))
		}, "others could have put it there"},
		"missing with the one above": {func(dir string) error { return os.RemoveAll(filepath.Dir(dir)) }, "no such file"},
		"a lock that others can open": {func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600), os.Chmod(filepath.Join(dir, "lock"), 0o644))
		}, "chmod 600"},
		"a lock of another user": {func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600), os.Chown(filepath.Join(dir, "lock"), 1000, 1000))
		}, "belongs to user 1000"},
	} {
		dir := filepath.Join(t.TempDir(), "above", "folder")
		if err := errors.Join(os.MkdirAll(dir, 0o700), c.change(dir)); err != nil {
			t.Fatal(err)
		}
		lock, err := TakeLock(filepath.Join(dir, "lock"))
		if err == nil || errors.Is(err, ErrLocked) || lock != nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "lock file: ") {
			t.Errorf("%s: %v, expected %q", name, err, c.want)
		}
		if err != nil && !strings.Contains(name, "a lock") && !strings.Contains(err.Error(), "probes.lock_file") {
			t.Errorf("%s: %v does not name the setting", name, err)
		}
	}
}

// A sticky folder above is no danger, nor is a link there: /var/run, and the folders of tests.
func TestLockBelowWhatIsFine(t *testing.T) {
	top := t.TempDir()
	if err := errors.Join(
		os.MkdirAll(filepath.Join(top, "run/folder"), 0o755), os.Chmod(filepath.Join(top, "run"), os.ModeSticky|0o777), os.Symlink("run", filepath.Join(top, "link")),
	); err != nil {
		t.Fatal(err)
	}
	lock, err := TakeLock(filepath.Join(top, "link/folder/lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if _, err := TakeLock(filepath.Join(top, "run/folder/lock")); !errors.Is(err, ErrLocked) {
		t.Errorf("by its other name: %v", err)
	}
}

// lockTaker is set in the environment of a copy of this test that takes a lock as another user.
const lockTaker = "GPUFABRIC_LOCK_TAKER"

// Two users who probe one node do not probe at the same time: the folder belongs to one of them, and the
// other is refused.
func TestLockOfTwoUsers(t *testing.T) {
	if path := os.Getenv(lockTaker); path != "" {
		if err := syscall.Setresuid(1000, 1000, 1000); err != nil {
			t.Fatal(err)
		}
		lock, err := TakeLock(path)
		_, _ = io.WriteString(os.Stderr, "takes: ")
		if err != nil {
			_, _ = io.WriteString(os.Stderr, err.Error()+"\n")
			return
		}
		lock.Release()
		_, _ = io.WriteString(os.Stderr, "it\n")
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: takes the lock as two users")
	}
	// The program of this test may lie where the user may not look: it is opened here.
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	asUser := func(path string) string {
		t.Helper()
		taker := exec.Command("/proc/self/fd/3", "-test.run=^TestLockOfTwoUsers$")
		taker.ExtraFiles = []*os.File{program}
		taker.Env = append(os.Environ(), lockTaker+"="+path)
		out, err := taker.CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if strings.HasPrefix(line, "takes: ") {
				return strings.TrimSpace(line)
			}
		}
		t.Fatalf("%v: %s", err, out)
		return ""
	}
	top := t.TempDir()
	for at := top; at != filepath.Clean(os.TempDir()) && len(at) > 1; at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	roots, users := filepath.Join(top, "roots/lock"), filepath.Join(top, "users/lock")
	lock, err := TakeLock(roots)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if got := asUser(roots); !strings.Contains(got, "permission denied") {
		t.Errorf("in root's folder the user %s", got)
	}
	if err := errors.Join(os.Mkdir(filepath.Dir(users), 0o700), os.Chown(filepath.Dir(users), 1000, 1000)); err != nil {
		t.Fatal(err)
	}
	if got := asUser(users); !strings.HasSuffix(got, "takes: it") {
		t.Errorf("in a folder of its own the user %s", got)
	}
	if _, err := TakeLock(users); err == nil || !strings.Contains(err.Error(), "probes of a node run as one user") {
		t.Errorf("in the user's folder root takes it: %v", err)
	}
}
