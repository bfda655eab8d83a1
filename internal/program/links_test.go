// SPDX-License-Identifier: Apache-2.0

package program

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// link is the target of a link in Markdown; notInAnchor is what the anchor of a heading lacks.
var (
	link        = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// headings returns the anchors of a Markdown file, as GitHub makes them.
func headings(markdown string) map[string]bool {
	anchors, fenced := map[string]bool{}, false
	for line := range strings.Lines(markdown) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if title := strings.TrimLeft(line, "#"); !fenced && title != line && strings.HasPrefix(title, " ") {
			text := notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			anchors[strings.ReplaceAll(text, " ", "-")] = true
		}
	}
	return anchors
}

// Every link of a document within this repository leads to a file, and to a heading of it.
func TestLinksOfDocuments(t *testing.T) {
	n := 0
	for _, file := range documents(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			path, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(m[1], "://") {
				continue
			}
			n++
			target := file
			if path != "" {
				target = filepath.Join(filepath.Dir(file), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link to %s: %v", file, m[1], err)
				continue
			}
			if anchor == "" {
				continue
			}
			markdown, err := os.ReadFile(target)
			if err != nil || !headings(string(markdown))[anchor] {
				t.Errorf("%s: link to %s: expected a heading with that anchor in %s", file, m[1], target)
			}
		}
	}
	if n < 100 {
		t.Errorf("%d links are found", n)
	}
}

// docs/README.md lists every document of its folder.
func TestListOfDocuments(t *testing.T) {
	list := read(t, "../../docs/README.md")
	for _, file := range documents(t) {
		if name := filepath.Base(file); filepath.Dir(file) == "../../docs" && name != "README.md" && !strings.Contains(list, "]("+name+")") {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}

// The map in docs/DESIGN.md has each file of the program and each folder with code.
func TestDesignMapsTheTree(t *testing.T) {
	_, tree, _ := strings.Cut(read(t, "../../docs/DESIGN.md"), "\n## Where things are\n")
	tree, _, found := strings.Cut(tree, "\n## ")
	if !found {
		t.Fatal("docs/DESIGN.md has no map")
	}
	for _, pattern := range []string{"*.go", "internal/*", "internal/host/*", "internal/command/*", "tools/*", "test/*"} {
		paths, err := filepath.Glob("../../" + pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v, %v", pattern, paths, err)
		}
		among := tree
		if pattern == "internal/command/*" {
			_, among, _ = strings.Cut(tree, "\n  command/NAME/ ")
			among, _, _ = strings.Cut(among, "\n")
		}
		for _, path := range paths {
			name := filepath.Base(path)
			if about, err := os.Stat(path); err != nil || pattern != "*.go" && !about.IsDir() || strings.HasSuffix(name, "_test.go") {
				continue
			}
			if !regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`).MatchString(among) {
				t.Errorf("the map in docs/DESIGN.md lacks %s", strings.TrimPrefix(path, "../../"))
			}
		}
	}
}
