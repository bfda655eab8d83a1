// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"unicode/utf8"
)

// The layout of struct nlattr: a length that counts the header, a type with two flags, the payload, and padding.
const (
	headerSize = 4
	alignment  = 4
	typeMask   = 1<<14 - 1 // without NLA_F_NESTED, which the kernel sets for some of its nests and not for others
)

// decoder reads the attributes of one message. Its first error stays; what is read after it is of no value.
type decoder struct{ err error }

func (d *decoder) fail(a attr, format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%v: %s: %w", a, fmt.Sprintf(format, args...), ErrMalformed)
	}
}

// attributes iterates over the attributes of one level, known or not, with their payloads, which share the memory of
// b. It fails when one of those that are required is not among them.
func (d *decoder) attributes(b []byte, required ...attr) iter.Seq2[attr, []byte] {
	return func(yield func(attr, []byte) bool) {
		var seen uint64 // a bit for each of required
		for last := attr(0); len(b) > 0 && d.err == nil; {
			if len(b) < headerSize {
				d.fail(last, "followed by %d bytes, expected an attribute", len(b))
				return
			}
			size := int(binary.NativeEndian.Uint16(b))
			last = attr(binary.NativeEndian.Uint16(b[2:]) & typeMask)
			if size < headerSize || size > len(b) {
				d.fail(last, "a length of %d, expected %d to %d", size, headerSize, len(b))
				return
			}
			if i := slices.Index(required, last); i >= 0 {
				seen |= 1 << i
			}
			if !yield(last, b[headerSize:size]) {
				return
			}
			b = b[min((size+alignment-1)&^(alignment-1), len(b)):]
		}
		for i, a := range required {
			if seen&(1<<i) == 0 {
				d.fail(a, "missing")
			}
		}
	}
}

func (d *decoder) u8(a attr, b []byte) uint8 {
	if !d.hasSize(a, b, 1) {
		return 0
	}
	return b[0]
}

func (d *decoder) u32(a attr, b []byte) uint32 {
	if !d.hasSize(a, b, 4) {
		return 0
	}
	return binary.NativeEndian.Uint32(b)
}

func (d *decoder) u64(a attr, b []byte) uint64 {
	if !d.hasSize(a, b, 8) {
		return 0
	}
	return binary.NativeEndian.Uint64(b)
}

// flag reads a u8 that is 0 or 1.
func (d *decoder) flag(a attr, b []byte) bool {
	v := d.u8(a, b)
	if v > 1 {
		d.fail(a, "%d, expected 0 or 1", v)
	}
	return v == 1
}

func (d *decoder) hasSize(a attr, b []byte, size int) bool {
	if len(b) != size {
		d.fail(a, "%d bytes, expected %d", len(b), size)
	}
	return len(b) == size
}

// text reads a string that is not empty and ends with its only NUL (nla_put_string).
func (d *decoder) text(a attr, b []byte) string {
	s, terminated := bytes.CutSuffix(b, []byte{0})
	switch {
	case !terminated:
		d.fail(a, "%q, expected a NUL at the end", b)
	case len(s) == 0:
		d.fail(a, "empty, expected a string")
	case bytes.IndexByte(s, 0) >= 0:
		d.fail(a, "%q, expected no NUL before the end", b)
	case !utf8.Valid(s):
		d.fail(a, "%q, expected UTF-8", b)
	default:
		return string(s)
	}
	return ""
}
