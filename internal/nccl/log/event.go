// SPDX-License-Identifier: Apache-2.0

package log

import (
	"hash/maphash"
	"strings"
)

// Levels of what NCCL did not write itself.
const (
	LastError Level = "last error" // the warning of NCCL that PyTorch quotes
	Plain     Level = "plain"      // any other line
)

// Event is what a line says, and where.
type Event struct {
	Entry
	Rank int    // as launchers say it; Unknown if they do not
	Time string // "2026-01-02 03:04:05"; empty if not known
}

// maxStreams is how many ranks may have begun to quote an error at once.
const maxStreams = 256

// Events reads lines into events, and keeps what they say of the set-up in Log. It remembers no more than which
// streams of lines have announced an error of NCCL.
type Events struct {
	Log
	seed      maphash.Seed
	announced map[uint64]struct{} // by the hash of the stream
}

// NewEvents returns a reader that has read nothing.
func NewEvents() *Events { return &Events{Log: *New(), seed: maphash.MakeSeed()} }

// Add reads one more line.
func (r *Events) Add(line string) Event {
	entry, found := r.Log.Add(line)
	if found {
		return Event{Entry: entry, Rank: Unknown}
	}
	e := Event{Entry: Entry{PID: Unknown, Thread: Unknown, Level: Plain, Message: line}, Rank: Unknown}
	if strings.HasPrefix(line, "RCCL version") {
		r.RCCL = true
	}
	if strings.Contains(line, "NCCL") {
		if warning := quoted(line); warning != "" {
			o := Strip(line)
			return o.quote(warning)
		}
	}
	_, rest, announces := strings.Cut(line, lastError)
	if !announces && len(r.announced) == 0 {
		return e
	}
	o := Strip(line)
	stream := maphash.String(r.seed, o.Stream)
	if announces {
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, `\n`), `\\n`) // Python may have written the error as one line
		if rest = strings.Trim(rest, " \"'"); rest != "" {
			return o.quote(rest)
		}
		if r.announced == nil {
			r.announced = map[uint64]struct{}{}
		}
		if len(r.announced) < maxStreams {
			r.announced[stream] = struct{}{}
		}
		return e
	}
	if _, is := r.announced[stream]; !is {
		return e
	}
	delete(r.announced, stream)
	if strings.TrimSpace(o.Rest) == "" {
		return e
	}
	return o.quote(o.Rest)
}

const lastError = "Last error:"

// quotes are how programs quote the warning in the line of the error, before a closing quotation mark: XLA, nccl-tests.
var quotes = []struct{ before, with string }{
	{"log entry (may be unrelated) '", "NCCL"},
	{"(run with NCCL_DEBUG=INFO for details) / ", "Test NCCL failure"},
}

// quoted is the warning that a line quotes; empty: it quotes none.
func quoted(line string) string {
	for _, q := range quotes {
		if _, rest, found := strings.Cut(line, q.before); found && strings.Contains(line, q.with) {
			return strings.TrimSpace(rest[:max(strings.LastIndexByte(rest, '\''), 0)])
		}
	}
	return ""
}

// quote is a warning that another program repeats.
func (o *Origin) quote(message string) Event {
	message, _, _ = strings.Cut(message, `\n`)
	return Event{
		Entry: Entry{Host: o.Host, PID: o.PID, Thread: Unknown, Level: LastError, Message: strings.TrimSpace(message)},
		Rank:  o.Rank, Time: o.Time,
	}
}
