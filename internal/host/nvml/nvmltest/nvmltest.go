// SPDX-License-Identifier: Apache-2.0

// Package nvmltest builds a stand-in for NVIDIA's libnvidia-ml.so.1, for tests of what loads it. Only tests import it.
//
// A process can have one such library only: what it binds to stays bound. Tests load it in children.
package nvmltest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Build compiles the stand-in as libnvidia-ml.so.1 in dir and returns its path. It lacks the symbols in without.
func Build(t testing.TB, dir string, without ...string) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	object := filepath.Join(dir, "libnvidia-ml.o")
	if _, err := os.Stat(object); err != nil {
		compile(t, "-c", "-O1", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", object,
			filepath.Join(filepath.Dir(here), "..", "testdata", "libnvidia-ml.c"))
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

// Describe says what machine the stand-in at that path answers for, and what is wrong with it;
// testdata/libnvidia-ml.c has the words. A process that has it loaded sees the change with its next call.
func Describe(t testing.TB, library string, lines ...string) {
	t.Helper()
	path := library + ".machine"
	if err := os.WriteFile(path+".new", []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil { // no reader sees half of it
		t.Fatal(err)
	}
}

// Count has processes that load the stand-in at that path from now on count their calls.
func Count(t testing.TB, library string) {
	t.Helper()
	if err := os.WriteFile(library+".calls", nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Calls returns how often each function was called since Count.
func Calls(t testing.TB, library string) map[string]int {
	t.Helper()
	raw, err := os.ReadFile(library + ".calls")
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	for line := range strings.Lines(string(raw)) {
		var name string
		var n int
		if _, err := fmt.Sscan(line, &name, &n); err == nil {
			calls[name] = n
		}
	}
	return calls
}
