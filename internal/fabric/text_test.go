// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"": "", " a b ": "a b", "a\nb\x00c": "a b c", "\x1b[31m\u202e": "[31m", "\xff\xfe": "?", "שלום": "שלום", "\u2028": "",
		strings.Repeat("é", 20): strings.Repeat("é", 8), strings.Repeat("x", 20): strings.Repeat("x", 17),
	} {
		if got := Printable(in, 17); got != want {
			t.Errorf("%q: %q, expected %q", in, got, want)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("mlx5_0", 64)
	f.Add("\xff\u202e\n é", 3)
	f.Fuzz(func(t *testing.T, s string, most int) {
		most = min(max(most, 0), 1000)
		got := Printable(s, most)
		if len(got) > most || !utf8.ValidString(got) || !IsText(got) {
			t.Errorf("%q of %d bytes at most", got, most)
		}
	})
}

func TestIsText(t *testing.T) {
	for s, want := range map[string]bool{"": true, "mlx5_0 é": true, "a\x00": false, "a\n": false, "\u0085": false, "\xff": false} {
		if IsText(s) != want {
			t.Errorf("%q: expected %t", s, want)
		}
	}
}
