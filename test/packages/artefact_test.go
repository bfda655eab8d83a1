// SPDX-License-Identifier: Apache-2.0

//go:build packages

package packages

import (
	"crypto/sha256"
	"debug/elf"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	repository = "../.."
	packages   = repository + "/bin/release/"
)

// version is that of the packages.
func version(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(repository + "/VERSION")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// glibc is the newest release of glibc that a program may need: that of RHEL 8.
var glibc = []int{2, 28}

// TestGlibc reads which releases of glibc the binaries need.
func TestGlibc(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		f, err := elf.Open(repository + "/bin/linux-" + arch + program[strings.LastIndex(program, "/"):])
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if f.Machine != machine || f.Type != elf.ET_DYN {
			t.Errorf("%s: %v, %v: expected a position-independent program for %v", arch, f.Machine, f.Type, machine)
		}
		needs, err := f.DynamicVersionNeeds()
		if err != nil {
			t.Fatal(err)
		}
		newest := []int{0}
		for _, library := range needs {
			for _, need := range library.Needs {
				number, ok := strings.CutPrefix(need.Dep, "GLIBC_")
				if !ok {
					t.Errorf("%s needs %s of %s", arch, need.Dep, library.Name)
					continue
				}
				var release []int
				for part := range strings.SplitSeq(number, ".") {
					n, err := strconv.Atoi(part)
					if err != nil {
						t.Fatal(err)
					}
					release = append(release, n)
				}
				if slices.Compare(release, newest) > 0 {
					newest = release
				}
			}
		}
		if len(newest) < 2 || slices.Compare(newest, glibc) > 0 {
			t.Errorf("%s needs glibc %v, expected at most %v", arch, newest, glibc)
		}
		t.Logf("%s needs glibc %v", arch, newest)
		libraries, err := f.ImportedLibraries()
		if err != nil {
			t.Fatal(err)
		}
		for _, library := range libraries {
			if !slices.Contains([]string{"libc.so.6", "libdl.so.2", "libpthread.so.0", "libresolv.so.2", "ld-linux-aarch64.so.1"}, library) {
				t.Errorf("%s needs %s, which a node may lack", arch, library)
			}
		}
	}
}

// TestArchive unpacks the archive and runs what is in it.
func TestArchive(t *testing.T) {
	dir := t.TempDir()
	name := "gpufabric_exporter-" + version(t) + ".linux-amd64"
	if out, err := exec.CommandContext(t.Context(), "tar", "-C", dir, "-xzf", packages+name+".tar.gz").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	top, err := filepath.Glob(dir + "/*")
	if err != nil || len(top) != 1 || filepath.Base(top[0]) != name {
		t.Fatalf("at the top: %v, %v", top, err)
	}
	for _, file := range []string{
		"LICENSE", "THIRD_PARTY", "CHANGELOG.md", "config.yml", "reference.yml", "default", "gpufabric_exporter.1", "completion/gpufabric_exporter.bash", "completion/_gpufabric_exporter",
		"systemd/gpufabric_exporter.service", "systemd/tiers/gpu.conf", "slurm/slurm-prolog.sh", "slurm/slurm-health.sh", "slurm/gpufabric_slurm",
	} {
		if info, err := os.Stat(filepath.Join(top[0], file)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
	out, err := exec.CommandContext(t.Context(), top[0]+"/gpufabric_exporter", "--config.check", "--config.file="+top[0]+"/config.yml").CombinedOutput()
	if err != nil {
		t.Errorf("the default configuration: %v: %s", err, out)
	}
	out, err = exec.CommandContext(t.Context(), top[0]+"/gpufabric_exporter", "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "version "+version(t)+" ") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestReproducible makes a release in two copies of the tree, the second with nothing that was compiled
// before: all files have the same bits. Neither copy has access to a network.
func TestReproducible(t *testing.T) {
	revision, err := exec.CommandContext(t.Context(), "git", "rev-parse", "HEAD").Output()
	epoch, err2 := exec.CommandContext(t.Context(), "git", "log", "-1", "--format=%ct").Output()
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	commit := strings.TrimSpace(string(revision))
	folders := []string{t.TempDir(), filepath.Join(t.TempDir(), "another", "folder")}
	copied := exec.CommandContext(t.Context(), "sh", "-c", `mkdir -p "$1" &&
		{ git ls-files -z --cached --others --exclude-standard; find bin/sysroot-* -maxdepth 0 -print0; } | xargs -0 cp -a --parents -t "$0" && cp -a "$0/." "$1"`, folders[0], folders[1])
	copied.Dir = repository
	if out, err := copied.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	release := func(dir string, env ...string) map[string]string {
		made := exec.CommandContext(t.Context(), "unshare", "--net", "make", "-C", dir, "release", "SNAPSHOT=1", "COMMIT="+commit, "REVISION="+commit[:8])
		made.Env = append(append(os.Environ(), "SOURCE_DATE_EPOCH="+strings.TrimSpace(string(epoch))), env...)
		if out, err := made.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		files, err := filepath.Glob(dir + "/bin/release/*")
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all[filepath.Base(file)] = string(content)
		}
		return all
	}
	one, two := release(folders[0]), release(folders[1], "GOCACHE="+t.TempDir())
	names := slices.Sorted(maps.Keys(one))
	if other := slices.Sorted(maps.Keys(two)); len(names) < 14 || !slices.Equal(names, other) {
		t.Errorf("one has %q, two %q", names, other)
	}
	for _, name := range names {
		if two[name] != one[name] {
			t.Errorf("%s has other bits in another folder", name)
		}
		t.Logf("%9d %x  %s", len(one[name]), sha256.Sum256([]byte(one[name])), name)
	}
}
