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
// second one, and none waits for it once it is known to be stuck. What reads use is closed in the lane, when
// another takes its place (use) or when the lane is retired.
type lane struct {
	stuckAfter time.Duration
	starved    func() time.Duration // how long this process has waited for processors so far; nil: that is not known

	mu    sync.Mutex
	done  chan struct{} // closed when the read in flight ends; nil while idle
	began time.Time     // when it began
	moved time.Time     // when the last of its parts ended
	err   error         // of the last read that ended: a recovered panic

	watch   *time.Timer   // fires watchAfter in each read
	watched bool          // it has, in the read in flight
	stuck   bool          // that read was found to be, and did not move since
	late    time.Duration // by which it fired late: the process was stopped, or had no processor
	waited  time.Duration // what starved gave when it fired, or when moved was if that is later

	closes  func()   // closes what reads use; nil: there is nothing to close
	left    []func() // closes what they used before, when the read in flight has ended
	retired bool     // nothing is read any more
}

// ended is the end of what never began.
var ended = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// start begins read unless one is in flight or the lane is retired, and returns what is closed when the one
// in flight ends.
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
	l.done, l.began, l.moved, l.watched, l.stuck = done, now, now, false, false
	if l.watch == nil {
		l.watch = time.AfterFunc(watchAfter, l.look)
	} else {
		l.watch.Reset(watchAfter)
	}
	go func() {
		err := recovered(read)
		l.mu.Lock()
		for len(l.left) > 0 { // more may come meanwhile
			closes := l.left[0]
			l.left = l.left[1:]
			l.mu.Unlock()
			err = errors.Join(err, recovered(closes))
			l.mu.Lock()
		}
		l.done, l.err = nil, err
		l.watch.Stop()
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

// use says what closes what reads use that begin from now on. What was used before is closed once, as soon as
// no read is in flight, even hours later; nothing waits for it. In a lane that is retired nothing begins, and
// what it gets is closed at once.
func (l *lane) use(closes func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave()
	if l.closes = closes; l.retired {
		l.leave()
	}
}

// leave is called with mu held.
func (l *lane) leave() {
	if l.closes == nil {
		return
	}
	l.left, l.closes = append(l.left, l.closes), nil
	if l.done == nil {
		l.begin(func() {})
	}
}

// retire has what reads use be closed, and none begin any more. It returns what is closed when nothing is left.
func (l *lane) retire() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired = true
	if l.leave(); l.done != nil {
		return l.done
	}
	return ended
}

// retireIdle is retire, unless a read is in flight: then nothing is done.
func (l *lane) retireIdle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done != nil {
		return false
	}
	l.retired = true
	l.leave()
	return true
}

// wait waits for done until ctx ends; nil is what ended before. It does not wait for a read that is stuck already.
func (l *lane) wait(ctx context.Context, done <-chan struct{}) bool {
	if done == nil {
		return true
	}
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
	case l.overdue():
		return fabric.ReasonStuck, l.moved
	default:
		return fabric.ReasonTimeout, l.began
	}
}

// watchAfter is after how much of a read a lane looks how long this process waits for processors. Few last as long.
const watchAfter = time.Second

// look notes how long the process had waited for processors when the read in flight was watchAfter old.
func (l *lane) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done != nil {
		l.watched, l.late, l.waited = true, max(0, time.Since(l.moved)-watchAfter), l.waiting()
	}
}

// waiting is called with mu held.
func (l *lane) waiting() time.Duration {
	if l.starved == nil {
		return 0
	}
	return l.starved()
}

// maxExcuse is how much of the waits for processors excuses a read. They are those of all threads, so on a host that is
// always busy they would excuse a read that hangs for ever.
const maxExcuse = 15 * time.Second

// overdue reports whether the read in flight is stuck: it did not move for stuckAfter, in which no thread of this
// process waited for a processor, or for maxExcuse more. It is called with mu held.
func (l *lane) overdue() bool {
	still := time.Since(l.moved)
	if !l.stuck && l.watched && still >= l.stuckAfter {
		excuse := min(max(0, l.waiting()-l.waited), maxExcuse) // 0.5 ms; asked once of a read that hangs
		l.stuck = still-l.late-excuse >= l.stuckAfter
	}
	return l.stuck
}

// progress records that a part of the read in flight ended. Only that read calls it. A read of many parts
// takes long on a host whose processors are busy; it is late then, and not stuck.
func (l *lane) progress() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.moved, l.late, l.stuck = time.Now(), 0, false; l.watched {
		l.waited = l.waiting()
	}
}

// failure returns the panic of the last read, if it panicked.
func (l *lane) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
