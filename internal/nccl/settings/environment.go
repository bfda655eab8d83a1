// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"bytes"
	"iter"
	"strings"
)

// maxEnvironmentString is MAX_ARG_STRLEN of the kernel: execve refuses a longer NAME=value.
const maxEnvironmentString = 131072

// parseEnvironment yields the settings of an environment file as systemd reads it (EnvironmentFile= in
// systemd.exec(5)): NAME=value lines, comments that begin with "#" or ";", single quotes, double quotes with
// backslash escapes of ", \, ` and $, and a backslash at the end of a line that continues it. "export" before
// the name is accepted for files that are made to be sourced by a shell. Nothing is expanded.
//
// It is the caller who decides between several settings of one name; systemd and shells use the last.
func parseEnvironment(data []byte) iter.Seq[statement] {
	return func(yield func(statement) bool) {
		text, _, binary := bytes.Cut(data, []byte{0})
		s := environmentScanner{text: string(text), line: 1}
		for s.skip(" \t\r\n"); s.text != ""; s.skip(" \t\r\n") {
			if st, ok := s.statement(); ok && !yield(st.mask()) {
				return
			}
		}
		if binary { // an environment cannot hold a NUL: systemd reads no further
			yield(statement{line: s.line, flaw: RuleNotASetting})
		}
	}
}

type environmentScanner struct {
	text string // what is left
	line int
}

// statement reads the line or lines of one statement. It returns false for what needs no attention.
func (s *environmentScanner) statement() (statement, bool) {
	st := statement{line: s.line}
	if s.text[0] == '#' || s.text[0] == ';' {
		s.until("\r\n")
		return st, false
	}
	raw := s.next() + s.until("=\r\n") // a name has at least one character, whatever it is
	name, exported := cutExport(strings.TrimRight(raw, blanks))
	if !s.accept("=") {
		st.flaw = RuleNotASetting
		return st, !exported // "export NAME" alone marks what is set elsewhere in the file
	}
	st.name = name
	if !strings.HasSuffix(raw, name) { // a blank before "="
		st.flaw = RuleShellSyntax
	}
	s.value(&st)
	multiline := strings.Contains(st.value, "\n") // as certificates are; no value of NCCL's is
	switch {
	case !identifier(st.name):
		return statement{line: st.line, flaw: RuleNotASetting}, true
	case multiline && (ours(st.name) || strings.Contains(st.value, prefix)):
		st.flaw = RuleUnclosedQuote
	case len(st.name)+len("=")+len(st.value) >= maxEnvironmentString:
		st.flaw = RuleValueTooLong
	}
	return st, true
}

// value reads quoted parts, which are joined, and then an unquoted rest to the end of the line.
func (s *environmentScanner) value(st *statement) {
	var b strings.Builder
	for {
		spaced := s.skip(blanks)
		if s.text == "" || s.text[0] == '\n' || s.text[0] == '\r' {
			break
		}
		if spaced {
			st.flaw = RuleShellSyntax
		}
		var closed bool
		switch {
		case s.accept("'"):
			b.WriteString(s.until("'"))
			closed = s.accept("'")
		case s.accept(`"`):
			closed = s.doubleQuoted(&b, st)
		default:
			s.unquoted(&b, st)
			st.value = b.String()
			return
		}
		if !closed {
			st.flaw = RuleUnclosedQuote
		}
	}
	st.value = b.String()
}

func (s *environmentScanner) doubleQuoted(b *strings.Builder, st *statement) (closed bool) {
	for {
		part := s.until(`"\`)
		if strings.ContainsAny(part, "$`") {
			st.flaw = RuleShellSyntax
		}
		b.WriteString(part)
		if !s.accept(`\`) {
			return s.accept(`"`)
		}
		switch c := s.next(); {
		case strings.Contains("\"\\`$", c):
			b.WriteString(c)
		case c != "\n":
			b.WriteString(`\` + c)
		}
	}
}

func (s *environmentScanner) unquoted(b *strings.Builder, st *statement) {
	for {
		part := s.until("\\\r\n")
		more := s.accept(`\`)
		if !more {
			part = strings.TrimRight(part, blanks)
		}
		if before, _ := cutComment(part); strings.ContainsAny(before, " \t\"'$`;&|<>()~") {
			st.flaw = RuleShellSyntax
		}
		b.WriteString(part)
		if !more {
			return
		}
		if c := s.next(); c != "\n" && c != "\r" { // escaped line ends vanish
			b.WriteString(c)
		}
	}
}

// until consumes and returns what comes before any of the characters, or everything.
func (s *environmentScanner) until(chars string) string {
	i := strings.IndexAny(s.text, chars)
	if i < 0 {
		i = len(s.text)
	}
	return s.take(i)
}

// skip consumes any number of the characters and reports whether there were any.
func (s *environmentScanner) skip(chars string) bool {
	return s.take(len(s.text)-len(strings.TrimLeft(s.text, chars))) != ""
}

// accept consumes c if it comes next.
func (s *environmentScanner) accept(c string) bool {
	ok := strings.HasPrefix(s.text, c)
	if ok {
		s.take(len(c))
	}
	return ok
}

// next consumes and returns one character, or nothing at the end.
func (s *environmentScanner) next() string { return s.take(min(len(s.text), 1)) }

func (s *environmentScanner) take(n int) string {
	t := s.text[:n]
	s.text = s.text[n:]
	s.line += strings.Count(t, "\n")
	return t
}

// cutExport removes the shell's keyword before a name.
func cutExport(s string) (rest string, found bool) {
	rest, found = strings.CutPrefix(s, "export")
	if trimmed := strings.TrimLeft(rest, blanks); found && trimmed != rest {
		return trimmed, true
	}
	return s, false
}

// cutComment removes what a shell would take for a comment: a blank, "#" and what follows.
func cutComment(s string) (before string, found bool) {
	for i := 1; i < len(s); i++ {
		if s[i] == '#' && strings.IndexByte(blanks, s[i-1]) >= 0 {
			return s[:i-1], true
		}
	}
	return s, false
}

// identifier reports whether s can be the name of a variable in a shell and in systemd.
func identifier(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
