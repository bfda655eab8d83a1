// SPDX-License-Identifier: Apache-2.0

package openat

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Without openat2 a path leads to what is there, through no link and never out of the root.
func TestWalk(t *testing.T) {
	top := t.TempDir()
	at := filepath.Join(top, "at")
	if err := errors.Join(
		os.MkdirAll(filepath.Join(at, "etc", "deep"), 0o755),
		os.WriteFile(filepath.Join(at, "etc", "nccl.conf"), []byte("inside"), 0o600),
		os.WriteFile(filepath.Join(top, "outside"), nil, 0o600),
		os.Symlink("nccl.conf", filepath.Join(at, "etc", "link")),
		os.Symlink("etc", filepath.Join(at, "folder")),
		os.Symlink(top, filepath.Join(at, "out")),
	); err != nil {
		t.Fatal(err)
	}
	root, err := unix.Open(at, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(root) }()
	for p, want := range map[string]error{
		"/etc/nccl.conf": nil, "etc": nil, "etc/deep": nil,
		"etc/link": unix.ELOOP, "folder": unix.ELOOP, "folder/nccl.conf": unix.ELOOP, "out/outside": unix.ELOOP, // and not as if there were nothing
		"none": unix.ENOENT, "etc/none": unix.ENOENT, "etc/nccl.conf/below": unix.ENOTDIR, "../outside": unix.EXDEV, "etc/../../outside": unix.EXDEV,
	} {
		fd, err := walk(root, p)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, expected %v", p, err, want)
		}
		if err != nil {
			continue
		}
		var got, expected unix.Stat_t
		if err := errors.Join(unix.Fstat(fd, &got), unix.Stat(filepath.Join(at, p), &expected)); err != nil || got.Ino != expected.Ino {
			t.Errorf("%s: inode %d, expected %d: %v", p, got.Ino, expected.Ino, err)
		}
		_ = unix.Close(fd)
	}
}
