// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// legible is the standard output or error of the program. Names of interfaces, firmware versions, values of
// NCCL and NCCL's log are what others chose: what would control a terminal or hide in it is written as its
// escape, \u001b, which JSON and logfmt have in their strings, too. Each Write has whole characters.
type legible struct{ io.Writer }

func (l legible) Write(p []byte) (int, error) {
	if _, err := io.WriteString(l.Writer, escaped(string(p), "\n\t")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Legible returns a writer that is legible.
func Legible(w io.Writer) io.Writer { return legible{w} }

// Raw returns what is behind a legible writer: for archives, and for sequences of the program's own.
func Raw(w io.Writer) io.Writer {
	if l, ok := w.(legible); ok {
		return l.Writer
	}
	return w
}

// Terminal returns what is behind a writer if that is a terminal, else nil.
func Terminal(w io.Writer) io.Writer {
	file, ok := Raw(w).(*os.File)
	if !ok {
		return nil
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return file
}

// JSON writes a document, indented, for people and programs.
func JSON(w io.Writer, document any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(document)
}

// OneLine is a text that stays on its line.
func OneLine(s string) string { return escaped(s, "") }

// escaped writes characters that cannot be seen as their escapes, except those that are kept. Bytes that are no UTF-8
// become U+FFFD: a terminal may take them for controls of its own.
func escaped(s, keep string) string {
	hidden := func(r rune) bool { return !visible(r) && !strings.ContainsRune(keep, r) }
	if utf8.ValidString(s) && !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch first, second := utf16.EncodeRune(r); {
		case !hidden(r):
			b.WriteRune(r)
		case first == unicode.ReplacementChar:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x\u%04x`, first, second)
		}
	}
	return b.String()
}

// visible reports whether a character shows, where it stands in the text: controls, formats such as those that turn the
// direction of writing, and letters of no width do not.
func visible(r rune) bool {
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Painter colours a word.
type Painter func(colour, s string) string

// Colours of a terminal.
const (
	Red    = "31"
	Yellow = "33"
	Green  = "32"
)

// Colours paints for terminals alone, and not where NO_COLOR is set (no-color.org).
func Colours(w io.Writer) Painter {
	plain := func(_, s string) string { return s }
	if Terminal(w) == nil || os.Getenv("NO_COLOR") != "" {
		return plain
	}
	return func(colour, s string) string { return "\x1b[" + colour + "m" + s + "\x1b[0m" }
}
