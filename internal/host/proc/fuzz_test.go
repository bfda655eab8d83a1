// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"testing"
	"unicode/utf8"
)

func FuzzParseBootTime(f *testing.F) {
	for _, s := range []string{stat, "", "btime 1\n", "btime", "btime 18446744073709551615\n", "\nbtime 253402300800"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, ok := parseBootTime(b); ok && (v.Unix() <= 0 || v.UTC().Year() > 9999) {
			t.Errorf("parseBootTime(%q) = %v", b, v)
		}
	})
}

func FuzzParseRelease(f *testing.F) {
	for _, s := range []string{"6.1.0-56-amd64\n", "", "\n", "a\x00", "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, ok := parseRelease(b); ok && (v == "" || len(v) > 64 || !utf8.ValidString(v)) {
			t.Errorf("parseRelease(%q) = %q", b, v)
		}
	})
}

func FuzzParseRoutes(f *testing.F) {
	for _, s := range []string{"", header, header + v4eno1, header + v4half + v4subnet + v4reject, header + "\n", "Iface\t\n\t\t"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkNames(t, parseRoutes, b) })
}

func FuzzParseRoutes6(f *testing.F) {
	for _, s := range []string{"", v6eno2, v6subnet + v6reject + v6bhole, v6eno2[:140], "\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkNames(t, parseRoutes6, b) })
}

func checkNames(t *testing.T, parse func([]byte) ([]route, bool), b []byte) {
	routes, ok := parse(b)
	if !ok && routes != nil {
		t.Errorf("parser refuses %q and returns %v", b, routes)
	}
	for _, r := range routes {
		if n := r.iface; n == "" || n == "lo" || n == "*" || !utf8.ValidString(n) {
			t.Errorf("parser of %q returns the name %q", b, n)
		}
	}
}
