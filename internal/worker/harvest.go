// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// What is kept of the output of a child. The rest is read and dropped, so that a child that prints without end costs
// no memory and never waits.
const (
	maxLine        = 512 // bytes
	linesPerMinute = 30
)

// harvest reads what a child prints and logs it.
type harvest struct {
	log *slog.Logger
	now func() time.Time

	line    []byte // what has come of the current line, at most maxLine
	minute  time.Time
	logged  int // in this minute
	dropped uint64

	last  string // the last line that was not empty
	cause string // the first line in which the runtime says why the process ends
}

// read reads until r ends or fails.
func (h *harvest) read(r io.Reader) {
	buf := make([]byte, 16<<10)
	for {
		n, err := r.Read(buf)
		h.write(buf[:n])
		if err != nil {
			h.endLine()
			h.tellDropped()
			return
		}
	}
}

func (h *harvest) write(p []byte) {
	for len(p) > 0 {
		rest, found := []byte(nil), false
		p, rest, found = bytes.Cut(p, []byte{'\n'})
		h.line = append(h.line, p[:min(len(p), maxLine-len(h.line))]...)
		if !found {
			return
		}
		h.endLine()
		p = rest
	}
}

func (h *harvest) endLine() {
	empty := len(bytes.TrimSpace(h.line)) == 0
	if empty {
		h.line = h.line[:0]
		return
	}
	now := h.now()
	if now.Sub(h.minute) >= time.Minute {
		h.tellDropped()
		h.minute, h.logged = now, 0
	}
	text := fabric.Printable(string(h.line), maxLine)
	h.line = h.line[:0]
	h.last = text
	if h.cause == "" && saysWhy(text) {
		h.cause = text
	}
	if h.logged >= linesPerMinute {
		h.dropped++
		return
	}
	h.logged++
	h.log.Debug("worker printed", "line", text)
}

func (h *harvest) tellDropped() {
	if h.dropped > 0 {
		h.log.Debug("worker printed more", "lines", h.dropped)
	}
	h.dropped = 0
}

// epitaph is the line that says best why the child ended: Go and glibc go on with a trace. Empty: it said nothing.
func (h *harvest) epitaph() string {
	if h.cause != "" {
		return h.cause
	}
	return h.last
}

func saysWhy(line string) bool {
	for _, s := range []string{"panic: ", "fatal error: ", "SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE"} {
		if strings.HasPrefix(line, s) {
			return true
		}
	}
	return strings.Contains(line, "symbol lookup error")
}
