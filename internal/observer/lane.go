// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// lane is where reads that must never overlap run: those of one device, or those under the kernel's rtnl
// lock. It holds at most one goroutine. A read that does not return keeps its lane busy; no caller starts a
// second one, and none waits for it once it is known to be stuck. What a read uses is released in its lane, by
// release and retire only.
type lane struct {
	stuckAfter time.Duration

	mu    sync.Mutex
	done  chan struct{} // closed when the read in flight ends; nil while idle
	began time.Time     // when it began
	moved time.Time     // when the last of its parts ended
	err   error         // of the last read that ended: a recovered panic

	releases []func() // what is to be released when the read in flight has ended
	retired  bool     // nothing is read any more
}

// ended is the end of what never began.
var ended = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// start begins read unless one is in flight or the lane is retired, and returns what is closed when the one in flight ends.
func (l *lane) start(read func()) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.done != nil:
		return l.done
	case l.retired:
		return ended
	}
	return l.begin(read)
}

// begin is called with mu held, while the lane is idle.
func (l *lane) begin(read func()) <-chan struct{} {
	done := make(chan struct{})
	now := time.Now()
	l.done, l.began, l.moved = done, now, now
	go func() {
		growStack(false)
		err := recovered(read)
		l.mu.Lock()
		for len(l.releases) > 0 { // more may come meanwhile
			list := l.releases
			l.releases = nil
			l.mu.Unlock()
			for _, release := range list {
				err = errors.Join(err, recovered(release))
			}
			l.mu.Lock()
		}
		l.done, l.err = nil, err
		l.mu.Unlock()
		close(done)
	}()
	return done
}

// recovered runs f and returns its panic as an error.
func recovered(f func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("reader panicked: %v\n%s", p, debug.Stack())
		}
	}()
	f()
	return nil
}

// release runs f once, as soon as no read is in flight, be it hours later, and returns what is closed after it. Nobody waits for it.
// A read that begins afterwards must not use what f releases.
func (l *lane) release(f func()) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.releases = append(l.releases, f)
	if l.done == nil {
		l.begin(func() {})
	}
	return l.done
}

// retire is release of all that the lane uses: no read begins any more. Only the first call does anything.
func (l *lane) retire(f func()) <-chan struct{} {
	l.mu.Lock()
	first := !l.retired
	l.retired = true
	done := l.done
	l.mu.Unlock()
	switch {
	case first:
		return l.release(f)
	case done != nil:
		return done
	}
	return ended
}

// readStack is about how much stack a read takes, in bytes.
const readStack = 6 << 10

// growStack has Go's runtime make room for a frame of readStack, which it does before it looks at used. A goroutine begins
// with 2 KiB; growing in steps, each of which copies all frames, costs a fortieth of a scrape.
//
//go:noinline
func growStack(used bool) byte {
	if !used {
		return 0
	}
	var room [readStack]byte
	return room[len(room)-time.Now().Second()-1]
}

// wait waits for done until ctx ends. It does not wait for a read that is stuck already.
func (l *lane) wait(ctx context.Context, done <-chan struct{}) bool {
	if reason, _ := l.busy(); reason == fabric.ReasonStuck {
		return false
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// busy returns why the lane has no answer now, and since when; the reason is empty when it is idle.
func (l *lane) busy() (fabric.Reason, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.done == nil:
		return "", time.Time{}
	case time.Since(l.moved) >= l.stuckAfter:
		return fabric.ReasonStuck, l.moved
	default:
		return fabric.ReasonTimeout, l.began
	}
}

// progress records that a part of the read in flight ended. Only that read calls it. A read of many parts takes long on a
// host whose processors are busy; it is late then, and not stuck.
func (l *lane) progress() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moved = time.Now()
}

// failure returns the panic of the last read, if it panicked.
func (l *lane) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
