// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"errors"
	"sync"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// errPending is the state of a reading before the first read ended.
var errPending = errors.New("not read yet")

// reading is a value that is read in a lane of its own and shared by all callers that accept its age.
type reading[T any] struct {
	lane lane

	mu    sync.Mutex
	with  func(last T, now time.Time) (T, error) // how it is read, if callers do not say; nil: nothing is configured
	value T
	began time.Time // when the read that gave value began; zero before the first
	took  time.Duration
	err   error
	epoch int // counts what was forgotten
}

// startIfStale starts a read unless the value is fresh, and returns a channel that is closed when the read
// ends; nil when there is nothing to wait for. The read gets the last value; nil is that of replace.
func (r *reading[T]) startIfStale(fresh func(value T, began time.Time) bool,
	read func(last T, now time.Time) (T, error),
) <-chan struct{} {
	if _, ok := r.peek(fresh); ok {
		return nil
	}
	return r.lane.start(func() {
		last, ok := r.peek(fresh)
		if ok {
			return // another read ended between the look and the start
		}
		r.mu.Lock()
		epoch, read := r.epoch, read
		if read == nil {
			read = r.with
		}
		r.mu.Unlock()
		if read == nil {
			return
		}
		now := time.Now()
		v, err := last, error(errPanic)
		defer func() { // also when read panics: then the last value stands, with errPanic
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.epoch != epoch {
				return // it is of what is read no more
			}
			r.value, r.began, r.took, r.err = v, now, time.Since(now), err
		}()
		v, err = read(last, now)
	})
}

func (r *reading[T]) peek(fresh func(value T, began time.Time) bool) (value T, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.value, !r.began.IsZero() && fresh(r.value, r.began)
}

// replace has the value be read otherwise from now on, by what closes closes unless that is nil. The reading
// is as it was before the first read, and what a read in flight brings is dropped.
func (r *reading[T]) replace(read func(last T, now time.Time) (T, error), closes func()) {
	r.mu.Lock()
	var none T
	r.with, r.value, r.began, r.took, r.err = read, none, time.Time{}, 0, errPending
	r.epoch++
	r.mu.Unlock()
	r.lane.use(closes) // after that: a read that is not in flight now begins with the new one
}

// errPanic stands for a read that panicked; the lane has the details.
var errPanic = errors.New("reader panicked")

// refresh brings the value up to date or gives up when ctx ends.
func (r *reading[T]) refresh(ctx context.Context, fresh func(T, time.Time) bool, read func(T, time.Time) (T, error)) {
	for range 2 { // the read in flight may have begun for a caller that accepts an older one
		done := r.startIfStale(fresh, read)
		if done == nil || !r.lane.wait(ctx, done) {
			return
		}
	}
}

// get returns the last value with how its source does: it is up when the value is fresh and was read without
// error, whatever is in flight.
func (r *reading[T]) get(name, device string, fresh func(T, time.Time) bool) (T, fabric.Source) {
	reason, since := r.lane.busy()
	if _, ok := r.peek(fresh); ok {
		reason = ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := fabric.Source{Name: name, Device: device, Up: true, Duration: r.took}
	switch {
	case reason != "":
		s.Up, s.Reason, s.Since = false, reason, since
		s.Err = errors.New("a read that began " + since.UTC().Format(time.RFC3339) + " has not returned")
	case errors.Is(r.err, errPanic):
		s.Up, s.Reason, s.Err = false, fabric.ReasonPanic, r.lane.failure()
	case errors.Is(r.err, errPending):
		s.Up, s.Reason, s.Err = false, fabric.ReasonNotRead, r.err
	case r.err != nil:
		s.Up, s.Reason, s.Err = false, fabric.ReasonOf(r.err), r.err
	}
	return r.value, s
}
