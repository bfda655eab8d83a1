// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"strings"

	"gpufabric_exporter/internal/nccl/failure"
	"gpufabric_exporter/internal/nccl/log"
	"gpufabric_exporter/internal/nccl/signature"
)

// said is what programs say in lines that no row has: the first warning and errors, and how far they came.
type said struct {
	first    [severities]*Finding // by severity
	progress int64                // the last line that shows progress
	ended    bool                 // a line says that the program reached its end or serves
	stack    string               // frames of stacks
	at       at                   // the innermost frame of Python that is of no standard library
	informed int64                // the last line of NCCL that is no warning
	engine   int64                // the line in which an engine began to set up NCCL, and came no further; 0: none
	last     string               // the last line of the program
	steps    int64                // lines that show progress since the last failure
	bar      string               // the last line of progress, where it shows none
	same     repeated
	lived    bool             // the program went on after all failures
	spoke    int64            // the last line of a program
	stopped  int64            // the line that says that someone stopped the program by hand; 0: none does
	members  map[int]struct{} // ranks that announced themselves before NCCL began
	expected int              // of those
	together bool             // all did
	loose    bool             // the kernel reports what may be of the job, or not
	closed   bool             // a communicator was destroyed, as at the end of a program
	background
	// agent is where the launcher's agent listens, and opens where the program does by itself; empty: not said.
	agent, opens string
}

// severity is how bad a line says that something is.
type severity int

const (
	fine severity = iota
	warned
	unclear // it has a word of an error, and no level
	severe
	severities
)

func has(line string, words []string) bool {
	for _, w := range words {
		if strings.Contains(line, w) {
			return true
		}
	}
	return false
}

// severityOf says it of a line without what launchers put before it. glog and PyTorch put a letter first.
func severityOf(line string, words signature.Word) severity {
	level := strings.TrimPrefix(line, "[")
	if at := strings.Index(line, ":[E"); at >= 0 && strings.HasPrefix(line, "[rank") {
		level = line[at+len(":["):]
	}
	const digits = "0123456789"
	if len(level) > 5 && strings.Trim(level[1:3], digits) == "" && strings.Contains(level, "]") {
		switch level[0] {
		case 'E', 'F':
			return severe
		case 'W':
			return warned
		case 'I':
			return fine
		}
	}
	if s, is := lettered(line); is {
		return s
	}
	is := func(w signature.Word) bool { return words&w != 0 }
	switch {
	case strings.HasPrefix(line, " ") || is(signature.OfInformation|signature.OfItem): // a frame of a stack, or an item
		return fine
	case is(signature.OfWarning):
		return warned
	case is(signature.OfError):
		return severe
	case is(signature.OfTrouble):
		return unclear
	}
	return fine
}

// wrappers are words of errors by which engines and launchers tell that a worker failed.
var wrappers = []string{
	"ActorError", "ActorDied", "RayTaskError", "EngineDead", "Engine core", "ChildFailed", "ProcessExited", "exited with",
	"terminate called",
}

// lettered is the severity of a line of TensorFlow, which has a letter behind the time, "2026-01-02 03:04:05.077: W
// tensorflow/...".
func lettered(line string) (severity, bool) {
	if line == "" || !isDigit(line[0]) && line[0] != ':' {
		return fine, false
	}
	const most = 40
	switch head := line[:min(len(line), most)]; {
	case strings.Contains(head, ": E "), strings.Contains(head, ": F "):
		return severe, true
	case strings.Contains(head, ": W "):
		return warned, true
	case strings.Contains(head, ": I "):
		return fine, true
	}
	return fine, false
}

// says takes a line of a program that no row has.
func (r *reading) says(text string, e log.Event) {
	words := signature.Words(text)
	r.engine(text)
	r.around(text, words)
	if words&signature.OfGiven != 0 {
		r.lines.Take(text)
	}
	r.said.endpoint(text)
	if words&signature.OfStack != 0 {
		r.frame(text)
	}
	if len(r.said.members) > 0 && strings.Contains(text, "All distributed processes registered") {
		r.said.together = true
	}
	if strings.Contains(text, "KeyboardInterrupt") {
		r.said.stopped = r.Lines
	}
	if s := severityOf(text, words); s != fine && !ofCommand(text) {
		if s == severe {
			r.said.steps = 0
			f := r.said.first[s]
			if f != nil && has(f.raw, wrappers) && !has(text, wrappers) && strings.Contains(text, "Error: ") {
				r.said.first[s] = nil // what it wraps says more
			}
		}
		if r.said.first[s] == nil {
			o := log.Strip(text)
			if strings.HasPrefix(o.Rest, " ") {
				return
			}
			if letter, is := lettered(o.Rest); is {
				s = letter
			} else {
				s = max(s, severityOf(o.Rest, words))
			}
			e.Host, e.PID, e.Rank, e.Time = o.Host, o.PID, o.Rank, o.Time
			e.Message = o.Rest
			e.Place = r.said.at.of(r.Lines, text)
			f := r.finding(&failure.Failure{Code: signature.NoCode, Event: e, Text: o.Rest, Line: r.Lines})
			if s != fine && r.said.first[s] == nil {
				r.said.first[s] = &f
			}
		}
		return
	}
	switch {
	case words&signature.OfEnd != 0:
		r.said.ended, r.said.progress = true, r.Lines
	case words&signature.OfProgress != 0 && strings.ContainsAny(text, "0123456789"):
		r.advance(text)
	}
}

