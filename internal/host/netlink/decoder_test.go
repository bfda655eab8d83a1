// SPDX-License-Identifier: Apache-2.0

package netlink

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	mdlayher "github.com/mdlayher/netlink"
)

type attribute struct {
	kind    uint16
	payload []byte
}

// FuzzDecoder: whatever is accepted here, the library's decoder accepts and reads in the same way. It also accepts an
// attribute that is shorter than its header, which is malformed here.
func FuzzDecoder(f *testing.F) {
	recordings, err := filepath.Glob("../*/testdata/*.hex")
	if err != nil || len(recordings) == 0 {
		f.Fatal(recordings, err)
	}
	for _, name := range recordings {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		lines := slices.DeleteFunc(strings.Fields(string(text)), func(s string) bool { return len(s)%2 != 0 })
		for _, line := range lines {
			if b, err := hex.DecodeString(line); err == nil {
				f.Add(b)
			}
		}
	}
	f.Add(Append(AppendText(nil, 2, "eth0"), 5|Nested, AppendUint32(nil, 3, 1<<31)))
	f.Fuzz(func(t *testing.T, b []byte) {
		var got, want []attribute
		d := Decode(b, nil)
		for d.Next() {
			got = append(got, attribute{d.Type(), d.Bytes()})
		}
		if d.Err() != nil {
			if !errors.Is(d.Err(), ErrMalformed) || !strings.HasPrefix(d.Err().Error(), "attribute ") {
				t.Error(d.Err())
			}
			return
		}
		library, err := mdlayher.NewAttributeDecoder(b)
		if err != nil {
			t.Fatalf("the library refuses what is read as %v: %v", got, err)
		}
		for library.Next() {
			want = append(want, attribute{library.Type(), library.Bytes()})
		}
		if err := library.Err(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v, the library has %v, %v", got, want, err)
		}
	})
}

// TestDecoderErrors: an error names the attribute with the nests that it is in, what was read and what was expected,
// and stays, in the nest and around it.
func TestDecoderErrors(t *testing.T) {
	names := func(kind uint16) string { return []string{1: "NUMBER", 2: "NEST"}[min(kind, 2)] }
	inner := Append(nil, 1, []byte{1, 2, 3})
	d := Decode(AppendUint32(Append(nil, 2|Nested, Append(nil, 2, inner)), 1, 7), names)
	attributes := 0
	for d.Next() {
		attributes++
		nest := d.Nest(names)
		for nest.Next() {
			deep := nest.Nest(nil)
			for deep.Next() {
				if v := deep.Uint32(); v != 0 {
					t.Errorf("a number of three bytes is %d", v)
				}
			}
		}
	}
	d.Require(1)
	want := "NEST: NEST: attribute 1: 3 bytes, expected 4: not what the kernel's ABI promises"
	if err := d.Err(); !errors.Is(err, ErrMalformed) || err.Error() != want || attributes != 1 {
		t.Errorf("%v after %d attributes, want %s", err, attributes, want)
	}
	d = Decode(AppendUint32(nil, 1, 7), names)
	for d.Next() {
		if d.Uint32() != 7 {
			t.Error("7 is another number")
		}
	}
	d.Require(1, 127)
	if err := d.Err(); err == nil || !strings.HasPrefix(err.Error(), "NEST: missing: ") {
		t.Error(err)
	}
}

// TestRules: what has no rule goes, a nest is rewritten by rules of its own, and what is malformed leaves nothing.
func TestRules(t *testing.T) {
	upper := Rename(func(s string) (string, error) {
		if s == "gone" {
			return "", ErrLeaveOut
		}
		return strings.ToUpper(s), nil
	})
	rules := Rules{1: Keep, 2: upper, 3: Rules{2: upper}.Rewrite}
	nest := func(name string) []byte { return Append(nil, 3|Nested, AppendText(AppendUint32(nil, 9, 1), 2, name)) }
	e := Exchange{NetDev: "eth0", Messages: []Bytes{
		AppendUint32(AppendText(nil, 9, "secret"), 1, 5), nest("name"), nest("gone"), []byte("secret"), Append(nil, 2, []byte("secret")),
	}}
	got := e.Rewrite(strings.ToUpper, rules.Rewrite)
	want := []Bytes{AppendUint32(nil, 1, 5), Append(nil, 3, AppendText(nil, 2, "NAME")), {0}, {0}}
	if got.NetDev != "ETH0" || !reflect.DeepEqual(got.Messages, want) {
		t.Errorf("%+v, want %v", got, want)
	}
	for _, m := range got.Messages {
		if bytes.Contains(m, []byte("secret")) {
			t.Errorf("%q", m)
		}
	}
}
