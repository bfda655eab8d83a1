// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"slices"
	"strings"
	"testing"
)

// FuzzMatch: whatever a line is, the row that is found is the first that fits it.
func FuzzMatch(f *testing.F) {
	for _, line := range []string{
		"NET/IB : Got completion from peer 10.0.0.2<4> with error 12, opcode 0", "Got completion from peer x status=IBV_WC(12)", "NVRM: Xid (PCI:0000:3b:00): 79, pid=1",
		"SXid (PCI:0000:05:00.0): 20034, Fatal", "Watchdog caught collective operation timeout", " with error 999999999", "status=12(", "",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		for of, rows := range map[Source][]Signature{NCCL: warnings(), PyTorch: pytorch, Program: program, Gloo: gloo, Kernel: kernel} {
			var want *Signature
			code := codeOf(line)
			for i := range rows {
				s := &rows[i]
				has := slices.ContainsFunc(s.Forms, func(f Form) bool { return strings.Contains(line, f.Text) })
				if has && len(s.Files) == 0 && (len(s.Codes) == 0 || slices.Contains(s.Codes, code)) {
					want = s
					break
				}
			}
			got, _ := matchers()[of].match("", line)
			if (got == nil) != (want == nil) || got != nil && got.ID != want.ID {
				t.Errorf("%q: %+v, expected %+v", line, got, want)
			}
		}
		if s := MatchInfo(line); s != nil && s.Kind != Note && !s.Info {
			t.Errorf("%+v", s)
		}
		if peer := Peer(line); !strings.Contains(line, peer) {
			t.Errorf("%q", peer)
		}
	})
}

// Lines that are shorter than the least of this say nothing: readers pass over them.
func TestShortest(t *testing.T) {
	const shortest = len("NCCL ")
	for _, s := range All() {
		for _, f := range s.Forms {
			if len(f.Text) < shortest {
				t.Errorf("%s: %q", s.ID, f.Text)
			}
		}
	}
}
