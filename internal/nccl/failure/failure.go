// SPDX-License-Identifier: Apache-2.0

// Package failure finds failures in the lines of a log: those of the table of signatures, warnings of NCCL that no row
// has and after which calls fail, and exceptions of programs.
//
// A log is not trusted. A Reader remembers as many threads and streams as it was made for, and of each the last
// warning: MaxText bytes of it, or none. It is for one goroutine, and has no errors.
package failure

import (
	"hash/maphash"
	"strings"

	"gpufabric_exporter/internal/nccl/log"
	"gpufabric_exporter/internal/nccl/signature"
)

// Failure is what one or more lines show.
type Failure struct {
	Signature *signature.Signature // nil: a warning of NCCL without one, of which it is not known whether it matters
	Code      int                  // completion status, Xid or error of CUDA; signature.NoCode if it has none
	log.Event                      // the first line
	Text      string               // of the line, without what launchers and NCCL put before it
	Line      int64                // its number
}

// burst is how many lines may be between a warning and what its thread fails by: an inner call may have warned before.
const burst = 64

// MaxText is how many bytes are kept of a warning.
const MaxText = 1024

// thread is a thread that logs.
type thread struct {
	host     uint64 // hash
	pid, tid int
}

// warning is one without a signature.
type warning struct {
	line int64
	area *signature.Signature // what it is about
	text *Failure             // nil: it is not kept
}

// noted is a note of a thread, and what it is if the next line of the thread is of a call that failed.
type noted struct {
	of thread
	warning
}

// Reader reads lines.
type Reader struct {
	log.Events
	Lines    int64
	most     int  // threads and streams that are remembered
	keep     bool // texts of warnings
	seed     maphash.Seed
	warnings map[thread]warning // the last that has no signature, until its thread unwinds
	noted    noted              // the last note that is a failure if its thread unwinds right after it
	// stacks are the streams that show the stack of an exception, by their hash, and the lines that these began in.
	stacks map[uint64]int64
}

// New returns a reader that remembers so many threads, and as many streams. Unless it keeps texts, failures
// after warnings without a row have only their signature.
func New(most int, keep bool) *Reader {
	return &Reader{
		Events: *log.NewEvents(), most: most, keep: keep, seed: maphash.MakeSeed(), warnings: map[thread]warning{},
		stacks: map[uint64]int64{},
	}
}

func (r *Reader) thread(e *log.Event) thread {
	return thread{maphash.String(r.seed, e.Host), e.PID, e.Thread}
}

// Add reads one more line, and reports whether it shows a failure.
func (r *Reader) Add(line string) (e log.Event, f Failure, found bool) {
	r.Lines++
	e = r.Events.Add(line)
	f = Failure{Code: signature.NoCode, Event: e, Text: e.Message, Line: r.Lines}
	switch e.Level {
	case log.Warn, log.LastError:
		return r.warned(e, f)
	case log.Info:
		f.Signature = signature.MatchInfo(e.Message)
		if f.Signature != nil {
			return e, f, true
		}
		return r.unwound(e)
	case log.Plain:
		f.Signature, f.Code = signature.MatchLine(line)
		if f.Signature == nil && len(r.stacks) == 0 {
			return e, f, false
		}
		return r.plain(line, f)
	}
	return e, f, false
}

// warned takes a warning of NCCL.
func (r *Reader) warned(e log.Event, f Failure) (log.Event, Failure, bool) {
	if e.Message == "" {
		return e, f, false
	}
	of := r.thread(&e)
	if f.Signature, f.Code = signature.MatchWarning(e.File(), e.Message); f.Signature != nil {
		if f.Signature.Kind == signature.Cause && !f.Signature.Generic {
			delete(r.warnings, of) // what follows is of this one
		}
		if f.Signature.Unwound != nil {
			r.noted = noted{of, r.warning(&f, f.Signature.Unwound)}
		}
		return e, f, true
	}
	if e.Level == log.LastError { // the program failed with it
		f.Signature = signature.Area("", e.Message)
		return e, f, true
	}
	if f.Signature = signature.Area(e.File(), e.Message); f.Signature.Kind == signature.Note {
		return e, f, true
	}
	area := f.Signature
	f.Signature = nil
	if before, known := r.warnings[of]; known && f.Line-before.line > burst || !known && len(r.warnings) < r.most {
		r.warnings[of] = r.warning(&f, area)
	}
	return e, f, true
}

