// SPDX-License-Identifier: Apache-2.0

// Package errand runs calls that may never return, such as a read from a network file system whose server is
// gone. A call that panics costs its caller an error.
package errand

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"strings"
	"sync"
	"time"
)

// ErrBusy means that an errand has not returned yet.
var ErrBusy = errors.New("already under way")

// ErrPanic means that an errand panicked or ended its goroutine.
var ErrPanic = errors.New("this is a bug, please report it: panicked")

// Errand runs one thing at a time, so that at most one goroutine and its thread are lost to what hangs,
// however often it is asked. The zero value is ready. It is safe for concurrent use.
type Errand[T any] struct {
	mu    sync.Mutex
	since time.Time // when the one in flight began; zero: none is
}

// Run returns what do returns, ErrBusy while an earlier one has not returned, ErrPanic with the place, or an
// error when ctx ends first or the patience does. A do that is no longer waited for runs on.
func (e *Errand[T]) Run(ctx context.Context, patience time.Duration, do func() (T, error)) (T, error) {
	var none T
	e.mu.Lock()
	if !e.since.IsZero() {
		defer e.mu.Unlock()
		return none, fmt.Errorf("%w since %s", ErrBusy, e.since.UTC().Format(time.RFC3339))
	}
	e.since = time.Now()
	e.mu.Unlock()
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		returned := false
		defer func() {
			if !returned {
				r = result{err: fmt.Errorf("%w: %v, in %s", ErrPanic, recover(), stack())}
			}
			e.mu.Lock()
			e.since = time.Time{}
			e.mu.Unlock()
			done <- r
		}()
		r.value, r.err = do()
		returned = true
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

// frames is how many callers the error of a panic names.
const frames = 16

// stack returns where the calling goroutine panics, the innermost call first. It is one line, because errors
// of errands are shown to clients and on pages as well as logged.
func stack() string {
	var pcs [frames]uintptr
	calls := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])]) // without Callers, stack and the deferred function
	var text []string
	for more := true; more; {
		var f runtime.Frame
		if f, more = calls.Next(); !strings.HasPrefix(f.Function, "runtime.") {
			text = append(text, fmt.Sprintf("%s (%s:%d)", path.Base(f.Function), path.Base(f.File), f.Line))
		}
	}
	return strings.Join(text, " < ")
}
