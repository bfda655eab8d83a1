// SPDX-License-Identifier: Apache-2.0

package pci

import (
	"encoding/binary"
	"errors"
)

// Redact returns configuration space of the same length that reads as b does here and has nothing else in it. What
// identifies a device, such as the serial number capability and vendors' own registers, is not copied: the
// result is made anew from what is decoded.
func Redact(b []byte) []byte {
	out := make([]byte, len(b))
	if len(b) < headerSize {
		return out // malformed, whatever is in it
	}
	at, err := findCapability(b, capExpress)
	switch {
	case errors.Is(err, errGone):
		out[0], out[1] = 0xff, 0xff
		return out
	case errors.Is(err, errAbsent):
		return out
	}
	out[statusRegister] = hasCapList
	switch {
	case errors.Is(err, errPrivilege):
		return out
	case err != nil || at+expressDevCtl+2 > min(len(b), legacySize): // it is 60 bytes long and cannot be at the end
		out[firstCap] = 4 // inside the header, which no list may be
		return out
	}
	out[firstCap], out[at] = byte(at), capExpress
	copy(out[at+expressDevCtl:], b[at+expressDevCtl:][:2])
	redactExtended(out, b)
	return out
}

// redactExtended makes a list of at most two: one without meaning at the beginning, where a list has to begin, and
// Access Control Services.
func redactExtended(out, b []byte) {
	if len(b) <= legacySize {
		return
	}
	const version, nextShift = 1 << 16, 20
	if len(b) < legacySize+4 {
		return // too short for a list, as it was
	}
	at, err := findExtended(b, extendedACS)
	switch {
	case errors.Is(err, errAbsent):
	case errors.Is(err, errGone):
		binary.LittleEndian.PutUint32(out[legacySize:], 0xffffffff)
	case err != nil:
		binary.LittleEndian.PutUint32(out[legacySize:], headerSize<<nextShift) // outside of extended configuration space
	default:
		binary.LittleEndian.PutUint32(out[legacySize:], uint32(at)<<nextShift)
		binary.LittleEndian.PutUint32(out[at:], extendedACS|version)
		if at+acsControl+2 <= len(b) {
			copy(out[at+acsControl:], b[at+acsControl:][:2])
		}
	}
}
