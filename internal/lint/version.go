// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/host/ncclconf"
)

// Version is a release of NCCL, such as 2.21.5. One of two numbers, such as 2.21, means the newest patch of that release.
type Version struct {
	text    string
	numbers []int
}

// Newest is the newest release that the table of variables knows.
func Newest() Version {
	v, _ := ParseVersion(ncclconf.NewestNCCL)
	return v
}

// ParseVersion parses 2.MINOR or 2.MINOR.PATCH.
func ParseVersion(s string) (Version, error) {
	numbers := numbersOf(s)
	if len(numbers) < 2 || len(numbers) > 3 || numbers[0] != 2 || numbers[1] < 3 {
		return Version{}, errors.New("expected a release of NCCL such as 2.21.5 or 2.21, from 2.3 on")
	}
	return Version{s, numbers}, nil
}

func (v Version) String() string { return v.text }

// AtLeast tells that the release is that one or a later one. Of two releases of different precision the shorter one counts.
func (v Version) AtLeast(release string) bool { return v.compare(release) >= 0 }

// After tells that the release is later than that one.
func (v Version) After(release string) bool { return v.compare(release) > 0 }

// In tells that the release is in a span such as "2.14..2.22", both ends included; empty: any is.
func (v Version) In(span string) bool {
	low, high, _ := strings.Cut(span, "..")
	return (low == "" || v.AtLeast(low)) && (high == "" || !v.After(high))
}

func (v Version) compare(release string) int {
	other := numbersOf(release)
	n := min(len(v.numbers), len(other))
	return slices.Compare(v.numbers[:n], other[:n])
}

// numbersOf returns nothing for what is no release.
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
