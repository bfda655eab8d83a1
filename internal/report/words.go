// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"gpufabric_exporter/internal/document"

	"gpufabric_exporter/internal/diagnose"
)

// gigabytes shows a bandwidth as nccl-tests does.
func gigabytes(bytesPerSecond float64) string { return fmt.Sprintf("%.2f GB/s", bytesPerSecond/1e9) }

// rate shows the rate of a port; nil: it is not known, or there is no link.
func rate(bytesPerSecond *float64) string {
	if bytesPerSecond == nil {
		return unknown
	}
	return diagnose.Gigabits(*bytesPerSecond)
}

func percent(share *float64) string {
	if share == nil {
		return "none"
	}
	return fmt.Sprintf("%.0f %%", 100**share)
}

// times is a factor: "20 times", "1.3 times".
func times(f float64) string {
	if f >= 10 {
		return fmt.Sprintf("%.0f times", f)
	}
	return fmt.Sprintf("%.1f times", f)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// milliseconds formats a time as in the flag --iteration-ms.
func milliseconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64) + " ms"
}

// end makes a text end with one full stop.
func end(s string) string { return strings.TrimRight(s, ". ") + "." }

// lower begins with a small letter, unless the first word is a name or an abbreviation.
func lower(s string) string {
	word, _, _ := strings.Cut(s, " ")
	if word != "" && word[0] >= 'A' && word[0] <= 'Z' && word[1:] == strings.ToLower(word[1:]) && word != "Xid" {
		return strings.ToLower(s[:1]) + s[1:]
	}
	return s
}

// marked is a sentence with code between backticks.
func marked(s string) document.Text {
	var t document.Text
	for i, part := range strings.Split(s, "`") {
		if i%2 == 1 {
			t = append(t, code(part))
		} else if part != "" {
			t = append(t, document.Span{Text: part})
		}
	}
	return t
}

// codes are names as code, of many the first.
func codes(names []string) document.Text {
	var t document.Text
	for i, n := range names[:min(len(names), maxList)] {
		if i > 0 {
			t = append(t, document.Span{Text: ", "})
		}
		t = append(t, code(n))
	}
	if more := len(names) - maxList; more > 0 {
		t = append(t, document.Span{Text: fmt.Sprintf(" and %d more", more)})
	}
	return t
}

// grouped are the first of different lines, each behind the names of those that have it. Without a line a name is left out.
func grouped(n int, of func(i int) (name, line string)) (lines []document.Text) {
	names := map[string][]string{}
	var order []string
	for i := range n {
		name, line := of(i)
		if line == "" {
			continue
		}
		if names[line] == nil {
			order = append(order, line)
		}
		names[line] = append(names[line], name)
	}
	for _, line := range order[:min(len(order), maxList)] {
		lines = append(lines, text(codes(names[line]), ": ", end(line)))
	}
	return lines
}

// text makes a line of strings, which are plain, spans and lines.
func text(parts ...any) document.Text { return document.Line(parts...) }

func code(s string) document.Span { return document.Code(s) }

func strong(s string) document.Span { return document.Strong(s) }

// Bounds of what a document shows. The JSON has more.
const (
	maxGIDs = 64 // entries of GID tables, of all ports
	maxList = 16 // names in a line, lines in a list
)

// some joins names, of many the first.
func some(names []string) string {
	if more := len(names) - maxList; more > 0 {
		return strings.Join(names[:maxList], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}
