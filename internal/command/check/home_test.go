// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/site"
)

// A job's NCCL reads the file of its own home folder, unless NCCL_CONF_FILE names another.
func TestPreflightReadsHome(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "home/user"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "home/user/.nccl.conf"), []byte("NCCL_DEBUG=DEBUG\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", "/home/user")
	run := func() string {
		_, stdout, _ := commandtest.Run(t, new(site.Site), NewPreflight, "--only=inside_settings", "--path.rootfs="+root, "--path.sysfs="+root, "--path.procfs="+root)
		return stdout
	}
	commandtest.Contains(t, run(), "NCCL_DEBUG=DEBUG (/home/user/.nccl.conf)")
	t.Setenv("NCCL_CONF_FILE", "/etc/other.conf")
	commandtest.Lacks(t, run(), "NCCL_DEBUG=DEBUG")
	commandtest.Contains(t, run(), "NCCL_CONF_FILE: The settings in that file are not judged here")
}

// NCCL passes over a file that the user of the job may not read, as where HOME is that of root: it is no
// unknown setting.
func TestPreflightPassesOverUnreadableHome(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, ".nccl.conf")
	if err := os.WriteFile(file, []byte("NCCL_DEBUG=DEBUG\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	if got := jobHome(); got != home {
		t.Fatalf("home %q, want %q", got, home)
	}
	if os.Getuid() == 0 { // of this thread alone
		const nobody = 65534
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		_ = syscall.Setfsuid(nobody)
		defer func() { _ = syscall.Setfsuid(0) }()
	} else if err := os.Chmod(file, 0); err != nil {
		t.Fatal(err)
	}
	if got := jobHome(); got != "" {
		t.Errorf("home %q, want none", got)
	}
}
