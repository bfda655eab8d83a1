// SPDX-License-Identifier: Apache-2.0

package dcbnl

import (
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gpufabric_exporter/internal/host/netlink"
)

// recording returns the message in testdata/NAME.hex: a datagram of a little-endian kernel as lab_test.go recorded it,
// in lines of hexadecimal digits; # begins a comment.
func recording(t testing.TB, name string) netlink.Message {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	lines = slices.DeleteFunc(lines, func(s string) bool { return strings.HasPrefix(s, "#") })
	raw, err := hex.DecodeString(strings.Join(lines, ""))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	messages, err := syscall.ParseNetlinkMessage(raw)
	if err != nil || len(messages) != 1 {
		t.Fatalf("%s: %d messages, %v", name, len(messages), err)
	}
	m := messages[0]
	return netlink.Message{
		Header: netlink.Header{Length: m.Header.Len, Type: netlink.HeaderType(m.Header.Type), Flags: netlink.HeaderFlags(m.Header.Flags)},
		Data:   m.Data,
	}
}

// put appends an attribute as the kernel does: a uint8 or uint16, a string with its NUL, or raw bytes.
func put(b []byte, kind int, value any) []byte {
	var data []byte
	switch v := value.(type) {
	case uint8:
		data = []byte{v}
	case uint16:
		data = binary.NativeEndian.AppendUint16(nil, v)
	case string:
		data = append([]byte(v), 0)
	case []byte:
		data = v
	}
	return netlink.Append(b, uint16(kind), data)
}
