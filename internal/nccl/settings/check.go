// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// What is in the files is not trusted: neither a finding nor their number grows with it.
const (
	maxFindingsPerFile = 20
	maxQuoted          = 64 // bytes of untrusted text, before they are escaped
)

// report collects the findings of one file.
type report struct {
	file     string
	findings []fabric.NCCLFinding
	dropped  int
	dos      bool // the line ends have been reported
}

func (r *report) full() bool { return len(r.findings) == maxFindingsPerFile }

func (r *report) add(line int, rule, name, format string, args ...any) {
	if r.full() {
		r.dropped++
		return
	}
	r.findings = append(r.findings, fabric.NCCLFinding{
		Rule: rule, Harm: harmOf(rule), Name: clip(name, maxQuoted), Source: source(r.file, line),
		Text: fmt.Sprintf(format, args...),
	})
}

// close returns the findings, with one that says how many are missing.
func (r *report) close() []fabric.NCCLFinding {
	if r.dropped == 0 {
		return r.findings
	}
	return append(r.findings, fabric.NCCLFinding{
		Rule: RuleMoreFindings, Harm: harmOf(RuleMoreFindings), Source: r.file,
		Text: fmt.Sprintf("%d more findings in this file are not listed", r.dropped),
	})
}

func source(file string, line int) string { return file + ":" + strconv.Itoa(line) }

func quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.Quote(s[:maxQuoted]) + "..."
	}
	return strconv.Quote(s)
}

func (r *report) overridden(st statement, by, value string) {
	r.add(st.line, RuleOverridden, st.name, "%s=%s has no effect: %s sets %s", clip(st.name, maxQuoted), quote(st.value),
		by, quote(value))
}

// checkVariable reports what is wrong with an effective variable. inEnvironment is whether it comes from
// the process environment.
func (r *report) checkVariable(st statement, v Variable, known, inEnvironment bool) {
	use := ""
	if v.Instead != "" {
		use = "; use " + v.Instead
	}
	switch {
	case !known:
		r.unknown(st)
		return
	case v.Status == StatusMistaken:
		r.add(st.line, RuleUnknownVariable, st.name, "%s is no variable of NCCL%s", st.name, use)
	case v.Status == StatusRemoved:
		since, before := strings.CutPrefix(v.Removed, "<")
		if !before {
			since = "the release after " + since
		}
		r.add(st.line, RuleRemovedVariable, st.name, "%s is not read by NCCL since %s%s", st.name, since, use)
	case v.Status == StatusFramework || v.Status == StatusTool:
		r.add(st.line, RuleNotAnNCCLVariable, st.name, "%s is not read by NCCL (%s)%s", st.name, v.Note, use)
	case v.Deprecated != "":
		r.add(st.line, RuleDeprecatedVariable, st.name, "NCCL reads %s, which is deprecated since %s; %s takes its place",
			st.name, v.Deprecated, v.Instead)
	}
	if v.Status == StatusCurrent && st.value != "" {
		r.checkValue(st, v)
	}
	if st.name == confFile && !inEnvironment {
		r.add(st.line, RuleConfFileIgnored, st.name, "%s has no effect in a file", confFile)
	}
}

func (r *report) unknown(st statement) {
	hint := "a typo, or a variable of a plugin?"
	if !r.full() { // the search is the only thing here that takes any time
		if best := similar(st.name); best != "" {
			hint = "did you mean " + best + "?"
		}
	}
	r.add(st.line, RuleUnknownVariable, st.name, "%s is unknown to NCCL up to %s: %s", clip(st.name, maxQuoted),
		NewestNCCL, hint)
}

// checkValue reports what is wrong with how a value that is not empty is written, and the first thing that
// is wrong with the value.
func (r *report) checkValue(st statement, v Variable) {
	isNumber := v.Parser == ParserNumber || v.Parser == ParserOne
	switch {
	case st.flaw == RuleValueTooLong:
		r.add(st.line, st.flaw, st.name, "the value of %s is cut after %d bytes", st.name, maxConfValue)
	case st.flaw == RuleShellSyntax:
		r.add(st.line, st.flaw, st.name, "%s=%s as systemd reads it; a shell reads the line differently", st.name,
			quote(st.value))
	case st.flaw == RuleCarriageReturn && !r.dos && !isNumber: // strtoll does not mind
		r.dos = true
		r.add(st.line, st.flaw, st.name,
			"lines end in a carriage return, which NCCL before 2.30.3 takes for a part of the value")
	}
	if v.Parser == ParserTuning { // what quotes, blanks and comments break here ends the job
		r.checkTuning(st, v)
		return
	}
	if q := st.value[0]; len(st.value) > 1 && (q == '"' || q == '\'') && st.value[len(st.value)-1] == q {
		r.add(st.line, RuleQuotedValue, st.name, "the quotes in %s=%s are a part of the value", st.name, quote(st.value))
		return
	}
	if isNumber {
		r.checkNumber(st, v)
	} else {
		r.checkText(st, v)
	}
}

