// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
