// SPDX-License-Identifier: Apache-2.0

package errand

import (
	"context"
	"time"
)

// Within calls f, and leaves it to itself when it does not return in time.
func Within[T any](ctx context.Context, limit time.Duration, f func(context.Context) (T, error)) (T, error) {
	type end struct {
		value T
		err   error
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	ends := make(chan end, 1)
	go func() {
		defer cancel()
		v, err := f(ctx)
		ends <- end{v, err}
	}()
	select {
	case end := <-ends:
		return end.value, end.err
	case <-ctx.Done():
	}
	select {
	case end := <-ends: // it was just in time
		return end.value, end.err
	default:
		return *new(T), ctx.Err()
	}
}
