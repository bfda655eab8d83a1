// SPDX-License-Identifier: Apache-2.0

package dcbnl

import (
	"encoding/binary"
	"fmt"
	"iter"
)

// Attributes by level, with their numbers in linux/dcbnl.h.
const (
	// enum dcbnl_attrs
	attrIfName = 1
	attrIEEE   = 13
	attrDCBX   = 14
	attrCEE    = 16
	// enum ieee_attrs, in attrIEEE
	ieeeETS      = 1
	ieeePFC      = 2
	ieeeAppTable = 3
	ieeeBuffer   = 10
	// enum ieee_attrs_app, in ieeeAppTable
	ieeeApp = 1
	dcbApp  = 2
	// enum cee_attrs, in attrCEE
	ceePFC      = 6
	ceeAppTable = 7
	// enum dcbnl_attrs again, in ceeAppTable
	attrApp = 12
	// enum dcbnl_app_attrs, in attrApp
	appIDType   = 1
	appID       = 2
	appPriority = 3
	// enum dcbnl_pfc_up_attrs, in ceePFC: from here on one for each priority
	pfcPriority0 = 1

	maxAttribute = attrCEE
)

// The layout of struct nlattr: a length that counts the header, a type with two flags, the payload, and padding.
const (
	headerSize = 4
	alignment  = 4
	typeMask   = 1<<14 - 1 // without NLA_F_NESTED, which the kernel sets for some of its nests and not for others
)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), ErrMalformed)
}

// walk iterates over the attributes of one level with their payloads, which share the memory of b and are not nil.
// It ends with an error where there should be an attribute and is none.
func walk(b []byte) iter.Seq2[attribute, error] {
	return func(yield func(attribute, error) bool) {
		for last := 0; len(b) > 0; {
			if len(b) < headerSize {
				yield(attribute{}, malformed("attribute %d followed by %d bytes, expected another attribute or none", last, len(b)))
				return
			}
			size := int(binary.NativeEndian.Uint16(b))
			last = int(binary.NativeEndian.Uint16(b[2:]) & typeMask)
			if size < headerSize || size > len(b) {
				yield(attribute{}, malformed("attribute %d with a length of %d, expected %d to %d", last, size, headerSize, len(b)))
				return
			}
			if !yield(attribute{last, b[headerSize:size]}, nil) {
				return
			}
			b = b[min((size+alignment-1)&^(alignment-1), len(b)):]
		}
	}
}

type attribute struct {
	kind int
	data []byte
}

// attributes are the payloads of one level by attribute; nil without the attribute.
type attributes [maxAttribute + 1][]byte

// parse reads one level as the kernel itself does (nla_parse): an attribute that is not known is skipped, and of one
// that is repeated the last counts.
func parse(b []byte) (attributes, error) {
	var all attributes
	for a, err := range walk(b) {
		if err != nil {
			return attributes{}, err
		}
		if a.kind < len(all) {
			all[a.kind] = a.data
		}
	}
	return all, nil
}

// u8 reads an attribute of one byte.
func u8(b []byte) (uint8, error) {
	if len(b) != 1 {
		return 0, malformed("%d bytes, expected 1", len(b))
	}
	return b[0], nil
}

// atLeast checks the size of a struct. Kernels may append to one, and never took away.
func atLeast(b []byte, size int) error {
	if len(b) < size {
		return malformed("%d bytes, expected %d or more", len(b), size)
	}
	return nil
}
