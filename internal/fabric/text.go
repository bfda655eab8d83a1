// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable makes foreign text fit for a page, a log and a terminal: a line of at most so many bytes, with a
// blank for each character that cannot be printed. Credentials stay (MaskCredentials).
func Printable(s string, most int) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) { // hardly any has one
		s = strings.Map(func(r rune) rune {
			if unicode.IsPrint(r) {
				return r
			}
			return ' '
		}, strings.ToValidUTF8(s, "?"))
	}
	return Clip(strings.TrimSpace(s), most)
}

// Clip cuts a text to at most so many bytes, and leaves no half character.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}

// IsText reports whether foreign bytes are text that a label can carry: UTF-8 without control characters.
func IsText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// Unprintable reports whether a character leaves no mark, or is none: control characters, blanks of other
// scripts, bytes that are no UTF-8.
func Unprintable(r rune) bool {
	return r == utf8.RuneError || !unicode.IsPrint(r) // of the blanks, that of ASCII is printed
}
