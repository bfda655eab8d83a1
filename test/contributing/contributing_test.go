// SPDX-License-Identifier: Apache-2.0

//go:build contributing

package contributing

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// restore makes dir a copy of what git has of this tree, with what is not committed. Times of files are kept, and a
// page is followed in one folder, so that Go's cache has the tests that a step does not affect.
func restore(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(root, name))
		if err != nil || !info.Mode().IsRegular() {
			continue // deleted, or a link
		}
		if err := copyFile(dir, name); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, name), time.Time{}, info.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
}

// run runs a command line in a tree.
func run(t *testing.T, dir, line string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "sh", "-c", line)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false -vet=off -trimpath") // the cache is that of every copy
	out, err := c.CombinedOutput()
	return string(out), err
}

// runTests runs the commands of a page one after the other, until one says enough.
func (p *page) runTests(t *testing.T, dir string, enough func(out string) bool) (out string, failed bool) {
	t.Helper()
	for _, line := range p.tests {
		text, err := run(t, dir, line)
		out, failed = out+text, failed || err != nil
		if err != nil && enough(out) {
			break
		}
	}
	return out, failed
}

// TestPages follows each page, and then leaves out each of its steps: the tests that the page prints name the step.
func TestPages(t *testing.T) {
	for _, p := range pages(t) {
		t.Run(p.title, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "tree")
			restore(t, dir)
			made := 0
			for _, s := range p.steps {
				if s.command == "" {
					made++
					if err := s.apply(dir); err != nil {
						t.Fatal(err)
					}
					continue
				}
				names := func(out string) bool { return strings.Contains(out, s.command) }
				if out, failed := p.runTests(t, dir, names); !failed || !names(out) {
					t.Errorf("without step %s (%s) the tests do not name it:\n%s", s.number, s.command, out)
				}
				if out, err := run(t, dir, s.command); err != nil {
					t.Fatalf("%s: %v\n%s", s.command, err, out)
				}
			}
			if out, failed := p.runTests(t, dir, func(string) bool { return false }); failed {
				t.Fatalf("the page as printed fails:\n%s", out)
			}
			t.Logf("%d steps by hand; generated: %s", made, p.generated(t, dir))
			for i, s := range p.steps {
				if s.command == "" && made > 1 { // without the only edit nothing is different
					t.Run("without step "+s.number, func(t *testing.T) { p.without(t, dir, i) })
				}
			}
		})
	}
}

// generated lists the files of a tree that differ from this one and that no step changes.
func (p *page) generated(t *testing.T, dir string) string {
	t.Helper()
	out, _ := run(t, dir, `find . -type f | sort`)
	var names []string
	for name := range strings.FieldsSeq(out) {
		name = strings.TrimPrefix(name, "./")
		was, err := os.ReadFile(filepath.Join(root, name))
		is, _ := os.ReadFile(filepath.Join(dir, name))
		mine := false
		for _, s := range p.steps {
			mine = mine || s.path == name
		}
		if (err != nil || string(was) != string(is)) && !mine {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

var (
	ofTests = regexp.MustCompile(`(?m)^(FAIL|ok|---|===|\?|#).*$`) // names packages only
	paths   = regexp.MustCompile(`[A-Za-z0-9_./<>*-]+`)
	missing = regexp.MustCompile(`undefined: (?:\w+\.)?(\w+)|has no field or method (\w+)|undefined \(type .* has no field or method (\w+)`)
)

// without leaves out a step. What fails names its file, or is the error of the compiler for what the step defines.
func (p *page) without(t *testing.T, dir string, out int) {
	restore(t, dir)
	s := p.steps[out]
	for i, other := range p.steps {
		if i != out && other.command == "" {
			if err := other.apply(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	said, failed := p.runTests(t, dir, func(out string) bool { return s.namedBy(out) != "" })
	line := s.namedBy(said)
	switch {
	case !failed:
		t.Errorf("the tests pass without %s", s.path)
	case strings.Contains(said, "panic: ") || strings.Contains(said, "[signal "):
		t.Errorf("a panic instead of a message:\n%s", said)
	case line == "":
		t.Errorf("nothing names %s:\n%s", s.path, said)
	default:
		t.Logf("says %s", line)
	}
}

// namedBy is the first line that names the file of a step, or says that what it defines is not there; empty
// without one.
func (s *step) namedBy(out string) string {
	for line := range strings.Lines(ofTests.ReplaceAllString(out, "")) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, "make generate") {
			continue // which comes later
		}
		for _, name := range paths.FindAllString(line, -1) {
			name = regexp.MustCompile(`<\w+>`).ReplaceAllString(strings.Trim(name, "./"), "*")
			if ok, _ := path.Match(name, s.path); ok || name == path.Dir(s.path) && strings.Contains(name, "/") {
				return line
			}
		}
		for _, m := range missing.FindAllStringSubmatch(line, -1) {
			if strings.Contains(s.text, m[1]+m[2]+m[3]) {
				return line
			}
		}
	}
	return ""
}
