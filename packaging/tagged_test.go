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
