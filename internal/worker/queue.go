// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"fmt"
	"slices"
)

// queue lets one request at a time go to a child. Who waits can stop waiting; the request cannot be taken back.
type queue struct {
	name string        // of the worker, in errors
	turn chan struct{} // holds a token of the request that is out
}

func newQueue(name string) queue { return queue{name, make(chan struct{}, 1)} }

// call waits for its turn, and for exchange with the request. When ctx ends first, the error is the cause of that.
func (q queue) call(ctx context.Context, request []byte, exchange func([]byte) ([]byte, error)) ([]byte, error) {
	if len(request) > maxRequest {
		return nil, fmt.Errorf("%s worker: a request of %d bytes, expected at most %d", q.name, len(request), maxRequest)
	}
	select {
	case q.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%s worker: waiting for the request before: %w", q.name, context.Cause(ctx))
	}
	type answer struct {
		payload []byte
		err     error
	}
	request = slices.Clone(request)
	answers := make(chan answer, 1)
	go func() {
		payload, err := exchange(request)
		<-q.turn
		answers <- answer{payload, err}
	}()
	select {
	case a := <-answers:
		if a.err != nil {
			return nil, fmt.Errorf("%s worker: %w", q.name, a.err)
		}
		return a.payload, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s worker: waiting for the answer: %w", q.name, context.Cause(ctx))
	}
}
