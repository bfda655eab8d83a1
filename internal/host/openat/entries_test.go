// SPDX-License-Identifier: Apache-2.0

package openat

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"
)

// Whatever a folder lists as, entries end within it.
func FuzzEntries(f *testing.F) {
	buffer := make([]byte, 4096)
	dir, err := unix.Open(f.TempDir(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		f.Fatal(err)
	}
	n, err := unix.ReadDirent(dir, buffer)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(buffer[:n])
	f.Add(make([]byte, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		_ = ParseEntries(b, func(e Entry) error {
			if n++; len(e.Name) > len(b) || bytes.IndexByte(e.Name, 0) >= 0 {
				t.Errorf("%q", e.Name)
			}
			return nil
		})
		if n > len(b)/19 {
			t.Errorf("%d entries in %d bytes", n, len(b))
		}
	})
}
