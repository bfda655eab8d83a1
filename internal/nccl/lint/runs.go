// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/internal/verdict"
)

// Bounds of what is followed in one input. What lies beyond them is undecided.
const (
	maxJobs         = 128     // different environments of programs
	maxAlternatives = 64      // environments that a line of a script may find
	maxCalls        = 8       // functions that call each other
	maxWork         = 1 << 18 // settings that are copied or compared
)

// part is a part of a script: what it does with the environment of programs.
type part struct {
	kind    partKind
	name    string // of a variable, a program or a function
	line    int    // unset
	setting int    // set: its index
	body    [][]part
}

type partKind uint8

const (
	partSet      partKind = iota // sets a variable
	partDefault                  // sets a variable where it is not set
	partUnset                    // unsets one
	partRun                      // runs a program, or a function
	partScope                    // body[0] with an environment of its own: a subshell, or one command
	partBranch                   // one of the bodies, or none
	partChoice                   // one of the bodies; the last one is the usual one
	partLoop                     // body[0], any number of times
	partFunction                 // body[0] is what name does
)

// environment is one that a program may have at a place of a script: the index of the setting that counts, by name.
type environment struct {
	settings job
	owned    bool // no other environment has the same map
	ran      bool // a program ran with it
}

// end is how a setting ends that no program got.
type end struct {
	by    int // the setting that replaces it; -1: none
	unset int // the line that unsets it; 0: none
}

// runs follows the scripts of an input, and collects what the programs that they run have for an environment.
type runs struct {
	in        *Input
	now       []environment // what the environment may be at this place: the usual one first
	functions map[string][]part
	called    map[string]bool
	calls     []string // functions that are being called
	work      int
	full      bool // a bound was reached

	jobs   []job
	keys   map[string]bool
	ran    []bool // settings that a program has
	missed []bool // settings that a program has, which is not judged
	ends   map[int]end
}

// follow returns what the jobs of an input may have: for each container, its settings and what its scripts
// make of them. A part of a script that may not be reached counts as reached and as not reached; such parts
// are not combined with each other.
func follow(in *Input) *runs {
	r := &runs{
		in: in, keys: map[string]bool{}, ran: make([]bool, len(in.settings)),
		missed: make([]bool, len(in.settings)), ends: map[int]end{},
	}
	byScope := map[int]job{}
	for i, s := range in.settings {
		if !s.set || s.Name == "" || s.scripted {
			continue
		}
		base := byScope[s.scope]
		if base == nil {
			base = job{}
			byScope[s.scope] = base
		}
		before, seen := base[s.Name]
		switch {
		case seen && in.firstCounts:
			r.ends[i] = end{by: before}
			continue
		case seen:
			r.ends[before] = end{by: i}
		}
		base[s.Name] = i
	}
	begun := map[int]bool{}
	for _, script := range in.scripts {
		begun[script.scope] = true
		r.script(byScope[script.scope], script.body)
	}
	for _, scope := range slices.Sorted(maps.Keys(byScope)) {
		if !begun[scope] {
			r.script(byScope[scope], nil)
		}
	}
	return r
}

// script follows one script. Its end counts as a program, for the script may be sourced by another one, and
// functions that nothing calls are called there.
func (r *runs) script(base job, body []part) {
	r.now = []environment{{settings: maps.Clone(base), owned: true}}
	if base == nil {
		r.now[0].settings = job{}
	}
	r.functions, r.called = map[string][]part{}, map[string]bool{}
	r.follow(body)
	r.program("")
	for _, name := range slices.Sorted(maps.Keys(r.functions)) {
		if !r.called[name] {
			r.scope(func() { r.call(name); r.program("") })
		}
	}
}

func (r *runs) follow(parts []part) {
	for i := range parts {
		if r.work++; r.work > maxWork {
			r.full = true
			return
		}
		switch p := &parts[i]; p.kind {
		case partSet, partDefault:
			if r.in.settings[p.setting].set {
				r.set(p)
			}
		case partUnset:
			for k := range r.now {
				r.unset(&r.now[k], p.name, end{by: -1, unset: p.line})
			}
		case partRun:
			r.program(p.name)
		case partScope:
			r.scope(func() { r.follow(p.body[0]) })
		case partBranch, partChoice:
			r.branch(p.body, p.kind == partChoice)
		case partLoop: // the second time, with what the first one leaves
			r.branch([][]part{append(slices.Clip(p.body[0]), p.body[0]...)}, false)
		case partFunction:
			r.functions[p.name] = p.body[0]
		}
	}
}

// set sets a variable. One that is set only where it is not keeps what it may have, too.
func (r *runs) set(p *part) {
	name := r.in.settings[p.setting].Name
	var kept []environment
	if p.kind == partDefault {
		for _, e := range r.share() {
			if _, is := e.settings[name]; is {
				kept = append(kept, e)
			}
		}
	}
	for k := range r.now {
		e := &r.now[k]
		if i, is := e.settings[name]; is && i == p.setting {
			continue
		}
		r.unset(e, name, end{by: p.setting})
		r.own(e)
		e.settings[name] = p.setting
	}
	r.also(kept)
}

