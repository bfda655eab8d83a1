// SPDX-License-Identifier: Apache-2.0

// Package errand runs calls that may never return, such as a read from a network file system whose server is gone.
package errand

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrBusy means that an errand has not returned yet.
var ErrBusy = errors.New("already under way")

// Errand runs one thing at a time, so that at most one goroutine and its thread are lost to what hangs, however often it is
// asked. The zero value is ready. It is safe for concurrent use.
type Errand[T any] struct {
	mu    sync.Mutex
	since time.Time // when the one in flight began; zero: none is
}

// Run returns what do returns, ErrBusy while an earlier one has not returned, or an error when ctx ends first or the
// patience does. A do that is no longer waited for runs on.
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
		v, err := do()
		e.mu.Lock()
		e.since = time.Time{}
		e.mu.Unlock()
		done <- result{v, err}
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
