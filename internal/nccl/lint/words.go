// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"errors"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"gpufabric_exporter/internal/lazyregexp"
	"gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/internal/verdict"
)

// word is a word of a shell script, without its quotes.
type word struct {
	text    string
	line    int
	dynamic bool   // it has an expansion whose value is not known: the text is what is written, without commands
	chosen  bool   // the text has the value that ${NAME:-value} has where NAME is not set
	assigns string // the NAME of ${NAME:=value}
}

// substituted stands for the file that <(command) is.
const substituted = "/dev/fd"

func (k *shellReader) words(list []*syntax.Word, begin int) []word {
	words := make([]word, 0, len(list))
	for _, w := range list {
		words = append(words, k.word(w, begin))
	}
	return words
}

func (k *shellReader) word(w *syntax.Word, begin int) word {
	out := word{line: k.lineAt(begin + int(w.Pos().Offset()))} //nolint:gosec // at most MaxInput
	var b strings.Builder
	k.unquoted(&b, &out, w.Parts, false, begin)
	out.text = b.String()
	return out
}

// unquoted writes what the parts of a word are without quotes. What a command is called with is not shown.
func (k *shellReader) unquoted(b *strings.Builder, w *word, parts []syntax.WordPart, quoted bool, begin int) {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			unescape(b, p.Value, quoted)
		case *syntax.SglQuoted:
			value := p.Value
			if p.Dollar {
				if text, _, err := expand.Format(nil, strings.ReplaceAll(value, "%", "%%"), nil); err == nil {
					value = text
				}
			}
			b.WriteString(value)
		case *syntax.DblQuoted:
			k.unquoted(b, w, p.Parts, true, begin)
		case *syntax.ParamExp:
			k.parameter(b, w, p, begin)
		case *syntax.ProcSubst:
			w.dynamic = true
			b.WriteString(substituted)
		case *syntax.ExtGlob:
			b.WriteString(k.written(p, begin))
		default:
			w.dynamic = true
			b.WriteString("$(...)")
		}
	}
}

// written is what stands in the script.
func (k *shellReader) written(n syntax.Node, begin int) string {
	from, to := begin+int(n.Pos().Offset()), begin+int(n.End().Offset()) //nolint:gosec // at most MaxInput
	return k.text[min(from, len(k.text)):min(to, len(k.text))]
}

// parameter writes ${...}. The value of ${NAME:-value} is the one that is written, and is possible.
func (k *shellReader) parameter(b *strings.Builder, w *word, p *syntax.ParamExp, begin int) {
	if e := p.Exp; e != nil && p.Param != nil && p.Index == nil && !p.Excl && !p.Length {
		var value strings.Builder
		one := word{}
		if e.Word != nil {
			k.unquoted(&value, &one, e.Word.Parts, false, begin)
		}
		assigns := e.Op == syntax.AssignUnset || e.Op == syntax.AssignUnsetOrNull
		if (assigns || e.Op == syntax.DefaultUnset || e.Op == syntax.DefaultUnsetOrNull) && !one.dynamic && !one.chosen {
			if w.chosen = true; assigns {
				w.assigns = p.Param.Value
			}
			b.WriteString(value.String())
			return
		}
	}
	w.dynamic = true
	b.WriteString(k.written(p, begin))
}

// unescape writes a literal without its backslashes.
func unescape(b *strings.Builder, text string, quoted bool) {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) || quoted && strings.IndexByte("\"\\$`\n", text[i+1]) < 0 {
			b.WriteByte(text[i])
			continue
		}
		if i++; text[i] != '\n' {
			b.WriteByte(text[i])
		}
	}
}

// lineAt is the line of a byte of the script. Most often it is behind the one that was asked for last.
func (k *shellReader) lineAt(at int) int {
	at = min(max(at, 0), len(k.text))
	if at < k.at {
		k.last -= strings.Count(k.text[at:k.at], "\n")
	} else {
		k.last += strings.Count(k.text[k.at:at], "\n")
	}
	k.at = at
	return k.line + k.last
}

