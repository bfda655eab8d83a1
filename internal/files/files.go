// SPDX-License-Identifier: Apache-2.0

// Package files reads and replaces small regular files in places where others may have put something else: a
// FIFO without a writer, a symbolic link, a file without end.
//
// All functions may be called at once from any number of goroutines. On a file system that does not answer
// they do not return. Errors are of type *fs.PathError where the file is not what was expected, else those of
// package os.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Read returns a regular file of at most limit bytes. It never waits for the writer of a FIFO.
func Read(file string, limit int64) ([]byte, error) { return read(file, limit, 0) }

// ReadOwn returns a regular file that this program replaces, which is never a symbolic link.
func ReadOwn(file string, limit int64) ([]byte, error) { return read(file, limit, syscall.O_NOFOLLOW) }

func read(file string, limit int64, flags int) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY|flags, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{
			Op: "read", Path: file,
			Err: fmt.Errorf("is %s, expected a regular file", kindOf(info.Mode())),
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = &fs.PathError{Op: "read", Path: file, Err: fmt.Errorf("is longer than %d bytes", limit)}
	}
	return data, err
}

func kindOf(m os.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&os.ModeNamedPipe != 0:
		return "a FIFO"
	case m&os.ModeSocket != 0:
		return "a socket"
	default:
		return "a device"
	}
}

// Replace gives the file new content at once: who reads it meanwhile has the old or the new one, whole. What cannot
// be written leaves the old one, and nothing beside it.
func Replace(file string, content []byte) error {
	// The name must not end like that of the file: node_exporter reads all *.prom.
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = errors.Join(f.Chmod(0o644), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
