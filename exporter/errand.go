// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"
)

// errBusy says that an errand has not returned yet.
var errBusy = errors.New("already under way")

// errand runs what may never return, such as a read from a network file system whose server is gone: one at a time, so
// that at most one goroutine and its thread are lost to it, however often it is asked.
type errand[T any] struct {
	mu    sync.Mutex
	since time.Time // when the one in flight began; zero: none is
}

// result is what an errand brings back.
type result[T any] struct {
	value T
	err   error
}

// run returns what do returns, errBusy while an earlier one has not returned, or an error when ctx ends first or the
// patience does. A do that is no longer waited for runs on.
func (e *errand[T]) run(ctx context.Context, patience time.Duration, do func() (T, error)) (T, error) {
	var none T
	e.mu.Lock()
	if !e.since.IsZero() {
		defer e.mu.Unlock()
		return none, fmt.Errorf("%w since %s", errBusy, e.since.UTC().Format(time.RFC3339))
	}
	e.since = time.Now()
	e.mu.Unlock()
	done := make(chan result[T], 1)
	go func() {
		v, err := do()
		e.mu.Lock()
		e.since = time.Time{}
		e.mu.Unlock()
		done <- result[T]{v, err}
	}()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return none, fmt.Errorf("not read within %s: does its file system answer? %w", patience, ctx.Err())
	}
}

// readRegular returns a regular file of at most limit bytes. It never waits for the writer of a FIFO.
func readRegular(file string, limit int64) ([]byte, error) { return readFile(file, limit, 0) }

// readOwn returns a regular file that this program replaces, which is never a symbolic link.
func readOwn(file string, limit int64) ([]byte, error) {
	return readFile(file, limit, syscall.O_NOFOLLOW)
}

func readFile(file string, limit int64, flags int) ([]byte, error) {
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
		return nil, &fs.PathError{Op: "read", Path: file, Err: fmt.Errorf("is %s, expected a regular file", kindOf(info.Mode()))}
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
