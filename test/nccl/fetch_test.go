// SPDX-License-Identifier: Apache-2.0

// Package nccl holds what this project says of NCCL against NCCL itself, without a GPU: README.md says how.
//
// Every test with the build tag nccl (make nccl-test) runs with each release that Debian serves. One that
// cannot be had is skipped with the reason. They need root for namespaces: processes run in ones of their
// own, with nothing but loopback. Without the tag only the scripts that fetch and build are tested.
package nccl

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// apt-get and apt-cache of a mirror that is broken as BROKEN says.
const stubs = `#!/bin/bash
case "$BROKEN ${0##*/} $*" in
*indextargets*) echo "http://mirror.invalid/debian/" ;;
"unreachable apt-get "*update) echo "W: Failed to fetch http://mirror.invalid" >&2 ;;
"unsigned apt-get "*update) echo "E: The repository is not signed." >&2; exit 100 ;;
"lacking apt-cache "*) ;;
*apt-cache*) echo "Version: 9.9.9-1" ;;
"damaged apt-get "*download*) echo 'no package' >libnccl-dev_9.9.9-1_amd64.deb ;;
"another apt-get "*download*)
  mkdir -p d/DEBIAN d/opt && : >d/opt/nccl.h
  printf 'Package: libnccl-dev\nVersion: 9.9.9-1\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n' >d/DEBIAN/control
  dpkg-deb -b d libnccl-dev_9.9.9-1_amd64.deb >/dev/null && rm -r d ;;
"refused apt-get "*download*) echo "E: Hash Sum mismatch" >&2; exit 100 ;;
esac
`

func TestFetchSaysWhyItCannot(t *testing.T) {
	if _, err := os.Stat("/usr/share/keyrings/debian-archive-keyring.gpg"); err != nil {
		t.Skip("no Debian: ", err)
	}
	bin := t.TempDir()
	for _, name := range []string{"apt-get", "apt-cache"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(stubs), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ broken, says string }{
		{"unreachable", "skipped: apt-get update: W: Failed to fetch"},
		{"unsigned", "skipped: apt-get update: E: The repository is not signed."},
		{"lacking", "skipped: Debian sid has no libnccl-dev"},
		{"refused", "skipped: apt-get download: E: Hash Sum mismatch"},
		{"damaged", "skipped: libnccl-dev 9.9.9-1 is damaged"},
		{"another", "skipped: libnccl-dev 9.9.9-1 has another layout"},
	} {
		cmd := exec.Command("./fetch.sh", "sid")
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "RIG_CACHE="+t.TempDir(), "BROKEN="+c.broken)
		out, err := cmd.Output()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok || exit.ExitCode() != 77 || !strings.HasPrefix(string(out), c.says) || strings.Count(string(out), "\n") != 1 {
			t.Errorf("%s: %q (%v), expected %q and status 77", c.broken, out, err, c.says)
		}
	}
}

// A library without what it should have is no rig.
func TestBuildSaysWhyItCannot(t *testing.T) {
	for _, p := range []string{"gcc", "g++"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip(err)
		}
	}
	dev := t.TempDir()
	lib := filepath.Join(dev, "usr/lib/x")
	if err := os.MkdirAll(lib, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(lib, "libnccl_static.a"), []byte("!<arch>\ncut"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("./build.sh", dev, t.TempDir(), "9.9.9").Output()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != 77 || !strings.HasPrefix(string(out), "skipped: libnccl_static.a does not link") {
		t.Errorf("%q (%v), expected a reason and status 77", out, err)
	}
}

// TestLastLineOfCI runs .ci/run where make does nothing but say what became of the rig: a skip is the last line.
func TestLastLineOfCI(t *testing.T) {
	script, err := os.ReadFile("../../.ci/run")
	if err != nil {
		t.Skip("not in the repository: ", err)
	}
	tree, bin := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(tree, ".ci"), 0o755); err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(tree, ".ci", "run")
	said := "#!/bin/sh\n[ \"$1\" != nccl-test ] || printf 'nccl: sid: %s\\nok\\n' \"$SAYS\"\n"
	files := map[string]string{run: string(script)}
	for _, name := range []string{"go", "gcc", "git", "make"} {
		files[filepath.Join(bin, name)] = said
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for says, want := range map[string]string{"skipped: no mirror of Debian": "nccl: sid: skipped: no mirror of Debian", "NCCL 2.29.7": "ok"} {
		cmd := exec.Command(run)
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "SAYS=" + says}
		out, err := cmd.CombinedOutput()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if last := lines[len(lines)-1]; err != nil || last != want {
			t.Errorf("the last line is %q, %v, expected %q:\n%s", last, err, want, out)
		}
	}
}
