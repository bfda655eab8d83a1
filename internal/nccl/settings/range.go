// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Range is a span of numbers that a variable accepts. A number that stands for the default belongs to it.
type Range struct {
	Min, Max int64 // inclusive; math.MinInt64 and math.MaxInt64 where there is no limit
	Multiple int64 // that a number must be of; 0: any
	Power    bool  // a number must be a power of two
}

func (r Range) has(n int64) bool {
	return n >= r.Min && n <= r.Max && (r.Multiple == 0 || n%r.Multiple == 0) && (!r.Power || n > 0 && n&(n-1) == 0)
}

// Outside says what becomes of a number that none of the ranges has, on one side of the last of them.
type Outside string

// What becomes of numbers.
const (
	OutsideCut Outside = "cut" // only the low bits count: verbs has that many for it, whatever the device
	// verbs passes a byte on, the device has fewer bits: mlx5 cuts (MLX5_SET), rxe refuses
	OutsideDevice Outside = "device"
	// NCCL takes the nearest number, and the greatest for a number that is not a multiple
	OutsideClamp     Outside = "clamp"
	OutsideCap       Outside = "cap"       // NCCL takes the greatest number for what is above, and ignores what is below
	OutsideDefault   Outside = "default"   // NCCL ignores it
	OutsideLate      Outside = "late"      // NCCL from 2.25 on ignores it, and crashes before
	OutsideOn        Outside = "on"        // any number but 0 counts as 1
	OutsideOff       Outside = "off"       // it counts as 0
	OutsideUnlisted  Outside = "unlisted"  // NCCL does not check it, and has no meaning for it
	OutsideUnchecked Outside = "unchecked" // NCCL uses it as it is, and breaks
	OutsideRefused   Outside = "refused"   // NCCL returns an error
)

// Accepts reports whether NCCL and verbs can take the number as it is written. A variable without ranges takes any.
func (v Variable) Accepts(n int64) bool {
	for _, r := range v.Ranges {
		if r.has(n) {
			return true
		}
	}
	return len(v.Ranges) == 0
}

// outside says what becomes of a number that the variable does not accept.
func (v Variable) outside(n int64) Outside {
	if n < v.Ranges[len(v.Ranges)-1].Min {
		return v.Below
	}
	return v.Above
}

// Breaks reports whether a job fails with the number: it is not accepted, and NCCL uses it as it is or
// returns an error.
func (v Variable) Breaks(n int64) bool {
	if v.Accepts(n) {
		return false
	}
	what := v.outside(n)
	return what == OutsideUnchecked || what == OutsideRefused
}

// Flag reports whether the variable is a switch, and the number counts as 1 without being 1.
func (v Variable) Flag(n int64) bool { return !v.Accepts(n) && v.outside(n) == OutsideOn }

// outcome says what becomes of a number that the variable does not accept.
func (v Variable) outcome(n int64) string {
	last := v.Ranges[len(v.Ranges)-1] // those before it are the numbers that stand for the default
	width := bits.Len64(uint64(last.Max))
	low := n & (1<<width - 1)
	switch v.outside(n) {
	case OutsideCut:
		return fmt.Sprintf("only the low %d bits count, %d", width, low)
	case OutsideDevice:
		return fmt.Sprintf("a queue pair has %d bits for it; mlx5 takes %d, other drivers may refuse it, and jobs fail",
			width, low)
	case OutsideClamp:
		if n < last.Min && n%max(last.Multiple, 1) == 0 {
			return fmt.Sprintf("NCCL takes %d", last.Min)
		}
		return fmt.Sprintf("NCCL takes %d", last.Max)
	case OutsideCap:
		if n > last.Max && (!last.Power || n&(n-1) == 0) {
			return fmt.Sprintf("NCCL takes %d", last.Max)
		}
	case OutsideLate:
		return "NCCL from 2.25 on ignores it, older releases crash"
	case OutsideOn:
		return "NCCL takes any number but 0 for 1"
	case OutsideOff:
		return "NCCL takes it for 0"
	case OutsideUnlisted:
		return "NCCL does not check it, and takes it for none of these"
	case OutsideUnchecked:
		return "NCCL does not check it, and jobs fail or hang"
	case OutsideRefused:
		return "NCCL returns an error"
	case OutsideDefault:
	}
	return "NCCL ignores it"
}

// parseOutside reads the column outside: what becomes of the numbers on both sides, or "below,above".
func parseOutside(s string) (below, above Outside) {
	first, second, two := strings.Cut(s, ",")
	if !two {
		second = first
	}
	return Outside(first), Outside(second)
}

// parseRanges reads the column range: spans between blanks, "0..255", "..0", "1..", "64..512/32", "1../pow2".
func parseRanges(s string) ([]Range, error) {
	var list []Range
	for field := range strings.FieldsSeq(s) {
		r := Range{Min: math.MinInt64, Max: math.MaxInt64}
		span, multiple, divided := strings.Cut(field, "/")
		if multiple == "pow2" {
			r.Power, multiple, divided = true, "", false
		}
		low, high, isSpan := strings.Cut(span, "..")
		if !isSpan {
			return nil, fmt.Errorf("range %q: expected min..max", field)
		}
		for _, part := range []struct {
			text string
			to   *int64
			must bool
		}{{low, &r.Min, false}, {high, &r.Max, false}, {multiple, &r.Multiple, divided}} {
			if part.text == "" && !part.must {
				continue
			}
			n, err := strconv.ParseInt(part.text, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("range %q: %w", field, err)
			}
			*part.to = n
		}
		list = append(list, r)
	}
	return list, nil
}
