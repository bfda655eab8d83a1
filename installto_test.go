// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What install-to copies runs in a container that has nothing else, whatever its C library is.
func TestInstallTo(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, for chroot")
	}
	dir := t.TempDir()
	for range 2 { // a second time over the first
		if out, err := exec.CommandContext(t.Context(), self, "install-to", dir).CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, folder := range []string{"sys", "proc", "etc"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), "/ld.so", "--library-path", "/", "/gpufabric_exporter", "preflight")
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: dir}
	c.Dir = "/"
	out, err := c.CombinedOutput()
	if !strings.Contains(string(out), "unknown, ") || c.ProcessState.ExitCode() == 1 {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), self, "install-to", dir+"/none").CombinedOutput(); err == nil || !strings.Contains(string(out), "expected a folder that exists") {
		t.Errorf("%v: %s", err, out)
	}
}
