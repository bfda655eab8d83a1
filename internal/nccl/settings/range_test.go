// SPDX-License-Identifier: Apache-2.0

package settings

import (
	_ "embed"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

//go:embed testdata/ranges.txt
var rangesText string

// Every variable that NCCL reads as a number takes the numbers that its source takes.
func TestRanges(t *testing.T) {
	var takes []int64
	outcomes := map[int64]string{}
	place := regexp.MustCompile(`^src/[a-z0-9_/]+\.(cc|h):[1-9][0-9]*$`)
	number := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatalf("testdata/ranges.txt: %v", err)
		}
		return n
	}
	seen := map[string]bool{}
	for line := range strings.Lines(rangesText) {
		line = strings.TrimSpace(line)
		numbers, begins := strings.CutPrefix(line, "takes ")
		value, outcome, isOutcome := strings.Cut(line, ": ")
		switch {
		case line == "", strings.HasPrefix(line, "#"):
		case begins:
			takes = nil
			clear(outcomes)
			for n := range strings.FieldsSeq(numbers) {
				takes = append(takes, number(n))
			}
		case isOutcome:
			outcomes[number(value)] = outcome
		default:
			name, source, _ := strings.Cut(line, " ")
			v, known := Describe(name)
			if !known || seen[name] || !place.MatchString(source) {
				t.Fatalf("testdata/ranges.txt: %q: expected a variable that stands nowhere else, and a line of NCCL's source", line)
			}
			seen[name] = true
			for _, n := range takes {
				if !v.Accepts(n) {
					t.Errorf("%s=%d (%s) is not accepted", name, n, source)
				}
			}
			for n, want := range outcomes {
				if v.Accepts(n) {
					t.Errorf("%s=%d (%s) is accepted, want %q", name, n, source, want)
				} else if got := v.outcome(n); got != want {
					t.Errorf("%s=%d (%s): %q, want %q", name, n, source, got, want)
				}
			}
		}
	}
	for _, v := range Variables() {
		if v.Status == StatusCurrent && v.Parser == ParserNumber && !seen[v.Name] {
			t.Errorf("testdata/ranges.txt lacks %s", v.Name)
		}
	}
	if len(seen) < 150 {
		t.Errorf("%d variables: %q", len(seen), slices.Sorted(maps.Keys(seen)))
	}
}
