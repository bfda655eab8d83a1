// SPDX-License-Identifier: Apache-2.0

package signature

import "testing"

func TestWords(t *testing.T) {
	for line, want := range map[string]Word{
		"":                                     0,
		"epoch 7: loss 0.7":                    OfProgress,
		"2026 INFO x: 0 errors":                OfInformation | OfTrouble,
		"x.ZzzError: could not open":           OfError | OfTrouble,
		`  File "x.py", line 7, in f`:          OfStack,
		"UserWarning: zzz":                     OfWarning,
		"Training completed after 7 iteration": OfEnd | OfProgress,
	} {
		if got := Words(line); got != want {
			t.Errorf("%q: %b, expected %b", line, got, want)
		}
	}
	for _, w := range vocabulary {
		for _, text := range w.list {
			if len(text) < keyBytes {
				t.Errorf("%q: expected at least %d bytes", text, keyBytes)
			}
		}
	}
}