// directives reads the options of a job in comments: #SBATCH, #PBS, #BSUB.
func (k *shellReader) directives() {
	at := 0
	for line := range strings.Lines(k.text) {
		args := []word{}
		name, options, _ := strings.Cut(strings.TrimSpace(line), " ")
		number := k.lineAt(at)
		at += len(line)
		switch name {
		case "#SBATCH":
			for w := range strings.FieldsSeq(options) {
				args = append(args, word{text: strings.Trim(w, `"'`), line: number})
			}
		case "#BSUB", "#PBS":
			words := []word{{text: name}}
			for w := range strings.FieldsSeq(options) {
				words = append(words, word{text: w, line: number})
			}
			k.in.countNodes(words)
			option := map[string]string{"#BSUB": " -env ", "#PBS": " -v "}[name]
			_, list, found := strings.Cut(" "+options, option)
			if !found {
				continue
			}
			if list = strings.TrimSpace(list); name == "#BSUB" {
				list = unquote(list)
			}
			args = append(args, word{text: list, line: number})
		default:
			continue
		}
		k.command(nil, word{text: name, line: number}, args)
	}
}

// unquote returns a text without the quotes around it and what follows them.
func unquote(text string) string {
	if text != "" && (text[0] == '"' || text[0] == '\'') {
		text, _, _ = strings.Cut(text[1:], text[:1])
	}
	return text
}

// setsNCCL matches what may set a variable of NCCL, in a script or in nccl.conf.
var setsNCCL = lazyregexp.New(`\bNCCL_[A-Z0-9_]+\s*=`)

// documents notes here-documents that set variables of NCCL: they are input of a command. What it does with them
// is not known.
func (k *shellReader) documents(s *syntax.Stmt, begin int) {
	for _, r := range s.Redirs {
		if r.Hdoc == nil {
			continue
		}
		if at := setsNCCL().FindStringIndex(k.written(r.Hdoc, begin)); at != nil {
			k.flaw(begin+int(r.Hdoc.Pos().Offset())+at[0], Undecided, verdict.Info, //nolint:gosec // at most MaxInput
				"The here-document that has this line sets variables of NCCL, and is not judged: what reads it is not known",
				"run lint with the text of the document in a file of its own")
		}
	}
}

func (k *shellReader) flaw(at int, v Verdict, severity verdict.Severity, reason, better string) {
	k.flaws = append(k.flaws, setting{
		Setting:  settings.Setting{Line: k.lineAt(at)},
		findings: []Finding{{v, severity, reason, better}},
	})
}

// placeholder is what documentation writes for a value: <host>. To the shell it is two redirections.
var placeholder = lazyregexp.New(`<[A-Za-z][A-Za-z0-9 _.:/-]*>`)

// unread reports what the shell does not understand, and returns where to go on: behind a quote that is not
// closed, or behind the first line of the statement. A line with placeholders is read again without them, and ((
// as two brackets where it is no arithmetic.
func (k *shellReader) unread(flaw error, begin, read int) int {
	var e syntax.ParseError
	if !errors.As(flaw, &e) {
		e.Text = flaw.Error()
	}
	for read < len(k.text) && strings.IndexByte(" \t\n;&", k.text[read]) >= 0 {
		read++
	}
	at := min(max(begin+int(e.Pos.Offset()), read), len(k.text)) //nolint:gosec // at most MaxInput
	if strings.Contains(e.Text, "closing quote") {
		k.flaw(at, Misread, verdict.Warning,
			"A quote that begins here is not closed: the shell takes what follows for a part of it", "close the quote")
		return k.nextLine(at)
	}
	if two := strings.LastIndex(k.text[read:at], "(("); two >= 0 && strings.Contains(e.Text, "arithm") {
		k.text = k.text[:read+two+1] + " " + k.text[read+two+1:]
		return read
	}
	end := k.nextLine(read)
	line := k.text[read:end]
	if blank := placeholder().ReplaceAllStringFunc(line,
		func(s string) string { return strings.Repeat("_", len(s)) }); blank != line {
		k.text = k.text[:read] + blank + k.text[end:]
		return read
	}
	if setsNCCL().MatchString(line) {
		k.flaw(read, Undecided, verdict.Info,
			"The shell does not read this statement, and lint does not judge it: "+shown(e.Text), "correct the statement")
	}
	return end
}

// nextLine is where the line behind the one of that byte begins.
func (k *shellReader) nextLine(at int) int {
	if n := strings.IndexByte(k.text[at:], '\n'); n >= 0 {
		return at + n + 1
	}
	return len(k.text)
}

func isWordByte(c byte) bool {
	return c == '_' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
}
