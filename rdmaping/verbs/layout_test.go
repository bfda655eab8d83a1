// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// TestLayout compares the own header with what the one of rdma-core printed (releases 44 and 65), and with that of
// this host, where there is one.
func TestLayout(t *testing.T) {
	if runtime.GOARCH != "amd64" { // a mutex has another size
		t.Skip("layout.txt is of amd64")
	}
	printed := func(args ...string) string {
		program := filepath.Join(t.TempDir(), "layout")
		out, err := exec.CommandContext(t.Context(), "gcc", append(args, "-o", program, "testdata/layout.c")...).CombinedOutput()
		if err != nil {
			t.Fatalf("gcc: %v\n%s", err, out)
		}
		if out, err = exec.CommandContext(t.Context(), program).Output(); err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	own := printed()
	if want, err := os.ReadFile("testdata/layout.txt"); err != nil || own != string(want) {
		t.Errorf("%v: here\n%s\nin rdma-core\n%s", err, own, want)
	}
	if _, err := os.Stat("/usr/include/infiniband/verbs.h"); err != nil {
		return
	}
	if installed := printed("-DREAL"); installed != own {
		t.Errorf("here\n%s\ninstalled\n%s", own, installed)
	}
}
