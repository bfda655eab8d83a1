// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"path/filepath"
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
