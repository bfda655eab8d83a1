// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The site's command speaks by its exit status, and what others could have written is not run.
func TestSiteCommand(t *testing.T) {
	if siteCommand(nil) != nil {
		t.Error("a command that is not configured is asked")
	}
	for script, want := range map[string]string{
		"echo offline; exit 0": "",
		"exit 1":               "/bin/sh: exit status 1",
		"echo job 17; exit 3":  "/bin/sh: exit status 3: job 17",
	} {
		if why, err := siteCommand([]string{"/bin/sh", "-c", script})(t.Context()); err != nil || why != want {
			t.Errorf("%s: %q, %v, expected %q", script, why, err, want)
		}
	}
	if why, err := siteCommand([]string{"/bin/sh", "-c", "kill -KILL $$"})(t.Context()); err == nil || why != "" {
		t.Errorf("a command that is killed: %q, %v", why, err)
	}
	program, ran := filepath.Join(t.TempDir(), "program"), filepath.Join(t.TempDir(), "ran")
	if err := os.WriteFile(program, []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(program, 0o777); err != nil {
		t.Fatal(err)
	}
	why, err := siteCommand([]string{program})(t.Context())
	if !errors.Is(err, fs.ErrPermission) || why != "" || !strings.Contains(err.Error(), program) {
		t.Errorf("a program that everybody can write: %q, %v", why, err)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("it was run")
	}
}
