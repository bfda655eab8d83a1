// SPDX-License-Identifier: Apache-2.0

// Package nvmltest builds a stand-in for NVIDIA's libnvidia-ml.so.1, for tests of what loads it. Only tests import it.
//
// A process can have one such library only: what it binds to stays bound. Tests load it in children.
package nvmltest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The environment of the process that loads the stand-in. testdata/libnvidia-ml.c says what the files hold.
const (
	Machine = "GPUFABRIC_NVML_STANDIN" // the file that describes the machine and its faults
	Calls   = "GPUFABRIC_NVML_CALLS"   // a file to be made, which counts calls
)

// Build compiles the stand-in as libnvidia-ml.so.1 in dir and returns its path. It lacks the symbols in without.
func Build(t testing.TB, dir string, without ...string) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	object := filepath.Join(dir, "libnvidia-ml.o")
	if _, err := os.Stat(object); err != nil {
		compile(t, "-c", "-O1", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", object, filepath.Join(filepath.Dir(here), "..", "testdata", "libnvidia-ml.c"))
	}
	script := filepath.Join(dir, "symbols")
	text := "{ global: nvml*; };\n"
	if len(without) > 0 {
		text = "{ global: nvml*; local: " + strings.Join(without, "; ") + "; };\n"
	}
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(dir, "libnvidia-ml.so.1")
	compile(t, "-shared", "-Wl,--version-script="+script, "-Wl,-soname,libnvidia-ml.so.1", "-o", library, object)
	return library
}

func compile(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// Describe writes the file of Machine, so that no reader sees half of it.
func Describe(t testing.TB, path string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
