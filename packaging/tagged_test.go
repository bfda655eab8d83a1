// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A release is built only from the tagged commit, without changes, and only if it has a section in the changelog.
func TestTagged(t *testing.T) {
	script, err := filepath.Abs("tagged.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	do := func(name string, args ...string) (string, error) {
		c := exec.CommandContext(t.Context(), name, args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
		out, err := c.CombinedOutput()
		return string(out), err
	}
	git := func(args ...string) {
		t.Helper()
		if out, err := do("git", args...); err != nil {
			t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(because string) {
		t.Helper()
		if out, err := do(script, "1.2.0"); err == nil || !strings.Contains(out, because) {
			t.Errorf("%v: %s, want %q", err, out, because)
		}
	}
	commit := func() {
		t.Helper()
		git("add", "-A")
		git("commit", "-q", "-m", "change")
	}

	refused("no git repository")
	git("init", "-q")
	write("CHANGELOG.md", "## 1.2.0 / unreleased\n")
	refused("changes that are not committed")
	commit()
	refused("packaging/images is missing")
	if err := os.Mkdir(filepath.Join(dir, "packaging"), 0o700); err != nil {
		t.Fatal(err)
	}
	digest := "@sha256:" + strings.Repeat("0123456789abcdef", 4)
	for _, wrong := range []string{"", "@sha256:0123", digest + "0"} {
		write("packaging/images", "# Base images\nBUILD_IMAGE=example.com/golang:1.26"+digest+"\nRUNTIME_IMAGE=example.com/base:nonroot"+wrong+"\n")
		commit()
		refused("no digest of RUNTIME_IMAGE: run make pin and commit it")
	}
	write("packaging/images", "# Base images\nBUILD_IMAGE=example.com/golang:1.26"+digest+"\nRUNTIME_IMAGE=example.com/base:nonroot"+digest+"\n")
	commit()
	refused("no tag v1.2.0")
	git("tag", "v1.2.0-rc.1")
	git("tag", "v1x2.0")
	refused("no tag v1.2.0")
	git("tag", "v1.2.0")
	refused("## 1.2.0 / YYYY-MM-DD")
	write("CHANGELOG.md", "## 1.2.0 / 2026-12-01\n")
	refused("changes that are not committed")
	commit()
	refused("no tag v1.2.0") // it names the commit before
	git("tag", "-f", "v1.2.0")
	if out, err := do(script, "1.2.0"); err != nil || out != "" {
		t.Errorf("%v: %s", err, out)
	}
}

// What the workflow of a release runs is refused without all of that; a build that is not released is not.
func TestReleaseIsTagged(t *testing.T) {
	for args, want := range map[string]bool{"release": true, "release SNAPSHOT=1": false} {
		out, err := exec.CommandContext(t.Context(), "make", append([]string{"-C", "..", "--dry-run", "ARCHITECTURES="}, strings.Fields(args)...)...).CombinedOutput()
		if first, _, _ := strings.Cut(string(out), "rm -rf bin/release\n"); err != nil || strings.Contains(first, "packaging/tagged.sh ") != want {
			t.Errorf("make %s: %v, runs packaging/tagged.sh first: expected %v\n%s", args, err, want, out)
		}
	}
}
