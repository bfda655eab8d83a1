// SPDX-License-Identifier: Apache-2.0

package rdmanl

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

// recording returns the messages of testdata/NAME.hex: datagrams of a little-endian kernel as lab_test.go recorded
// them, in lines of hexadecimal digits; an empty line ends a datagram, # begins a comment.
func recording(t testing.TB, name string) []netlink.Message {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	var messages []netlink.Message
	for datagram := range strings.SplitSeq(string(b), "\n\n") {
		lines := strings.Split(strings.TrimSpace(datagram), "\n")
		lines = slices.DeleteFunc(lines, func(s string) bool { return strings.HasPrefix(s, "#") })
		raw, err := hex.DecodeString(strings.Join(lines, ""))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		split, err := syscall.ParseNetlinkMessage(raw)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, m := range split {
			messages = append(messages, netlink.Message{
				Header: netlink.Header{Length: m.Header.Len, Type: netlink.HeaderType(m.Header.Type), Flags: netlink.HeaderFlags(m.Header.Flags)},
				Data:   m.Data,
			})
		}
	}
	return messages
}

// payload returns the attributes of the first message of a recording.
func payload(t testing.TB, name string) []byte {
	t.Helper()
	return recording(t, name)[0].Data
}

// put appends an attribute as the kernel does: a uint8, uint32 or uint64, a string with its NUL, or raw bytes.
func put(b []byte, kind uint16, value any) []byte {
	var data []byte
	switch v := value.(type) {
	case uint8:
		data = []byte{v}
	case uint32:
		data = binary.NativeEndian.AppendUint32(nil, v)
	case uint64:
		data = binary.NativeEndian.AppendUint64(nil, v)
	case string:
		data = append([]byte(v), 0)
	case []byte:
		data = v
	}
	return netlink.Append(b, kind, data)
}
