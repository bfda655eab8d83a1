// SPDX-License-Identifier: Apache-2.0

// Package failure finds failures in the lines of a log: those of the table of signatures, warnings of NCCL that no row
// has and after which calls fail, and exceptions of programs.
//
// A log is not trusted. A Reader remembers as many threads and streams as it was made for, and only the last
// warning of each. It is for one goroutine, and has no errors.
package failure

import (
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

// thread is a thread that logs.
type thread struct {
	host     string
	pid, tid int
}

// Reader reads lines.
type Reader struct {
	log.Events
	Lines    int64
	most     int                // threads and streams that are remembered
	warnings map[thread]Failure // the last that has no signature, until its thread unwinds
	stacks   map[string]int64   // streams that show the stack of an exception, and the line that it began in
}

// New returns a reader that remembers so many threads, and as many streams.
func New(most int) *Reader {
	return &Reader{Events: *log.NewEvents(), most: most, warnings: map[thread]Failure{}, stacks: map[string]int64{}}
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
	of := thread{e.Host, e.PID, e.Thread}
	if f.Signature, f.Code = signature.MatchWarning(e.File(), e.Message); f.Signature != nil {
		if f.Signature.Kind == signature.Cause && !f.Signature.Generic {
			delete(r.warnings, of) // what follows is of this one
		}
		return e, f, true
	}
	if e.Level == log.LastError { // the program failed with it
		f.Signature = signature.Area("", e.Message)
		return e, f, true
	}
	const burst = 64 // lines: an inner call may have warned before
	if before, known := r.warnings[of]; known && f.Line-before.Line > burst || !known && len(r.warnings) < r.most {
		r.warnings[of] = f
	}
	return e, f, true
}

// unwound takes a line of a call that returns: what its thread warned of before has failed.
func (r *Reader) unwound(e log.Event) (log.Event, Failure, bool) {
	if len(r.warnings) == 0 {
		return e, Failure{}, false
	}
	u, is := log.ParseUnwinding(e.Message)
	if !is || u.Fallback() {
		return e, Failure{}, false
	}
	of := thread{e.Host, e.PID, e.Thread}
	f, known := r.warnings[of]
	if !known {
		return e, Failure{}, false
	}
	delete(r.warnings, of)
	f.Signature = signature.Area(f.File(), f.Message)
	return e, f, true
}

// plain takes a line that NCCL did not write.
func (r *Reader) plain(line string, f Failure) (log.Event, Failure, bool) {
	o := log.Strip(line)
	f.Event.Host, f.Event.PID, f.Event.Rank, f.Event.Time, f.Text = o.Host, o.PID, o.Rank, o.Time, o.Rest
	began, stack := r.stacks[o.Stream]
	switch {
	case f.Signature != nil && f.Signature.ID == signature.Exception.ID:
		if len(r.stacks) < r.most {
			r.stacks[o.Stream] = f.Line
		}
		return f.Event, f, false
	case f.Signature != nil:
		if stack && !strings.HasPrefix(o.Rest, " ") {
			delete(r.stacks, o.Stream)
		}
		return f.Event, f, true
	case !stack || strings.HasPrefix(o.Rest, " ") || strings.TrimSpace(o.Rest) == "":
		r.forget(f.Line)
		return f.Event, f, false
	}
	delete(r.stacks, o.Stream)
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
	"NCCL", "Dist", "torch.distributed", "Child", "Broken pipe", "Connection", "Ray", "Engine", "Timeout", "timed out", "RuntimeError: Engine",
	"KeyboardInterrupt", "SystemExit", "CalledProcessError", "ProcessRaisedException", "ProcessExitedException", "Worker", "Signal",
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