// engine notes that an engine for inference sets up NCCL, and that it came further: it loads the model then.
func (r *reading) engine(text string) {
	r.said.last, r.said.spoke = text, r.Lines
	custom := strings.Contains(text, "ustom") && strings.Contains(text, "reduce is disabled")
	if custom || strings.Contains(text, " using nccl==") {
		r.said.engine = r.Lines
	} else if r.said.engine > 0 && strings.Contains(text, "oad") { // "Loading", "Load weight begin"
		r.said.engine = 0
	}
}

// frame keeps a line of a stack.
func (r *reading) frame(text string) {
	const most = 16 << 10
	if len(r.said.stack) < most {
		r.said.stack += text + "\n"
	}
	r.said.at.frame(r.Lines, text)
	r.crash.frame(r.Lines, text)
}

// fallBack takes what a program says for a failure or a note where no row has a failure.
func (r *reading) fallBack() {
	if at := r.findFirst(); at >= 0 {
		if said := r.said.first[severe]; said != nil && r.lostBy(&r.Findings[at], said) {
			one := *said
			one.Signature = &signature.ProgramError
			r.find(one)
		}
		return
	}
	for s := severe; s > fine; s-- {
		f := r.said.first[s]
		if f == nil {
			continue
		}
		wentOn := r.said.progress > f.order || r.said.ended && s < severe
		one := *f
		switch {
		case s == warned || s == unclear && wentOn:
			if wentOn {
				one.Signature = &signature.ProgramWarned
				r.find(one)
			}
			continue
		case s == unclear && r.NCCLLines > 0 && r.complete():
			continue
		}
		one.Signature = &signature.ProgramError
		one.Open = s == unclear || wentOn
		if len(r.Warnings) > 0 && !one.Open && r.Warnings[0].finding.order < one.order {
			r.blame(0) // NCCL said before what failed
		}
		r.find(one)
		return
	}
	if r.said.engine > 0 && r.said.progress < r.said.engine && r.Open() == nil && !r.complete() {
		last := "the last line: " + shown(log.Strip(r.said.last).Rest)
		if r.said.informed > 0 {
			last = "the last line of NCCL: " + shown(r.last)
		}
		r.follow(&signature.SetupStalls, "an engine began to set up NCCL; "+last).Open = true
	}
}

// lostBy reports whether others only lost the process that said before what failed in it, or raised an exception.
func (r *reading) lostBy(first, said *Finding) bool {
	s := first.Signature
	if s.Source == signature.PyTorch && s.Kind == signature.Consequence && said.order < first.order &&
		r.said.progress < said.order && raised(said.raw) {
		return true
	}
	return s.Kind == signature.Consequence && s.Source == signature.Program && s.Generic && r.NCCLLines == 0 &&
		said.order < first.order && (said.Host != first.Host || said.Rank != first.Rank || s.ID == "causes_guessed")
}

// complete reports whether set-ups are in the log, and all ended.
func (r *reading) complete() bool { return r.allEnded() }

// allEnded reports whether set-ups are in the log, and all ended.
func (r *Result) allEnded() bool {
	for i := range r.Communicators {
		if c := &r.Communicators[i]; c.Complete < c.Started {
			return false
		}
	}
	return len(r.Communicators) > 0
}

// quiet reports whether a log without lines of NCCL has nothing but warnings that come with good runs, too.
func (r *Result) quiet() bool {
	loud := func(f Finding) bool { return !f.Signature.Quiet && f.Signature != &signature.ProgramWarned }
	return r.NCCLLines == 0 && len(r.Findings) > 0 && r.said.first[severe] == nil && r.said.first[unclear] == nil &&
		!r.Cut && !slices.ContainsFunc(r.Findings, loud)
}

// worked reports whether a log without lines of NCCL has nothing but progress of the program, and its end.
func (r *Result) worked() bool {
	s := &r.said
	return r.NCCLLines == 0 && len(r.Findings)+len(r.Warnings) == 0 && s.steps >= enough && s.ended && !r.Cut &&
		s.bar == "" && s.first[severe] == nil && s.first[unclear] == nil
}

// WentOn reports whether the log shows that the program worked or ended after all.
func (r *Result) WentOn() bool { return r.said.progress > 0 || r.said.ended }

// lively reports whether all that the log shows beside progress are notes, and the program went on after them.
func (r *Result) lively() bool {
	if r.Tested() && r.First() == nil {
		return true
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Open || f.Signature.Kind != signature.Note || f.Signature.Leads || r.said.progress < f.order && !r.said.ended {
			return false
		}
	}
	return len(r.Findings) > 0
}
