// SPDX-License-Identifier: Apache-2.0

package netlink

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// The layout of struct nlattr: a length that counts the header, a type with two flags, the payload, and padding.
const (
	attributeHeader = 4
	alignment       = 4
	typeMask        = 1<<14 - 1 // without NLA_F_NESTED, which the kernel sets for some of its nests and not for others

	// Nested is the flag of an attribute that holds others, as some requests must have it.
	Nested = 1 << 15
)

// Names names the attributes of one level, for errors. Those that it has no name for are named by their number.
type Names func(kind uint16) string

// Decoder reads the attributes of one level of a message, known or not, one after the other:
//
//	d := netlink.Decode(data, names)
//	for d.Next() {
//		switch d.Type() {
//		case attrIndex:
//			v.Index = d.Uint32()
//		}
//	}
//	d.Require(attrIndex)
//	return v, d.Err()
//
// Its first error stays, and names the attribute, what was read and what was expected; what is read after it is of no
// value.
type Decoder struct {
	names  Names
	parent *Decoder // of a nest
	rest   []byte   // the attributes that come next
	data   []byte   // the payload of this one
	kind   uint16
	seen   [2]uint64 // a bit for each type below 128
	err    error
}

// Decode returns a Decoder of the attributes in b.
func Decode(b []byte, names Names) Decoder { return Decoder{names: names, rest: b} }

// Next goes to the next attribute. It returns false at the end and after an error.
func (d *Decoder) Next() bool {
	if len(d.rest) < attributeHeader || d.err != nil {
		return d.end()
	}
	size := int(binary.NativeEndian.Uint16(d.rest))
	d.kind = binary.NativeEndian.Uint16(d.rest[2:]) & typeMask
	if size < attributeHeader || size > len(d.rest) {
		d.Fail("a length of %d, expected %d to %d", size, attributeHeader, len(d.rest))
		return false
	}
	if d.kind < 128 {
		d.seen[d.kind/64] |= 1 << (d.kind % 64)
	}
	d.data = d.rest[attributeHeader:size]
	if size = (size + alignment - 1) &^ (alignment - 1); size < len(d.rest) {
		d.rest = d.rest[size:]
	} else {
		d.rest = nil
	}
	return true
}

// end is apart from Next, which is to be fast.
func (d *Decoder) end() bool {
	if len(d.rest) > 0 {
		d.Fail("followed by %d bytes, expected another attribute or none", len(d.rest))
	}
	return false
}

// Type returns the type of the attribute, without flags.
func (d *Decoder) Type() uint16 { return d.kind }

// Bytes returns the payload of the attribute, which is not nil. It shares the memory of the message.
func (d *Decoder) Bytes() []byte { return d.data }

// Nest returns a Decoder of the attributes in this one. Its error is one of d, too.
func (d *Decoder) Nest(names Names) Decoder {
	return Decoder{names: names, parent: d, rest: d.data, err: d.err}
}

// Require fails when one of these attributes, of types below 128, was not among those that were read.
func (d *Decoder) Require(kinds ...uint16) {
	for _, kind := range kinds {
		if d.seen[kind/64]&(1<<(kind%64)) == 0 {
			d.kind = kind
			d.Fail("missing")
		}
	}
}

// Err returns the first error.
func (d *Decoder) Err() error { return d.err }

// Fail says what is wrong with the attribute. Only the first call counts.
func (d *Decoder) Fail(format string, args ...any) {
	if d.err != nil {
		return
	}
	err := Malformed(format, args...)
	for ; d != nil; d = d.parent {
		err = fmt.Errorf("%s: %w", d.name(), err)
		d.err = err
	}
}

func (d *Decoder) name() string {
	if d.names != nil {
		if name := d.names(d.kind); name != "" {
			return name
		}
	}
	return fmt.Sprintf("attribute %d", d.kind)
}

// Uint8 returns the payload as a number, as do the following.
func (d *Decoder) Uint8() uint8 {
	if len(d.data) != 1 {
		return uint8(d.odd(1))
	}
	return d.data[0]
}

// Uint16 returns the payload as a number.
func (d *Decoder) Uint16() uint16 {
	if len(d.data) != 2 {
		return uint16(d.odd(2))
	}
	return binary.NativeEndian.Uint16(d.data)
}

// Uint32 returns the payload as a number.
func (d *Decoder) Uint32() uint32 {
	if len(d.data) != 4 {
		return uint32(d.odd(4))
	}
	return binary.NativeEndian.Uint32(d.data)
}

// Uint64 returns the payload as a number.
func (d *Decoder) Uint64() uint64 {
	if len(d.data) != 8 {
		return uint64(d.odd(8))
	}
	return binary.NativeEndian.Uint64(d.data)
}

func (d *Decoder) odd(size int) int {
	d.Fail("%d bytes, expected %d", len(d.data), size)
	return 0
}

// Bool returns a uint8 that is 0 or 1.
func (d *Decoder) Bool() bool {
	v := d.Uint8()
	if v > 1 {
		d.Fail("%d, expected 0 or 1", v)
	}
	return v == 1
}

// Text returns a string that is not empty and ends with its only NUL (nla_put_string).
func (d *Decoder) Text() string {
	// Errors have copies of the payload: a Decoder of which a part could be kept would not stay on the stack.
	s, terminated := bytes.CutSuffix(d.data, []byte{0})
	switch {
	case !terminated:
		d.Fail("%q, expected a NUL at the end", string(d.data))
	case len(s) == 0:
		d.Fail("empty, expected a string")
	case bytes.IndexByte(s, 0) >= 0:
		d.Fail("%q, expected no NUL before the end", string(d.data))
	case !utf8.Valid(s):
		d.Fail("%q, expected UTF-8", string(d.data))
	default:
		return string(s)
	}
	return ""
}

// Append appends an attribute as the kernel lays it out (nla_put).
func Append(b []byte, kind uint16, payload []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(attributeHeader+len(payload)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, payload...)
	return append(b, make([]byte, -len(payload)&(alignment-1))...)
}

// AppendText appends a string with its NUL.
func AppendText(b []byte, kind uint16, s string) []byte { return Append(b, kind, append([]byte(s), 0)) }

// AppendUint32 appends a number.
func AppendUint32(b []byte, kind uint16, v uint32) []byte {
	return Append(b, kind, binary.NativeEndian.AppendUint32(nil, v))
}
