// SPDX-License-Identifier: Apache-2.0

package openat

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// Entry is a name in a directory. It is valid until the next one.
type Entry struct {
	Inode uint64 // distinguishes it from any other that has been there
	Next  int64  // where the directory goes on behind it
	Kind  byte   // DT_*
	Name  []byte
}

// Entries calls f with each entry of an open directory, in no order, until it returns an error, and returns
// how often the kernel was asked. That is done here (getdents64(2)), because package os would do so with
// twice as many system calls, and keep the numbers to itself. So many entries are asked for at once as fit
// into the buffer.
func Entries(dir int, buffer []byte, f func(Entry) error) (calls int, err error) {
	for {
		calls++
		n, err := Retry(func() (int, error) { return unix.Getdents(dir, buffer) })
		if err != nil || n <= 0 {
			return calls, err
		}
		if err := ParseEntries(buffer[:n], f); err != nil {
			return calls, err
		}
	}
}

// ParseEntries does so for some of struct linux_dirent64, without the directory itself and the one above.
func ParseEntries(b []byte, f func(Entry) error) error {
	const atNext, atLength, atKind, atName = 8, 16, 18, 19
	for len(b) > 0 {
		size := 0
		if len(b) > atName {
			size = int(binary.NativeEndian.Uint16(b[atLength:]))
		}
		if size <= atName || size > len(b) {
			return fabric.Because(fabric.ReasonMalformed, "directory entry of an impossible length")
		}
		name := b[atName:size]
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
		e := Entry{binary.NativeEndian.Uint64(b), int64(binary.NativeEndian.Uint64(b[atNext:])), b[atKind], name}
		if b = b[size:]; string(name) == "." || string(name) == ".." {
			continue
		}
		if err := f(e); err != nil {
			return err
		}
	}
	return nil
}
