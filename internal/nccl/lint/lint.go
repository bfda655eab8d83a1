// SPDX-License-Identifier: Apache-2.0

// Package lint judges NCCL settings before a job runs with them: for each line, how one release of NCCL reads
// it, on one node if its facts are known.
//
// Settings come from an nccl.conf, an environment file, a shell script, a manifest or the environment of a
// process (Parse). The rules are those of package ncclconf, for what NCCL takes, and of package diagnose, for
// what fits the node; nothing here keeps a list of variables. All functions are pure and may be called by any
// number of goroutines. Errors say which input cannot be read and what was expected; a line that cannot be
// understood is a finding.
//
// Inputs are untrusted. They are bounded, and only the values of variables of NCCL, its plugins and the
// frameworks around it leave the package: other lines may hold secrets.
package lint

import (
	"cmp"
	"path"
	"slices"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// Verdict is what becomes of a setting. The words are stable: programs read them.
type Verdict string

// Verdicts.
const (
	Works          Verdict = "works"            // NCCL does what the line says
	Default        Verdict = "default"          // NCCL would do the same without the line
	NotRecommended Verdict = "not_recommended"  // NCCL does what the line says, and its own choice is better in most cases
	Deprecated     Verdict = "deprecated"       // NCCL reads it, and it has a successor
	Ignored        Verdict = "ignored"          // this release of NCCL does not read it, or something else counts
	Foreign        Verdict = "not_nccl"         // other software reads it
	Unknown        Verdict = "unknown_variable" // nothing is known to read it
	Misread        Verdict = "misread"          // NCCL takes something else than what is written
	Refused        Verdict = "refused"          // the job does not start or does not run with it
	WrongHere      Verdict = "wrong_here"       // it does not fit the node, the container or the job
	Undecided      Verdict = "undecided"        // the value, or a fact of the node that decides, is not known
)

// Verdicts returns every verdict.
func Verdicts() []Verdict {
	return []Verdict{
		Works, Default, NotRecommended, Deprecated, Ignored, Foreign, Unknown, Misread, Refused, WrongHere,
		Undecided,
	}
}

// Meaning says in a sentence what becomes of a setting with that verdict.
func (v Verdict) Meaning() string {
	return map[Verdict]string{
		Works:          "NCCL does what the line says.",
		Default:        "The line sets what NCCL does by default.",
		NotRecommended: "NCCL does what the line says, but its own choice is better in most cases.",
		Deprecated:     "NCCL still reads the setting, which has a successor.",
		Ignored:        "The setting has no effect.",
		Foreign:        "NCCL does not read the variable; other software does.",
		Unknown:        "Neither NCCL nor any software that lint knows reads the variable.",
		Misread:        "NCCL takes another value than the one that is written.",
		Refused:        "The job does not start, or does not run, with the setting.",
		WrongHere:      "The setting does not fit the node, the container or the job.",
		Undecided:      "What becomes of the setting depends on something that lint does not know.",
	}[v]
}

// Finding is one statement about a line, as the JSON of the command lint has it, too.
type Finding struct {
	Verdict  Verdict          `json:"verdict"`
	Severity verdict.Severity `json:"severity,omitempty"` // empty: nothing is wrong
	Reason   string           `json:"reason"`             // what happens, in one sentence
	Better   string           `json:"better,omitempty"`   // the line to write instead, or what to do; empty: nothing
}

// Line is one setting and what becomes of it.
type Line struct {
	File    string // name of the input
	Number  int    // from 1
	Name    string // empty for a line that is no setting
	Value   string
	Source  string // the file of NCCL, or the software, that reads the variable
	Release string // of NCCL that Source was read in; empty: Source is no file of NCCL

	Findings []Finding // the worst first; never empty
}

// Worst is the finding that makes the verdict of the line.
func (l *Line) Worst() Finding { return l.Findings[0] }

// Result is what was found in the inputs.
type Result struct {
	Version Version
	Library string // the library found on the node that has this release; empty: it was named, or is the newest
	Lines   []Line
	Others  int // settings of variables that have nothing to do with NCCL; they are neither judged nor shown
}

// Failed reports whether a line has no effect, or the wrong one.
func (r *Result) Failed() bool {
	return slices.ContainsFunc(r.Lines, func(l Line) bool { return l.Worst().Severity.AtLeast(verdict.Warning) })
}

// Undecided reports whether something is undecided.
func (r *Result) Undecided() bool {
	return slices.ContainsFunc(r.Lines, func(l Line) bool {
		return slices.ContainsFunc(l.Findings, func(f Finding) bool { return f.Verdict == Undecided })
	})
}

// Judge judges the settings of some inputs for a release, and for a node unless that is nil. Each input is a
// job of its own, above the NCCL configuration of the node.
func Judge(inputs []Input, version Version, node *fabric.Node) Result {
	r := Result{Version: version}
	given := map[string]bool{}
	for _, in := range inputs {
		given[path.Base(in.Name)] = true
	}
	for _, in := range inputs {
		r.Others += in.others
		from := len(r.Lines)
		for _, s := range in.settings {
			s.rccl = slices.Contains(in.traces, ofRCCL)
			if s.sources != "" && given[s.sources] {
				s.findings = []Finding{{Works, verdict.Info, "The settings of " + s.sources +
					" are judged by themselves, without those of this file", ""}}
			}
			r.Lines = append(r.Lines, judgeSetting(in.Name, s, version))
		}
		lines := r.Lines[from:]
		of := follow(&in)
		of.unused(lines)
		for i := range of.jobs {
			of.jobs[i] = of.jobs[i].decided(&in)
		}
		combined(in, of.jobs, lines, version)
		if node != nil {
			judgeOnNode(in, of.jobs, lines, node, version)
		} else {
			withoutNode(in, of.jobs, lines)
		}
		if of.full {
			r.Lines = append(r.Lines, Line{File: in.Name, Number: 1, Findings: []Finding{tooMany}})
		}
	}
	for i := range r.Lines {
		l := &r.Lines[i]
		if len(l.Findings) > 1 { // that it works says nothing beside the others
			l.Findings = slices.DeleteFunc(l.Findings, func(f Finding) bool { return f == Finding{Verdict: Works} })
		}
		slices.SortStableFunc(l.Findings, func(a, b Finding) int { return cmp.Compare(rank(a), rank(b)) })
	}
	return r
}

// rank orders findings: 0 is the worst. Of those that are no matter for the exit code the more telling one comes first.
func rank(f Finding) int {
	const words = 16
	order := []Verdict{Undecided, Ignored, Foreign, Unknown, Deprecated, NotRecommended, Default}
	if i := slices.Index(order, f.Verdict); i >= 0 {
		return f.Severity.Rank()*words + i
	}
	if f.Verdict == Works && f.Reason == "" {
		return f.Severity.Rank()*words + words - 1
	}
	return f.Severity.Rank()*words + len(order)
}
