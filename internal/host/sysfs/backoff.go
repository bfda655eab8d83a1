// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"maps"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// The pauses between questions that a driver refuses to answer; each is twice the one before.
const (
	firstPause   = time.Minute
	longestPause = time.Hour
)

// question is an attribute that the kernel does not answer itself: it asks a driver, and most drivers their
// firmware.
type question struct {
	attr
	asks    fabric.Command // what one read asks of the driver; empty when the kernel knows the answer
	mute    bool           // the driver says nothing at all where it refuses
	backoff backoff
}

func newQuestion(d *dir, name string, asks fabric.Command) question {
	return question{attr: newAttr(d, name), asks: asks}
}

// ask reads the attribute and leaves it open. While the question pauses, the fact stays what it was.
func ask[T any](r *reader, q *question, now time.Time, parse func([]byte) (T, bool)) fabric.Fact[T] {
	if q.backoff.active(now) {
		return fabric.UnknownFact[T](q.backoff.reason, q.source, q.backoff.since)
	}
	before := r.preads
	got := r.read(&q.attr)
	if q.asks != "" {
		r.asked[q.asks] += uint64(r.preads - before)
	}
	if q.mute && got.err == nil && len(got.data) == 0 {
		got.err = unix.EOPNOTSUPP
	}
	q.backoff.note(got.err, now)
	return factOf(got, now, parse)
}

// askOnce reads the attribute and closes it.
func askOnce[T any](r *reader, q *question, now time.Time, parse func([]byte) (T, bool)) fabric.Fact[T] {
	defer q.close()
	return ask(r, q, now, parse)
}

// backoff spares a driver a question that it refuses. Each refusal of a firmware costs as much as an answer, and
// a line of the kernel's log: with the management functions of HGX boards that made a flood.
type backoff struct {
	pause  time.Duration // the last one; 0 when the driver answered
	since  time.Time     // when it refused
	reason fabric.Reason
}

func (b *backoff) active(now time.Time) bool { return b.pause > 0 && now.Sub(b.since) < b.pause }

// note remembers how a read ended. An error that is no refusal, as ENODEV, predicts nothing about the next one.
func (b *backoff) note(err error, now time.Time) {
	switch {
	case err == nil:
		b.pause = 0
	case refused(err):
		b.pause = min(max(2*b.pause, firstPause), longestPause)
		b.since, b.reason = now, fabric.ReasonOf(err)
	}
}

// refused reports whether a driver answers that it does not answer. ENOSYS is how get_perf_mad of
// drivers/infiniband/core/sysfs.c says that there is no driver to ask.
func refused(err error) bool {
	for _, e := range []unix.Errno{unix.EINVAL, unix.EIO, unix.EOPNOTSUPP, unix.ENOSYS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// maxRefusals is more than all interfaces of a node have attributes; names of interfaces come and go.
const maxRefusals = 4096

// ledger is what an FS remembers of the questions that do not belong to an open device: what was asked, and what
// was refused.
type ledger struct {
	mu      sync.Mutex
	asked   fabric.Commands
	refused map[string]backoff // by path
}

// recall returns what is known of the attribute at a path.
func (l *ledger) recall(path string) backoff {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused[path]
}

// remember takes note of how a question went, and of what was asked meanwhile.
func (l *ledger) remember(path string, b backoff, asked fabric.Commands) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked.Add(asked)
	if b.pause == 0 {
		delete(l.refused, path)
		return
	}
	if len(l.refused) >= maxRefusals {
		clear(l.refused) // they are asked once more
	}
	l.refused[path] = b
}

// Commands returns what drivers were asked of network interfaces since Open. Devices count for themselves.
func (f *FS) Commands() fabric.Commands {
	f.ledger.mu.Lock()
	defer f.ledger.mu.Unlock()
	return maps.Clone(f.ledger.asked)
}
