// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// NCCLVersion is a release of NCCL, such as 2.21.5. One of two numbers, such as 2.21, means the newest patch of that release.
type NCCLVersion struct {
	text    string
	numbers []int
}

// ParseNCCLVersion parses 2.MINOR or 2.MINOR.PATCH.
func ParseNCCLVersion(s string) (NCCLVersion, error) {
	numbers := numbersOf(s)
	if len(numbers) < 2 || len(numbers) > 3 || numbers[0] != 2 || numbers[1] < 3 {
		return NCCLVersion{}, errors.New("expected a release of NCCL such as 2.21.5 or 2.21, from 2.3 on")
	}
	return NCCLVersion{s, numbers}, nil
}

func (v NCCLVersion) String() string { return v.text }

// AtLeast reports whether the release is that one or a later one. Of two releases of different precision the shorter one counts.
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
