// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"gpufabric_exporter/internal/document"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// rate shows the rate of a port; nil: it is not known, or there is no link.
func rate(bytesPerSecond *float64) string {
	if bytesPerSecond == nil {
		return unknown
	}
	return verdict.Gigabits(*bytesPerSecond)
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

// change is by how much a value grew.
func change(before, after float64) string {
	switch by := 100 * (after/before - 1); {
	case math.Abs(by) < 0.05:
		return "0.0 %"
	case by > 1e5:
		return "over 1000 times"
	default:
		return fmt.Sprintf("%+.1f %%", by)
	}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// milliseconds formats a time as in the flag --iteration-ms.
func milliseconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64) + " ms"
}

// text makes a line of strings, which are plain, spans and lines.
func text(parts ...any) document.Text { return document.Line(parts...) }

// which are the members of a list for which is holds.
func which[T any](list []T, is func(*T) bool) (some []*T) {
	for i := range list {
		if is(&list[i]) {
			some = append(some, &list[i])
		}
	}
	return some
}

// distinct are the first of the different words of a list, in their natural order.
func distinct[T any](list []*T, word func(*T) string) (words []string) {
	for _, of := range list {
		words = append(words, word(of))
	}
	slices.SortFunc(words, fabric.NaturalOrder)
	words = slices.Compact(words)
	return words[:min(len(words), 4)]
}
