// SPDX-License-Identifier: Apache-2.0

package pci

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// withSerial is space with a serial number where one looks for it, and everywhere else where nothing is decoded.
func withSerial() []byte {
	b := space(0x5936, 0x1d)
	for i := range b[:0xff0] {
		if b[i] == 0 && i > headerSize {
			b[i] = 0x5e
		}
	}
	copy(b[0x40:], []byte{0x05, 0x60})
	copy(b[0x60:], []byte{capExpress, 0})
	binary.LittleEndian.PutUint32(b[0x100:], 0x200<<20|1<<16|0x03) // device serial number
	copy(b[0x104:], "\xb8\x59\x9f\xff\xfe\x12\x34\x56")
	binary.LittleEndian.PutUint32(b[0x200:], 0x150<<20|1<<16|0x19)
	binary.LittleEndian.PutUint32(b[0x150:], 1<<16|extendedACS)
	return b
}

func TestRedact(t *testing.T) {
	b := withSerial()
	got := Redact(b)
	if is, was := parseConfig(got, "", now), parseConfig(b, "", now); is != was || !is.ACS.Value.Redirects() {
		t.Errorf("reads as %+v, was %+v", is, was)
	}
	want := make([]byte, 4096)
	want[statusRegister], want[firstCap] = hasCapList, 0x60
	copy(want[0x60:], []byte{capExpress})
	copy(want[0x68:], b[0x68:0x6a])
	binary.LittleEndian.PutUint32(want[0x100:], 0x150<<20)
	binary.LittleEndian.PutUint32(want[0x150:], 1<<16|extendedACS)
	copy(want[0x156:], b[0x156:0x158])
	if !bytes.Equal(got, want) {
		t.Errorf("has something else in it: %x", got)
	}
}

// The redacted form of any configuration space is read as the original is, and keeps no byte of it except the
// two registers.
func FuzzRedact(f *testing.F) {
	for _, n := range []int{0, 63, 64, 255, 256, 257, 260, 0x153, 0x156, 4096} {
		f.Add(withSerial()[:n])
		f.Add(space(0, 0x5d)[:n])
		f.Add(bytes.Repeat([]byte{0xff}, n))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > pageSize {
			return
		}
		if at, err := findCapability(b, capExpress); err == nil && at+expressDevCtl+2 > legacySize {
			return // no such device
		}
		out := Redact(b)
		if len(out) != len(b) {
			t.Fatalf("%d bytes of %d", len(out), len(b))
		}
		if is, was := parseConfig(out, "", now), parseConfig(b, "", now); is != was {
			t.Errorf("reads as %+v, was %+v", is, was)
		}
		used := 0
		for _, v := range out {
			if v != 0 {
				used++
			}
		}
		if used > 14 { // status, pointer, capability, control; two headers, control
			t.Errorf("%d bytes are used: %x", used, out)
		}
	})
}
