// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"strings"

	"gpufabric_exporter/internal/lazyregexp"
)

// word is a word of a shell script, without its quotes.
type word struct {
	text    string
	line    int
	dynamic bool   // it has an expansion whose value is not known: the text is what is written, without commands
	chosen  bool   // the text has the value that ${NAME:-value} has where NAME is not set
	assigns string // the NAME of ${NAME:=value}
}

// maxUnclosed bounds how often a quote that is not closed is passed over: each of them is looked for to the end.
const maxUnclosed = 20

// maxWords bounds the words of a command.
const maxWords = 20_000

// shellScanner splits a script into simple commands, without expanding anything.
type shellScanner struct {
	text     string
	pos      int
	line     int
	heredocs []string // what ends the documents that begin on the next line
	after    string   // the operator before the command: "&&", "||" or another
	unclosed []int    // lines of quotes that are not closed
	unread   []int    // lines of here-documents that set variables of NCCL, the first of each document
	open     int      // expansions that do not end
	long     bool     // a command has too many words: it is the last one
}

// substituted stands for the file that <(command) is.
const substituted = "/dev/fd"

// next returns the words of the next simple command, or of a comment that Slurm reads. It is empty between operators; ok is
// false at the end.
func (s *shellScanner) next() (words []word, after string, ok bool) {
	after, s.after = s.after, ""
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; {
		case c == '\n':
			s.pos++
			s.line++
			s.skipDocuments()
			s.after = "\n"
			return words, after, true
		case c == ' ' || c == '\t' || c == '\r':
			s.pos++
		case c == '\\' && strings.HasPrefix(s.text[s.pos:], "\\\n"):
			s.pos += 2
			s.line++
		case c == '\\' && strings.HasPrefix(s.text[s.pos:], "\\\r\n"):
			s.pos += 3
			s.line++
		case c == '#':
			comment := s.rest()
			s.pos += len(comment)
			if options, slurm := strings.CutPrefix(comment, "#SBATCH"); slurm && len(words) == 0 {
				for w := range strings.FieldsSeq(options) {
					words = append(words, word{text: strings.Trim(w, `"'`), line: s.line})
				}
				return append([]word{{text: "#SBATCH", line: s.line}}, words...), after, true
			}
			if options, lsf := strings.CutPrefix(comment, "#BSUB"); lsf && len(words) == 0 {
				if _, list, found := strings.Cut(options, " -env "); found {
					return []word{{text: "#BSUB", line: s.line}, {text: unquote(list), line: s.line}}, after, true
				}
			}
			if options, pbs := strings.CutPrefix(comment, "#PBS"); pbs && len(words) == 0 {
				if _, list, found := strings.Cut(options, " -v "); found {
					return []word{{text: "#PBS", line: s.line}, {text: strings.TrimSpace(list), line: s.line}}, after, true
				}
			}
		case c == '(' && arithmetic().MatchString(s.rest()):
			s.pos += len(arithmetic().FindString(s.rest()))
		case strings.IndexByte(";&|()", c) >= 0:
			s.after = s.text[s.pos : s.pos+1]
			if next := s.text[s.pos+1:]; next != "" && next[0] == c {
				s.after += next[:1]
			}
			s.pos += len(s.after)
			return words, after, true
		case strings.HasPrefix(s.text[s.pos:], "<("):
			words = append(words, word{text: substituted, line: s.line, dynamic: true})
			s.pos++
		case c == '<' || c == '>':
			s.redirect()
		case len(words) == maxWords:
			s.long = true
			return nil, after, false
		default:
			words = append(words, s.word())
		}
	}
	return words, after, len(words) > 0
}

// unquote returns a text without the quotes around it and what follows them.
func unquote(text string) string {
	text = strings.TrimSpace(text)
	if text != "" && (text[0] == '"' || text[0] == '\'') {
		text, _, _ = strings.Cut(text[1:], text[:1])
	}
	return text
}

