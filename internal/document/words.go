// SPDX-License-Identifier: Apache-2.0

package document

import (
	"fmt"
	"strings"
)

// End makes a text end with one full stop.
func End(s string) string { return strings.TrimRight(s, ". ") + "." }

// Lower is a text that begins with a small letter, unless the first word is a name or an abbreviation.
func Lower(s string) string {
	word, _, _ := strings.Cut(s, " ")
	if word != "" && word[0] >= 'A' && word[0] <= 'Z' && word[1:] == strings.ToLower(word[1:]) && word != "Xid" {
		return strings.ToLower(s[:1]) + s[1:]
	}
	return s
}

// Few are the first names as code, for a sentence.
func Few(names []string) Text {
	if more := len(names) - 3; more > 1 {
		return Line(Codes(names[:3]), fmt.Sprintf(" and %d more", more))
	}
	return Codes(names)
}

// Some joins names, of many the first.
func Some(names []string) string {
	return Join(names, ", ", func(s string) any { return s }).Plain()
}

// Labelled are the first lines of a list, of which the first has a label. Of one empty line there is none.
func Labelled(label string, most int, list ...string) (lines []Text) {
	for i, of := range list[:min(len(list), most)] {
		switch {
		case i > 0:
			lines = append(lines, Prose(End(of)))
		case of != "":
			lines = append(lines, Line(Strong(label), " ", Prose(End(of))))
		}
	}
	if more := len(list) - most; more > 0 {
		lines = append(lines, Line(fmt.Sprintf("And %d more of the same.", more)))
	}
	return lines
}
