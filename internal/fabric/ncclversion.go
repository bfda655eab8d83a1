// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// NCCLVersion is a release of NCCL, such as 2.21.5. One of two numbers, such as 2.21, means the newest patch
// of that release.
type NCCLVersion struct {
	text    string
	numbers []int
}

// ParseNCCLVersion parses 2.MINOR or 2.MINOR.PATCH.
func ParseNCCLVersion(s string) (NCCLVersion, error) {
	numbers := numbersOf(s)
	if !released(numbers) {
		return NCCLVersion{}, errors.New("expected a release of NCCL such as 2.21.5 or 2.21, from 2.3 on" + meantRelease(s))
	}
	return NCCLVersion{s, numbers}, nil
}

func (v NCCLVersion) String() string { return v.text }

// released reports whether numbers are those of a release from 2.3 on.
func released(numbers []int) bool {
	return (len(numbers) == 2 || len(numbers) == 3) && numbers[0] == 2 && numbers[1] >= 3
}

// meantRelease suggests the release that is inside of how others write it, such as v2.21.5, 2.21.5-1 of
// packages, 2.21.5+cuda12.4 of NCCL itself, or 22105 (NCCL_VERSION_CODE); empty: there is none.
func meantRelease(s string) string {
	const digits, longest = "0123456789", 64
	from := strings.IndexAny(s, digits)
	if from < 0 || len(s) > longest {
		return ""
	}
	inside := s[from:]
	inside = inside[:len(inside)-len(strings.TrimLeft(inside, digits+"."))]
	inside = strings.TrimRight(inside, ".")
	if code, err := strconv.Atoi(inside); err == nil && code >= 20900 && code < 30000 {
		inside = fmt.Sprintf("2.%d.%d", code/100%100, code%100)
	}
	if !released(numbersOf(inside)) {
		return ""
	}
	return "; did you mean " + inside + "?"
}

// AtLeast reports whether the release is that one or a later one. Of two releases of different precision the
// shorter one counts.
func (v NCCLVersion) AtLeast(release string) bool { return v.compare(release) >= 0 }

// After reports whether the release is later than that one.
func (v NCCLVersion) After(release string) bool { return v.compare(release) > 0 }

// In reports whether the release is in a span such as "2.14..2.22", both ends included; empty: any is.
func (v NCCLVersion) In(span string) bool {
	low, high, _ := strings.Cut(span, "..")
	return (low == "" || v.AtLeast(low)) && (high == "" || !v.After(high))
}

func (v NCCLVersion) compare(release string) int {
	other := numbersOf(release)
	n := min(len(v.numbers), len(other))
	return slices.Compare(v.numbers[:n], other[:n])
}

// numbersOf returns nothing for a text that is not a release.
func numbersOf(s string) []int {
	var list []int
	for part := range strings.SplitSeq(s, ".") {
		n, err := strconv.ParseUint(part, 10, 16)
		if err != nil {
			return nil
		}
		list = append(list, int(n))
	}
	return list
}