// arithmetic matches (( ... )) of one line that is no subshell in another one.
var arithmetic = lazyregexp.New(`^\(\([\w\s$\[\]{}+*/%<>=!?:,;#-]*\)\)`)

// rest is what is left of the line.
func (s *shellScanner) rest() string {
	line, _, _ := strings.Cut(s.text[s.pos:], "\n")
	return line
}

// redirect passes over an operator, and notes what ends a here-document.
func (s *shellScanner) redirect() {
	t := s.text[s.pos:]
	switch {
	case strings.HasPrefix(t, "<<<"):
		s.pos += 3
	case strings.HasPrefix(t, "<<"):
		s.pos += 2
		if s.pos < len(s.text) && s.text[s.pos] == '-' {
			s.pos++
		}
		for s.pos < len(s.text) && (s.text[s.pos] == ' ' || s.text[s.pos] == '\t') {
			s.pos++
		}
		if s.pos < len(s.text) && strings.IndexByte("\n;&|()<>", s.text[s.pos]) < 0 {
			s.heredocs = append(s.heredocs, s.word().text)
		}
	case strings.HasPrefix(t, ">&"), strings.HasPrefix(t, "<&"), strings.HasPrefix(t, ">>"):
		s.pos += 2
	default:
		s.pos++
	}
}

// setsNCCL matches what may set a variable of NCCL, in a script or in nccl.conf.
var setsNCCL = lazyregexp.New(`\bNCCL_[A-Z0-9_]+\s*=`)

// skipDocuments passes over the here-documents that the last line began: they are input of a command. What it does with them is
// not known, so those that set variables of NCCL are noted.
func (s *shellScanner) skipDocuments() {
	for _, end := range s.heredocs {
		noted := false
		for s.pos < len(s.text) {
			line := s.rest()
			if !noted && setsNCCL().MatchString(line) {
				s.unread, noted = append(s.unread, s.line), true
			}
			s.pos = min(s.pos+len(line)+1, len(s.text))
			s.line++
			if strings.TrimSpace(line) == end {
				break
			}
		}
	}
	s.heredocs = nil
}

// word reads one word. A quote that is not closed ends it, and the line.
func (s *shellScanner) word() word {
	w := word{line: s.line}
	var b strings.Builder
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; {
		case strings.IndexByte(" \t\r\n;&|()<>", c) >= 0:
			w.text = b.String()
			return w
		case c == '\\':
			s.escape(&b)
		case c == '\'':
			s.quoted(&b, "'")
		case c == '"':
			s.pos++
			if !s.doubleQuoted(&b, &w) {
				w.text = b.String()
				return w
			}
		case c == '$' || c == '`':
			s.expansion(&b, &w)
		default:
			b.WriteByte(c)
			s.pos++
		}
	}
	w.text = b.String()
	return w
}

func (s *shellScanner) escape(b *strings.Builder) {
	s.pos++
	if s.pos == len(s.text) {
		return
	}
	if c := s.text[s.pos]; c == '\n' {
		s.line++
	} else {
		b.WriteByte(c)
	}
	s.pos++
}

// quoted reads what stands between single quotes.
func (s *shellScanner) quoted(b *strings.Builder, quote string) {
	body, _, closed := strings.Cut(s.text[s.pos+1:], quote)
	if !closed {
		s.giveUp(s.pos)
		return
	}
	b.WriteString(body)
	s.line += strings.Count(body, "\n")
	s.pos += len(body) + 2
}

func (s *shellScanner) doubleQuoted(b *strings.Builder, w *word) (closed bool) {
	from, line, start := s.pos, s.line, b.Len()
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; c {
		case '"':
			s.pos++
			return true
		case '\\':
			if next := s.text[s.pos+1:]; next != "" && strings.IndexByte("\"\\$`\n", next[0]) < 0 {
				b.WriteByte(c)
			}
			s.escape(b)
		case '$', '`':
			s.expansion(b, w)
		default:
			if c == '\n' {
				s.line++
			}
			b.WriteByte(c)
			s.pos++
		}
	}
	text := b.String()[:start]
	b.Reset()
	b.WriteString(text)
	s.line = line
	s.giveUp(from)
	return false
}

