// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
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
	backoff backoff
}

func newQuestion(d *dir, name string, asks fabric.Command) question {
	return question{attr: newAttr(d, name), asks: asks}
}

// ask reads the attribute and leaves it open. While the question pauses, the fact stays what it was.
func ask[T any](d *Device, q *question, now time.Time, parse func([]byte) (T, bool)) fabric.Fact[T] {
	if q.backoff.active(now) {
		return fabric.NotKnown[T](q.backoff.reason, q.source, q.backoff.since)
	}
	before := d.preads
	got := d.read(&q.attr)
	if q.asks != "" {
		d.asked[q.asks] += uint64(d.preads - before)
	}
	q.backoff.note(got.err, now)
	return factOf(got, now, parse)
}

// askOnce reads the attribute and closes it.
func askOnce[T any](d *Device, q *question, now time.Time, parse func([]byte) (T, bool)) fabric.Fact[T] {
	defer q.close()
	return ask(d, q, now, parse)
}

// backoff spares a driver a question that it refuses. Each refusal of a firmware costs as much as an answer, and
// a line of the kernel's log: with the management functions of HGX boards that made a flood.
type backoff struct {
	pause  time.Duration // the last one; 0 when the driver answered
	since  time.Time     // when it refused
	reason fabric.Reason
}

func (b *backoff) active(now time.Time) bool { return b.pause > 0 && now.Sub(b.since) < b.pause }

// note remembers how a read ended. An error that is no refusal, as ENODEV, tells nothing about the next one.
func (b *backoff) note(err error, now time.Time) {
	switch {
	case err == nil:
		b.pause = 0
	case refused(err):
		b.pause = min(max(2*b.pause, firstPause), longestPause)
		b.since, b.reason = now, ReasonOf(err)
	}
}

// refused tells whether a driver answers that it does not answer. ENOSYS is how get_perf_mad of
// drivers/infiniband/core/sysfs.c says that there is no driver to ask.
func refused(err error) bool {
	for _, e := range []unix.Errno{unix.EINVAL, unix.EIO, unix.EOPNOTSUPP, unix.ENOSYS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
