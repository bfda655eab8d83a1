// SPDX-License-Identifier: Apache-2.0

package program

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every message that docs/INSTALL.md quotes about troubleshooting is one that the program has, and that a test expects.
func TestTroubleshootingQuotesMessages(t *testing.T) {
	var source, tests strings.Builder
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && strings.HasPrefix(d.Name(), ".git") || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.HasSuffix(path, "_test.go") {
			tests.Write(text)
		} else {
			source.Write(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(read(t, "../../docs/INSTALL.md"), "\n## Troubleshooting\n")
	section, _, _ = strings.Cut(section, "\n## ")
	// Names in messages are filled in, and the errors of the kernel are those of Go's table.
	filled := regexp.MustCompile(`…|^nvmlInit answers |^address already in use: |^permission denied: | ?--[a-z.-]+: |\(privilege\)|\(no_permission\)|/class/infiniband`)
	n := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(line, " | ")
		if len(cells) < 3 {
			continue
		}
		for _, cell := range cells[:2] {
			for i, message := range strings.Split(cell, "`") {
				if i%2 == 0 || !strings.Contains(message, " ") {
					continue
				}
				n++
				expected := strings.Contains(tests.String(), message)
				for _, part := range filled.Split(message, -1) {
					part = strings.TrimSpace(part)
					if len(part) > 8 && !strings.Contains(source.String(), part) {
						t.Errorf("no source has %q, of %q", part, message)
					}
					expected = expected || len(part) > 8 && strings.Contains(tests.String(), part)
				}
				if !expected {
					t.Errorf("no test expects %q", message)
				}
			}
		}
	}
	if n < 15 {
		t.Errorf("%d messages are found", n)
	}
}