// expansion passes over $name, ${...}, $(...) and `...`, and keeps what is written of names. What a command is called with is
// not shown. The value of ${NAME:-value} is the one that is written, and is possible.
func (s *shellScanner) expansion(b *strings.Builder, w *word) {
	from, t := s.pos, s.text[s.pos:]
	end, closed := 1, false
	switch {
	case t[0] == '`':
		if i := strings.IndexByte(t[1:], '`'); i >= 0 {
			end, closed = i+2, true
		}
	case strings.HasPrefix(t, "$("), strings.HasPrefix(t, "${"):
		if end = 2; s.open < maxUnclosed {
			n := 0
			n, closed = balanced(t[:min(len(t), maxExpansion)])
			if end = n; !closed {
				s.open++
			}
		}
	case len(t) > 1 && (t[1] == '\'' || t[1] == '"'): // $'...': as without the dollar
		s.pos++
		return
	case len(t) == 1 || strings.IndexByte(" \t\n\"'", t[1]) >= 0: // a dollar
		b.WriteByte('$')
		s.pos++
		return
	default:
		for end < len(t) && isWordByte(t[end]) {
			end++
		}
	}
	s.pos += end
	text := s.text[from:s.pos]
	s.line += strings.Count(text, "\n")
	name, value, assigns, defaulted := defaultOf(text)
	switch {
	case closed && defaulted:
		w.chosen = true
		if assigns {
			w.assigns = name
		}
		b.WriteString(value)
		return
	case closed && text[1] != '{':
		text = "$(...)"
	}
	w.dynamic = true
	b.WriteString(text)
}

// defaultOf returns the parts of ${NAME:-value}, ${NAME-value}, ${NAME:=value} and ${NAME=value} whose value has no expansion.
func defaultOf(expansion string) (name, value string, assigns, ok bool) {
	body, braces := strings.CutPrefix(strings.TrimSuffix(expansion, "}"), "${")
	if !braces {
		return "", "", false, false
	}
	end := 0
	for end < len(body) && isWordByte(body[end]) {
		end++
	}
	name, value = body[:end], strings.TrimPrefix(body[end:], ":")
	if name == "" || value == "" || value[0] != '-' && value[0] != '=' || strings.ContainsAny(value, "$`\\") {
		return "", "", false, false
	}
	return name, strings.Trim(value[1:], `"'`), value[0] == '=', true
}

// maxExpansion bounds how far the end of an expansion is looked for, in bytes.
const maxExpansion = 64 << 10

// balanced returns the length of an expansion in brackets; of one that does not end, that of its beginning.
func balanced(t string) (n int, closed bool) {
	open, shut := t[1], byte(')')
	if open == '{' {
		shut = '}'
	}
	depth := 0
	for i := 1; i < len(t); i++ {
		switch t[i] {
		case open:
			depth++
		case shut:
			if depth--; depth == 0 {
				return i + 1, true
			}
		case '\\':
			i++
		case '\'', '"': // a bracket between quotes is not one of the command
			if open == '(' {
				if n := strings.IndexByte(t[i+1:], t[i]); n >= 0 {
					i += n + 1
				}
			}
		}
	}
	return 2, false
}

func isWordByte(c byte) bool {
	return c == '_' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
}

// giveUp notes a quote that is not closed and goes on with the next line.
func (s *shellScanner) giveUp(at int) {
	s.unclosed = append(s.unclosed, s.line)
	s.pos = len(s.text)
	if i := strings.IndexByte(s.text[at:], '\n'); i >= 0 && len(s.unclosed) < maxUnclosed {
		s.pos = at + i
	}
}
