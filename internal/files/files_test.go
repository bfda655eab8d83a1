// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A FIFO with a silent writer does not block the caller, and neither a device nor a long file fills the memory.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	fifo, long, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "long"), filepath.Join(dir, "link")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.WriteFile(long, []byte("123456789"), 0o600), os.Symlink(long, link)); err != nil {
		t.Fatal(err)
	}
	silent, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for file, want := range map[string]string{
			fifo: "is a FIFO, expected a regular file", dir: "is a directory, expected", "/dev/null": "is a device, expected", long: "is longer than 8 bytes",
		} {
			data, err := Read(file, 8)
			if p, ok := errors.AsType[*fs.PathError](err); !ok || p.Path != file || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q, %v; expected %s", file, data, err, want)
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("waits for the writer of a FIFO")
	}
	if data, err := Read(link, 9); err != nil || string(data) != "123456789" {
		t.Errorf("a link: %q, %v", data, err)
	}
	if data, err := ReadOwn(link, 9); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a link in the place of our own: %q, %v", data, err)
	}
	if data, err := ReadOwn(long, 9); err != nil || string(data) != "123456789" {
		t.Errorf("our own: %q, %v", data, err)
	}
}

// A link in the place of the file is replaced, not followed, and what cannot be written leaves nothing behind.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	file, other, occupied := filepath.Join(dir, "file"), filepath.Join(dir, "other"), filepath.Join(dir, "occupied")
	if err := errors.Join(os.WriteFile(other, []byte("theirs"), 0o600), os.Symlink(other, file), os.MkdirAll(filepath.Join(occupied, "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := Replace(file, []byte("ours")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{file: "ours", other: "theirs"} {
		if data, err := os.ReadFile(name); err != nil || string(data) != want {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	if err := Replace(occupied, []byte("ours")); err == nil {
		t.Error("replaced a folder")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 3 {
		t.Errorf("leaves %v, %v", left, err)
	}
}

// On a disk that is full or read-only the old file stays whole, and nothing is left beside it.
func TestReplaceOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16k"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	file := filepath.Join(dir, "file.prom")
	if err := Replace(file, []byte("old")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []error{syscall.ENOSPC, syscall.EROFS} {
		if err := Replace(file, make([]byte, 20<<10)); !errors.Is(err, want) {
			t.Errorf("%v, expected %v", err, want)
		}
		if data, err := os.ReadFile(file); err != nil || string(data) != "old" {
			t.Errorf("%v: %q, %v", want, data, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("%v leaves %v, %v", want, left, err)
		}
		if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
	}
}
