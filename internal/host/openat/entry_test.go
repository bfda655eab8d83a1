// SPDX-License-Identifier: Apache-2.0

package openat_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/host/openat"
)

// An entry is what is in the folder itself: no link is followed, and no path leads elsewhere.
func TestOpenEntry(t *testing.T) {
	top := t.TempDir()
	at := filepath.Join(top, "at")
	if err := errors.Join(
		os.MkdirAll(filepath.Join(at, "folder"), 0o755),
		os.WriteFile(filepath.Join(at, "folder", "file"), nil, 0o600),
		os.WriteFile(filepath.Join(at, "file"), nil, 0o600),
		os.WriteFile(filepath.Join(top, "outside"), nil, 0o600),
		os.Symlink("file", filepath.Join(at, "link")),
		os.Symlink("folder", filepath.Join(at, "link to folder")),
		unix.Mkfifo(filepath.Join(at, "fifo"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for _, c := range []struct {
		name  string
		flags int
		want  error
	}{
		{"file", 0, nil},
		{"fifo", 0, nil}, // without a writer
		{"folder", unix.O_DIRECTORY, nil},
		{"file", unix.O_DIRECTORY, unix.ENOTDIR},
		{"link", 0, unix.ELOOP},
		{"link to folder", unix.O_DIRECTORY, unix.ENOTDIR},
		{"none", 0, os.ErrNotExist},
		{"..", unix.O_DIRECTORY, unix.EXDEV},
		{"../outside", 0, unix.EXDEV},
		{"folder/file", 0, unix.EXDEV},
		{filepath.Join(top, "outside"), 0, unix.EXDEV},
	} {
		fd, err := openat.OpenEntry(dir, c.name, c.flags)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, expected %v", c.name, err, c.want)
		}
		if err == nil {
			_ = unix.Close(fd)
		}
	}
}
