// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"bytes"
	"iter"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// statement is one line of a file, as its reader understands it.
type statement struct {
	line  int
	name  string // exactly as it is set; empty when nothing is
	value string // without credentials
	flaw  string // rule that the line itself breaks

	masked bool // the value had a credential, which goes no further
}

// mask takes credentials out: nothing beyond this package is to show or pass on one. An absolute path keeps
// its long names, for the file that it names is looked for.
func (st statement) mask() statement {
	value := fabric.MaskNamed(st.name, st.value)
	if !strings.HasPrefix(value, "/") {
		value = fabric.MaskTokens(value)
	}
	st.name, st.value, st.masked = fabric.MaskCredentials(st.name), value, value != st.value
	return st
}

// The buffers of initEnvFunc and setEnvFile, without their terminating NUL.
const (
	maxConfPath  = 1023
	maxConfLine  = 4095
	maxConfName  = 1023
	maxConfValue = 1023
)

// parseConf yields what setEnvFile (src/misc/param.cc) of NCCL 2.30.3 and later sets from an nccl.conf.
//
// The first "=" separates name and value; nothing is trimmed, unquoted or expanded. A line with "#" in its
// first column is a comment and a line without "=" is skipped. A longer line than fgets takes is continued
// as if it were a new one, even that of a comment. A NUL ends what C sees of the line.
//
// Older releases differ only in what is reported here: before 2.30.3 they keep a carriage return and take
// lines of any length, and before 2.26.2 they have no comments, which is harmless.
func parseConf(data []byte) iter.Seq[statement] {
	return func(yield func(statement) bool) {
		number, continuation := 1, false
		for len(data) > 0 {
			chunk := data[:min(len(data), maxConfLine)]
			end := bytes.IndexByte(chunk, '\n') + 1
			if end > 0 {
				chunk = chunk[:end]
			}
			data = data[len(chunk):]

			st := parseConfLine(string(chunk))
			st.line = number
			tooLong := end == 0 && len(data) > 0 && data[0] != '\n'
			switch {
			case tooLong && !continuation:
				st.flaw = RuleLineTooLong
			case continuation && st.flaw == RuleNotASetting:
				st.flaw = "" // the line has been reported already
			}
			if (st.name != "" || st.flaw != "") && !yield(st.mask()) {
				return
			}
			continuation = tooLong
			if end > 0 {
				number++
			}
		}
	}
}

func parseConfLine(line string) statement {
	line, _, _ = strings.Cut(line, "\x00")
	line = strings.TrimSuffix(line, "\n")
	line, returned := strings.CutSuffix(line, "\r")
	if strings.HasPrefix(line, "#") {
		return statement{}
	}
	name, value, ok := strings.Cut(line, "=")
	if !ok || name == "" {
		if text := strings.TrimLeft(line, blanks); text == "" || text[0] == '#' {
			return statement{}
		}
		return statement{flaw: RuleNotASetting}
	}
	st := statement{name: clip(name, maxConfName), value: clip(value, maxConfValue)}
	switch {
	case len(value) > maxConfValue:
		st.flaw = RuleValueTooLong
	case returned:
		st.flaw = RuleCarriageReturn
	}
	return st
}

// blanks are the white space that people put around names and values without meaning it.
const blanks = " \t"

func clip(s string, n int) string { return s[:min(len(s), n)] }