func (r *report) checkNumber(st statement, v Variable) {
	n, before := scanNumber(st.value), len(r.findings)
	defer func() { // a number that no range has may end jobs, however it is written
		if !n.overflow && len(r.findings) > before && v.Breaks(n.value) {
			r.findings[before].Harm = fabric.NCCLFatal
		}
	}()
	rest := strings.TrimLeft(n.rest, " \t\n\v\f\r")
	spaced := rest != n.rest
	switch {
	case !n.digits:
		r.add(st.line, RuleNotANumber, st.name, "%s=%s is not a number: NCCL reads 0%s", st.name, quote(st.value),
			v.consequence(0))
	case n.overflow:
		r.add(st.line, RuleOverflow, st.name, "%s=%s does not fit in 64 bits: NCCL uses the default", st.name,
			quote(st.value))
	case rest != "" && (!spaced || rest[0] != '#'): // a comment behind a number does no harm
		r.add(st.line, RuleTrailingGarbage, st.name, "%s=%s: NCCL reads %d and ignores the rest%s", st.name,
			quote(st.value), n.value, v.consequence(n.value))
	case n.base == 8 && (n.value > 7 || n.value < -7):
		r.add(st.line, RuleOctalNumber, st.name, "%s=%s is octal: NCCL reads %d%s", st.name, quote(st.value), n.value,
			v.consequence(n.value))
	case v.Parser == ParserOne && int32(n.value) != 0 && int32(n.value) != 1:
		r.add(st.line, RuleUnknownValue, st.name, "%s=%s has no effect: only 1 acts", st.name, quote(st.value))
	case !v.Accepts(n.value):
		r.add(st.line, RuleOutOfRange, st.name, "%s=%s is out of range (%s): %s", st.name, quote(st.value), v.Valid,
			v.outcome(n.value))
	case isTrafficClass(st.name) && n.value > 0 && n.value < 8:
		r.add(st.line, RuleTCLikePriority, st.name,
			"%s=%d is DSCP %d with ECN bits %d, not priority %d; a DSCP is given times 4, 26 as 104",
			st.name, n.value, n.value>>2, n.value&3, n.value)
	}
}

// consequence says what follows from a number that NCCL reads in place of what is written, if it breaks jobs.
func (v Variable) consequence(n int64) string {
	if !v.Breaks(n) {
		return ""
	}
	return fmt.Sprintf(", which is out of range (%s): %s", v.Valid, v.outcome(n))
}

func isTrafficClass(name string) bool {
	return name == "NCCL_IB_TC" || name == "NCCL_IB_FIFO_TC" || name == "NCCL_GIN_IB_TC"
}

func (r *report) checkText(st statement, v Variable) {
	if before, ok := cutComment(st.value); ok {
		r.add(st.line, RuleInlineComment, st.name, "the comment in %s=%s is a part of the value; %s is meant", st.name,
			quote(st.value), quote(before))
		return
	}
	if strings.Trim(st.value, blanks) != st.value {
		r.add(st.line, RuleBlankAroundValue, st.name, "the blanks around %s=%s are a part of the value", st.name,
			quote(st.value))
		return
	}
	if isNameList := v.Type == "hcalist" || v.Type == "iflist"; isNameList && strings.ContainsAny(st.value, blanks) {
		r.add(st.line, RuleBlankAroundValue, st.name, "the blanks in %s=%s are a part of the names", st.name, quote(st.value))
		return
	}
	if name := v.unknownSubsystem(st.value); name != "" {
		r.add(st.line, RuleUnknownValue, st.name,
			"%s in %s=%s is no subsystem that a release knows: NCCL from 2.30.5 on ignores the whole list, older releases ignore the name", quote(name), st.name, quote(st.value))
		return
	}
	if !v.accepts(st.value) {
		r.add(st.line, RuleUnknownValue, st.name, "%s=%s is ignored by NCCL, which knows %s", st.name, quote(st.value),
			v.Valid)
	}
}

// accepts reports whether NCCL does anything with a value of a variable that has a vocabulary.
func (v Variable) accepts(value string) bool {
	words := strings.Split(v.Valid, "|")
	switch v.Parser {
	case ParserKeyword:
		return slices.Contains(words, value)
	case ParserKeywordFold, ParserBoolean:
		return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, value) })
	case ParserLevel: // ncclGetLevel: what begins with a digit is one of the old numbers
		return slices.Contains(words, value) || value[0] >= '0' && value[0] <= '9'
	case ParserPattern:
		return v.Pattern.MatchString(value)
	}
	return true
}

// unknownSubsystem returns the first name in a value of NCCL_DEBUG_SUBSYS that no release knows, in any case
// (src/debug.cc); empty if there is none, or v is another variable.
func (v Variable) unknownSubsystem(value string) string {
	_, known, list := strings.Cut(v.Valid, "[^]name,... of ")
	if v.Name != "NCCL_DEBUG_SUBSYS" || !list {
		return ""
	}
	names := strings.Fields(known)
	for name := range strings.SplitSeq(strings.TrimPrefix(value, "^"), ",") {
		if name != "" && !slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
			return name
		}
	}
	return ""
}
