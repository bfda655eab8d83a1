// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a program writes behind bars of progress, which have no end of line, is read, however long they are.
func TestBehindBars(t *testing.T) {
	const bar = " 1%|#  | 7/777 [01:00<09:00,  4.00s/it]"
	const oom, killed = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.", "FAILED certain host_out_of_memory"
	bars := func(n int) string { return strings.Repeat("\r"+bar, n) }
	const unread = "UNKNOWN what was read shows no failure, and the ends of 1 line longer than 4096 bytes were not read"
	for name, tt := range map[string]struct{ line, want string }{
		"few":               {bars(7) + oom, killed},
		"more than a line":  {bars(150) + oom, killed},
		"more than a piece": {bars(5000) + oom, killed},
		"then more bars":    {bars(5000) + "\r" + oom + bars(5000), killed},
		"killed":            {bars(7) + "Killed", "FAILED possible process_killed"},
		"no failure":        {bars(5000), "OK"},
		"without bars":      {strings.Repeat(".", 5000) + oom, unread},
		"a long piece":      {strings.Repeat(".", 70000) + oom, unread},
	} {
		r := read(t, ranks(2, "gpu1", "gpu2")+"zzz\n"+tt.line+"\n")
		if got := shows(r); !strings.HasPrefix(got, tt.want) || r.Lines != 4 {
			t.Errorf("%s: %d lines, %s, expected %s", name, r.Lines, got, tt.want)
		}
		if f := r.First(); f != nil && (f.Line != 4 || len(f.Text) > 200) {
			t.Errorf("%s: line %d, %s", name, f.Line, f.Text)
		}
	}
}

// A log of a folder that is not read may have the failure; a picture has none.
func TestNotRead(t *testing.T) {
	const binary = "\x7fELF\x01\x02\x03\x04\x05\x06"
	utf16 := strings.Repeat("z\x00", 77)
	for name, tt := range map[string]struct{ file, content, want string }{
		"compressed":             {"zzz.gz", "\x1f\x8b\x08\x00", "UNKNOWN what was read shows no failure, and these were not read: zzz.gz (gzip)"},
		"UTF-16":                 {"zzz", utf16, "UNKNOWN what was read shows no failure, and these were not read: zzz (UTF-16)"},
		"UTF-16, the other":      {"zzz", "\x00" + utf16, "UNKNOWN what was read shows no failure, and these were not read: zzz (UTF-16)"},
		"with the name of a log": {"zzz.log", binary, "UNKNOWN what was read shows no failure, and these were not read: zzz.log (binary)"},
		"a picture":              {"zzz.png", binary, "OK"},
		"zeros":                  {"zzz.log", strings.Repeat("\x00", 777), "OK"},
	} {
		dir := t.TempDir()
		for file, content := range map[string]string{"a.log": ranks(2, "gpu1", "gpu2") + "zzz\n", tt.file: tt.content} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r, err := ReadFiles(t.Context(), []string{dir}, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := shows(r); got != tt.want {
			t.Errorf("%s: %s, expected %s", name, got, tt.want)
		}
		if list := r.NotRead(); (len(list) == 1) != (name != "zeros") {
			t.Errorf("%s: not read: %q", name, list)
		}
		if r, err = ReadFiles(t.Context(), []string{dir}, nil, true); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(strings.Join(r.NotRead(), " ")+r.Undecided(), "zzz") {
			t.Errorf("%s: the name is shown", name)
		}
	}
}
