// SPDX-License-Identifier: Apache-2.0

package exposition

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// dialect is a text format that is written here.
type dialect int

const (
	text        dialect = iota // https://prometheus.io/docs/instrumenting/exposition_formats/
	openMetrics                // https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md
	foreign                    // none of them
)

// append appends the family with its series. Its names must be plain.
func (d dialect) append(b []byte, f *Family) []byte {
	w := f.write()
	b = append(b, w.comments[d]...)
	for i := range f.Series {
		s := &f.Series[i]
		for k, at := range w.order {
			if at == w.optional && s.Labels[at] == "" {
				continue // what comes before the next value ends the one before it
			}
			b = append(b, w.before[k]...)
			b = appendEscaped(b, s.Labels[at], true)
		}
		if len(w.order) > 0 {
			b = append(b, `"} `...)
		} else {
			b = append(append(b, f.Name...), ' ')
		}
		b = d.appendValue(b, s.Value)
		b = append(b, '\n')
	}
	return b
}

// comments returns the comments that describe a family.
func (d dialect) comments(h *Head) []byte {
	name, kind := h.Name, " gauge\n"
	if h.Counter {
		kind = " counter\n"
	}
	if h.Counter && d == openMetrics {
		var total bool
		if name, total = strings.CutSuffix(name, "_total"); !total {
			kind = " unknown\n"
		}
	}
	b := append([]byte("# HELP "), name...)
	b = append(b, ' ')
	b = appendEscaped(b, h.Help, d == openMetrics)
	b = append(b, "\n# TYPE "...)
	b = append(b, name...)
	b = append(b, kind...)
	if d == openMetrics && h.Unit != "" {
		b = append(b, "# UNIT "...)
		b = append(b, name...)
		b = append(b, ' ')
		b = appendEscaped(b, h.Unit, true)
		b = append(b, '\n')
	}
	return b
}

func appendEscaped(b []byte, s string, quoted bool) []byte {
	done := 0
	for i := range len(s) {
		var escaped string
		switch c := s[i]; {
		case c == '\\':
			escaped = `\\`
		case c == '\n':
			escaped = `\n`
		case c == '"' && quoted:
			escaped = `\"`
		default:
			continue
		}
		b = append(b, s[done:i]...)
		b = append(b, escaped...)
		done = i + 1
	}
	return append(b, s[done:]...)
}

// appendValue appends a number; those of OpenMetrics have a point or an exponent.
func (d dialect) appendValue(b []byte, v float64) []byte {
	from := len(b)
	switch whole := int64(v); {
	case float64(whole) != v || whole < 0 || whole >= 1<<53:
		b = strconv.AppendFloat(b, v, 'g', -1, 64)
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return b
		}
	default: // nearly all of them; -0 is 0
		b = appendWhole(b, whole)
	}
	if d == openMetrics && bytes.IndexByte(b[from:], '.') < 0 && bytes.IndexByte(b[from:], 'e') < 0 {
		b = append(b, ".0"...)
	}
	return b
}

// appendWhole writes what AppendFloat writes of a whole number, at a third of its price: below 2^53 the digits of a
// number are the fewest that distinguish it from all others.
func appendWhole(b []byte, n int64) []byte {
	from := len(b)
	b = strconv.AppendInt(b, n, 10)
	if n < 1e6 {
		return b
	}
	exponent := len(b) - from - 1
	b = bytes.TrimRight(b, "0")
	if digits := len(b) - from; digits > 1 {
		b = append(b, 0)
		copy(b[from+2:], b[from+1:])
		b[from+1] = '.'
	}
	return append(b, 'e', '+', byte('0'+exponent/10), byte('0'+exponent%10))
}
