// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"slices"
	"sync"
)

// keptOfLog is how many bytes are kept of the beginning of a log, and how many of its end.
const keptOfLog = 64 << 10

// Excerpt is what is kept of the log of a Task. It is foreign text, of any content.
type Excerpt struct {
	Head  []byte // the beginning, at most 64 KiB
	Tail  []byte // the end, at most 64 KiB; empty: Head is all
	Bytes uint64 // that came in all; what is neither in Head nor in Tail was dropped
}

// String is the excerpt with a line that says where it lacks something.
func (e Excerpt) String() string {
	dropped := e.Bytes - uint64(len(e.Head)) - uint64(len(e.Tail))
	if dropped == 0 {
		return string(e.Head) + string(e.Tail)
	}
	return fmt.Sprintf("%s\n[%d bytes left out]\n%s", e.Head, dropped, e.Tail)
}

// logbook keeps the beginning and the end of what is written to it.
type logbook struct {
	mu   sync.Mutex
	head []byte
	tail []byte // a ring; nil until it is needed
	more uint64 // bytes that came after the head
}

// Write never fails.
func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(p), keptOfLog-len(l.head))
	l.head = append(l.head, p[:n]...)
	for rest := p[n:]; len(rest) > 0; {
		if l.tail == nil {
			l.tail = make([]byte, keptOfLog)
		}
		c := copy(l.tail[l.more%keptOfLog:], rest)
		l.more += uint64(c)
		rest = rest[c:]
	}
	return len(p), nil
}

func (l *logbook) excerpt() Excerpt {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := Excerpt{Head: slices.Clone(l.head), Bytes: uint64(len(l.head)) + l.more}
	if at := l.more % keptOfLog; l.more > keptOfLog {
		e.Tail = slices.Concat(l.tail[at:], l.tail[:at])
	} else {
		e.Tail = slices.Clone(l.tail[:l.more])
	}
	return e
}
