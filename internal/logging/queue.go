// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"time"
)

// Limits of a Queue.
const (
	mostWaiting = 256 << 10 // bytes that wait to be written
	// usual is how long a line may take to be written. A line that is written that soon is in the log when the
	// call that logged it returns, whatever becomes of the process.
	usual = 50 * time.Millisecond
	// leaving is how long the end of a process waits for lines that are not written yet.
	leaving = 300 * time.Millisecond
)

// Queue writes what is logged in the background, so that a log that nobody reads, a full pipe or a file
// system that hangs, costs lines and no more. So does one that is on a full disk. All methods may be called
// at the same time.
//
// A writer waits for its line for as long as writing one usually takes, and for none while an earlier one is late. What
// waits is bounded; beyond it lines are dropped and counted, and how many is logged when the log is written again.
type Queue struct {
	to    io.Writer
	lines func(dropped uint64) []byte // the line that says so

	mu      sync.Mutex
	waiting []byte
	written chan struct{} // closed when nothing waits any more; nil: nothing does
	late    bool          // the line that is being written takes longer than usual
	dropped uint64        // since the start
	untold  uint64        // of those, how many were not logged
}

// Queued returns a logger for a process that must not wait for its log, and what holds the lines until they
// are written to w.
func (f *Flags) Queued(w io.Writer) (*slog.Logger, *Queue) {
	q := &Queue{to: w, lines: func(dropped uint64) []byte {
		var line bytes.Buffer
		New(&line, f.format, f.level).Warn("lines of the log are missing here: whatever reads it did not keep up",
			"dropped", dropped)
		return line.Bytes()
	}}
	return New(q, f.format, f.level), q
}

// Write takes a line. It keeps no part of it, and never fails.
func (q *Queue) Write(line []byte) (int, error) {
	q.mu.Lock()
	if len(q.waiting)+len(line) > mostWaiting {
		q.dropped++
		q.untold++
		q.mu.Unlock()
		return len(line), nil
	}
	q.waiting = append(q.waiting, line...)
	if q.written == nil {
		q.written = make(chan struct{})
		go q.write()
	}
	written, late := q.written, q.late
	q.mu.Unlock()
	if !late && !within(usual, written) {
		q.mu.Lock()
		q.late = q.written == written
		q.mu.Unlock()
	}
	return len(line), nil
}

// write writes what waits until nothing does. What cannot be written, because a disk is full or the reader is
// gone, is dropped, too.
func (q *Queue) write() {
	for {
		q.mu.Lock()
		lines, untold := q.waiting, q.untold
		q.waiting = nil
		if len(lines) == 0 {
			close(q.written)
			q.written, q.late = nil, false
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		n, err := q.to.Write(lines) // there is no other place to say that it fails
		if err == nil && untold > 0 {
			_, err = q.to.Write(q.lines(untold))
		}
		lost := uint64(bytes.Count(lines[n:], []byte{'\n'}))
		q.mu.Lock()
		q.dropped += lost
		q.untold += lost
		if err == nil {
			q.untold -= untold
		}
		q.mu.Unlock()
	}
}

// Dropped returns how many lines were dropped since the start.
func (q *Queue) Dropped() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// Close waits until everything is written, but not for long: the process is to end. What is logged later is
// written, too, as long as it runs.
func (q *Queue) Close() { q.flush(leaving) }

func (q *Queue) flush(patience time.Duration) {
	q.mu.Lock()
	written := q.written
	q.mu.Unlock()
	if written != nil {
		within(patience, written)
	}
}

// within reports whether done is closed before the patience ends.
func within(patience time.Duration, done <-chan struct{}) bool {
	end := time.NewTimer(patience)
	defer end.Stop()
	select {
	case <-done:
		return true
	case <-end.C:
		return false
	}
}
