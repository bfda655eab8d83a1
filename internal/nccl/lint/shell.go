// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/internal/verdict"
)

// Bounds of a script.
const (
	maxNested    = 3         // scripts in scripts: bash -c "..."
	maxBlocks    = 100       // blocks in each other
	maxParts     = 200_000   // commands
	maxStatement = 256 << 10 // bytes of a statement with all that stands in it
	maxBrackets  = 4096      // opening brackets in a statement: the parser calls itself for each
	maxAgain     = 4 << 20   // bytes that are read again behind what the shell does not understand
)

var errStatement = fmt.Errorf("expected at most %d KiB and %d brackets in a statement", maxStatement>>10, maxBrackets)

// shellReader reads the settings of a shell script, and what the script does with them.
type shellReader struct {
	in       *Input
	nested   int
	scope    int
	text     string
	line     int              // of the first line of the text
	at, last int              // how far lines are counted: bytes and lines
	parts    []part           // what the script does, of the block that is read
	count    int              // parts of all blocks
	depth    int              // blocks around what is read
	err      error            // a bound was reached
	own      []part           // what a command sets for itself alone
	sure     bool             // the command before succeeds, as far as it matters: && behind it is no condition
	all      bool             // set -a: every assignment is exported
	exported map[string]bool  // variables that programs of the script see
	private  map[string][]int // indices of assignments that are not exported yet
	flaws    []setting        // what cannot be read, reported behind the settings
}

func (in *Input) newShellReader(text string, line, nested int) *shellReader {
	return &shellReader{
		in: in, nested: nested, scope: in.scopes, text: text, line: line, exported: map[string]bool{},
		private: map[string][]int{},
	}
}

// parseShell reads a script whose first line has that number.
func (in *Input) parseShell(text string, line int) error {
	body, err := in.shellParts(text, line, 0)
	in.scripts = append(in.scripts, script{in.scopes, body})
	return err
}

// shellParts reads a script in the script of another one, or in nothing.
func (in *Input) shellParts(text string, line, nested int) ([]part, error) {
	if before, _, found := strings.Cut(text, "\r\n"); found {
		in.append(setting{Setting: settings.Setting{Line: line + strings.Count(before, "\n")}, findings: []Finding{
			{Misread, verdict.Warning, "Lines end in a carriage return: the shell takes it for a part of the last word, and Slurm refuses the script", "remove the carriage returns, as dos2unix does"},
		}})
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	k := in.newShellReader(text, line, nested)
	k.directives()
	k.readAll()
	for _, f := range k.flaws {
		in.append(f)
	}
	k.keptPrivate()
	return k.parts, k.err
}

// readAll reads statement by statement. Behind one that the shell does not understand it goes on with its next line.
func (k *shellReader) readAll() {
	parser := syntax.NewParser(syntax.Variant(syntax.LangBash))
	for begin, again := 0, 0; begin < len(k.text) && k.err == nil; {
		source := &statements{text: k.text[begin:]}
		source.begin()
		read := begin // behind the last statement
		var flaw error
		// no range: the parser may call once more behind an error
		parser.StmtsSeq(source)(func(stmt *syntax.Stmt, err error) bool {
			if flaw == nil {
				flaw = err
			}
			if flaw != nil || k.err != nil {
				return false
			}
			k.statement(stmt, begin)
			read = begin + int(stmt.End().Offset()) //nolint:gosec // at most MaxInput
			source.begin()
			return true
		})
		if flaw == nil || k.err != nil {
			return
		}
		if errors.Is(flaw, errStatement) {
			k.err = fmt.Errorf("line %d: %w", k.lineAt(read), errStatement)
			return
		}
		if again += source.pos - (read - begin); again > maxAgain {
			k.err = fmt.Errorf("line %d: expected a script that bash reads: %w", k.lineAt(read), flaw)
			return
		}
		begin = k.unread(flaw, begin, read)
	}
}

// statements serves a script to the parser, within the bounds of a statement.
type statements struct {
	text     string
	pos      int
	from     int // where the statement begins, at the earliest
	brackets int
}

func (s *statements) begin() { s.from, s.brackets = s.pos, 0 }

func (s *statements) Read(p []byte) (int, error) {
	if s.pos == len(s.text) {
		return 0, io.EOF
	}
	n := copy(p, s.text[s.pos:])
	for _, c := range p[:n] {
		if c == '(' || c == '{' || c == '[' {
			s.brackets++
		}
	}
	if s.pos += n; s.pos-s.from > maxStatement || s.brackets > maxBrackets {
		return 0, errStatement
	}
	return n, nil
}

// keptPrivate reports variables that the script does not export.
func (k *shellReader) keptPrivate() {
	for name, list := range k.private {
		for _, i := range list {
			st := &k.in.settings[i]
			st.set = false
			severity := verdict.Info // scripts keep paths and options in such names
			if readOrMeant(name) {
				severity = verdict.Warning
			}
			st.findings = append(st.findings, Finding{
				Ignored, severity,
				"The shell keeps the variable to itself: programs that the script starts do not get it, unless the script got it from its caller",
				"export " + name + "=" + st.Value,
			})
		}
	}
}

// readOrMeant reports whether NCCL reads a variable, or one with a similar name.
func readOrMeant(name string) bool {
	v, known := settings.Describe(name)
	return known && v.Status == settings.StatusCurrent || !known && settings.Similar(name) != ""
}
