// SPDX-License-Identifier: Apache-2.0

package contributing

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// page is a section of docs/CONTRIBUTING.md.
type page struct {
	title string
	steps []step
	tests []string // command lines
}

// step is one numbered item: text that goes into a file, or a command.
type step struct {
	number  string
	path    string // of the file, from the root
	where   string // below, above, end, new; empty: nothing to write
	anchor  string // part of one line of the file
	text    string
	command string
}

var (
	numbered = regexp.MustCompile(`^(\d+)\. (.*)`)
	// placed says where a block goes.
	placed  = regexp.MustCompile("(?:In|New file) `([^`]+)`(?:, (?:(below|above) (?:`([^`]+)`|`` (.+) ``)|at the end))?:$")
	command = regexp.MustCompile("^Run `([^`]+)`\\.$")
)

// pages reads the sections that have steps, without that for maintainers, which publishes.
func pages(t *testing.T) []page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	var list []page
	for section := range strings.SplitSeq("\n"+string(text), "\n## ") {
		title, rest, _ := strings.Cut(section, "\n")
		if title == "Releases" {
			continue
		}
		p := page{title: title}
		p.read(t, rest)
		if len(p.steps) > 0 {
			list = append(list, p)
		}
	}
	return list
}

// read reads a section line by line.
func (p *page) read(t *testing.T, text string) {
	t.Helper()
	fence, indent := "", ""
	var block strings.Builder
	var shell, pending bool
	for line := range strings.SplitSeq(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "" && trimmed == fence:
			if pending {
				p.steps[len(p.steps)-1].text, pending = block.String(), false
			}
			fence = ""
		case fence != "" && shell && indent == "":
			p.tests = append(p.tests, line)
		case fence != "":
			block.WriteString(strings.TrimPrefix(line, indent) + "\n")
		case strings.HasPrefix(trimmed, "```"):
			fence = trimmed[:strings.LastIndex(trimmed, "`")+1]
			indent = line[:strings.Index(line, "`")]
			shell = trimmed == "```sh"
			block.Reset()
		case numbered.MatchString(line):
			m := numbered.FindStringSubmatch(line)
			s := step{number: m[1]}
			if c := command.FindStringSubmatch(m[2]); c != nil {
				s.command = c[1]
			} else if at := placed.FindStringSubmatch(m[2]); at != nil {
				s.path, s.where, s.anchor, pending = at[1], at[2], at[3]+at[4], true
				switch {
				case strings.Contains(m[2], "New file `"+s.path):
					s.where = "new"
				case s.where == "":
					s.where = "end"
				}
			} else {
				t.Errorf("%s, step %s: neither a command nor a place for its block: %s", p.title, s.number, m[2])
			}
			p.steps = append(p.steps, s)
		}
	}
}

// commands is how many steps are no edit.
func (p *page) commands() (number int) {
	for _, s := range p.steps {
		if s.command != "" {
			number++
		}
	}
	return number
}

// apply makes the change of the step in a tree.
func (s *step) apply(tree string) error {
	path := filepath.Join(tree, s.path)
	if s.where == "new" {
		return os.WriteFile(path, []byte(s.text), 0o644)
	}
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if s.where == "end" {
		return os.WriteFile(path, append(old, s.text...), 0o644)
	}
	var out strings.Builder
	found := 0
	for line := range strings.Lines(string(old)) {
		here := strings.Contains(line, s.anchor)
		if here {
			found++
		}
		if here && s.where == "above" {
			out.WriteString(s.text)
		}
		out.WriteString(line)
		if here && s.where == "below" {
			out.WriteString(s.text)
		}
	}
	if found != 1 {
		return fmt.Errorf("%s has %d lines with %q, and the step needs one", s.path, found, s.anchor)
	}
	return os.WriteFile(path, []byte(out.String()), 0o644)
}

// Each block has one place in the tree as it is.
func TestPagesFitTheTree(t *testing.T) {
	all := pages(t)
	if len(all) != strings.Count(text(t), "\n## Add a") {
		t.Errorf("%d sections have steps", len(all))
	}
	most := map[string]int{"Add a counter": 3, "Add a metric": 4, "Add a check": 5, "Add an alert": 3, "Add a scenario": 1, "Add a platform": 1, "Add a driver": 3}
	for _, p := range all {
		if edits := len(p.steps) - p.commands(); edits > most[p.title] {
			t.Errorf("%s: %d edits, at most %d", p.title, edits, most[p.title])
		}
		if len(p.tests) == 0 {
			t.Errorf("%s: no commands to test it", p.title)
		}
		tree := t.TempDir()
		for _, s := range p.steps {
			if s.command != "" {
				continue
			}
			if s.text == "" {
				t.Errorf("%s, step %s: no block", p.title, s.number)
			}
			if err := copyFile(tree, s.path); err != nil && s.where != "new" {
				t.Errorf("%s, step %s: %v", p.title, s.number, err)
				continue
			}
			if err := s.apply(tree); err != nil {
				t.Errorf("%s, step %s: %v", p.title, s.number, err)
			}
		}
	}
}

func text(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "docs/CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// copyFile copies a file of this tree, unless the copy is there.
func copyFile(tree, path string) error {
	to := filepath.Join(tree, path)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return err
	}
	info, err := os.Stat(filepath.Join(root, path))
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, info.Mode().Perm())
}
