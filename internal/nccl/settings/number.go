// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"math"
	"strings"
)

// ParseNumber reads a value as NCCL_PARAM does (ncclLoadParam, src/misc/param.cc): strtoll(value, NULL, 0).
//
// White space before the number and a sign are accepted; 0x introduces hexadecimal and a leading 0 octal
// digits; whatever follows the digits is ignored. So "1M" is 1, "010" is 8, "0x" is 0 and "true", which
// has no digits, is 0. ok is false where NCCL uses its default instead: the value is empty or does not fit
// in 64 bits. This is strtoll of C17, which NVIDIA's libraries are built with; a library built against
// glibc 2.38 or newer may also understand 0b.
func ParseNumber(value string) (number int64, ok bool) {
	n := scanNumber(value)
	if value == "" || n.overflow {
		return 0, false
	}
	return n.value, true
}

// scanned is what strtoll makes of a string.
type scanned struct {
	value    int64  // saturated on overflow
	base     uint64 // 8, 10 or 16
	digits   bool   // there is a number at all
	overflow bool
	rest     string // what follows the number: *endptr
}

func scanNumber(s string) scanned {
	t := strings.TrimLeft(s, " \t\n\v\f\r")
	negative := strings.HasPrefix(t, "-")
	if negative || strings.HasPrefix(t, "+") {
		t = t[1:]
	}
	n := scanned{base: 10}
	switch {
	case len(t) > 2 && t[0] == '0' && (t[1] == 'x' || t[1] == 'X') && digitValue(t[2]) < 16:
		n.base, t = 16, t[2:]
	case strings.HasPrefix(t, "0"):
		n.base = 8
	}
	limit := uint64(math.MaxInt64)
	if negative {
		limit++
	}

	var v uint64
	i := 0
	for ; i < len(t) && digitValue(t[i]) < n.base; i++ {
		d := digitValue(t[i])
		if n.overflow = n.overflow || v > (limit-d)/n.base; !n.overflow {
			v = v*n.base + d
		}
	}
	if n.overflow {
		v = limit
	}
	if negative {
		v = -v
	}
	n.value, n.digits, n.rest = int64(v), i > 0, t[i:]
	if !n.digits {
		n.rest = s
	}
	return n
}

// digitValue returns 99 for a character that is not a digit in any base.
func digitValue(c byte) uint64 {
	switch {
	case '0' <= c && c <= '9':
		return uint64(c - '0')
	case 'a' <= c && c <= 'f':
		return uint64(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return uint64(c-'A') + 10
	}
	return 99
}

// Number reads a value by the variable's own parser. ok is false for variables that NCCL reads as text, and
// where that parser falls back to the default.
func (v Variable) Number(value string) (number int64, ok bool) {
	switch v.Parser {
	case ParserNumber:
		return ParseNumber(value)
	case ParserOne:
		// ncclGetLevel (src/graph/paths.cc) stores a strtol in an int and does not look at errno.
		return int64(int32(scanNumber(value).value)), value != ""
	case ParserBoolean:
		switch strings.ToUpper(value) {
		case "1", "T", "TRUE":
			return 1, true
		case "0", "F", "FALSE":
			return 0, true
		}
	}
	return 0, false
}