// warning is what is kept of one that may turn out to be a failure.
func (r *Reader) warning(f *Failure, area *signature.Signature) warning {
	w := warning{line: f.Line, area: area}
	if r.keep {
		kept := *f
		kept.Message = strings.Clone(f.Message[:min(len(f.Message), MaxText)])
		kept.Text = kept.Message
		w.text = &kept
	}
	return w
}

// unwound takes a line of a call that returns: what its thread warned of before has failed.
func (r *Reader) unwound(e log.Event) (log.Event, Failure, bool) {
	if r.noted.line > 0 && r.noted.of == r.thread(&e) {
		w := r.noted.warning
		r.noted = noted{}
		if u, is := log.ParseUnwinding(e.Message); is && !u.Fallback() && r.Lines-w.line <= burst {
			e, f := w.failed(e)
			return e, f, true
		}
	}
	if len(r.warnings) == 0 {
		return e, Failure{}, false
	}
	u, is := log.ParseUnwinding(e.Message)
	if !is || u.Fallback() {
		return e, Failure{}, false
	}
	of := r.thread(&e)
	w, known := r.warnings[of]
	if !known {
		return e, Failure{}, false
	}
	delete(r.warnings, of)
	e, f := w.failed(e)
	return e, f, true
}

// failed is the failure that a warning was, as a line of its thread shows.
func (w *warning) failed(e log.Event) (log.Event, Failure) {
	f := Failure{Code: signature.NoCode, Event: e, Line: w.line}
	if w.text != nil {
		f = *w.text
	}
	f.Signature = w.area
	return e, f
}

// plain takes a line that NCCL did not write.
func (r *Reader) plain(line string, f Failure) (log.Event, Failure, bool) {
	o := log.Strip(line)
	f.Host, f.PID, f.Rank, f.Time, f.Text = o.Host, o.PID, o.Rank, o.Time, o.Rest
	stream := maphash.String(r.seed, o.Stream)
	began, stack := r.stacks[stream]
	switch {
	case f.Signature != nil && f.Signature.ID == signature.Exception.ID:
		if len(r.stacks) < r.most {
			r.stacks[stream] = f.Line
		}
		return f.Event, f, false
	case f.Signature != nil && stack && strings.HasPrefix(strings.TrimLeft(o.Rest, " "), "raise "):
		return f.Event, f, false // source of the program
	case f.Signature != nil:
		if stack && !strings.HasPrefix(o.Rest, " ") {
			delete(r.stacks, stream)
		}
		return f.Event, f, true
	case !stack || strings.HasPrefix(o.Rest, " ") || strings.TrimSpace(o.Rest) == "":
		r.forget(f.Line)
		return f.Event, f, false
	}
	delete(r.stacks, stream)
	const longest = 512 // lines of a stack, of several ranks mixed
	if f.Line-began > longest || !exception(o.Rest) {
		return f.Event, f, false
	}
	f.Signature = &signature.Exception
	return f.Event, f, true
}

// forget drops stacks without an end, now and then.
func (r *Reader) forget(line int64) {
	const longest = 512
	if line%longest != 0 {
		return
	}
	for stream, began := range r.stacks {
		if line-began > longest {
			delete(r.stacks, stream)
		}
	}
}

// afterwards are exceptions in which a program tells what another process or NCCL did.
var afterwards = []string{
	"NCCL", "Dist", "torch.distributed", "Child", "Broken pipe", "Connection", "Ray", "Engine", "Timeout", "timed out",
	"KeyboardInterrupt", "SystemExit", "CalledProcessError", "ProcessRaisedException", "ProcessExitedException", "Worker",
	"Signal",
}

// exception reports whether a line is the name and text of an exception that a program failed with by itself.
func exception(line string) bool {
	name, _, _ := strings.Cut(line, ":")
	name = name[strings.LastIndexByte(name, ' ')+1:]
	if !strings.HasSuffix(name, "Error") && !strings.HasSuffix(name, "Exception") {
		return false
	}
	for _, s := range afterwards {
		if strings.Contains(line, s) {
			return false
		}
	}
	return true
}
