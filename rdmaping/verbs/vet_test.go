// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"os"
	"path/filepath"
	"testing"
)

// TestVet refuses a library, and a folder of providers, that others could have written.
func TestVet(t *testing.T) {
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	lib := filepath.Join(root, "usr/lib", defaultLibrary)
	for _, dir := range []string{"usr/lib", "etc/libibverbs.d", "opt"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if public, err := Vet(root, ""); err == nil {
		t.Errorf("no library: %t", public)
	}
	for _, file := range []string{lib, filepath.Join(root, "opt/verbs.so")} {
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, given := range []string{"", "/opt/verbs.so"} {
		if public, err := Vet(root, given); err != nil || !public {
			t.Errorf("%q: %t, %v", given, public, err)
		}
	}
	for _, given := range []string{"/nosuch.so", "opt/verbs.so", "$ORIGIN/verbs.so"} {
		if _, err := Vet(root, given); err == nil {
			t.Errorf("%s: accepted", given)
		}
	}
	for _, open := range []string{lib, filepath.Join(root, "etc/libibverbs.d")} {
		if err := os.Chmod(open, 0o777); err != nil {
			t.Fatal(err)
		}
		if _, err := Vet(root, ""); err == nil {
			t.Errorf("%s may be written by everyone: accepted", open)
		}
		if err := os.Chmod(open, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
