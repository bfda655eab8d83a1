// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"gpufabric_exporter/internal/nccl/log"
	"gpufabric_exporter/internal/nccl/signature"
)

// repeated is a line of progress that comes again.
type repeated struct{ line, since string }

// enough is how many lines of progress show that a program goes on.
const enough = 3

// advance takes a line that shows how far a program came: none where a bar is at its begin, or where the same line
// comes again minutes later.
func (r *reading) advance(text string) {
	o := log.Strip(text)
	r.said.bar = ""
	switch {
	case strings.Contains(o.Rest, "| 0/") && strings.Contains(o.Rest, "<?"):
		r.said.bar = strings.Clone(o.Rest)
		return
	case o.Time != "" && strings.Contains(o.Rest, "/") && o.Rest == r.said.same.line:
		if long(r.said.same.since, o.Time) {
			r.said.bar = r.said.same.line
			return
		}
	default:
		r.said.same = repeated{strings.Clone(o.Rest[:min(len(o.Rest), log.MaxText)]), o.Time}
	}
	r.said.progress = r.Lines
	r.said.steps++
}

// long reports whether minutes are between two times.
func long(since, until string) bool {
	a, err := time.Parse(time.DateTime, since)
	b, wrong := time.Parse(time.DateTime, until)
	const shortest = 2 * time.Minute
	return err == nil && wrong == nil && b.Sub(a) >= shortest
}

// standsStill reports whether set-ups ended, and the last line of progress shows none.
func (r *reading) standsStill() bool {
	return r.said.bar != "" && r.complete() && (r.said.bar == r.said.same.line || !r.wentFurther()) && !r.tests.measured
}

// goOn takes failures for open where the program goes on after all of them; and that a process waits, where the program
// comes to its end, or serves, after that.
func (r *reading) goOn() {
	r.forgive()
	if r.findFirst() < 0 || !r.complete() && len(r.Communicators) > 0 {
		return
	}
	var survived []int
	waits := r.said.ended
	for i := range r.Findings {
		switch f := &r.Findings[i]; {
		case class(f.Signature) < 0 || f.Open:
		case f.Signature.ID == "engine_waits":
			waits = waits && r.said.progress > f.last
			survived = append(survived, i)
		case f.Signature.Source == signature.Program && r.survives(f):
			waits = false
			survived = append(survived, i)
		case f.Signature.Source != signature.NCCL || f.Line == 0 || goesOn(f.Signature) || f.Signature.ID == "nic_failing":
			return
		default:
			waits = false
			survived = append(survived, i)
		}
	}
	after := func(i int) bool { return r.Findings[i].last >= r.said.worked }
	if r.said.steps < enough && !waits && slices.ContainsFunc(survived, after) {
		return
	}
	for _, i := range survived {
		r.Findings[i].Open = true
	}
	r.said.lived = true
}

// survives reports whether the program worked after a failure that it reports, as far as one log shows the order. After
// what follows from another, steps may be those of other ranks.
func (r *reading) survives(f *Finding) bool {
	steps := r.said.steps >= enough && len(r.Files) == 0 && f.Signature.Kind == signature.Cause
	return f.Line > 0 && f.Signature.ID != "job_ended" && r.said.stopped == 0 && !r.Cut && (steps || f.last < r.said.worked)
}

// neighbours notes which ranks a connection within a host joins: "Channel 00 : 0[70] -> 1[80] via P2P/IPC".
func (r *reading) neighbours(m string) {
	if !strings.Contains(m, " via SHM") && (!strings.Contains(m, " via P2P") || strings.Contains(m, "MNNVL")) {
		return
	}
	_, ends, _ := strings.Cut(m, " : ")
	from, rest, joined := strings.Cut(ends, "[")
	_, rest, both := strings.Cut(rest, "-> ")
	to, _, _ := strings.Cut(rest, "[")
	for _, text := range []string{from, to} {
		n, err := strconv.Atoi(text)
		if _, known := r.near[n]; err == nil && joined && both && n >= 0 && !known && len(r.near) < maxWaiters {
			r.near[n] = struct{}{}
		}
	}
}

// allNear reports whether connections within the one host of the log join all ranks.
func (r *Result) allNear() bool {
	return len(r.Hosts) == 1 && len(r.Communicators) > 0 && len(r.near) >= r.world()
}

// withoutSetups reports whether several hosts ran a NCCL that is too old to log set-ups.
func (r *Result) withoutSetups() bool {
	old := func(version string) bool { return has(version, []string{"2.0.", "2.1.", "2.2.", "2.3.", "2.4."}) }
	return len(r.Hosts) > 1 && len(r.Communicators) == 0 && slices.ContainsFunc(r.Versions, old)
}