func (r *runs) unset(e *environment, name string, how end) {
	i, is := e.settings[name]
	if !is {
		return
	}
	if _, ended := r.ends[i]; !ended {
		r.ends[i] = how
	}
	r.own(e)
	delete(e.settings, name)
}

// own makes the settings of an environment its own, to be changed.
func (r *runs) own(e *environment) {
	if !e.owned {
		r.work += len(e.settings)
		e.settings, e.owned = maps.Clone(e.settings), true
	}
	e.ran = false
}

// share returns the environments of this place, to go on with them at another one.
func (r *runs) share() []environment {
	for i := range r.now {
		r.now[i].owned = false
	}
	r.work += len(r.now)
	return slices.Clone(r.now)
}

// also adds environments that this place may have.
func (r *runs) also(list []environment) {
	if left := maxAlternatives - len(r.now); len(list) > left {
		list, r.full = list[:max(left, 0)], true
	}
	r.now = append(r.now, list...)
}

// scope follows what has an environment of its own.
func (r *runs) scope(inside func()) {
	before := r.share()
	inside()
	r.now = before
}

// branch follows parts of which one is reached, or none unless there is a usual one, the last. Each begins
// with what there may be before it, so that its programs are judged with all of that; what it leaves behind
// is added for the usual environment alone, so that the number of environments does not double with each
// branch.
func (r *runs) branch(bodies [][]part, usual bool) {
	before := r.share()
	var left []environment
	for i, body := range bodies {
		r.now = slices.Clone(before)
		r.follow(body)
		if usual && i == len(bodies)-1 {
			before = r.now
			break
		}
		for k, e := range r.now {
			if (k == 0 || k >= len(before)) && !slices.ContainsFunc(left, func(o environment) bool { return r.same(o, e) }) &&
				!r.same(before[0], e) {
				left = append(left, e)
			}
		}
	}
	r.now = before
	r.also(left)
}

func (r *runs) same(a, b environment) bool {
	if len(a.settings) != len(b.settings) {
		return false
	}
	r.work += len(a.settings)
	return maps.Equal(a.settings, b.settings)
}

// program notes what a program may have for an environment, or calls the function of that name.
func (r *runs) program(name string) {
	if _, is := r.functions[name]; is && name != "" {
		r.call(name)
		return
	}
	for i := range r.now {
		e := &r.now[i]
		if e.ran || len(e.settings) == 0 {
			continue
		}
		e.ran = true
		r.work += len(e.settings)
		list := slices.Sorted(maps.Values(e.settings))
		var key []byte
		for _, i := range list {
			key = binary.LittleEndian.AppendUint32(key, uint32(i)) //nolint:gosec // at most maxSettings
		}
		switch {
		case r.keys[string(key)]:
			continue
		case len(r.jobs) == maxJobs:
			r.full = true
			for _, i := range list {
				r.missed[i] = true
			}
			continue
		}
		r.keys[string(key)] = true
		r.jobs = append(r.jobs, maps.Clone(e.settings))
		for _, i := range list {
			r.ran[i] = true
		}
	}
}

func (r *runs) call(name string) {
	if slices.Contains(r.calls, name) || len(r.calls) == maxCalls {
		r.full = r.full || len(r.calls) == maxCalls
		return
	}
	r.called[name] = true
	r.calls = append(r.calls, name)
	r.follow(r.functions[name])
	r.calls = r.calls[:len(r.calls)-1]
}

// unused reports settings that no program gets, and those that are not followed.
func (r *runs) unused(lines []Line) {
	for i, s := range r.in.settings {
		if !s.set || s.Name == "" || r.ran[i] {
			continue
		}
		l := &lines[i]
		how, ended := r.ends[i]
		switch {
		case r.missed[i], !ended && r.full:
			l.Findings = append(l.Findings, Finding{
				Undecided, verdict.Info,
				"The script has too many branches and programs: this line is not judged together with the others", "",
			})
		case ended && how.by >= 0:
			f := Finding{Ignored, verdict.Info, fmt.Sprintf("Line %d sets %s too, and counts", r.in.settings[how.by].Line,
				s.Name), remove}
			if v, _ := settings.Describe(s.Name); l.Value != lines[how.by].Value && v.Status == settings.StatusCurrent {
				f.Severity = verdict.Warning
			}
			l.Findings = append(l.Findings, f)
		case ended:
			l.Findings = append(l.Findings, Finding{Ignored, verdict.Info, fmt.Sprintf("Line %d unsets it", how.unset), remove})
		default:
			l.Findings = append(l.Findings, Finding{
				Ignored, verdict.Warning,
				"The subshell that sets it ends before it runs a program", "set it outside of the subshell",
			})
		}
	}
}

// tooMany is said of an input that is not followed to its end.
var tooMany = Finding{
	Undecided, verdict.Info,
	fmt.Sprintf("The settings are not judged in all combinations: expected at most %d different environments of programs, and %d at a line", maxJobs, maxAlternatives), "split the script",
}
